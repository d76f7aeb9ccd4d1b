//! A burst (`start --burst`) ends when no job is left, or when the jobs that are left cannot be run here.

use std::time::Duration;

use crate::pool::Pool;
use crate::{Command, GaveUp, Supervisor};
use model::{Class, Instant, Stop};

/// A burst ends when a job could not be begun this many times in a row in each slot.
const TRIES: u32 = 5;
/// A burst ends when the broker has answered no fetch for this time.
const BROKER_PATIENCE: Duration = Duration::from_secs(30);

impl Supervisor {
    /// The broker has no job left that could run here. `left` says in words which jobs cannot run here.
    pub(super) fn on_idle(&mut self, now: Instant, left: Option<String>) {
        // The answer may be older than a job that has begun since.
        if !self.burst.is_on() || self.stop.is_some() || !self.is_quiet() {
            return;
        }
        let down = self.staffed().filter_map(|pool| self.cannot_run(pool));
        let undone: Vec<String> = down.chain(left).collect();
        match undone.is_empty() {
            true => self.on_stop(now, Stop::Drain),
            false => self.give_up(now, GaveUp::Undone(undone.join("; "))),
        }
    }

    /// Ends a burst that gets no further: no pool can boot a worker or is to take jobs, or the broker does not answer.
    pub(super) fn give_up_burst(&mut self, now: Instant) {
        if !self.burst.is_on() || self.stop.is_some() || self.has_leases() {
            return;
        }
        let down: Vec<String> = self.staffed().filter_map(|pool| self.cannot_run(pool)).collect();
        if !down.is_empty() && down.len() == self.staffed().count() {
            return self.give_up(now, GaveUp::Undone(down.join("; ")));
        }
        let silence = self.staffed().filter_map(|pool| pool.silent_for(now)).max();
        if let Some(silence) = silence.filter(|silence| *silence >= BROKER_PATIENCE) {
            let why = format!("the broker has not answered a fetch for {} s", silence.as_secs());
            self.give_up(now, GaveUp::NoBroker(why));
        }
    }

    fn give_up(&mut self, now: Instant, why: GaveUp) {
        self.orders.push_back(Command::GiveUp(why));
        self.on_stop(now, Stop::Drain);
    }

    pub(super) fn ask_whether_idle(&mut self, now: Instant) {
        if !self.burst.is_on() || self.stop.is_some() || !self.is_quiet() {
            self.burst.ask_no_more();
        } else if self.burst.may_ask(now) {
            // Jobs of a pool that cannot run them would keep the burst going: `on_idle` names that pool
            // instead.
            let pools = || self.staffed().filter(|pool| self.cannot_run(pool).is_none());
            let queues = pools().flat_map(|pool| pool.settings().queues.clone()).collect();
            let unknown: Vec<Class> = pools().flat_map(|pool| pool.unknown_classes()).collect();
            self.orders.push_back(Command::AskIdle(queues, unknown));
            self.burst.asked(now);
        }
    }

    /// Whether no job runs, no verdict is unconfirmed, and the last fetch of each pool that can run jobs found its queues
    /// empty.
    pub(super) fn is_quiet(&self) -> bool {
        let has_asked = |pool: &Pool| !pool.may_find_jobs() || self.cannot_run(pool).is_some();
        self.is_at_rest() && self.staffed().all(has_asked)
    }

    /// The pools that still fetch. A pool that is gone never fetches again; its heir looks at the same queues.
    fn staffed(&self) -> impl Iterator<Item = &Pool> {
        self.pools.iter().filter(|pool| !pool.is_gone())
    }

    /// Why no job begins in a pool: its workers fail to boot, its programs to start, or it was left paused by an earlier
    /// start, so that nobody is about to resume it. None if that is not so.
    fn cannot_run(&self, pool: &Pool) -> Option<String> {
        let name = pool.name();
        match pool.cannot_run(TRIES) {
            Some(why) => Some(format!("pool {name}: {why}")),
            None => self.burst.left_paused(name).filter(|_| pool.is_paused()).cloned(),
        }
    }
}
