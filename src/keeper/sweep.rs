//! What a supervisor does when its keeper is gone: it kills what is left and goes too.
//!
//! Leaders die with the keeper (PDEATHSIG), though not before its socket is closed: until then one may still start
//! something. What they had started survives them. With a cgroup all of it is found; by the tag in the environment, which
//! is the keeper's and so every copy's from its first moment, all that did not wipe it. If both die at once, the next start does the same.

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
    Some(cgroup::own_directory()?.join(cgroup::directory_name(keeper).ok()?))
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
        let mut found = 0;
        loop {
            if let Some(kill) = &mut self.kill {
                _ = kill.write_all(b"1");
            }
            let (tagged, undecided) = self.look();
            tagged.iter().for_each(|&pid| _ = sys::kill(pid, libc::SIGKILL));
            found += tagged.len();
            if let Some(dir) = &self.dir {
                cgroup::remove_below(dir);
            }
            let none = tagged.is_empty() && !undecided;
            let clean = none && self.dir.as_ref().is_none_or(|dir| !dir.exists());
            if clean || clock::now() >= end {
                return (found, clean);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Who has the tag, and whether there is somebody of whom that cannot be said yet.
    fn look(&self) -> (Vec<i32>, bool) {
        let own = std::process::id() as i32;
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let (mut tagged, mut undecided) = (Vec::new(), false);
        for pid in pids.filter(|&pid| pid != own) {
            match fs::read(format!("/proc/{pid}/environ")) {
                Ok(environ) if environ.is_empty() => undecided |= is_in_exec(pid),
                Ok(environ) if environ.split(|&byte| byte == 0).any(|entry| entry == self.entry) => {
                    tagged.push(pid);
                }
                _ => {}
            }
        }
        (tagged, undecided)
    }
}

/// Whether a process without an environment is on its way from one program to the next: for that moment it has memory, and
/// no word yet of where its environment is. One that was started without any has that word, and a kernel thread or a
/// zombie no memory.
fn is_in_exec(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| lacks_environment(&stat))
}

fn lacks_environment(stat: &str) -> bool {
    // proc_pid_stat(5): vsize is field 23, env_end field 51; the third is the first behind the name.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let is_zero = |field: usize| fields.get(field - 3).is_none_or(|value| *value == "0");
    !is_zero(23) && is_zero(51)
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

    #[test]
    fn who_has_no_environment_by_choice_is_not_in_exec() {
        let mut bare = std::process::Command::new("/bin/cat");
        let mut bare = bare.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // It answers: the exec is over.
        bare.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        bare.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", bare.id())).unwrap();
        bare.kill().unwrap();
        assert!(
            std::fs::read(format!("/proc/{}/environ", bare.id())).is_ok_and(|environ| environ.is_empty())
        );
        bare.wait().unwrap();
        assert!(!super::lacks_environment(&stat), "{stat}");
        let (name, rest) = stat.rsplit_once(')').unwrap();
        let mut fields: Vec<&str> = rest.split(' ').collect();
        let env_end = fields.len() - 2;
        fields[env_end] = "0";
        assert!(super::lacks_environment(&format!("{name}){}", fields.join(" "))));
        assert!(!super::lacks_environment("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0"));
    }
}
