//! Who may have killed a job that taskvisor did not kill: a note below the page of `job show`.

use model::{JobRecord, who_sent_it};

/// The note, if the latest attempt ended by a SIGKILL that taskvisor did not send.
pub(crate) fn of(job: &JobRecord) -> Option<String> {
    let left = job.forensics.as_ref().filter(|left| left.is_killed_by_others())?;
    Some(words(left.oom_kills))
}

/// `oom_kills` is the number of processes that the kernel killed for want of memory while the job ran.
fn words(oom_kills: Option<u64>) -> String {
    let unknown = || "perhaps the kernel for want of memory; its count of that time is not known".to_owned();
    let kernel = oom_kills.map_or_else(unknown, who_sent_it);
    format!(
        "\nnobody here sent that SIGKILL\n  {kernel}\n  or the job itself, systemd-oomd, a container's limit, or kill -9 by somebody else\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::record::page::tests::failed_job;
    use model::ExitStatus;

    #[test]
    fn causes_are_suggested_only_for_an_unexplained_sigkill() {
        let exit = |signal: i32, oom: bool| -> JobRecord {
            let mut killed = failed_job();
            let left = killed.forensics.as_mut().unwrap();
            left.signals.clear();
            let exit = left.exit.as_mut().unwrap();
            (exit.status, exit.oom) = (ExitStatus::Signal { signal, core: false }, oom);
            killed
        };
        assert!(of(&exit(9, false)).is_some());
        assert!(of(&exit(9, true)).is_none() && of(&exit(15, false)).is_none());
        assert!(words(Some(0)).contains("not the kernel") && words(Some(2)).contains("killed 2 processes"));
        assert!(words(None).contains("not known"));
    }
}
