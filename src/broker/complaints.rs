//! Failures that repeat: logged once when they begin, once a minute while they last, and once when they are over. One that
//! has lasted for a while is a matter of the health.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::Error;
use model::Instant;

/// Pause between two log lines while a failure lasts.
const AGAIN: Duration = Duration::from_secs(60);
/// What has failed for this long, and was tried again, lasts: the health says so.
pub const LASTS: Duration = Duration::from_secs(5);
/// What was not tried again for this long is out of date, for the health and for one of several items.
const OLD: Duration = Duration::from_secs(90);

/// What has happened if a server of jobs was emptied, or another one has taken its place.
pub const FORGOTTEN: &str = "Redis has forgotten what it held";

/// The failures that last at the moment. All copies are one.
#[derive(Clone, Debug, Default)]
pub struct Complaints(Arc<Register>);

#[derive(Debug, Default)]
struct Register {
    lasting: Mutex<BTreeMap<String, Lasting>>,
    /// Notified when something has failed or works again.
    changed: Notify,
}

#[derive(Debug)]
struct Lasting {
    since: Instant,
    told: Instant,
    /// When it last failed; `how` says how.
    last: Instant,
    how: String,
    /// What it fails for, such as jobs, each with its last failure; the name is empty if it fails as a whole.
    items: BTreeMap<String, (Instant, String)>,
    /// Whether it lasts without another try, until it works.
    stands: bool,
}

/// A failure that lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What fails, in few words that stay the same, e.g. `failed to settle`.
    pub what: String,
    /// How it failed last.
    pub how: String,
    /// Time of the first failure.
    pub since: Instant,
}

impl Lasting {
    /// Whether the health should say so at this time.
    fn is_told(&self, now: Instant) -> bool {
        let is_tried = self.last > self.since && now.since(self.since) >= LASTS;
        self.stands || is_tried && now.since(self.last) < OLD
    }

    /// When that may change without another try.
    fn turns(&self, now: Instant) -> Option<Instant> {
        let turns = [self.since + LASTS, self.last + OLD];
        turns.into_iter().find(|at| *at > now && self.last > self.since && !self.stands)
    }
}

impl Complaints {
    fn lasting(&self) -> MutexGuard<'_, BTreeMap<String, Lasting>> {
        self.0.lasting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether `what` worked.
    pub fn note<T>(&self, what: &str, answer: &Result<T, Error>, now: Instant) {
        match answer {
            Ok(_) => self.well(what, now),
            Err(error) => self.wrong(what, error, now),
        }
    }

    /// Notes that `what` failed, and logs it if that is due.
    pub fn wrong(&self, what: &str, error: &dyn Display, now: Instant) {
        self.wrong_for(what, "", error, now);
    }

    /// Notes that `what` failed for one item, such as a job: it lasts until it has worked for each item that is tried.
    pub fn wrong_for(&self, what: &str, item: &str, error: &dyn Display, now: Instant) {
        match self.lasts(what, item, error, now) {
            Some(Duration::ZERO) => {
                tracing::warn!(%error, "{what}; retrying (the log says when it recovers)")
            }
            Some(since) => tracing::warn!(%error, "{what}, for {}s now", since.as_secs()),
            None => {}
        }
        self.0.changed.notify_waiters();
    }

    /// Notes that `what` failed and is not tried again by itself: that lasts from now on, until it works.
    pub fn stands(&self, what: &str, error: &dyn Display, now: Instant) {
        self.stands_for(what, "", error, now);
    }

    /// The same for one item, such as a file.
    pub fn stands_for(&self, what: &str, item: &str, error: &dyn Display, now: Instant) {
        if self.lasts(what, item, error, now).is_some() {
            tracing::warn!(%error, "{what}");
        }
        self.lasting().entry(what.into()).and_modify(|lasting| lasting.stands = true);
        self.0.changed.notify_waiters();
    }

    /// Notes that `what` worked, and logs that if it failed before.
    pub fn well(&self, what: &str, now: Instant) {
        self.well_for(what, "", now);
    }

    /// Notes that `what` worked for an item, or that it need not any more.
    pub fn well_for(&self, what: &str, item: &str, now: Instant) {
        if let Some(lasted) = self.end(what, Some(item), now) {
            tracing::info!("recovered after {:.1}s: {what}", lasted.as_secs_f64());
        }
    }

    /// Notes that `what` is not tried again, as nothing is left to do; logs that if it failed before.
    pub fn moot(&self, what: &str, now: Instant) {
        if let Some(lasted) = self.end(what, None, now) {
            tracing::info!(
                "given up after {:.1}s, as nothing is left to be done: {what}",
                lasted.as_secs_f64()
            );
        }
    }

    /// How long it failed, if it is over with this item, or with all. If it was not tried for long, the time ends with its
    /// last try.
    fn end(&self, what: &str, item: Option<&str>, now: Instant) -> Option<Duration> {
        let mut all = self.lasting();
        let known = all.get_mut(what)?;
        if let Some(item) = item {
            known.items.remove(item);
            let stands = known.stands;
            // An item that nobody tries any more would keep the failure for ever.
            known.items.retain(|_, (last, _)| stands || now.since(*last) < OLD);
            if !known.items.is_empty() {
                return None;
            }
        }
        let Lasting { since, last, .. } = all.remove(what)?;
        // Those who wake take the same lock.
        drop(all);
        self.0.changed.notify_waiters();
        Some(if now.since(last) <= 2 * AGAIN { now.since(since) } else { last.since(since) })
    }

    /// How it failed last, if it has not worked since.
    pub fn latest(&self, what: &str) -> Option<String> {
        self.lasting().get(what).map(|lasting| lasting.how.clone())
    }

    /// How it failed last for this item, if it has not worked since.
    pub fn latest_for(&self, what: &str, item: &str) -> Option<String> {
        Some(self.lasting().get(what)?.items.get(item)?.1.clone())
    }

    /// What has failed for [`LASTS`] and still does.
    pub fn told(&self, now: Instant) -> Vec<Told> {
        let lasting = self.lasting();
        let told = lasting.iter().filter(|(_, lasting)| lasting.is_told(now));
        let told = told.map(|(what, lasting)| Told {
            what: what.clone(),
            how: lasting.how.clone(),
            since: lasting.since,
        });
        told.collect()
    }

    /// Waits until [`Complaints::told`] gives others than `before`; how they fail does not matter. Cancel-safe.
    pub async fn turn(&self, before: &[Told], clock: impl Fn() -> Instant) {
        loop {
            // Before the look, so that a change in between wakes as well.
            let changed = self.0.changed.notified();
            let now = clock();
            let names = |told: &[Told]| told.iter().map(|one| one.what.clone()).collect::<Vec<_>>();
            if names(&self.told(now)) != names(before) {
                return;
            }
            let next = self.lasting().values().filter_map(|lasting| lasting.turns(now)).min();
            let wait = next.map_or(Duration::MAX, |at| at.since(now));
            tokio::time::timeout(wait, changed).await.ok();
        }
    }

    /// Time for which it has failed, if that is to be logged now.
    fn lasts(&self, what: &str, item: &str, error: &dyn Display, now: Instant) -> Option<Duration> {
        let mut lasting = self.lasting();
        // A failure that was last seen long ago counts as over: this is a new one.
        let is_known = |known: &&mut Lasting| known.stands || now.since(known.last) <= 2 * AGAIN;
        let Some(known) = lasting.get_mut(what).filter(is_known) else {
            let how = error.to_string();
            let items = BTreeMap::from([(item.to_owned(), (now, how.clone()))]);
            let fresh = Lasting { since: now, told: now, last: now, how, items, stands: false };
            lasting.insert(what.into(), fresh);
            return Some(Duration::ZERO);
        };
        (known.last, known.how) = (now, error.to_string());
        known.items.insert(item.to_owned(), (now, known.how.clone()));
        if now.since(known.told) < AGAIN {
            return None;
        }
        known.told = now;
        Some(now.since(known.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Instant {
        Instant::from_millis(second * 1000)
    }

    fn told(what: &str, how: &str, second: u64) -> Told {
        Told { what: what.into(), how: how.into(), since: at(second) }
    }

    #[test]
    fn a_lasting_problem_is_logged_once_a_minute() {
        let complaints = Complaints::default();
        let full = Error::Failed("the disk is full".into());
        let told = |second: u64| complaints.lasts("x", "", &full, at(second));
        assert_eq!(told(5), Some(Duration::ZERO));
        assert_eq!((told(6), told(64)), (None, None));
        assert_eq!(told(65), Some(AGAIN));
        assert_eq!((told(66), told(124)), (None, None));
        assert_eq!(told(125), Some(2 * AGAIN));
        // One trouble says nothing of another, and what is over begins again.
        assert_eq!(complaints.lasts("y", "", &"it fails", at(126)), Some(Duration::ZERO));
        assert_eq!(complaints.latest("x"), Some(full.to_string()));
        complaints.well("x", at(127));
        assert_eq!(complaints.latest("x"), None);
        assert_eq!(told(128), Some(Duration::ZERO));
        assert_eq!(told(1000), Some(Duration::ZERO));
        // Nobody tried for long: how long it lasted after the last try is not known.
        assert_eq!(told(1060), Some(AGAIN));
        assert_eq!(complaints.end("x", None, at(9000)), Some(AGAIN));
        assert_eq!(complaints.end("x", None, at(9001)), None);
    }

    #[test]
    fn failure_is_told_after_five_seconds_until_it_works_or_nobody_tries() {
        let complaints = Complaints::default();
        complaints.wrong("x", &"no", at(10));
        assert!(complaints.told(at(16)).is_empty(), "it failed once, and nobody has tried again");
        complaints.wrong("x", &"still no", at(14));
        assert!(complaints.told(at(14)).is_empty());
        assert_eq!(complaints.told(at(15)), [told("x", "still no", 10)]);
        assert!(!complaints.told(at(103)).is_empty());
        assert!(complaints.told(at(104)).is_empty(), "not tried any more");
        complaints.wrong("x", &"no", at(105));
        assert!(!complaints.told(at(105)).is_empty());
        complaints.well("x", at(106));
        assert!(complaints.told(at(106)).is_empty());
    }

    #[test]
    fn failure_that_nobody_tries_again_stands_until_it_works() {
        let complaints = Complaints::default();
        complaints.stands("x", &"no", at(10));
        assert_eq!(complaints.told(at(10)), [told("x", "no", 10)]);
        assert_eq!(complaints.told(at(9_000)), [told("x", "no", 10)]);
        complaints.stands("x", &"still no", at(9_000));
        assert_eq!(complaints.told(at(9_000)), [told("x", "still no", 10)]);
        complaints.well("x", at(9_001));
        assert!(complaints.told(at(9_001)).is_empty());
    }

    #[test]
    fn success_for_one_item_does_not_hide_the_failure_for_another() {
        let complaints = Complaints::default();
        for second in 0..9 {
            complaints.wrong_for("settle", "a", &"a wrong key", at(second));
            complaints.well_for("settle", "b", at(second));
        }
        assert_eq!(complaints.told(at(9)), [told("settle", "a wrong key", 0)]);
        complaints.wrong_for("settle", "c", &"a wrong key", at(9));
        complaints.well_for("settle", "a", at(9));
        assert_eq!(complaints.latest_for("settle", "c").as_deref(), Some("a wrong key"));
        assert_eq!((complaints.told(at(9)).len(), complaints.latest_for("settle", "a")), (1, None));
        // Nobody tries c any more.
        complaints.well_for("settle", "d", at(99));
        assert!(complaints.latest("settle").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_hears_when_a_failure_begins_to_last_and_when_it_ends() {
        let (complaints, began) = (Complaints::default(), tokio::time::Instant::now());
        let clock = || at(10) + began.elapsed();
        let fails = async {
            for _ in 0..3 {
                complaints.wrong("x", &"no", clock());
                tokio::time::sleep(LASTS / 4).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! { () = complaints.turn(&[], clock) => {}, () = fails => {} }
        assert_eq!((began.elapsed(), complaints.told(clock())), (LASTS, vec![told("x", "no", 10)]));
        complaints.turn(&[told("x", "no", 10)], clock).await;
        assert!(began.elapsed() >= LASTS / 2 + OLD, "out of date after {:?}", began.elapsed());
        complaints.wrong("x", &"no", clock());
        let before = complaints.told(clock());
        let ends = async { complaints.well("x", clock()) };
        tokio::join!(complaints.turn(&before, clock), ends);
        assert!(complaints.told(clock()).is_empty());
    }
}
