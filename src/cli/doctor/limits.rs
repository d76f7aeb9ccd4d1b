//! Checks resources: descriptors, processes, watches, and the clock.

use std::fs::{self, OpenOptions};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use config;
use keeper::oom_score_of_jobs;
use model::Finding;

/// Processes of ours besides one for each slot, and some for what jobs start.
const PROCESSES: u64 = 16;

/// 2024 in milliseconds: before this program was written.
const WRITTEN: i64 = 1_704_067_200_000;

/// Checks what workers in so many slots need.
pub(super) fn checks(slots: u64) -> Vec<Finding> {
    let hard = |resource| getrlimit(resource).map_or(RLIM_INFINITY, |(_, hard)| hard);
    let soft = |resource| getrlimit(resource).map_or(RLIM_INFINITY, |(soft, _)| soft);
    let is_root = nix::unistd::geteuid().is_root();
    vec![
        descriptors(hard(Resource::RLIMIT_NOFILE), slots),
        // The supervisor raises the limit of descriptors to the hard one, and no other.
        processes(soft(Resource::RLIMIT_NPROC), slots, is_root),
        pids(&fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default()),
        inotify(watch()),
        cpu_time(soft(Resource::RLIMIT_CPU)),
        oom_score(own_oom_score(), config::memory()),
        wall_clock(clock::wall_millis()),
    ]
}

fn descriptors(hard: u64, slots: u64) -> Finding {
    let needed = config::descriptors(slots);
    let found = match hard {
        RLIM_INFINITY => "unlimited".to_owned(),
        _ => format!("{hard}; {needed} are needed for slots: {slots}"),
    };
    if hard < needed {
        return Finding::bad(
            "descriptors",
            found,
            "some slots will not come up",
            "a higher hard limit: LimitNOFILE= in the unit, ulimit -Hn in a shell, --ulimit nofile= of a container",
        );
    }
    Finding::ok("descriptors", found)
}

fn processes(soft: u64, slots: u64, is_root: bool) -> Finding {
    let needed = 2 * slots + PROCESSES;
    match soft {
        RLIM_INFINITY => Finding::ok("processes", "unlimited"),
        _ if is_root => Finding::ok("processes", format!("{soft}, which does not hold for root")),
        _ if soft < needed => Finding::less(
            "processes",
            format!("{soft} for all processes of this user; {slots} slots want {needed}"),
            "forks of the keeper and of jobs may fail",
            "a higher limit: LimitNPROC= in the unit, ulimit -u in a shell",
        ),
        _ => Finding::ok("processes", format!("{soft} for all processes of this user")),
    }
}

fn pids(text: &str) -> Finding {
    match text.trim().parse::<u64>() {
        // The kernel's own default is 32,768 or more: somebody has lowered it.
        Ok(max) if max < 32_768 => Finding::less(
            "pid_max",
            max.to_string(),
            "pids come round soon, and forks fail when they are used up",
            "sysctl kernel.pid_max=4194304",
        ),
        Ok(max) => Finding::ok("pid_max", max.to_string()),
        Err(_) => Finding::ok("pid_max", "not told"),
    }
}

/// Checks the limit of a process's CPU time, in seconds.
fn cpu_time(soft: u64) -> Finding {
    match soft {
        RLIM_INFINITY => Finding::ok("cpu_time", "unlimited"),
        _ => Finding::less(
            "cpu_time",
            format!("{soft} s for each process"),
            "a job ends by SIGXCPU, and at the hard limit the kernel kills the supervisor or the keeper",
            "no LimitCPU= in the unit and no ulimit -t in a shell; limits.cpu for jobs",
        ),
    }
}

/// Watches a directory for a moment, as the store watches a file while it is open.
fn watch() -> nix::Result<()> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    inotify.add_watch("/", AddWatchFlags::IN_DELETE_SELF).map(drop)
}

fn inotify(watched: nix::Result<()>) -> Finding {
    match watched {
        Ok(()) => Finding::ok("inotify", "watches can be had"),
        Err(errno) => Finding::less(
            "inotify",
            format!("refused: {} ({errno:?})", errno.desc()),
            "what other processes change in the store is seen after 250 ms, not at once",
            "more for this user, if they are used up: sysctl fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=65536",
        ),
    }
}

/// The score of this process for the out-of-memory killer; None = it cannot be set.
fn own_oom_score() -> Option<i32> {
    let path = "/proc/self/oom_score_adj";
    // Opening it for writing shows whether the score can be set; nothing is written.
    OpenOptions::new().write(true).open(path).ok()?;
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn oom_score(own: Option<i32>, memory: Option<u64>) -> Finding {
    let Some(own) = own else {
        return Finding::less(
            "oom_score_adj",
            "cannot be set",
            "for want of memory the kernel may kill the supervisor in place of a job: then all jobs run again",
            "a /proc that can be written, or limits.memory well below the memory there is",
        );
    };
    let jobs = oom_score_of_jobs(own, memory);
    Finding::ok("oom_score_adj", format!("{own}, and {jobs} for jobs: the kernel kills them first"))
}

fn wall_clock(millis: i64) -> Finding {
    if millis < WRITTEN {
        return Finding::less(
            "clock",
            "it shows a time before this program was written",
            "moments that people are shown are wrong; delays and leases have a clock of their own",
            "set it, and keep it: timedatectl set-ntp true",
        );
    }
    Finding::ok("clock", "plausible")
}

#[cfg(test)]
mod tests {
    use model::Fitness;
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn few_descriptors_are_bad_for_many_slots_only() {
        assert_eq!(descriptors(1024, 8).state, Fitness::Ok);
        assert_eq!(descriptors(1024, 1000).state, Fitness::Bad);
        assert_eq!(descriptors(RLIM_INFINITY, 100_000).state, Fitness::Ok);
    }

    #[test]
    fn process_limit_applies_to_users_other_than_root() {
        assert_eq!(processes(20, 8, false).state, Fitness::Less);
        assert_eq!(processes(20, 8, true).state, Fitness::Ok);
        assert_eq!(processes(4096, 8, false).state, Fitness::Ok);
    }

    #[test]
    fn the_limits_of_the_system_are_shown() {
        assert_eq!(pids("4096\n").state, Fitness::Less);
        assert_eq!(pids("4194304\n").state, Fitness::Ok);
        assert_eq!(cpu_time(1).state, Fitness::Less);
        assert_eq!(cpu_time(RLIM_INFINITY).state, Fitness::Ok);
        for errno in [Errno::EMFILE, Errno::ENOSPC, Errno::ENOSYS] {
            assert_eq!(inotify(Err(errno)).state, Fitness::Less);
        }
        assert_eq!(oom_score(None, None).state, Fitness::Less);
        assert_eq!(
            oom_score(Some(0), Some(1 << 30)).found,
            "0, and 125 for jobs: the kernel kills them first"
        );
        assert_eq!(wall_clock(0).state, Fitness::Less);
    }
}
