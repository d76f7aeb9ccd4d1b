//! Silences of the server: after one, whoever was cut off settles and renews before anybody's lease is taken for over.
//!
//! A lease that ended while nobody could renew it proves no death. So a supervisor that has heard nothing for a while
//! leaves the leases alone for a moment: in that time all supervisors say what they hold and what has ended.

use std::sync::Mutex;
use std::time::Duration;

use crate::broker::lock::lock;
use crate::model::Instant;

/// A request without an answer for this long, or failures for this long, are a silence.
const SILENT: Duration = Duration::from_secs(3);
/// The time after a silence in which no lease is over: a supervisor tries to connect every two seconds at least, and
/// then settles and renews.
const SETTLING: Duration = Duration::from_secs(10);

/// What is known of the silences of one server.
#[derive(Debug, Default)]
pub(super) struct Silence(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// When the first of the requests that failed was sent, if none has succeeded since.
    failing_since: Option<Instant>,
    /// When the latest silence ended.
    ended: Option<Instant>,
}

impl Silence {
    /// Notes a request that was sent at `sent` and has its answer, or has failed, at `now`.
    pub(super) fn note(&self, sent: Instant, now: Instant, succeeded: bool) {
        let mut known = lock(&self.0);
        let since = *known.failing_since.get_or_insert(sent);
        if succeeded {
            known.failing_since = None;
            if now.since(since) >= SILENT {
                known.ended = Some(now);
            }
        }
    }

    /// Whether a silence has ended just now.
    pub(super) fn is_just_over(&self, now: Instant) -> bool {
        lock(&self.0).ended.is_some_and(|ended| now.since(ended) < SETTLING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn silence_is_over_when_a_request_succeeds_after_failures_or_after_a_long_wait() {
        let silence = Silence::default();
        silence.note(at(0), at(100), true);
        silence.note(at(1_000), at(1_500), false);
        silence.note(at(2_000), at(2_100), true);
        assert!(!silence.is_just_over(at(2_100)), "a single failure is none");
        silence.note(at(10_000), at(15_000), false);
        silence.note(at(15_000), at(20_000), false);
        assert!(!silence.is_just_over(at(20_000)), "it goes on");
        silence.note(at(21_000), at(21_001), true);
        assert!(silence.is_just_over(at(21_001)) && silence.is_just_over(at(31_000)));
        assert!(!silence.is_just_over(at(31_002)));
        silence.note(at(40_000), at(44_000), true);
        assert!(silence.is_just_over(at(44_000)), "one answer that was late");
    }
}
