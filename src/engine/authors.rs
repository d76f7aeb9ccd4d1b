//! Who paused, scaled or recycled which pool, and when: to show why it is as it is.

use std::collections::{BTreeMap, BTreeSet};

use api::PauseOrder;
use model::{Change, Millis, Ordered, Pause, PoolStatus};

/// The name of the signal that pauses all pools.
pub(super) const PAUSING: &str = "SIGUSR2";

/// The authors of the latest orders, by pool. They outlive the supervisor, as the changes do.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Authors {
    pauses: BTreeMap<String, Paused>,
    scales: BTreeMap<String, Ordered>,
    recycles: BTreeMap<String, Ordered>,
}

/// A pause, and how long it lasts.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Paused {
    pause: Pause,
    /// Whether the stop of the service ends it.
    until_stop: bool,
}

impl Paused {
    /// Merges this pause into the one that the pool has already. SIGUSR2 does not replace a person's pause, as SIGCONT
    /// would end it; and a pause until the stop does not replace a lasting one, whose reason would be lost.
    fn over(self, old: &Paused) -> Paused {
        let until_stop = self.until_stop && old.until_stop;
        let is_less = self.is_of_the_signal() || self.until_stop && !old.until_stop;
        let stays = is_less && !old.is_of_the_signal();
        Paused { pause: if stays { old.pause.clone() } else { self.pause }, until_stop }
    }

    fn is_of_the_signal(&self) -> bool {
        self.pause.by == PAUSING
    }
}

impl Authors {
    /// The authors of these pauses of pools, which an earlier start has kept.
    pub fn of_pauses(kept: BTreeMap<String, Pause>) -> Authors {
        let pauses = kept.into_iter().map(|(pool, pause)| (pool, Paused { pause, until_stop: false }));
        Authors { pauses: pauses.collect(), ..Authors::default() }
    }

    /// The pauses that outlast a stop, of the pools that are paused by these changes.
    pub fn lasting(&self, changes: &[(String, Change)]) -> BTreeMap<String, Pause> {
        let paused = changes.iter().filter(|(_, change)| *change == Change::Pause);
        let paused = paused.filter_map(|(pool, _)| Some((pool, self.pauses.get(pool)?)));
        let lasting = paused.filter(|(_, paused)| !paused.until_stop);
        lasting.map(|(pool, paused)| (pool.clone(), paused.pause.clone())).collect()
    }

    /// Notes a change of a pool, or of all these pools, by a person.
    pub(super) fn note(
        &mut self,
        (pool, pools): (Option<&str>, &[PoolStatus]),
        change: Change,
        (by, how): (&str, &PauseOrder),
        since: Millis,
    ) {
        for pool in pools.iter().filter(|status| pool.is_none_or(|pool| status.name == pool)) {
            let (name, by) = (pool.name.clone(), by.to_owned());
            match change {
                Change::Pause => {
                    let pause = Pause { since, by, reason: how.reason.clone() };
                    let paused = Paused { pause, until_stop: how.until_stop };
                    // A pause that is over is not merged with.
                    let paused = match self.pauses.get(&name).filter(|_| pool.paused) {
                        Some(old) => paused.over(old),
                        None => paused,
                    };
                    self.pauses.insert(name, paused);
                }
                Change::Resume => _ = self.pauses.remove(&name),
                Change::Scale(_) => _ = self.scales.insert(name, Ordered { since, by }),
                Change::Recycle => _ = self.recycles.insert(name, Ordered { since, by }),
            }
        }
    }

    /// The pools that SIGCONT resumes: those that SIGUSR2 has paused. The same signal wakes a keeper that was stopped,
    /// as `fg` and `kill -CONT` do; it is no order to take jobs then.
    pub(super) fn of_the_signal(&self, pools: &[PoolStatus]) -> BTreeSet<String> {
        let paused = pools.iter().filter(|pool| pool.paused && !pool.outdated);
        let is_of_it = |name: &&String| self.pauses.get(*name).is_some_and(Paused::is_of_the_signal);
        paused.map(|pool| &pool.name).filter(is_of_it).cloned().collect()
    }

    /// Writes into the status of a pool who has given the orders that it shows.
    pub(super) fn sign(&self, pool: &mut PoolStatus) {
        let name = &pool.name;
        pool.pause = self.pauses.get(name).filter(|_| pool.paused).map(|paused| paused.pause.clone());
        pool.scaled_by = self.scales.get(name).filter(|_| pool.scaled.is_some()).cloned();
        pool.recycled = self.recycles.get(name).filter(|_| !pool.outdated).cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Instant, PoolSettings, Scale, Settings};
    use supervisor::Supervisor;

    fn pools<const N: usize>(names: [&str; N]) -> Vec<PoolStatus> {
        let pool = |name: &str| PoolSettings { name: name.into(), ..PoolSettings::default() };
        let settings = Settings { pools: names.map(pool).into(), ..Settings::default() };
        Supervisor::new(settings, Instant(0)).status(Instant(0))
    }

    /// Notes the change and makes it.
    fn order(
        authors: &mut Authors,
        pools: &mut [PoolStatus],
        of: Option<&str>,
        change: Change,
        (by, reason, until_stop): (&str, Option<&str>, bool),
        at: i64,
    ) {
        let how = PauseOrder { reason: reason.map(str::to_owned), until_stop };
        authors.note((of, pools), change, (by, &how), Millis(at));
        for pool in pools.iter_mut().filter(|pool| of.is_none_or(|of| pool.name == of)) {
            pool.paused = change == Change::Pause;
            authors.sign(pool);
        }
    }

    fn by(pool: &PoolStatus) -> Option<&str> {
        pool.pause.as_ref().map(|pause| &pause.by[..])
    }

    /// The pools that a next start has paused, with the reasons.
    fn kept(authors: &Authors, pools: &[PoolStatus]) -> Vec<(String, Option<String>)> {
        let paused = pools.iter().filter(|pool| pool.paused).map(|pool| (pool.name.clone(), Change::Pause));
        let lasting = authors.lasting(&paused.collect::<Vec<_>>());
        assert_eq!(Authors::of_pauses(lasting.clone()).pauses.len(), lasting.len());
        lasting.into_iter().map(|(pool, pause)| (pool, pause.reason)).collect()
    }

    const PERSON: (&str, Option<&str>, bool) = ("uid 7", Some("smtp"), false);
    const DRAIN: (&str, Option<&str>, bool) = ("uid 8", None, true);
    const USR2: (&str, Option<&str>, bool) = (PAUSING, None, false);

    #[test]
    fn a_pause_keeps_the_name_of_its_author_until_the_resume() {
        let (mut authors, mut pools) = (Authors::default(), pools(["a", "b"]));
        order(&mut authors, &mut pools, None, Change::Pause, PERSON, 5);
        order(&mut authors, &mut pools, Some("a"), Change::Pause, ("uid 9", None, false), 6);
        assert_eq!((by(&pools[0]), by(&pools[1])), (Some("uid 9"), Some("uid 7")));
        order(&mut authors, &mut pools, Some("b"), Change::Resume, PERSON, 7);
        assert_eq!((by(&pools[0]), by(&pools[1])), (Some("uid 9"), None));
        order(&mut authors, &mut pools, None, Change::Resume, PERSON, 8);
        assert_eq!((by(&pools[0]), by(&pools[1])), (None, None));
    }

    #[test]
    fn drain_ends_with_the_stop_and_leaves_the_pauses_that_outlast_it() {
        let (mut authors, mut pools) = (Authors::default(), pools(["a", "b", "c"]));
        order(&mut authors, &mut pools, Some("c"), Change::Pause, PERSON, 4);
        order(&mut authors, &mut pools, Some("c"), Change::Resume, PERSON, 5);
        order(&mut authors, &mut pools, Some("a"), Change::Pause, PERSON, 6);
        order(&mut authors, &mut pools, None, Change::Pause, DRAIN, 7);
        assert_eq!(kept(&authors, &pools), [("a".into(), Some("smtp".into()))]);
        assert_eq!((by(&pools[0]), by(&pools[1])), (Some("uid 7"), Some("uid 8")));
        order(&mut authors, &mut pools, Some("a"), Change::Resume, PERSON, 8);
        order(&mut authors, &mut pools, None, Change::Pause, DRAIN, 9);
        assert_eq!(kept(&authors, &pools), []);
        order(&mut authors, &mut pools, Some("b"), Change::Pause, PERSON, 10);
        assert_eq!(kept(&authors, &pools), [("b".into(), Some("smtp".into()))], "a person's comes after");
    }

    #[test]
    fn sigcont_resumes_exactly_the_pools_that_sigusr2_has_paused() {
        let (mut authors, mut pools) = (Authors::default(), pools(["a", "b", "c"]));
        order(&mut authors, &mut pools, Some("a"), Change::Pause, PERSON, 5);
        order(&mut authors, &mut pools, None, Change::Pause, USR2, 6);
        order(&mut authors, &mut pools, Some("b"), Change::Pause, PERSON, 7);
        assert_eq!(authors.of_the_signal(&pools), BTreeSet::from(["c".into()]));
        let changes: Vec<_> = ["a", "b", "c"].map(|pool| (pool.into(), Change::Pause)).into();
        let next = Authors::of_pauses(authors.lasting(&changes));
        assert_eq!(next.of_the_signal(&pools), BTreeSet::from(["c".into()]), "also after a stop and a start");
        // A drain is a person's; the pause of the signal would have outlasted the stop, so this one does.
        order(&mut authors, &mut pools, None, Change::Pause, DRAIN, 8);
        assert_eq!(authors.of_the_signal(&pools), BTreeSet::new());
        assert_eq!(kept(&authors, &pools).len(), 3);
    }

    #[test]
    fn scale_and_recycle_name_who_ordered_them() {
        let (mut authors, mut pools) = (Authors::default(), pools(["a"]));
        order(&mut authors, &mut pools, Some("a"), Change::Scale(Scale::To(7)), PERSON, 5);
        order(&mut authors, &mut pools, None, Change::Recycle, DRAIN, 6);
        assert_eq!(pools[0].scaled_by, None, "the settings say so, too");
        pools[0].scaled = Some(7);
        authors.sign(&mut pools[0]);
        assert_eq!(pools[0].scaled_by, Some(Ordered { since: Millis(5), by: "uid 7".into() }));
        assert_eq!(pools[0].recycled, Some(Ordered { since: Millis(6), by: "uid 8".into() }));
    }
}
