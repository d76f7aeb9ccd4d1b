//! How a supervisor ends: what it leaves untold, and with which exit code.

use tracing::error;

use super::calls::{SETTLING, Wrong};
use crate::model::{Fence, JobId};
use crate::wire::keeper::Order;

/// The exit code of an end with verdicts that the broker has not taken (EX_UNAVAILABLE), as for whatever it does not take.
const UNTOLD: u8 = 69;

/// What is said at the end.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    /// Verdicts that the broker is not known to have.
    pub untold: u64,
    /// Whether the keeper was told to end all.
    pub said: bool,
}

impl LastWords {
    /// Nobody will tell this verdict any more: the log has to.
    pub fn untold(&mut self, wrong: &Wrong, job: &JobId, fence: Fence, verdict: &str) {
        self.untold += 1;
        let why = wrong.latest(SETTLING).unwrap_or_else(|| "the broker has not answered".into());
        error!(
            %job,
            %fence,
            verdict,
            why,
            "the broker has not confirmed its end: unless that is written all the same, or the job was canceled, it runs again when its lease ends or at the next start"
        );
    }

    /// The last order to the keeper.
    pub fn shutdown(&mut self) -> Order {
        self.said = true;
        Order::Shutdown(if self.untold == 0 { 0 } else { UNTOLD })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_leaves_something_untold_is_no_success() {
        let (mut last, wrong) = (LastWords::default(), Wrong::default());
        assert_eq!(last.shutdown(), Order::Shutdown(0));
        last.untold(&wrong, &"a".into(), Fence(1), "complete");
        assert_eq!((last.shutdown(), last.untold), (Order::Shutdown(UNTOLD), 1));
    }
}
