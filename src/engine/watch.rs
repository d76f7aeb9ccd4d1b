//! Decides when to judge the health of the service again: soon after something has happened, but not often, and never
//! while nothing happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::fact::{Fact, OfService};
use model::{Health, Instant};

/// Shortest time between two checks.
const PAUSE: Duration = Duration::from_secs(5);

/// Shortest time between two log lines about a kind of reason while the verdict stays: reasons come and go with each
/// job.
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
    /// The kinds of reasons that were logged within the last minute.
    kinds: BTreeMap<String, Instant>,
}

/// What reasons that come and go have in common: the words before the first colon, without numbers. All of a broker's
/// begin with `broker:`, so there it is the words before the second one.
fn kind(reason: &str) -> String {
    let colons = if reason.starts_with("broker:") { 2 } else { 1 };
    let end = reason.match_indices(':').nth(colons - 1).map_or(reason.len(), |(at, _)| at);
    let words = &reason[..end];
    words.chars().filter(|letter| !letter.is_ascii_digit()).collect()
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
            kinds: BTreeMap::new(),
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

    /// The fact of a verdict, if it has changed, or if its reasons have and enough time has passed. A reason of a new kind
    /// does not wait: one held job must not hide an outage of the broker.
    pub(super) fn judged(&mut self, now: Instant, (health, reasons): &(Health, Vec<String>)) -> Option<Fact> {
        let (before, since) = self.verdict;
        if before == *health {
            let may_tell = self.told.1 + STEADY;
            let is_new =
                |reason: &String| self.kinds.get(&kind(reason)).is_none_or(|told| now >= *told + STEADY);
            if *reasons == self.told.0 {
                return None;
            } else if now < may_tell && !reasons.iter().any(is_new) {
                // A reason that stays is told then, though nothing else happens.
                self.due.get_or_insert(may_tell);
                return None;
            }
        } else {
            self.verdict = (*health, now);
        }
        self.told = (reasons.clone(), now);
        self.kinds.retain(|_, told| now < *told + STEADY);
        self.kinds.extend(reasons.iter().map(|reason| (kind(reason), now)));
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
    fn new_reasons_of_the_same_kind_are_logged_at_most_once_a_minute() {
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        let mut watch = Watch::new(at(1));
        let held = |count: u32| (Health::Degraded, vec![format!("{count} held: list them")]);
        assert!(watch.judged(at(2), &held(1)).is_some());
        assert!(watch.judged(at(10), &held(2)).is_none());
        assert_eq!(watch.due(), Some(at(62)), "it looks again without anything that happens");
        assert!(watch.judged(at(20), &held(1)).is_none());
        assert_eq!(watch.judged(at(62), &held(2)).unwrap().sentence(), "degraded: 2 held: list them");
        assert!(watch.judged(at(70), &held(2)).is_none());
    }

    #[test]
    fn outage_is_logged_at_once_though_a_job_is_held_and_not_each_time_it_comes_back() {
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        let mut watch = Watch::new(at(1));
        let because = |reasons: &[&str]| (Health::Degraded, reasons.iter().map(|&one| one.into()).collect());
        let (held, both) = (because(&["1 held"]), because(&["broker: it does not answer", "1 held"]));
        assert!(watch.judged(at(2), &held).is_some());
        let said = watch.judged(at(8), &both).map(|fact| fact.sentence());
        assert_eq!(said.as_deref(), Some("degraded: broker: it does not answer; 1 held"));
        assert!(watch.judged(at(20), &held).is_none());
        assert!(watch.judged(at(30), &because(&["broker: it does not answer", "2 held"])).is_none());
        assert!(watch.judged(at(68), &both).is_none(), "what was said last still holds");
    }
}
