//! Limits that protect the machine while a bench makes many processes, by cgroups v1.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sandbox::{Running, Sandbox, kill, wait_within};

/// A limit: the controller, its file and the value.
pub type Limit = (&'static str, &'static str, &'static str);

/// One cgroup for each limit. On drop no fork succeeds any more, then all processes are killed.
pub struct Confines(Vec<PathBuf>);

impl Confines {
    /// Makes the cgroups. The first limit is that of `pids.max`.
    pub fn new(name: &str, limits: &[Limit]) -> Confines {
        let name = format!("tv-{name}-{}", std::process::id());
        let confine = |(controller, file, most): &Limit| {
            let dir = Path::new("/sys/fs/cgroup").join(controller).join(&name);
            fs::create_dir_all(&dir).expect("a cgroup of v1");
            fs::write(dir.join(file), most).expect("a limit");
            dir
        };
        Confines(limits.iter().map(confine).collect())
    }

    /// Runs `start` within the limits, which all its descendants inherit, without waiting.
    pub fn start<'a>(&self, sandbox: &'a Sandbox, args: &[&str]) -> Running<'a> {
        let doors: Vec<String> =
            self.0.iter().map(|dir| dir.join("cgroup.procs").display().to_string()).collect();
        let enter = "for dir in $0; do echo $$ >$dir; done; exec \"$@\"";
        sandbox.start_under(&["sh", "-c", enter, &doors.join(" ")], args)
    }

    /// Whether the cgroups are empty.
    fn are_gone(&self) -> bool {
        for pid in fs::read_to_string(self.0[0].join("cgroup.procs")).unwrap_or_default().lines() {
            pid.parse().into_iter().for_each(|pid: i32| kill(pid, "KILL"));
        }
        self.0.iter().all(|dir| !dir.exists() || fs::remove_dir(dir).is_ok())
    }
}

impl Drop for Confines {
    fn drop(&mut self) {
        fs::write(self.0[0].join("pids.max"), "0").ok();
        wait_within(Duration::from_secs(60), "nothing of the bench lives", || self.are_gone());
    }
}
