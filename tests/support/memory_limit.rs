//! A bound on the memory of one process and what it starts (cgroup v1), at which the kernel kills.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const ROOT: &str = "/sys/fs/cgroup/memory";

/// The bound. When it is dropped, living processes move out.
pub struct MemoryLimit(PathBuf);

impl MemoryLimit {
    /// `None` where the machine has no such cgroups that the test may use.
    pub fn around(pid: i32, bytes: u64) -> Option<MemoryLimit> {
        let limit = MemoryLimit(PathBuf::from(ROOT).join(format!("tv-{}-{pid}", std::process::id())));
        fs::create_dir(&limit.0).ok()?;
        fs::write(limit.0.join("memory.limit_in_bytes"), bytes.to_string()).ok()?;
        fs::write(limit.0.join("cgroup.procs"), pid.to_string()).ok()?;
        Some(limit)
    }

    /// How many processes the kernel has killed there.
    pub fn kills(&self) -> u64 {
        let text = fs::read_to_string(self.0.join("memory.oom_control")).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    fn leave(&self) -> bool {
        for pid in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            fs::write(PathBuf::from(ROOT).join("cgroup.procs"), pid).ok();
        }
        !self.0.exists() || fs::remove_dir(&self.0).is_ok()
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_secs(20);
        while !self.leave() && Instant::now() < end {
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}
