//! The end of a supervisor: which verdicts stay unconfirmed, and the exit code.

use std::sync::Arc;

use tracing::error;

use super::calls::SETTLING;
use broker::{Broker, Complaints};
use model::{Fence, JobId, WorkerName};
use supervisor::GaveUp;
use wire::keeper::Order;

/// Exit code when verdicts stay unconfirmed or processes live on (EX_UNAVAILABLE).
const UNAVAILABLE: u8 = 69;
/// Exit code of a burst that leaves jobs that cannot run here.
const UNDONE: u8 = 1;

/// What the supervisor reports when it ends.
#[derive(Default)]
pub(super) struct UnconfirmedVerdicts {
    /// Number of verdicts that the broker has not confirmed.
    pub untold: u64,
    /// Why processes live on, one line each.
    pub alive: Vec<String>,
    /// Whether the keeper was ordered to end everything.
    pub said: bool,
    /// The exit code of a burst that has left jobs.
    undone: Option<u8>,
    /// The broker of a burst: while it does not answer, it is unknown whether all is done.
    of_burst: Option<Arc<Broker>>,
}

impl UnconfirmedVerdicts {
    /// The report of a burst on this broker; None = of a supervisor that ends otherwise.
    pub(crate) fn of(of_burst: Option<Arc<Broker>>) -> Self {
        UnconfirmedVerdicts { of_burst, ..Self::default() }
    }

    /// This verdict will not be sent again: logs it.
    pub(crate) fn untold(&mut self, wrong: &Complaints, job: &JobId, fence: Fence, verdict: &str) {
        self.untold += 1;
        let why = wrong.latest(SETTLING).unwrap_or_else(|| "the broker has not answered".into());
        error!(
            %job,
            %fence,
            verdict,
            why,
            "the broker has not confirmed the end of this job: unless it was written all the same, or the job was canceled, it runs again when its lease ends or at the next start"
        );
    }

    /// A burst ends with jobs left.
    pub(crate) fn gave_up(&mut self, why: GaveUp) {
        let (code, why) = match why {
            GaveUp::Undone(why) => (UNDONE, why),
            GaveUp::NoBroker(why) => (UNAVAILABLE, why),
        };
        error!(why, "the burst ends with jobs left");
        self.undone = Some(code);
    }

    /// A process of a worker does not die: its jobs stay ours as long as their leases last, and the next start here
    /// waits for it.
    pub(crate) fn left_alive(&mut self, worker: WorkerName, cause: String, jobs: &[JobId]) {
        let jobs = jobs.iter().map(JobId::shown).collect::<Vec<_>>().join(" ");
        error!(%worker, jobs, why = cause, "left alive: the next start here waits until that is dead");
        self.alive.push(if jobs.is_empty() { cause } else { format!("{cause} (job {jobs})") });
    }

    /// The last order to the keeper.
    pub(crate) fn shutdown(&mut self) -> Order {
        self.said = true;
        // A code that is known already tells more than that the broker is silent.
        let broker = self.of_burst.as_ref().filter(|_| self.undone.is_none());
        if let Some(why) = broker.and_then(|broker| broker.health().trouble) {
            error!(why, "the burst ends, and jobs may be left");
            self.undone = Some(UNDONE);
        }
        let all_is_well = self.untold == 0 && self.alive.is_empty();
        // What may run twice, or lives on, matters more than jobs that a burst has left.
        Order::Shutdown(if all_is_well { self.undone.unwrap_or(0) } else { UNAVAILABLE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_burst_has_a_failure_exit_code() {
        let code = |why| {
            let mut last = UnconfirmedVerdicts::default();
            last.gave_up(why);
            last.shutdown()
        };
        assert_eq!(code(GaveUp::Undone("x".into())), Order::Shutdown(UNDONE));
        assert_eq!(code(GaveUp::NoBroker("x".into())), Order::Shutdown(UNAVAILABLE));
    }

    #[test]
    fn unconfirmed_verdicts_give_a_failure_exit_code() {
        let (mut last, wrong) = (UnconfirmedVerdicts::default(), Complaints::default());
        assert_eq!(last.shutdown(), Order::Shutdown(0));
        last.untold(&wrong, &"a".into(), Fence(1), "complete");
        last.gave_up(GaveUp::Undone("pool a: 5 workers died".into()));
        assert_eq!((last.shutdown(), last.untold), (Order::Shutdown(UNAVAILABLE), 1));
    }
}
