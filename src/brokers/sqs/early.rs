//! Endpoints that do not wait. Where a long receive is answered at once and without a message, so would be the next: a
//! pause takes the place of the wait.

use std::time::Duration;

use select::Receive;
use select::terms::WAIT;

/// An empty answer to a long receive is early before this time.
const EARLY: Duration = Duration::from_secs(1);
/// Limit of the early answers in a row that earn no pause: that a wait ends without a message happens with SQS, too.
const NORMAL: u32 = 3;
/// The pauses after the next ones, doubled from the first to the last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// The early answers of a queue.
#[derive(Debug, Default)]
pub(super) struct Early {
    in_a_row: u32,
    /// Whether the longest pause was reached, and no empty answer has waited since.
    is_known: bool,
}

impl Early {
    /// Notes an answer with so many messages after this time. Returns the pause that it earns, if any. Messages earn none,
    /// however soon they come.
    pub(super) fn answered(
        &mut self,
        receive: &Receive,
        messages: usize,
        after: Duration,
    ) -> Option<Duration> {
        if messages > 0 {
            self.in_a_row = 0;
        } else if after >= EARLY {
            *self = Early::default();
        } else if receive.is_long {
            self.in_a_row += 1;
        }
        let doublings = (messages == 0).then(|| self.in_a_row.checked_sub(NORMAL + 1)).flatten()?;
        let pause = (PAUSES.0 * 2u32.saturating_pow(doublings)).min(PAUSES.1);
        self.is_known |= pause == PAUSES.1;
        Some(pause)
    }

    /// What to say of the queue of this name in SQS, if its endpoint does not wait.
    pub(super) fn told(&self, queue: &str) -> Option<String> {
        self.is_known.then(|| {
            format!(
                "the SQS queue '{queue}' does not wait for messages: it answers a receive with WaitTimeSeconds={} at once, so it \
                 is asked again every {} s only; is what answers at the endpoint a proxy or an emulator that cannot wait?",
                WAIT.as_secs(),
                PAUSES.1.as_secs()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(4);

    fn receive(is_long: bool) -> Receive {
        Receive { most: 1, lease: WAIT, is_long, is_awaited: false }
    }

    #[test]
    fn early_empty_answers_earn_growing_pauses_after_the_third_in_a_row() {
        let mut early = Early::default();
        let mut next = || early.answered(&receive(true), 0, SOON).map(|pause| pause.as_millis());
        let pauses: Vec<_> = (0..10).map(|_| next().unwrap_or(0)).collect();
        assert_eq!(pauses, [0, 0, 0, 250, 500, 1000, 2000, 4000, 5000, 5000]);
        assert!((0..100).all(|_| next() == Some(5000)));
    }

    #[test]
    fn messages_and_short_receives_earn_no_pause() {
        let mut early = Early::default();
        assert!((0..100).all(|_| early.answered(&receive(false), 0, SOON).is_none()));
        for _ in 0..50 {
            let pauses = [0, 0, 1].map(|messages| early.answered(&receive(true), messages, SOON));
            assert_eq!(pauses, [None; 3]);
        }
    }

    #[test]
    fn endpoint_that_does_not_wait_is_told_until_an_empty_answer_has_waited() {
        let mut early = Early::default();
        for _ in 0..9 {
            assert_eq!(early.told("mail"), None);
            early.answered(&receive(true), 0, SOON);
        }
        assert!(early.told("mail").is_some_and(|said| said.contains("'mail' does not wait")));
        early.answered(&receive(true), 1, SOON);
        assert!(early.told("mail").is_some(), "a message does not show that it waits");
        assert_eq!(early.answered(&receive(true), 0, WAIT), None);
        assert_eq!(early.told("mail"), None);
    }
}
