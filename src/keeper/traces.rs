//! Traces by which a later start finds what is left of a keeper that died together with its supervisor.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::{cgroup, children, mark, sys};

/// Pause between two looks at a lock that a dying child of the keeper may still hold for a moment.
const PAUSE: Duration = Duration::from_millis(5);

/// How long the child of a dead keeper may hold the lock on the cgroup, from its fork to its first steps.
const LAST_BREATH: Duration = Duration::from_secs(2);

/// Identifies a keeper, and says where its cgroups are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    boot: String,
    /// Pid of the keeper, in its own pid namespace.
    pub pid: i32,
    /// Start time of the keeper, in clock ticks since boot.
    pub(super) start: u64,
    pub(super) dir: Option<PathBuf>,
    /// Whether all its descendants have its [`mark`].
    pub(super) marked: bool,
}

/// Names a keeper uniquely: boot id, pid, start time.
pub fn tag(keeper: i32) -> io::Result<String> {
    Ok(format!("{}/{keeper}/{}", boot()?, children::start_of(keeper)?))
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

impl Traces {
    /// The traces of this process, which becomes a keeper. Marks the process.
    pub fn of_this_process() -> io::Result<Self> {
        let pid = std::process::id() as i32;
        let start = children::start_of(pid)?;
        let marked = mark::put_on(mark::of(pid, start));
        Ok(Traces { boot: boot()?, pid, start, dir: directory(pid), marked })
    }

    /// The traces of a living keeper, given its [`tag`].
    pub fn of_keeper(pid: i32, tag: &str) -> Option<Self> {
        let traces = Traces { dir: directory(pid), ..Traces::parse(tag)? };
        let marked = mark::is_on(pid, traces.mark()).unwrap_or(false);
        Some(Traces { marked, ..traces })
    }

    /// Reads what [`std::fmt::Display`] writes, and what earlier versions wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut tag = lines.next()?.split('/');
        let (boot, pid, start) = (tag.next()?.into(), tag.next()?.parse().ok()?, tag.next()?.parse().ok()?);
        let dir = lines.next().filter(|dir| !dir.is_empty()).map(PathBuf::from);
        Some(Traces { boot, pid, start, dir, marked: lines.next() == Some("marked") })
    }

    pub(super) fn tag(&self) -> String {
        format!("{}/{}/{}", self.boot, self.pid, self.start)
    }

    pub(super) fn mark(&self) -> u64 {
        mark::of(self.pid, self.start)
    }

    /// Whether the keeper ran in this boot. Of an earlier boot no process lives, and its pids may now be those of
    /// others.
    pub fn are_of_this_boot(&self) -> bool {
        boot().is_ok_and(|boot| boot == self.boot)
    }

    /// Whether the keeper lives in this pid namespace or one below it, or, if it has cgroups, anywhere. Then the state
    /// directory with these traces is a copy.
    pub fn keeper_lives(&self) -> bool {
        // If the list of processes cannot be read, assume that it lives.
        pids().map_or(true, |pids| pids.into_iter().any(|pid| self.is_keeper(pid)))
            || self.holds_its_cgroups()
    }

    fn is_keeper(&self, pid: i32) -> bool {
        children::start_of(pid).is_ok_and(|start| start == self.start)
            && !children::is_dead(pid)
            && fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| {
                let own = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
                own.and_then(|pids| pids.split_whitespace().last()) == Some(&self.pid.to_string())
            })
    }

    fn holds_its_cgroups(&self) -> bool {
        let Some(dir) = self.dir.as_ref().filter(|dir| dir.is_dir()) else { return false };
        let end = clock::now() + LAST_BREATH;
        while cgroup::is_locked(dir) {
            if clock::now() >= end {
                return true;
            }
            std::thread::sleep(PAUSE);
        }
        false
    }
}

impl std::fmt::Display for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dir = self.dir.as_deref().unwrap_or("".as_ref()).display();
        writeln!(f, "{}\n{dir}\n{}", self.tag(), if self.marked { "marked" } else { "" })
    }
}

/// The directory of a keeper's cgroups, if it has one.
fn directory(keeper: i32) -> Option<PathBuf> {
    Some(cgroup::given_directory()?.join(cgroup::directory_name(keeper).ok()?))
}

/// All processes that /proc shows. An error if the list is not complete: a missing process may live.
pub(super) fn pids() -> io::Result<Vec<i32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        pids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(pids)
}

/// Whether we may signal a process.
pub(super) fn may_signal(pid: i32) -> bool {
    sys::kill(pid, 0).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_stable_and_names_one_process() {
        let own = std::process::id() as i32;
        assert_eq!(tag(own).unwrap(), tag(own).unwrap());
        assert_ne!(tag(own).unwrap(), tag(1).unwrap());
        assert_eq!(tag(own).unwrap().split('/').count(), 3);
    }

    #[test]
    fn traces_of_this_and_the_previous_version_are_read() {
        let own = Traces::parse(&tag(std::process::id() as i32).unwrap()).unwrap();
        for (dir, marked) in [(None, false), (Some("/sys/fs/cgroup/a b".into()), true)] {
            let traces = Traces { dir, marked, ..own.clone() };
            assert_eq!(Traces::parse(&traces.to_string()), Some(traces));
        }
        let old = Traces::parse("boot/7/99\n/sys/fs/cgroup/x\n").unwrap();
        assert_eq!((old.pid, old.start, old.marked, old.are_of_this_boot()), (7, 99, false, false));
        for nonsense in ["", "\n", "boot/7", "boot/x/1\n/sys\nmarked"] {
            assert_eq!(Traces::parse(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn keeper_is_alive_while_its_process_is() {
        let own = Traces::parse(&tag(std::process::id() as i32).unwrap()).unwrap();
        assert!(own.keeper_lives());
        assert!(!Traces { start: own.start + 1, ..own }.keeper_lives(), "its pid is another's now");
    }
}
