//! What is counted on its way to the supervisor and back.

use crate::clock;
use crate::model::{Counters, Instant};
use crate::supervisor::{Command, Event};

/// The counters, and when the fetches under way began: one for each pool at most.
#[derive(Debug)]
pub(super) struct Counting {
    pub(super) counters: Counters,
    asked: Vec<Option<Instant>>,
}

impl Counting {
    pub(super) fn new(pools: usize) -> Counting {
        let counters = Counters { fetched: vec![0; pools], spawned: vec![0; pools], ..Counters::default() };
        Counting { counters, asked: vec![None; pools] }
    }

    /// A command goes out.
    pub(super) fn order(&mut self, command: &Command) {
        match command {
            Command::Fetch { pool, .. } => {
                if let Some(asked) = self.asked.get_mut(usize::from(*pool)) {
                    *asked = Some(clock::now());
                }
            }
            Command::Spawn(worker) | Command::Fork(worker, _) => {
                add(&mut self.counters.spawned, worker.slot.pool, 1);
            }
            Command::Assign(..)
            | Command::Signal(..)
            | Command::Cancel(..)
            | Command::KillAt(..)
            | Command::Renew(_)
            | Command::Settle(_)
            | Command::AskIdle(_)
            | Command::AskWaiting(..)
            | Command::Dropped(..)
            | Command::Exit => {}
        }
    }

    /// A fact comes in.
    pub(super) fn hear(&mut self, event: &Event) {
        let counters = &mut self.counters;
        match event {
            Event::Fetched(pool, jobs) => {
                counters.fetches += 1;
                add(&mut counters.fetched, *pool, jobs.len() as u64);
                self.answered(*pool);
            }
            Event::FetchFailed(pool) => {
                counters.fetches_failed += 1;
                self.answered(*pool);
            }
            Event::Renewed(_) => counters.renewed += 1,
            Event::RenewFailed(..) => counters.renewals_failed += 1,
            Event::Revoked(..) => counters.revoked += 1,
            Event::Settled(..) => counters.settled += 1,
            Event::SettleFailed(..) => counters.settles_failed += 1,
            Event::Spawned(_)
            | Event::SpawnFailed(..)
            | Event::Ready(_)
            | Event::Exited(..)
            | Event::Stuck(..)
            | Event::Finished(..)
            | Event::Faulty(..)
            | Event::Knows(..)
            | Event::Waiting(..)
            | Event::Woken
            | Event::Idle
            | Event::Stop(_) => {}
        }
    }

    fn answered(&mut self, pool: u16) {
        if let Some(asked) = self.asked.get_mut(usize::from(pool)).and_then(Option::take) {
            self.counters.fetch_time += clock::now().since(asked);
        }
    }
}

fn add(counts: &mut [u64], pool: u16, more: u64) {
    if let Some(count) = counts.get_mut(usize::from(pool)) {
        *count += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SlotId, WorkerId};

    #[test]
    fn what_passes_is_counted_by_pool() {
        let mut counting = Counting::new(2);
        let worker = WorkerId { slot: SlotId { pool: 1, index: 3 }, generation: 7 };
        counting.order(&Command::Spawn(worker));
        counting.order(&Command::Spawn(WorkerId { slot: SlotId { pool: 9, index: 1 }, generation: 8 }));
        for event in [Event::Fetched(0, vec![]), Event::FetchFailed(1), Event::FetchFailed(1), Event::Woken] {
            counting.hear(&event);
        }
        let Counters { fetches, fetches_failed, spawned, fetched, .. } = counting.counters;
        assert_eq!((fetches, fetches_failed, spawned, fetched), (1, 2, vec![0, 1], vec![0, 0]));
    }
}
