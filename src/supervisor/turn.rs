//! One turn: the events of a moment go to their handlers, which record what they learned; then `reconcile` alone compares
//! what is with what should be.

use std::collections::VecDeque;

use crate::early::Early;
use crate::end::{Burst, End};
use crate::pool::Pool;
use crate::pools::Pools;
use crate::restart::Random;
use crate::slot::Slot;
use crate::tallies::Tallies;
use crate::unsettled::Unsettled;
use crate::{Event, Supervisor};
use model::{Instant, Settings, Unproven};

impl Supervisor {
    /// A new supervisor: its first commands spawn the workers.
    pub fn new(settings: Settings, now: Instant) -> Self {
        let end = End::new(&settings);
        let mut supervisor = Supervisor {
            lease: settings.lease,
            stop_deadline: settings.stop_deadline,
            burst: Burst::new(settings.burst),
            end,
            pools: Pools::new(settings.pools, settings.first_generation, now),
            unsettled: Unsettled::default(),
            tallies: Tallies::default(),
            early: Early::default(),
            stop: None,
            alone_until: None,
            seen: now,
            random: Random(settings.seed),
            orders: VecDeque::new(),
        };
        for life in settings.unproven {
            supervisor.inherit(now, life);
        }
        // Before the first `reconcile`, so that no life starts that the changed size does not want.
        for (pool, change) in settings.changes {
            supervisor.on_change(now, Some(&pool), change);
        }
        // After the changes: those that an earlier start has left are not a person's.
        supervisor.burst.leave_paused(settings.left_paused);
        supervisor.reconcile(now);
        supervisor
    }

    /// Handles an event. An event about something that is long gone changes nothing.
    pub fn handle(&mut self, now: Instant, event: Event) {
        self.handle_all(now, [event]);
    }

    /// Handles all events of one moment (none if only time has passed) and reconciles once: a hundred jobs that end
    /// together cost one comparison.
    pub fn handle_all(&mut self, now: Instant, events: impl IntoIterator<Item = Event>) {
        if self.is_over() {
            return;
        }
        self.notice_gap(now);
        events.into_iter().for_each(|event| self.take_in(now, event));
        self.reconcile(now);
    }

    fn take_in(&mut self, now: Instant, event: Event) {
        match event {
            // Only Ready and Exited change the state of a worker; Spawned does not.
            Event::Spawned(_) => {}
            Event::SpawnFailed(worker, why) => self.on_spawn_failed(now, worker, why),
            Event::Ready(worker) => self.on_ready(now, worker),
            Event::Exited { worker, exit, followed } => self.on_exited(now, worker, &exit, followed),
            Event::Stuck(worker, cause) => self.on_stuck(now, worker, cause),
            Event::Finished { worker, job, fence, outcome } => {
                self.on_finished(now, worker, (&job, fence), outcome);
            }
            Event::Faulty(worker, how) => self.on_faulty(worker, how),
            Event::Exceeded { worker, job, fence, excess } => {
                self.on_exceeded(now, worker, (&job, fence), excess);
            }
            Event::Stands { worker, stood, since } => self.on_stands(now, worker, stood, since),
            Event::Outgrown(worker) => self.on_outgrown(worker),
            Event::Leaving(worker, _) => self.on_leaving(now, worker),
            Event::Knows(pool, classes) => self.on_knows(pool, classes),
            Event::Waiting(pool, waiting) => self.on_waiting(now, pool, waiting),
            Event::Fetched(pool, jobs) => self.on_fetched(now, pool, jobs),
            Event::FetchFailed(pool) => self.on_fetch_failed(now, pool),
            Event::Renewed(lease) => self.on_renewed(now, &lease),
            Event::RenewFailed(job, fence) => self.on_renew_failed(now, &job, fence),
            Event::Revoked { job, fence, why } => self.lose_job(now, &job, fence, why),
            Event::Settled { job, fence, became } => self.on_settled(job, fence, became),
            Event::SettleFailed(job, fence) => self.unsettled.failed(now, job, fence, &mut self.random),
            Event::Woken(queues) => {
                let takes = |pool: &&mut Pool| queues.have_any_of(&pool.settings().queues);
                self.pools.iter_mut().filter(takes).for_each(Pool::woken);
            }
            Event::Counted(counts) => {
                self.pools.iter_mut().for_each(|pool| pool.counted(now, &counts));
            }
            Event::Idle(left) => self.on_idle(now, left),
            Event::Stop(stage) => self.on_stop(now, stage),
            // A supervisor that stops ignores changes.
            _ if self.stop.is_some() => {}
            Event::Reload(settings) => self.on_reload(now, settings),
            Event::Resized(pool, workers) => self.on_resized(&pool, workers),
            Event::Change(pool, change) => self.on_change(now, pool.as_deref(), change),
        }
    }

    /// A life of an earlier supervisor keeps its slot until it is proven dead. A pool without that slot gets one more
    /// for that time. A template has no jobs, so it is left out.
    fn inherit(&mut self, now: Instant, life: Unproven) {
        let lease = self.lease;
        // The settings may have fewer pools now: the life needs a slot all the same.
        let number = usize::from(life.worker.slot.pool).min(self.pools.len().saturating_sub(1));
        let Some(pool) = self.pools.get_mut(number).filter(|_| life.worker.slot.index > 0) else { return };
        pool.inherit(now, Slot::inherited(now, life, lease));
    }
}
