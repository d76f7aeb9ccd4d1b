//! Decides when to judge the health of the service again: soon after something has happened, but not often, and never
//! while nothing happens.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::fact::{Fact, OfService};
use model::{Health, Instant};

/// Shortest time between two checks.
const PAUSE: Duration = Duration::from_secs(5);

/// Shortest time between two log lines about the reasons of a verdict that stays: reasons come and go with each job.
const STEADY: Duration = Duration::from_secs(60);

/// When to check the health again, and what was logged last.
pub(super) struct Watch {
    due: Option<Instant>,
    quiet_until: Instant,
    /// Whether the queues are being counted.
    looking: bool,
    counts: Arc<Notify>,
    /// The last verdict, and since when it holds.
    verdict: (Health, Instant),
    /// The reasons that were logged last, and when.
    told: (Vec<String>, Instant),
}

impl Watch {
    /// For a service that begins.
    pub(super) fn new(now: Instant) -> Watch {
        let counts = Arc::default();
        Watch {
            due: None,
            quiet_until: now,
            looking: false,
            counts,
            verdict: (Health::Healthy, now),
            told: (Vec::new(), now),
        }
    }

    /// Wakes the task that counts the queues.
    pub(super) fn counts(&self) -> Arc<Notify> {
        self.counts.clone()
    }

    /// Something has happened.
    pub(super) fn changed(&mut self, now: Instant) {
        self.due.get_or_insert(self.quiet_until.max(now));
    }

    /// When to check again.
    pub(super) fn due(&self) -> Option<Instant> {
        // A count that is under way is judged when it comes, however slow the broker is.
        self.due.filter(|_| !self.looking)
    }

    /// Has the queues counted, if that is due.
    pub(super) fn look(&mut self, now: Instant) {
        if !self.looking && self.due.take_if(|due| *due <= now).is_some() {
            (self.looking, self.quiet_until) = (true, now + PAUSE);
            self.counts.notify_one();
        }
    }

    /// Notes that the queues have been counted.
    pub(super) fn looked(&mut self) {
        self.looking = false;
    }

    /// The fact of a verdict, if it has changed, or if its reasons have and enough time has passed.
    pub(super) fn judged(&mut self, now: Instant, (health, reasons): &(Health, Vec<String>)) -> Option<Fact> {
        let (before, since) = self.verdict;
        if before == *health {
            let may_tell = self.told.1 + STEADY;
            if *reasons == self.told.0 {
                return None;
            } else if now < may_tell {
                // A reason that stays is told then, though nothing else happens.
                self.due.get_or_insert(may_tell);
                return None;
            }
        } else {
            self.verdict = (*health, now);
        }
        self.told = (reasons.clone(), now);
        let (before, reasons) = ((before, now.since(since)), reasons.join("; ").into());
        Some(Fact::Service(OfService::Judged { before, health: *health, reasons }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_checked_at_once_then_seldom_and_never_while_idle() {
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        let mut watch = Watch::new(at(1));
        assert_eq!(watch.due(), None);
        watch.changed(at(2));
        assert_eq!(watch.due(), Some(at(2)));
        watch.look(at(2));
        watch.changed(at(3));
        assert_eq!(watch.due(), None, "the count is under way");
        watch.looked();
        assert_eq!(watch.due(), Some(at(7)), "something happened meanwhile, but it is too early");
        watch.look(at(7));
        watch.looked();
        assert_eq!(watch.due(), None);
        watch.changed(at(100));
        assert_eq!(watch.due(), Some(at(100)));
    }

    #[test]
    fn health_change_is_logged_once_with_its_reasons() {
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        let mut watch = Watch::new(at(1));
        let healthy = (Health::Healthy, vec![]);
        let degraded = (Health::Degraded, vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(watch.judged(at(1), &healthy), None);
        let said = watch.judged(at(2), &degraded).map(|fact| fact.sentence());
        assert_eq!(said.as_deref(), Some("degraded: a; b"));
        assert_eq!(watch.judged(at(3), &degraded), None);
        let said = watch.judged(at(37), &healthy).map(|fact| fact.sentence());
        assert_eq!(said.as_deref(), Some("healthy again after 35 s"));
    }

    #[test]
    fn new_reasons_of_the_same_health_are_logged_at_most_once_a_minute() {
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        let mut watch = Watch::new(at(1));
        let because = |reason: &str| (Health::Degraded, vec![reason.to_owned()]);
        assert!(watch.judged(at(2), &because("a")).is_some());
        assert!(watch.judged(at(10), &because("b")).is_none());
        assert_eq!(watch.due(), Some(at(62)), "it looks again without anything that happens");
        assert!(watch.judged(at(20), &because("a")).is_none());
        assert_eq!(watch.judged(at(62), &because("b")).unwrap().sentence(), "degraded: b");
        assert!(watch.judged(at(70), &because("b")).is_none());
    }
}
