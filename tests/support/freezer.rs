//! A freezer (cgroup v1): processes in it do not even die of SIGKILL.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

const ROOT: &str = "/sys/fs/cgroup/freezer";

/// One process, frozen until this is dropped or thawed.
pub struct Freezer(PathBuf);

impl Freezer {
    /// `None` where the machine has no freezer that the test may use.
    pub fn around(pid: i32) -> Option<Freezer> {
        let name = format!("tv-{}-{pid}", std::process::id());
        let freezer = Freezer(PathBuf::from(ROOT).join(name));
        fs::create_dir(&freezer.0).ok()?;
        fs::write(freezer.0.join("cgroup.procs"), pid.to_string()).ok()?;
        fs::write(freezer.0.join("freezer.state"), "FROZEN").ok()?;
        // The state is FREEZING until the process has stopped, which may take long beside a fork bomb.
        let end = Instant::now() + Duration::from_secs(60);
        while fs::read_to_string(freezer.0.join("freezer.state")).is_ok_and(|state| state.trim() != "FROZEN")
        {
            assert!(Instant::now() < end, "process {pid} does not freeze");
            thread::park_timeout(Duration::from_millis(1));
        }
        Some(freezer)
    }

    pub fn thaw(&self) {
        fs::write(self.0.join("freezer.state"), "THAWED").ok();
    }

    /// Removes the cgroup once it is empty; living processes move out.
    fn leave(&self) -> bool {
        for pid in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            fs::write(PathBuf::from(ROOT).join("cgroup.procs"), pid).ok();
        }
        !self.0.exists() || fs::remove_dir(&self.0).is_ok()
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.thaw();
        let end = Instant::now() + Duration::from_secs(60);
        while !self.leave() {
            assert!(Instant::now() < end || thread::panicking(), "{} is not empty", self.0.display());
            if Instant::now() >= end {
                return;
            }
            thread::park_timeout(Duration::from_millis(10));
        }
    }
}
