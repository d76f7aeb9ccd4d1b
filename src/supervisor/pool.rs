//! A set of equal workers: its slots, and the lives started in them.

use std::collections::VecDeque;
use std::time::Duration;

use super::Command;
use super::ahead::Ahead;
use super::classes::{self, Unknown};
use super::intake::Intake;
use super::jobs::{self, MARGIN, Running};
use super::restart::{BOOTS, Boots, Random};
use super::size::Size;
use super::slots::Slots;
use super::unsettled::Unsettled;
use super::wear::{Wear, Wears};
use super::worker::{Slot, State};
use model::{CutOff, Fence, Instant, JobId, PoolSettings, SlotId, Verdict, WorkerId};

/// A set of equal slots.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) number: u16,
    pub(super) settings: PoolSettings,
    pub(super) slots: Slots,
    pub(super) intake: Intake,
    pub(super) boots: Boots,
    pub(super) size: Size,
    pub(super) unknown: Unknown,
    pub(super) ahead: Ahead,
    /// The settings as configured; a person may have asked for another size since.
    pub(super) configured: PoolSettings,
    /// Number of this pool among all that there ever were, counted from 1.
    pub(super) age: u64,
    /// Its position in the settings, by which people see the pools.
    pub(super) rank: usize,
    /// Whether the pool ends, as soon as its heir can replace it.
    pub(super) outdated: bool,
    /// Why its only worker is worn out, if it ends for that.
    pub(super) worn: Option<Wear>,
    /// Whether the pool replaces another one: then it starts a quarter of its workers at a time.
    pub(super) rolling: bool,
    pub(super) first_generation: u32,
    pub(super) since: Instant,
}

impl Pool {
    pub(super) fn new(number: u16, settings: PoolSettings, generation: u32, now: Instant) -> Self {
        let (first, min) = (u16::from(!settings.template), settings.min_workers.unwrap_or(settings.workers));
        let slot = |index| {
            let start = (index <= min).then_some(now);
            Slot::new(SlotId { pool: number, index }, generation, now, start)
        };
        let slots = (first..=settings.workers).map(slot).collect();
        Pool {
            number,
            slots: Slots::new(slots, &settings),
            intake: Intake::new(now, &settings),
            boots: Boots::default(),
            size: Size::new(),
            unknown: Unknown::default(),
            ahead: Ahead::default(),
            configured: settings.clone(),
            age: 0,
            rank: usize::from(number),
            outdated: false,
            worn: None,
            rolling: false,
            first_generation: generation,
            since: now,
            settings,
        }
    }

    /// The least number of workers.
    pub(super) fn min_workers(&self) -> u16 {
        self.settings.min_workers.unwrap_or(self.settings.workers)
    }

    /// The slot of the template, if the pool has one.
    pub(super) fn template(&self) -> Option<&Slot> {
        self.slots.first().filter(|slot| slot.is_template())
    }

    /// The workers with room, each as often as it has room; the least loaded first.
    pub(super) fn room(&self) -> Vec<WorkerId> {
        let mut room: Vec<(usize, WorkerId)> = Vec::new();
        for at in self.slots.index().room.positions() {
            let slot = &self.slots[at];
            let load = slot.jobs.len();
            room.extend((load..load + slot.room(&self.settings)).map(|load| (load, slot.id)));
        }
        room.sort();
        room.into_iter().map(|(_, worker)| worker).collect()
    }

    /// The slot of a worker with room: the one meant, or the least loaded one.
    pub(super) fn place(&self, meant: Option<WorkerId>) -> Option<usize> {
        let meant = meant.and_then(|meant| self.with_room(meant));
        meant.or_else(|| self.slots.index().room.first().map(|(_, at)| at))
    }

    /// The slot of this life, if it has room.
    pub(super) fn with_room(&self, worker: WorkerId) -> Option<usize> {
        self.slots.find(worker).filter(|at| self.slots[*at].room(&self.settings) > 0)
    }

    /// The slot for a job that must run alone: an empty one, else the one reserved for such jobs, else one to reserve
    /// from now on.
    pub(super) fn place_alone(&self) -> Option<usize> {
        let most = self.settings.jobs_at_once as usize;
        let least_loaded = self.slots.index().room.first();
        let is_kept = |at: &usize| self.slots[*at].is_at_work() && self.slots[*at].is_closed();
        let kept = self.slots.index().leased.positions().find(is_kept);
        match (least_loaded, kept) {
            (Some((0, at)), _) => Some(at),
            (_, Some(at)) => (self.slots[at].leased().count() < most).then_some(at),
            (least_loaded, None) => least_loaded.map(|(_, at)| at),
        }
    }

    /// Takes out the job, if it waits for a worker.
    pub(super) fn take_waiting(&mut self, now: Instant, job: &JobId, fence: Fence) -> Option<Running> {
        if let Some(kept) = self.ahead.take(job, fence) {
            return Some(kept);
        }
        let is_it = |waiting: &Running| waiting.is(job, fence);
        let at = self.slots.index().holders(job).find(|at| self.slots[*at].waits.iter().any(is_it))?;
        self.slots.edit(at, &self.settings).take_waiting(now, is_it, &self.settings)
    }

    /// Whether some worker has room for a job.
    pub(super) fn has_room(&self) -> bool {
        !self.slots.index().room.is_empty()
    }

    /// Starts lives in the slots that are down and due.
    pub(super) fn keep_up(
        &mut self,
        now: Instant,
        lease: Duration,
        random: &mut Random,
        orders: &mut VecDeque<Command>,
    ) {
        let rules = self.settings.recycle;
        let boot_timeout = self.settings.boot_timeout;
        // A worker of one job that will have it at once: the order to make it brings its self-fence and orders the
        // lives after it.
        let has_work = self.intake.maybe_waiting || !self.ahead.is_empty();
        let in_demand = self.settings.jobs_per_life == Some(1) && has_work;
        let fence = self.fence_ahead(lease);
        let template = self.template().map(|template| template.id);
        let is_due = |at: &usize| self.slots[*at].deadline.is_some_and(|due| due <= now);
        let mut due: Vec<usize> = self.startable().filter(is_due).collect();
        due.sort_by_key(|at| self.slots[*at].deadline);
        for at in due {
            let mut slot = self.slots.edit(at, &self.settings);
            let template = template.filter(|_| !slot.is_template());
            slot.start(now, boot_timeout, template, Wears::draw(rules, random));
            match template {
                Some(template) => orders.push_back(Command::Fork(slot.id, template)),
                None => {
                    orders.push_back(Command::Spawn(slot.id));
                    if in_demand && !slot.is_template() {
                        slot.be_followed(now, fence, orders);
                    }
                }
            }
        }
    }

    /// The keeper has made this life by itself after the one before. So it takes its slot, and ends if it came before
    /// the wait was over. If the slot is not wanted, the life leaves as any other.
    pub(super) fn followed(&mut self, now: Instant, at: usize, lease: Duration, random: &mut Random) {
        let (boot_timeout, fence) = (self.settings.boot_timeout, self.fence_ahead(lease));
        let mut slot = self.slots.edit(at, &self.settings);
        if slot.state != State::Down {
            return;
        }
        let due = slot.deadline;
        slot.start(now, boot_timeout, None, Wears::draw(self.settings.recycle, random));
        slot.life.armed = fence.map(|fence| now + fence);
        if let Some(due) = due.filter(|due| *due > now) {
            slot.wait_instead(due);
        }
    }

    /// How long a life that has no job yet may last, so that the job is dead before its lease ends. The job may have
    /// been fetched a moment before.
    fn fence_ahead(&self, lease: Duration) -> Option<Duration> {
        let fence = lease.saturating_sub(MARGIN + lease / 16);
        (self.settings.when_cut_off == CutOff::Kill).then_some(fence)
    }

    /// When the next start is due.
    pub(super) fn start_at(&self) -> Option<Instant> {
        self.startable().filter_map(|at| self.slots[at].deadline).min()
    }

    /// The slots that may start. All that are down, but: without a ready template only that; while probing only one;
    /// while replacing another pool a quarter; while no worker takes jobs [`BOOTS`].
    fn startable(&self) -> impl Iterator<Item = usize> {
        let index = self.slots.index();
        let most = match (&self.boots.probing, self.rolling) {
            (Some(_), _) => 1,
            (None, true) => (self.filled() / 4).max(1),
            (None, false) => usize::MAX,
        };
        let most = if index.working.is_empty() { most.min(BOOTS) } else { most };
        let at_once = most.saturating_sub(index.booting.len());
        let can_fork = self.template().is_none_or(|template| template.state == State::Ready);
        let down = index.down.positions();
        down.filter(move |at| can_fork || self.slots[*at].is_template()).take(at_once)
    }

    /// Releases the waiting jobs that no worker will run soon. Refuses those whose class no worker knows any more.
    pub(super) fn give_back(
        &mut self,
        now: Instant,
        stopping: bool,
        random: &mut Random,
        unsettled: &mut Unsettled,
    ) {
        let cannot_fork = self.template().is_some_and(|template| !template.booted);
        for at in self.slots.index().waits.positions().collect::<Vec<_>>() {
            let mut slot = self.slots.edit(at, &self.settings);
            let down = cannot_fork && slot.state == State::Down;
            let in_vain = stopping || down || !slot.booted || slot.life.stuck.is_some();
            let in_vain = in_vain || slot.life.leaving.is_some();
            let is_down = slot.state == State::Down;
            let leaves = |waiting: &Running| in_vain || is_down && waiting.is_suspect_of_all();
            let back = |waiting: &Running| leaves(waiting) || !classes::knows(&self.settings, &waiting.job);
            while let Some(job) = slot.take_waiting(now, back, &self.settings) {
                let verdict = match leaves(&job) {
                    true => Verdict::Release { after: Duration::ZERO, counts: None },
                    false => self.unknown.refuse(&job.job, random),
                };
                unsettled.add(now, self.number, jobs::unstarted(&job.lease, verdict));
            }
        }
    }
}
