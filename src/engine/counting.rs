//! Counts facts for metrics.

use std::collections::{BTreeMap, HashMap};

use super::attempts::Ran;
use super::fact::{Fact, OfPool, Row};
use model::{Counters, Instant, PoolSettings};

/// The counters. A pool that replaces another goes on with the counters of its name.
#[derive(Debug, Default)]
pub(super) struct Counting {
    counters: Counters,
    /// When the fetch in progress of each pool began: by number, because two pools may have one name.
    fetching: HashMap<u16, Instant>,
}

/// Name under which all others are counted.
const OTHER: &str = "other";

/// Changes the value of a name. Clients choose the names, so only the first hundred have values of their own.
pub(super) fn bounded<T: Default>(all: &mut BTreeMap<String, T>, name: &str, change: impl FnOnce(&mut T)) {
    const MOST: usize = 100;
    let is_own = all.contains_key(name) || all.len() < MOST;
    let name = if is_own { name } else { OTHER };
    // So no text is copied for a name that is known already.
    match all.get_mut(name) {
        Some(known) => change(known),
        None => change(all.entry(name.to_owned()).or_default()),
    }
}

impl Counting {
    pub(super) fn new(pools: &[PoolSettings]) -> Counting {
        let mut counting = Counting::default();
        pools.iter().for_each(|pool| counting.add_pool(&pool.name));
        counting
    }

    /// The counters so far.
    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A pool of this name is there from now on.
    pub(super) fn add_pool(&mut self, name: &str) {
        self.counters.pools.entry(name.to_owned()).or_default();
    }

    /// Counts what the row of a fact says.
    pub(super) fn count(&mut self, row: &Row<'_>) {
        if let Some(count) = row.count {
            count(&mut self.counters);
        }
        if let Some(count) = row.pool_count
            && let Some(pool) = row.pool_name().and_then(|name| self.counters.pools.get_mut(name))
        {
            count(pool);
        }
    }

    /// Adds up the time of fetches.
    pub(super) fn time(&mut self, now: Instant, fact: &Fact) {
        let Fact::Pool(_, what) = fact else { return };
        match what {
            OfPool::Fetching { number, .. } => _ = self.fetching.insert(*number, now),
            OfPool::Fetched { number, .. } | OfPool::FetchFailed { number } => {
                let began = self.fetching.remove(number);
                self.counters.fetch_time += began.map(|began| now.since(began)).unwrap_or_default();
            }
            OfPool::Waiting(_) | OfPool::Resized(_) => {}
        }
    }

    /// An attempt is over.
    pub(super) fn ran(&mut self, ran: &Ran) {
        bounded(&mut self.counters.classes, ran.class.as_str(), |of_class| {
            of_class.count += 1;
            of_class.time += ran.time;
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fact::{JobAt, OfJob, OfService, OfWorker, Voice};

    #[test]
    fn durations_of_attempts_are_summed_for_at_most_100_classes() {
        let mut counting = Counting::default();
        let names = ["a".to_owned(), "a".to_owned()].into_iter().chain((0..150).map(|n| n.to_string()));
        for name in names {
            counting.ran(&Ran { class: name.as_str().into(), time: Duration::from_millis(20), pid: 0 });
        }
        let classes = counting.counters.classes;
        assert_eq!(classes["a"], model::Ran { count: 2, time: Duration::from_millis(40) });
        assert_eq!((classes.len(), classes[OTHER].count), (101, 51));
    }

    #[test]
    fn counters_follow_the_name_of_the_pool() {
        let named = |name: &str| PoolSettings { name: name.into(), ..PoolSettings::default() };
        let mut counting = Counting::new(&[named("a"), named("b")]);
        counting.add_pool("c");
        let mut hear = |millis, fact: Fact| {
            fact.row(Voice::Plain, &mut |row| counting.count(row));
            counting.time(Instant::from_millis(millis), &fact);
        };
        for name in ["b.3#7", "b.4#8", "c.3#7", "gone.1#9"] {
            hear(1, Fact::Worker(name.parse().unwrap(), OfWorker::Spawning));
        }
        // Two pools of one name, of which one leaves: each of them has a fetch of its own.
        for (millis, what) in [
            (10, OfPool::Fetching { number: 1, most: 1 }),
            (15, OfPool::Fetching { number: 2, most: 1 }),
            (20, OfPool::Fetched { number: 1, jobs: 3, suspect: None }),
            (25, OfPool::FetchFailed { number: 2 }),
            (30, OfPool::FetchFailed { number: 9 }),
        ] {
            hear(millis, Fact::Pool("b".into(), what));
        }
        hear(40, Fact::Service(OfService::Woken));
        hear(40, Fact::Job(JobAt { job: "j".into(), worker: None }, OfJob::SettleFailed));
        let Counters { fetches, fetches_failed, fetch_time, settles_failed, pools, .. } = counting.counters;
        assert_eq!((fetches, fetches_failed, settles_failed), (1, 2, 1));
        assert_eq!(fetch_time, Duration::from_millis(20));
        assert_eq!(["a", "b", "c"].map(|name| pools[name].spawned), [0, 2, 1]);
        assert_eq!(pools["b"].fetched, 3);
    }
}
