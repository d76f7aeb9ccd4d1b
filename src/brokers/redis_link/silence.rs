//! Silences of the server: after one, those cut off settle and renew before any lease is taken for over.
//!
//! A lease that ended while nobody could renew it proves no death. So a supervisor whose renewals, or looks at what has
//! expired, have failed for a while leaves the leases alone for a moment: in that time all supervisors say what they hold
//! and what has ended. Other requests prove nothing: a server that refuses to write still answers those that only read.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use common::lock;
use model::Instant;

/// The commands of scripts that renew leases, or end those that are over; over qless also those that each supervisor sends
/// now and then. And connecting: a supervisor at rest may send nothing else while the server is away.
const WATCHED: [&str; 7] =
    [CONNECTING, "renew", "tick", "tidy", "taskvisor.renew", "taskvisor.fetch", "taskvisor.sign"];
/// The word for a connection that is made.
pub(super) const CONNECTING: &str = "connect";
/// A command without an answer for this long, or that fails for this long, is a silence.
const SILENT: Duration = Duration::from_secs(3);
/// The time after a silence in which no lease is over: a supervisor tries to connect every two seconds at least, and
/// then settles and renews. A failure is out of date after the same time: nothing is renewed where nothing runs.
const SETTLING: Duration = Duration::from_secs(10);
/// How often a process that runs notes that it does.
const PULSE: Duration = Duration::from_millis(500);

/// What is known of the silences of one server.
#[derive(Debug, Default)]
pub(super) struct Silence(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The commands that fail: when the first of the failed requests was sent, and when the latest has failed.
    failing: BTreeMap<&'static str, (Instant, Instant)>,
    /// When the latest silence ended.
    ended: Option<Instant>,
    /// When this process last noted that it runs, if it does so, by the clock of the host.
    ran: Option<Instant>,
}

impl Known {
    /// The regular sign that this process runs. A long gap since the last one counts as a silence that has just ended.
    fn runs(&mut self, host: Instant, now: Instant) {
        if self.ran.is_some_and(|ran| host.since(ran) >= PULSE + SILENT) {
            self.ended = Some(now);
        }
        // Only once `pulse` has begun: a process that does not pulse may just have been idle.
        self.ran = self.ran.map(|_| host);
    }

    /// Whether there is a silence, or one has ended just now.
    fn lasts(&self, now: Instant) -> bool {
        let is_silent = |(since, latest): &(Instant, Instant)| {
            now.since(*since) >= SILENT && now.since(*latest) < SETTLING
        };
        self.failing.values().any(is_silent) || self.ended.is_some_and(|ended| now.since(ended) < SETTLING)
    }
}

impl Silence {
    /// Notes a request that was sent at `sent` and has its answer, or has failed, at `now`.
    pub(super) fn note(&self, command: &str, sent: Instant, now: Instant, succeeded: bool) {
        let Some(command) = WATCHED.into_iter().find(|watched| *watched == command) else { return };
        let mut known = lock(&self.0);
        let since = known.failing.get(command).map_or(sent, |(since, _)| *since);
        if !succeeded {
            known.failing.insert(command, (since, now));
            return;
        }
        known.failing.remove(command);
        if now.since(since) >= SILENT {
            known.ended = Some(now);
        }
    }

    /// Records at an interval of [`PULSE`] that this process runs, until the future is dropped.
    pub(super) async fn pulse(&self, now: impl Fn() -> Instant) {
        let mut beats = tokio::time::interval(PULSE);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        lock(&self.0).ran = Some(clock::now());
        loop {
            beats.tick().await;
            lock(&self.0).runs(clock::now(), now());
        }
    }

    /// Whether there is a silence, or one has ended just now. A request that is sent during one may be the first to
    /// succeed.
    pub(super) fn lasts(&self, now: Instant) -> bool {
        let mut known = lock(&self.0);
        // After a pause of this process the caller may run before `pulse` does, so this checks for the pause as well.
        known.runs(clock::now(), now);
        known.lasts(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn silence_lasts_while_renewals_fail_and_a_moment_longer() {
        let silence = Silence::default();
        silence.note("renew", at(0), at(100), true);
        silence.note("renew", at(1_000), at(1_500), false);
        assert!(!silence.lasts(at(1_500)), "a single failure is none");
        silence.note("renew", at(2_000), at(2_100), true);
        assert!(!silence.lasts(at(2_100)));
        silence.note("renew", at(10_000), at(15_000), false);
        silence.note("renew", at(15_000), at(20_000), false);
        silence.note("fetch", at(19_000), at(19_001), true);
        assert!(silence.lasts(at(20_000)), "a request that only reads ends none");
        silence.note("renew", at(21_000), at(21_001), true);
        assert!(silence.lasts(at(21_001)) && silence.lasts(at(31_000)));
        assert!(!silence.lasts(at(31_002)));
        silence.note("tick", at(40_000), at(44_000), true);
        assert!(silence.lasts(at(44_000)), "one answer that was late");
    }

    #[test]
    fn process_that_stood_still_takes_no_lease_for_over_for_a_moment() {
        let mut known = Known::default();
        known.runs(at(60_000), at(60_000));
        assert!(!known.lasts(at(60_000)), "nobody notes that it runs");
        known.ran = Some(at(60_000));
        known.runs(at(63_000), at(99_000));
        assert!(!known.lasts(at(99_000)));
        known.runs(at(67_000), at(103_000));
        assert!(known.lasts(at(103_000)) && known.lasts(at(112_999)));
        assert!(!known.lasts(at(113_000)));
    }

    #[test]
    fn failure_that_nothing_repeats_is_soon_out_of_date() {
        let silence = Silence::default();
        silence.note("renew", at(0), at(5_000), false);
        assert!(silence.lasts(at(14_000)));
        assert!(!silence.lasts(at(15_000)), "nothing is renewed any more");
    }
}
