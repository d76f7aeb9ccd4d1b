//! Who paused, scaled or recycled which pool, and when: to show why it is as it is.

use std::collections::BTreeMap;

use crate::api::PauseOrder;
use crate::model::{Change, Millis, Ordered, Pause, PoolStatus};

/// The name of the signal that pauses all pools.
pub(super) const PAUSING: &str = "SIGUSR2";

/// Who ordered what of which pool. It outlives the supervisor, as the changes do.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Authors {
    pauses: Latest<Paused>,
    scales: Latest<Ordered>,
    recycles: Latest<Ordered>,
}

/// The latest orders of a kind.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Latest<T> {
    /// Those about single pools, by name.
    pools: BTreeMap<String, T>,
    /// The one about all pools.
    all: Option<T>,
}

/// A pause, and how long it lasts.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Paused {
    pause: Pause,
    /// Whether the stop of the service ends it.
    until_stop: bool,
}

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Latest { pools: BTreeMap::new(), all: None }
    }
}

impl<T> Latest<T> {
    fn note(&mut self, pool: Option<&str>, order: T) {
        match pool {
            Some(pool) => _ = self.pools.insert(pool.to_owned(), order),
            None => *self = Latest { pools: BTreeMap::new(), all: Some(order) },
        }
    }

    fn forget(&mut self, pool: Option<&str>) {
        match pool {
            Some(pool) => _ = self.pools.remove(pool),
            None => *self = Latest::default(),
        }
    }

    fn of(&self, pool: &str) -> Option<&T> {
        self.pools.get(pool).or(self.all.as_ref())
    }
}

impl Authors {
    /// The authors of these pauses of pools, which an earlier start has kept.
    pub fn of_pauses(kept: BTreeMap<String, Pause>) -> Authors {
        let pools = kept.into_iter().map(|(pool, pause)| (pool, Paused { pause, until_stop: false }));
        let pauses = Latest { pools: pools.collect(), all: None };
        Authors { pauses, ..Authors::default() }
    }

    /// The pauses that outlast a stop, of the pools that are paused by these changes.
    pub fn lasting(&self, changes: &[(String, Change)]) -> BTreeMap<String, Pause> {
        let paused = changes.iter().filter(|(_, change)| *change == Change::Pause);
        let paused = paused.filter_map(|(pool, _)| Some((pool, self.pauses.of(pool)?)));
        let lasting = paused.filter(|(_, paused)| !paused.until_stop);
        lasting.map(|(pool, paused)| (pool.clone(), paused.pause.clone())).collect()
    }

    /// Notes a change of a pool, or of all pools, by a person.
    pub(super) fn note(
        &mut self,
        pool: Option<&str>,
        change: Change,
        (by, how): (&str, &PauseOrder),
        since: Millis,
    ) {
        let (by, reason) = (by.to_owned(), how.reason.clone());
        match change {
            Change::Pause => {
                let pause = Pause { since, by, reason };
                self.pauses.note(pool, Paused { pause, until_stop: how.until_stop });
            }
            Change::Resume => self.pauses.forget(pool),
            Change::Scale(_) => self.scales.note(pool, Ordered { since, by }),
            Change::Recycle => self.recycles.note(pool, Ordered { since, by }),
        }
    }

    /// Whether SIGCONT means these pauses: those of SIGUSR2. The same signal wakes a keeper that was stopped, as `fg`
    /// and `kill -CONT` do; it is no order to take jobs then.
    pub(super) fn are_of_a_signal(&self) -> bool {
        self.pauses.all.as_ref().is_some_and(|paused| paused.pause.by == PAUSING)
    }

    /// Writes into the status of a pool who has given the orders that it shows.
    pub(super) fn sign(&self, pool: &mut PoolStatus) {
        let name = &pool.name;
        pool.pause = self.pauses.of(name).filter(|_| pool.paused).map(|paused| paused.pause.clone());
        pool.scaled_by = self.scales.of(name).filter(|_| pool.scaled.is_some()).cloned();
        pool.recycled = self.recycles.of(name).filter(|_| !pool.outdated).cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Instant, PoolSettings, Scale, Settings};
    use crate::supervisor::Supervisor;

    fn pool() -> PoolStatus {
        let settings = Settings { pools: vec![PoolSettings::default()], ..Settings::default() };
        Supervisor::new(settings, Instant(0)).status(Instant(0)).remove(0)
    }

    fn plain() -> PauseOrder {
        PauseOrder::default()
    }

    #[test]
    fn a_pause_keeps_the_name_of_its_author_until_the_resume() {
        let mut pool = pool();
        let mut authors = Authors::default();
        let note = |authors: &mut Authors, of: Option<&str>, change: Change, by: &str, at: i64| {
            authors.note(of, change, (by, &plain()), Millis(at));
        };
        let mut of = |authors: &Authors, paused: bool| {
            pool.paused = paused;
            authors.sign(&mut pool);
            pool.pause.as_ref().map(|pause| (pause.by.clone(), pause.since))
        };
        note(&mut authors, None, Change::Pause, "uid 7", 5);
        assert_eq!(of(&authors, false), None, "it is not paused");
        assert_eq!(of(&authors, true), Some(("uid 7".into(), Millis(5))));
        note(&mut authors, Some("default"), Change::Pause, "uid 8", 6);
        note(&mut authors, Some("other"), Change::Resume, "uid 9", 7);
        assert_eq!(of(&authors, true), Some(("uid 8".into(), Millis(6))));
        note(&mut authors, None, Change::Resume, "uid 9", 8);
        assert_eq!(of(&authors, true), None);
        assert!(!authors.are_of_a_signal());
        note(&mut authors, None, Change::Pause, PAUSING, 9);
        assert!(authors.are_of_a_signal());
        note(&mut authors, None, Change::Pause, "uid 7", 10);
        assert!(!authors.are_of_a_signal(), "a person has paused them since");
    }

    #[test]
    fn pauses_outlast_a_stop_unless_they_are_for_the_stop() {
        let mut authors = Authors::default();
        let lunch = PauseOrder { reason: Some("lunch".into()), until_stop: false };
        let drain = PauseOrder { reason: None, until_stop: true };
        authors.note(None, Change::Pause, ("uid 7", &drain), Millis(5));
        authors.note(Some("a"), Change::Pause, ("uid 8", &lunch), Millis(6));
        let changes = ["a", "b"].map(|pool| (pool.to_owned(), Change::Pause));
        let kept = authors.lasting(&changes);
        let pause = Pause { since: Millis(6), by: "uid 8".into(), reason: Some("lunch".into()) };
        assert_eq!(kept, BTreeMap::from([("a".into(), pause)]));
        assert_eq!(Authors::of_pauses(kept.clone()).lasting(&changes), kept);
        assert_eq!(authors.lasting(&[]), BTreeMap::new(), "it was resumed");
    }

    #[test]
    fn scale_and_recycle_name_who_ordered_them() {
        let mut pool = pool();
        let mut authors = Authors::default();
        authors.note(Some("default"), Change::Scale(Scale::To(7)), ("uid 7", &plain()), Millis(5));
        authors.note(None, Change::Recycle, ("uid 8", &plain()), Millis(6));
        authors.sign(&mut pool);
        assert_eq!(pool.scaled_by, None, "the settings say so, too");
        pool.scaled = Some(7);
        authors.sign(&mut pool);
        assert_eq!(pool.scaled_by, Some(Ordered { since: Millis(5), by: "uid 7".into() }));
        assert_eq!(pool.recycled, Some(Ordered { since: Millis(6), by: "uid 8".into() }));
    }
}
