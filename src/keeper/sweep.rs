//! What a supervisor does when its keeper is gone: it kills what is left and goes too.
//!
//! Leaders die with the keeper (PDEATHSIG), though not before its socket is closed: until then one may still start
//! something. What they had started survives them. With a cgroup all of it is found; by the tag in the environment, which
//! is the keeper's and so every copy's from its first moment, all that did not wipe it. If both die at once, the next start does the same.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use super::{TAG_VARIABLE, cgroup, children::start_of, sys};
use crate::clock;

/// The pause between two scans: processes that were killed need a moment to go.
const PAUSE: Duration = Duration::from_millis(2);

/// Names a keeper beyond doubt: boot id, pid, start time.
pub fn tag(keeper: i32) -> io::Result<String> {
    Ok(format!("{}/{keeper}/{}", boot()?, start_of(keeper)?))
}

/// By what a later start finds the rest of a keeper that died together with its supervisor: its [`tag`], and where its
/// cgroups are.
pub fn traces(keeper: i32) -> io::Result<String> {
    Ok(format!("{}\n{}\n", tag(keeper)?, directory(keeper).unwrap_or_default().display()))
}

/// Where its cgroups are, if it has some.
fn directory(keeper: i32) -> Option<PathBuf> {
    Some(cgroup::given_directory()?.join(cgroup::directory_name(keeper).ok()?))
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Made when the keeper says hello, used when it is gone.
pub struct Sweeper {
    kill: Option<File>,
    dir: Option<PathBuf>,
    entry: Vec<u8>,
}

impl Sweeper {
    /// For the keeper with this pid and [`tag`]. Opens what it needs while it is certain what that is.
    pub fn new(keeper: i32, tag: &str) -> Self {
        Sweeper::in_directory(directory(keeper), tag)
    }

    /// For a keeper that is dead, by its [`traces`].
    pub fn of_traces(traces: &str) -> Option<Self> {
        let (tag, dir) = traces.trim_end().split_once('\n').unwrap_or((traces.trim_end(), ""));
        // In another boot the directory of that name is another keeper's.
        let is_ours = boot().is_ok_and(|boot| tag.split('/').next() == Some(&boot));
        Some(Sweeper::in_directory(Some(dir.into()).filter(|_| is_ours && !dir.is_empty()), tag))
    }

    fn in_directory(dir: Option<PathBuf>, tag: &str) -> Self {
        let dir = dir.filter(|dir| dir.is_dir());
        let kill =
            dir.as_ref().and_then(|dir| File::options().write(true).open(dir.join("cgroup.kill")).ok());
        Sweeper { kill, dir, entry: format!("{TAG_VARIABLE}={tag}").into_bytes() }
    }

    /// Kills all that is left; returns how many it found by their tag, and whether none was left at the end.
    pub fn sweep(mut self, longest: Duration) -> (usize, bool) {
        let end = clock::now() + longest;
        let (mut found, mut calm, mut ended) = (0, 0, BTreeSet::new());
        loop {
            if let Some(kill) = &mut self.kill {
                _ = kill.write_all(b"1");
            }
            let pass = self.look();
            pass.tagged.iter().for_each(|&pid| _ = sys::kill(pid, libc::SIGKILL));
            found += pass.tagged.len();
            if let Some(dir) = &self.dir {
                cgroup::remove_below(dir);
            }
            calm = if pass.tagged.is_empty() && !pass.in_exec { calm + 1 } else { 0 };
            let settled = calm > 0 && (pass.ended.is_subset(&ended) || calm > RESTLESS);
            ended = pass.ended;
            let clean = settled && self.dir.as_ref().is_none_or(|dir| !dir.exists());
            if clean || clock::now() >= end {
                return (found, clean);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Goes through all processes once.
    fn look(&self) -> Pass {
        let own = std::process::id() as i32;
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let mut pass = Pass::default();
        for pid in pids.filter(|&pid| pid != own) {
            match fs::read(format!("/proc/{pid}/environ")) {
                Ok(environ) if environ.is_empty() => match without_environment(pid) {
                    Without::InExec => pass.in_exec = true,
                    Without::Ended => _ = pass.ended.insert(pid),
                    Without::Bare => {}
                },
                Ok(environ) if environ.split(|&byte| byte == 0).any(|entry| entry == self.entry) => {
                    pass.tagged.push(pid);
                }
                Ok(_) => {}
                // Without memory it is root's, whoever it was; what is another user's has some.
                Err(_) if without_environment(pid) == Without::Ended => _ = pass.ended.insert(pid),
                Err(_) => {}
            }
        }
        pass
    }
}

/// What was seen in one pass.
#[derive(Default)]
struct Pass {
    /// Who has the tag.
    tagged: Vec<i32>,
    /// Whether there is somebody of whom that cannot be said yet.
    in_exec: bool,
    /// Who was there and had ended before it was looked at. It may have been one of ours, and may have started another that
    /// was not in the list: what a pass says counts if nobody has ended in it.
    ended: BTreeSet<i32>,
}

/// Where processes come and go all the time, so many passes without a find are enough.
const RESTLESS: u32 = 20;

/// A thread of the kernel, of the flags of a process.
const PF_KTHREAD: u64 = 0x0020_0000;

/// Why a process shows no environment.
#[derive(Debug, PartialEq, Eq)]
enum Without {
    /// It is on its way from one program to the next: for that moment it has memory, and no word yet of where its
    /// environment is.
    InExec,
    /// It is dead.
    Ended,
    /// It was started without any, or is the kernel's own.
    Bare,
}

fn without_environment(pid: i32) -> Without {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(Without::Ended, |stat| of_stat(&stat))
}

fn of_stat(stat: &str) -> Without {
    // proc_pid_stat(5): flags is field 9, vsize field 23, env_end field 51; the first behind the name is field 3.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field =
        |number: usize| fields.get(number - 3).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    let is_the_kernels = field(9) & PF_KTHREAD != 0;
    match (field(23), field(51)) {
        _ if is_the_kernels => Without::Bare,
        // Its memory goes first, long before it is a zombie.
        (0, _) => Without::Ended,
        (_, 0) => Without::InExec,
        _ => Without::Bare,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_tag_is_stable_and_names_one_process() {
        let own = std::process::id() as i32;
        assert_eq!(super::tag(own).unwrap(), super::tag(own).unwrap());
        assert_ne!(super::tag(own).unwrap(), super::tag(1).unwrap());
        assert_eq!(super::tag(own).unwrap().split('/').count(), 3);
    }

    use std::io::{Read, Write};
    use std::process::Stdio;

    use super::Without;

    #[test]
    fn who_has_no_environment_by_choice_is_not_in_exec() {
        let mut bare = std::process::Command::new("/bin/cat");
        let mut bare = bare.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // It answers: the exec is over.
        bare.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        bare.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", bare.id())).unwrap();
        assert!(
            std::fs::read(format!("/proc/{}/environ", bare.id())).is_ok_and(|environ| environ.is_empty())
        );
        bare.kill().unwrap();
        bare.wait().unwrap();
        assert_eq!(super::of_stat(&stat), Without::Bare, "{stat}");
        let (name, rest) = stat.rsplit_once(')').unwrap();
        let mut fields: Vec<&str> = rest.split(' ').collect();
        let env_end = fields.len() - 2;
        fields[env_end] = "0";
        assert_eq!(super::of_stat(&format!("{name}){}", fields.join(" "))), Without::InExec);
        assert_eq!(super::of_stat("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0"), Without::Bare);
        assert_eq!(super::of_stat("7 (a) b) R 0 0 0 0 -1 4194308 0 0"), Without::Ended);
    }
}
