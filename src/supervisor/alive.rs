//! One life, with what its handlers need.

use std::collections::VecDeque;

use crate::pool::{Edit, Lessons};
use crate::restart::Random;
use crate::slot::{End, Phase, Running, Slot};
use crate::tallies::Tallies;
use crate::unsettled::Unsettled;
use crate::{Command, Supervisor};
use model::{Exit, Instant, PoolSettings, Verdict, WorkerId};

impl Supervisor {
    /// This very life, never an earlier or later one in the same slot.
    pub(super) fn life(&mut self, worker: WorkerId) -> Option<Alive<'_>> {
        let (at, slot) = self.pools.place_of(worker)?;
        let (pool, slot, lessons) = self.pools.get_mut(at)?.lesson(slot);
        let (unsettled, tallies) = (&mut self.unsettled, &mut self.tallies);
        let book = Book { unsettled, tallies, orders: &mut self.orders };
        let alive = !slot.is_down();
        alive.then_some(Alive { pool, slot, lessons, random: &mut self.random, book })
    }
}

/// A life, with what its handlers need.
pub(super) struct Alive<'a> {
    pub(super) pool: &'a PoolSettings,
    pub(super) slot: Edit<'a>,
    pub(super) lessons: Lessons<'a>,
    pub(super) random: &'a mut Random,
    pub(super) book: Book<'a>,
}

/// Where the ends of jobs and of lives are recorded.
pub(super) struct Book<'a> {
    unsettled: &'a mut Unsettled,
    tallies: &'a mut Tallies,
    orders: &'a mut VecDeque<Command>,
}

impl Book<'_> {
    /// A life with this many jobs is over. An unexpected end is counted and logged.
    pub(super) fn bury(
        &mut self,
        now: Instant,
        pool: &PoolSettings,
        slot: &mut Slot,
        end: End,
        jobs: usize,
        random: &mut Random,
    ) {
        let (worker, booted) = (slot.id(), slot.was_ready());
        let why = match &end {
            End::Planned => None,
            End::Good(why) | End::Early(why) => Some(why.clone()),
        };
        slot.down(now, end, |wait| random.jitter(wait, 20));
        if let Some(why) = why {
            self.tallies.count_restart(&pool.name);
            let next = slot.due_at().map(|at| at.since(now));
            self.orders.push_back(Command::Died { worker, why, booted, next, jobs });
        }
    }

    pub(super) fn close(
        &mut self,
        now: Instant,
        running: &Running,
        (pool, slot): (&PoolSettings, &Slot),
        judged: Option<(Verdict, bool)>,
        exit: Option<&Exit>,
    ) {
        match (judged, running.phase()) {
            (Some(verdict), _) => {
                let settlement = slot.settlement(now, running, pool, verdict, exit);
                self.unsettled.add(now, slot.id().slot.pool, settlement);
            }
            (None, Phase::Ends(why)) => {
                let dropped = Command::LeaseLost {
                    job: running.job().id.clone(),
                    fence: running.lease().fence,
                    why: why.as_str(),
                };
                self.orders.push_back(dropped);
            }
            (None, Phase::Runs | Phase::Said(_)) => {}
        }
    }
}
