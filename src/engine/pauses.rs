//! Who paused which pool, to show why it takes no jobs.

use std::collections::BTreeMap;

use crate::model::{Change, Millis, Pause, PoolStatus};

/// The name of the signal that pauses all pools.
pub(super) const PAUSING: &str = "SIGUSR2";

/// Who paused which pool. It outlives the supervisor, as the pauses do.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pauses {
    /// Pauses of single pools, by name.
    pools: BTreeMap<String, Pause>,
    /// The latest pause of all pools.
    all: Option<Pause>,
}

impl Pauses {
    /// Notes a change of a pool, or of all pools, by a person.
    pub(super) fn note(&mut self, pool: Option<&str>, change: Change, by: &str, since: Millis) {
        let pause = || Pause { since, by: by.to_owned(), reason: None };
        match (change, pool) {
            (Change::Pause, Some(pool)) => _ = self.pools.insert(pool.to_owned(), pause()),
            (Change::Pause, None) => *self = Pauses { pools: BTreeMap::new(), all: Some(pause()) },
            (Change::Resume, Some(pool)) => _ = self.pools.remove(pool),
            (Change::Resume, None) => *self = Pauses::default(),
            (Change::Recycle | Change::Scale(_), _) => {}
        }
    }

    /// Whether SIGCONT means these pauses: those of SIGUSR2. The same signal wakes a keeper that was stopped, as `fg`
    /// and `kill -CONT` do; it is no order to take jobs then.
    pub(super) fn are_of_a_signal(&self) -> bool {
        self.all.as_ref().is_some_and(|pause| pause.by == PAUSING)
    }

    /// Who paused this pool, if it is paused and that is known.
    pub(super) fn of(&self, pool: &PoolStatus) -> Option<Pause> {
        let known = self.pools.get(&pool.name).or(self.all.as_ref());
        known.filter(|_| pool.paused).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Instant, PoolSettings, Settings};
    use crate::supervisor::Supervisor;

    #[test]
    fn a_pause_keeps_the_name_of_its_author_until_the_resume() {
        let settings = Settings { pools: vec![PoolSettings::default()], ..Settings::default() };
        let mut pool = Supervisor::new(settings, Instant(0)).status(Instant(0)).remove(0);
        let mut pauses = Pauses::default();
        pauses.note(None, Change::Pause, "uid 7", Millis(5));
        assert_eq!(pauses.of(&pool), None, "it is not paused");
        pool.paused = true;
        let of = |pauses: &Pauses| pauses.of(&pool).map(|pause| (pause.by, pause.since));
        assert_eq!(of(&pauses), Some(("uid 7".into(), Millis(5))));
        pauses.note(Some("default"), Change::Pause, "uid 8", Millis(6));
        pauses.note(Some("other"), Change::Resume, "uid 9", Millis(7));
        assert_eq!(of(&pauses), Some(("uid 8".into(), Millis(6))));
        pauses.note(None, Change::Resume, "uid 9", Millis(8));
        assert_eq!(of(&pauses), None);
        assert!(!pauses.are_of_a_signal());
        pauses.note(None, Change::Pause, PAUSING, Millis(9));
        assert!(pauses.are_of_a_signal());
        pauses.note(None, Change::Pause, "uid 7", Millis(10));
        assert!(!pauses.are_of_a_signal(), "a person has paused them since");
    }
}
