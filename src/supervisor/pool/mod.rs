//! A set of equal workers: its slots, and the lives started in them.
//!
//! This file has what a pool is; the others of the folder what it does: `starting` begins lives, `filling` decides how
//! many, `exchange` which are worn out, `heir` how a second pool replaces the first, `fetch` and `assign` bring jobs to
//! them, `tend` looks after slots. Only this folder reads and writes the fields.

mod ahead;
mod assign;
mod changes;
mod exchange;
mod fetch;
mod filling;
mod heir;
mod index;
mod intake;
mod size;
mod slots;
mod starting;
mod status;
mod tend;

use std::time::Duration;

use crate::classes::{self, Unknown};
use crate::restart::{Boots, Random};
use crate::slot::{self, Running, Slot};
use crate::unsettled::Unsettled;
use crate::wear::Wear;
use ahead::Ahead;
use index::Kind;
use intake::Intake;
use model::{Fence, Instant, Job, JobId, Outcome, PoolSettings, SlotId, Verdict, WorkerId};
use size::Size;
use slots::Slots;

pub(crate) use assign::PAUSE;
pub(crate) use slots::Edit;

/// A set of equal slots.
#[derive(Debug)]
pub(crate) struct Pool {
    number: u16,
    settings: PoolSettings,
    slots: Slots,
    intake: Intake,
    boots: Boots,
    size: Size,
    unknown: Unknown,
    ahead: Ahead,
    /// The settings as configured; a person may have asked for another size since.
    configured: PoolSettings,
    /// Number of this pool among all that there ever were, counted from 1.
    age: u64,
    /// Its position in the settings, by which people see the pools.
    rank: usize,
    /// Whether the pool ends, as soon as its heir can replace it.
    outdated: bool,
    /// Why its only worker is worn out, if it ends for that.
    worn: Option<Wear>,
    /// Whether the pool replaces another one: then it starts a quarter of its workers at a time.
    rolling: bool,
    first_generation: u32,
    since: Instant,
}

/// What a pool learns from one of its lives.
pub(crate) struct Lessons<'a> {
    boots: &'a mut Boots,
    unknown: &'a mut Unknown,
    ahead: &'a mut Ahead,
}

impl Lessons<'_> {
    /// A life became ready.
    pub(crate) fn ready(&mut self, is_template: bool) {
        // A template that boots proves nothing yet: only its forks run jobs.
        self.boots.succeeded(!is_template);
    }

    /// A life died before it was ready.
    pub(crate) fn died_unready(&mut self, now: Instant) {
        self.boots.died(now);
    }

    /// A job has run for this time.
    pub(crate) fn ran(&mut self, time: Duration) {
        self.ahead.finished(time);
    }

    /// A worker has said how a job ended, and so whether it knows the class.
    pub(crate) fn heard(&mut self, job: &Job, outcome: &Outcome) {
        self.unknown.heard(job, outcome);
    }
}

impl Pool {
    /// The `age`th pool; its first lives have this generation.
    pub(crate) fn new(number: u16, age: u64, settings: PoolSettings, generation: u32, now: Instant) -> Self {
        // Slot 0 is the template's.
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
            age,
            rank: usize::from(number),
            outdated: false,
            worn: None,
            rolling: false,
            first_generation: generation,
            since: now,
            settings,
        }
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    pub(crate) fn name(&self) -> &str {
        &self.settings.name
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> &PoolSettings {
        &self.settings
    }

    /// The settings as configured; a person may have asked for another size since.
    pub(crate) fn configured(&self) -> &PoolSettings {
        &self.configured
    }

    /// Number of this pool among all that there ever were.
    pub(crate) fn age(&self) -> u64 {
        self.age
    }

    /// Where people see the pool among the others.
    pub(crate) fn standing(&self) -> impl Ord {
        (self.rank, self.age)
    }

    /// The least number of workers.
    fn min_workers(&self) -> u16 {
        self.settings.min_workers.unwrap_or(self.settings.workers)
    }

    /// The slot of the template, if the pool has one.
    pub(crate) fn template(&self) -> Option<&Slot> {
        self.slots.first().filter(|slot| slot.is_template())
    }

    /// The workers with room, each as often as it has room; the least loaded first.
    fn room(&self) -> Vec<WorkerId> {
        let mut room: Vec<(usize, WorkerId)> = Vec::new();
        for at in self.slots.index().room.positions() {
            let slot = &self.slots[at];
            let load = slot.load();
            room.extend((load..load + slot.room(&self.settings)).map(|load| (load, slot.id())));
        }
        room.sort();
        room.into_iter().map(|(_, worker)| worker).collect()
    }

    /// The slot of a worker with room: the one meant, or the least loaded one.
    fn place(&self, meant: Option<WorkerId>) -> Option<usize> {
        let meant = meant.and_then(|meant| self.with_room(meant));
        meant.or_else(|| self.slots.index().room.first().map(|(_, at)| at))
    }

    /// The slot of this life, if it has room.
    fn with_room(&self, worker: WorkerId) -> Option<usize> {
        self.slots.find(worker).filter(|at| self.slots[*at].room(&self.settings) > 0)
    }

    /// The slot for a job that must run alone: an empty one, else the one reserved for such jobs, else one to reserve
    /// from now on.
    fn place_alone(&self) -> Option<usize> {
        let most = self.settings.jobs_at_once as usize;
        let least_loaded = self.slots.index().room.first();
        let kept = self.slots.index().all(Kind::Closed).find(|at| self.slots[*at].is_at_work());
        match (least_loaded, kept) {
            (Some((0, at)), _) => Some(at),
            // No second slot is reserved: the others go on with jobs that have not crashed.
            (_, Some(at)) => (self.slots[at].leased().count() < most).then_some(at),
            (least_loaded, None) => least_loaded.map(|(_, at)| at),
        }
    }

    /// Takes out the job, if it waits for a worker.
    pub(crate) fn take_waiting(&mut self, now: Instant, job: &JobId, fence: Fence) -> Option<Running> {
        if let Some(kept) = self.ahead.take(job, fence) {
            return Some(kept);
        }
        let waits = |at: &usize| self.slots[*at].has_waiting_job(job, fence);
        let at = self.slots.index().holders(job).find(waits)?;
        let is_it = |waiting: &Running| waiting.is(job, fence);
        self.slots.edit(at, &self.settings).take_waiting(now, is_it, &self.settings)
    }

    /// Whether some worker has room for a job.
    fn has_room(&self) -> bool {
        !self.slots.index().room.is_empty()
    }

    /// Releases the waiting jobs that no worker will run soon. Refuses those whose class no worker knows any more.
    pub(crate) fn give_back(
        &mut self,
        now: Instant,
        stopping: bool,
        random: &mut Random,
        unsettled: &mut Unsettled,
    ) {
        let cannot_fork = self.template().is_some_and(|template| !template.has_booted());
        for at in self.slots.waiting().collect::<Vec<_>>() {
            let mut slot = self.slots.edit(at, &self.settings);
            let is_down = slot.is_down();
            // No worker comes up here soon: another slot or host may have the jobs earlier.
            let in_vain = stopping || cannot_fork && is_down || !slot.has_booted();
            let in_vain = in_vain || slot.is_stuck() || slot.is_leaving();
            // The broker has recorded the life for which a suspect was fetched, and that life is over.
            let leaves = |waiting: &Running| in_vain || is_down && waiting.is_suspect_of_all();
            let back = |waiting: &Running| leaves(waiting) || !classes::knows(&self.settings, waiting.job());
            while let Some(job) = slot.take_waiting(now, back, &self.settings) {
                let verdict = match leaves(&job) {
                    true => Verdict::Release { after: Duration::ZERO, counts: None },
                    false => self.unknown.refuse(job.job(), random),
                };
                unsettled.add(now, self.number, slot::unstarted(job.lease(), verdict));
            }
        }
    }
}
