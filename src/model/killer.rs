//! Who may have killed a process that nobody here has killed.

/// Where the kernel's words about it are.
const KERNEL_LOG: &str = "journalctl -k -g 'out of memory'";

/// Reads the number of processes that the kernel has killed for want of memory from the text of /proc/vmstat.
pub fn oom_kills_in(vmstat: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

/// Who may have sent a SIGKILL, by the number of processes that the kernel has killed for want of memory meanwhile.
pub fn who_sent_it(oom_kills: u64) -> String {
    match oom_kills {
        0 => "it was not the kernel for want of memory, which has killed nothing meanwhile".into(),
        1 => format!(
            "perhaps the kernel for want of memory, which has killed 1 process meanwhile: {KERNEL_LOG}"
        ),
        many => {
            format!(
                "perhaps the kernel for want of memory, which has killed {many} processes meanwhile: {KERNEL_LOG}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oom_kill_count_is_read_from_vmstat() {
        assert_eq!(oom_kills_in("nr_free_pages 7\noom_kill 12\nnuma_hit 3\n"), Some(12));
        assert_eq!(oom_kills_in("nr_free_pages 7\n"), None);
    }

    #[test]
    fn the_kernel_is_suspected_only_if_it_has_killed() {
        assert!(who_sent_it(0).starts_with("it was not the kernel"));
        assert!(
            who_sent_it(1).contains("killed 1 process meanwhile") && who_sent_it(3).contains("3 processes")
        );
    }
}
