//! Who may have killed a job that taskvisor did not kill: said below the page of `job show`.

use nix::sys::signal::Signal;

use crate::model::{Exit, ExitStatus, JobRecord};

/// The words, if the latest attempt ended by a SIGKILL that nobody here sent.
pub fn of(job: &JobRecord) -> Option<String> {
    is_unexplained(job).then(|| words(oom_kills()))
}

fn is_unexplained(job: &JobRecord) -> bool {
    const KILL: i32 = Signal::SIGKILL as i32;
    let killed = |exit: &Exit| matches!(exit.status, ExitStatus::Signal { signal: KILL, .. }) && !exit.oom;
    job.forensics
        .as_ref()
        .is_some_and(|left| left.signals.is_empty() && left.exit.as_ref().is_some_and(killed))
}

/// How many processes the kernel has killed for want of memory since the machine started, if it says so.
fn oom_kills() -> Option<u64> {
    let counters = std::fs::read_to_string("/proc/vmstat").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

fn words(oom_kills: Option<u64>) -> String {
    let kernel = match oom_kills {
        Some(0) => {
            "not the kernel for want of memory: it has killed nothing since this machine started (/proc/vmstat)"
        }
        Some(_) => "perhaps the kernel for want of memory",
        None => "perhaps the kernel for want of memory; here its counter cannot be read",
    };
    let count = match oom_kills {
        None | Some(0) => String::new(),
        Some(1) => {
            ", which has killed 1 process so since this machine started: journalctl -k -g 'out of memory'"
                .into()
        }
        Some(many) => format!(
            ", which has killed {many} processes so since this machine started: journalctl -k -g 'out of memory'"
        ),
    };
    format!(
        "\nnobody here sent that SIGKILL\n  {kernel}{count}\n  or the job itself, systemd-oomd, a container's limit, or kill -9 by somebody else\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::job::page::tests::failed_job;

    #[test]
    fn only_a_kill_that_nobody_here_sent_is_guessed_about() {
        let exit = |signal: i32, oom: bool| -> JobRecord {
            let mut killed = failed_job();
            let left = killed.forensics.as_mut().unwrap();
            left.signals.clear();
            let exit = left.exit.as_mut().unwrap();
            (exit.status, exit.oom) = (ExitStatus::Signal { signal, core: false }, oom);
            killed
        };
        assert!(
            is_unexplained(&exit(9, false))
                && !is_unexplained(&exit(9, true))
                && !is_unexplained(&exit(15, false))
        );
        assert!(words(Some(0)).contains("not the kernel") && words(Some(2)).contains("killed 2 processes"));
        assert!(words(None).contains("cannot be read"));
    }
}
