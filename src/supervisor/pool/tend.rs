//! What a pool does for its slots and their jobs, whoever asks for it.

use std::collections::VecDeque;

use super::slots::Edit;
use super::{Lessons, Pool};
use crate::Command;
use crate::slot::{Gap, RoomFor, Running, Slot};
use crate::stop::Stopping;
use crate::why::Why;
use model::{Fence, Instant, JobId, Lease, PoolSettings, WorkerId};

/// Finds a slot to change.
impl Pool {
    /// The slot at this position.
    pub(crate) fn edit(&mut self, at: usize) -> Edit<'_> {
        self.slots.edit(at, &self.settings)
    }

    /// The slot of this very life.
    pub(crate) fn life(&mut self, worker: WorkerId) -> Option<Edit<'_>> {
        let at = self.slots.find(worker)?;
        Some(self.edit(at))
    }

    /// The slot at this position, with the settings of the pool and what the pool learns from its lives.
    pub(crate) fn lesson(&mut self, at: usize) -> (&PoolSettings, Edit<'_>, Lessons<'_>) {
        let Pool { settings, slots, boots, unknown, ahead, .. } = self;
        (settings, slots.edit(at, settings), Lessons { boots, unknown, ahead })
    }

    /// The slot that holds this lease.
    pub(crate) fn holder(&mut self, job: &JobId, fence: Fence) -> Option<Edit<'_>> {
        let holds = |at: &usize| self.slots[*at].leased().any(|running| running.is(job, fence));
        let at = self.slots.index().holders(job).find(holds)?;
        Some(self.edit(at))
    }
}

/// What happens to all slots, or to those whose time has come.
impl Pool {
    /// A life of an earlier supervisor takes its slot, or one more until it is proven dead.
    pub(crate) fn inherit(&mut self, now: Instant, mut inherited: Slot) {
        let is_place = |slot: &Slot| slot.id().slot == inherited.id().slot && slot.is_down();
        let at = self.slots.iter().position(is_place);
        // If the slot was not wanted, it stays empty afterwards.
        if !at.is_some_and(|at| self.slots[at].is_wanted()) {
            inherited.let_go(now, Why::Scaled);
        }
        match at {
            Some(at) => *self.edit(at) = inherited,
            None => _ = self.slots.push(inherited, &self.settings),
        }
    }

    /// Takes a time in which this process did not run out of all times that run.
    pub(crate) fn bear(&mut self, now: Instant, gap: Gap) {
        self.slots.edit_all(&self.settings, |slot| slot.bear(now, gap));
    }

    /// The supervisor stops: whatever was to be killed later is killed at `deadline`.
    pub(crate) fn end_by(&mut self, deadline: Instant) {
        self.slots.edit_all(&self.settings, |slot| slot.end_by(deadline));
    }

    /// Ends jobs that run too long, sends each worker the signal that is due or the job that waits for it, and arms its
    /// self-fence.
    pub(crate) fn tend(
        &mut self,
        now: Instant,
        stop: Option<&Stopping>,
        room_for: RoomFor,
        orders: &mut VecDeque<Command>,
    ) {
        let settings = &self.settings;
        self.slots.tend(now, settings, stop, |slot| {
            // In this order: a late job makes a signal due, and a worker that got one takes no waiting job.
            slot.end_late_jobs(now, settings, orders);
            if let Some(signal) = slot.due_signal(now, settings, stop) {
                let kill_at = now + signal.1.grace(settings);
                let kill_at = stop.map_or(kill_at, |stop| stop.kill_by(kill_at));
                slot.send(now, signal, kill_at, orders);
            }
            slot.assign_waiting(now, settings, room_for, orders);
            // Last, because the self-fence depends on the jobs that the slot has now.
            slot.arm(now, settings, orders);
        });
    }

    /// The leases to renew now: from here on their renewal is under way.
    pub(crate) fn begin_renewals(&mut self, now: Instant) -> Vec<Lease> {
        let mut due = Vec::new();
        for at in self.slots.due(now) {
            let mut slot = self.edit(at);
            due.extend(slot.leased_mut().filter_map(|running| running.begin_renewal(now)));
        }
        due
    }

    /// The leases that end too soon to wait for their renewal.
    pub(crate) fn late_leases(&self, now: Instant) -> impl Iterator<Item = Lease> {
        let jobs = self.slots.due(now).into_iter().flat_map(|at| self.slots[at].fenced(&self.settings));
        let is_late = move |running: &&Running| running.fence_at(self.settings.grace) <= now;
        jobs.filter(|running| running.is_ours()).filter(is_late).map(|running| running.lease().clone())
    }

    /// Ends the job, if it runs here under this lease. Gives whether it does.
    pub(crate) fn end_running(
        &mut self,
        now: Instant,
        (job, fence): (&JobId, Fence),
        why: Why,
        orders: &mut VecDeque<Command>,
    ) -> bool {
        let find = |at: usize| Some((at, self.slots[at].running(job, fence)?));
        let Some((at, index)) = self.slots.index().holders(job).find_map(find) else { return false };
        let mut slot = self.edit(at);
        let settings = slot.settings();
        slot.end_job(now, index, why, settings, orders);
        true
    }

    /// A fork of the template has run a job.
    pub(crate) fn note_good_fork(&mut self, template: WorkerId) {
        let at = self.slots.find(template).filter(|at| !self.slots[*at].has_forked_well());
        // With each job: an edit has its price, and there is something to note once.
        if let Some(at) = at {
            self.edit(at).note_good_fork();
        }
    }
}

/// What decisions of the whole supervisor ask about the slots.
impl Pool {
    /// The slots, for people and for the log.
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The position of this very life.
    pub(crate) fn find(&self, worker: WorkerId) -> Option<usize> {
        self.slots.find(worker)
    }

    /// Whether the index of the slots is right.
    pub(crate) fn is_indexed(&self) -> bool {
        self.slots.is_indexed(&self.settings)
    }

    /// When to start a life, to change the size, or to fetch or release jobs next.
    pub(crate) fn due(&self) -> Option<Instant> {
        let size = [self.start_at(), self.grow_at(), self.shrink_at(), self.worn_at()];
        size.into_iter().chain([self.fetch_at(), self.give_back_ahead_at()]).flatten().min()
    }

    /// When a slot needs something next.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        self.slots.index().wakes.first().map(|(at, _)| at)
    }

    /// Whether a worker has jobs or takes some.
    pub(crate) fn is_at_work(&self) -> bool {
        self.slots.iter().any(Slot::is_at_work)
    }

    /// Whether a slot holds the lease of a job.
    pub(crate) fn has_leases(&self) -> bool {
        self.slots.index().has_leases()
    }

    /// Whether a process may still be ended in time.
    pub(crate) fn has_mortals(&self) -> bool {
        self.slots.iter().any(|slot| !slot.is_down() && !slot.is_stuck())
    }

    /// Whether a process does not die.
    pub(crate) fn has_stuck(&self) -> bool {
        self.slots.iter().any(Slot::is_stuck)
    }

    /// Whether this job is here, under whichever lease.
    pub(crate) fn has(&self, job: &JobId) -> bool {
        self.slots.index().holders(job).next().is_some() || self.ahead.has(job)
    }

    /// Whether a lease of a job that runs here may have ended, so that only the broker knows who holds it.
    pub(crate) fn is_in_doubt(&self, now: Instant) -> bool {
        self.slots.index().doubts.first().is_some_and(|(at, _)| at <= now)
    }

    /// Whether the life waits to be forked by a template that ends as planned.
    pub(crate) fn is_left_by_its_template(&self, at: usize) -> bool {
        self.template().is_some_and(|template| template.goes_before_it_forks(&self.slots[at]))
    }

    /// The generations of all lives that the slots have had or will have next.
    pub(crate) fn generations(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().map(|slot| slot.id().generation)
    }

    /// Why no job begins here: the workers fail to boot, or a job could not be begun this many times in a row in each
    /// slot.
    pub(crate) fn cannot_run(&self, tries: u32) -> Option<&str> {
        self.boots.probing.as_deref().or_else(|| {
            let mut slots = self.slots.iter().filter(|slot| !slot.is_template() && slot.is_wanted());
            let why = slots.next()?.cannot_begin(tries)?;
            slots.all(|slot| slot.cannot_begin(tries).is_some()).then_some(why)
        })
    }
}
