//! Replies that were lost. Of a fetch: the broker has given its jobs to us, but we do not know them. The next fetch
//! names these fetches, and the script takes their jobs back. Of a settlement: the broker may have applied it, and the
//! next try says so.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

use super::Error;
use super::lock::lock;
use model::{Fence, Instant};

/// The lost fetches of one process.
pub(crate) struct Unheard {
    /// Part of each fetch's name that differs from that of other processes.
    process: String,
    count: AtomicU64,
    /// Names of lost fetches with the ends of their leases: after that there is nothing to take back.
    fetches: Mutex<Vec<(String, Instant)>>,
}

impl Unheard {
    pub(crate) fn new() -> Unheard {
        let process = Uuid::now_v7().simple().to_string();
        Unheard { process, count: AtomicU64::new(0), fetches: Mutex::default() }
    }

    /// A new name for a fetch.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.process, self.count.fetch_add(1, Ordering::Relaxed))
    }

    /// The fetches whose jobs are still to be taken back.
    pub(crate) fn all(&self, now: Instant) -> Vec<String> {
        let mut fetches = lock(&self.fetches);
        fetches.retain(|(_, ends)| *ends > now);
        fetches.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Notes a fetch whose reply was lost; its leases end at `ends`.
    pub(crate) fn add(&self, name: String, ends: Instant) {
        lock(&self.fetches).push((name, ends));
    }

    /// Forgets fetches whose jobs were taken back.
    pub(crate) fn remove(&self, names: &[String]) {
        lock(&self.fetches).retain(|(name, _)| !names.contains(name));
    }
}

/// Attempts whose settlement was sent and whose reply was lost: the broker may have applied it.
#[derive(Default)]
pub(crate) struct InDoubt(Mutex<BTreeSet<Fence>>);

impl InDoubt {
    /// Notes that the settlements of these attempts may have been applied.
    pub(crate) fn add(&self, runs: impl Iterator<Item = Fence>) {
        lock(&self.0).extend(runs);
    }

    /// Notes the answer to the settlements of these attempts. A request that did not reach the broker says nothing of an
    /// earlier one.
    pub(crate) fn note<T>(&self, runs: impl Iterator<Item = Fence>, answer: &Result<T, Error>) {
        match answer {
            Ok(_) => runs.for_each(|run| _ = lock(&self.0).remove(&run)),
            Err(Error::Unanswered(_)) => self.add(runs),
            Err(_) => {}
        }
    }

    pub(crate) fn contains(&self, run: Fence) -> bool {
        lock(&self.0).contains(&run)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn settlement_stays_in_doubt_until_the_broker_answers() {
        let (in_doubt, run) = (InDoubt::default(), Fence(1));
        let failed = |error: Error| in_doubt.note([run].into_iter(), &Err::<(), _>(error));
        failed(Error::Failed("it cannot be reached".into()));
        assert!(!in_doubt.contains(run), "nothing was sent");
        failed(Error::Unanswered("it is silent".into()));
        failed(Error::Failed("it cannot be reached".into()));
        assert!(in_doubt.contains(run));
        in_doubt.note([run].into_iter(), &Ok(()));
        assert!(!in_doubt.contains(run));
    }

    #[test]
    fn lost_fetch_is_released_once_and_not_after_its_leases_end() {
        let (unheard, now) = (Unheard::new(), Instant::from_millis(1000));
        let (one, two) = (unheard.name(), unheard.name());
        assert_ne!(one, two);
        unheard.add(one.clone(), now + Duration::from_secs(60));
        unheard.add(two.clone(), now + Duration::from_secs(90));
        let all = unheard.all(now);
        assert_eq!(all, [one.clone(), two.clone()]);
        // Another fetch was lost while these were released.
        let three = unheard.name();
        unheard.add(three.clone(), now + Duration::from_secs(90));
        unheard.remove(&all[..1]);
        assert_eq!(unheard.all(now), [two, three]);
        assert_eq!(unheard.all(now + Duration::from_secs(90)), Vec::<String>::new());
    }
}
