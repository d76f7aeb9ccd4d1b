//! Replies that were lost. Of a fetch: the broker has given its jobs to us, but we do not know them. The next fetch
//! names these fetches, and the script takes their jobs back. Of a settlement: the broker may have applied it, and the
//! next try says so.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

use crate::lock::lock;
use broker::Error;
use model::Fence;

/// Limit of the fetches that are kept; few are sent before a connection is given up.
const LOST_MAX: usize = 1000;

/// The lost fetches of one process.
pub struct Unheard {
    /// Part of each fetch's name that differs from that of other processes.
    process: String,
    count: AtomicU64,
    /// Names of lost fetches, the oldest first. A server that stood still may serve one after its leases would have ended.
    fetches: Mutex<VecDeque<String>>,
}

impl Default for Unheard {
    fn default() -> Self {
        let process = Uuid::now_v7().simple().to_string();
        Unheard { process, count: AtomicU64::new(0), fetches: Mutex::default() }
    }
}

impl Unheard {
    /// A new name for a fetch.
    pub fn name(&self) -> String {
        format!("{}-{}", self.process, self.count.fetch_add(1, Ordering::Relaxed))
    }

    /// The fetches whose jobs are still to be taken back.
    pub fn all(&self) -> Vec<String> {
        lock(&self.fetches).iter().cloned().collect()
    }

    /// Notes a fetch whose reply was lost.
    pub fn add(&self, name: String) {
        let mut fetches = lock(&self.fetches);
        fetches.push_back(name);
        if fetches.len() > LOST_MAX {
            fetches.pop_front();
        }
    }

    /// Forgets fetches whose jobs were taken back.
    pub fn remove(&self, names: &[String]) {
        lock(&self.fetches).retain(|name| !names.contains(name));
    }
}

/// Attempts whose settlement was sent and whose reply was lost: the broker may have applied it.
#[derive(Default)]
pub struct InDoubt(Mutex<BTreeSet<Fence>>);

impl InDoubt {
    /// Notes that the settlements of these attempts may have been applied.
    pub fn add(&self, runs: impl Iterator<Item = Fence>) {
        lock(&self.0).extend(runs);
    }

    /// Notes the answer to the settlements of these attempts. A request that did not reach the broker says nothing of an
    /// earlier one.
    pub fn note<T>(&self, runs: impl Iterator<Item = Fence>, answer: &Result<T, Error>) {
        match answer {
            Ok(_) => runs.for_each(|run| _ = lock(&self.0).remove(&run)),
            Err(Error::Unanswered(_)) => self.add(runs),
            Err(_) => {}
        }
    }

    /// Whether the settlement of this attempt may have been applied.
    pub fn contains(&self, run: Fence) -> bool {
        lock(&self.0).contains(&run)
    }
}

#[cfg(test)]
mod tests {
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
    fn lost_fetch_is_released_once_however_late() {
        let unheard = Unheard::default();
        let (one, two) = (unheard.name(), unheard.name());
        assert_ne!(one, two);
        unheard.add(one.clone());
        unheard.add(two.clone());
        let all = unheard.all();
        assert_eq!(all, [one, two.clone()]);
        // Another fetch was lost while these were released.
        let three = unheard.name();
        unheard.add(three.clone());
        unheard.remove(&all[..1]);
        assert_eq!(unheard.all(), [two, three]);
        (0..2 * LOST_MAX).for_each(|_| unheard.add(unheard.name()));
        assert_eq!(unheard.all().len(), LOST_MAX);
    }
}
