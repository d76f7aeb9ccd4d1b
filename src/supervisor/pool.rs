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
use super::unsettled::Unsettled;
use super::wear::Wears;
use super::worker::{Slot, State};
use crate::model::{CutOff, Fence, Instant, JobId, PoolSettings, SlotId, Verdict, WorkerId};

/// A set of equal slots.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) number: u16,
    pub(super) settings: PoolSettings,
    pub(super) slots: Vec<Slot>,
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
    /// Whether the pool replaces another one: then it starts a quarter of its workers at a time.
    pub(super) rolling: bool,
    pub(super) first_generation: u32,
    pub(super) since: Instant,
}

impl Pool {
    pub(super) fn new(number: u16, settings: PoolSettings, generation: u32, now: Instant) -> Self {
        let mut pool = Pool {
            number,
            slots: Vec::new(),
            intake: Intake::new(now, &settings),
            boots: Boots::default(),
            size: Size::new(),
            unknown: Unknown::default(),
            ahead: Ahead::default(),
            configured: settings.clone(),
            age: 0,
            rank: usize::from(number),
            outdated: false,
            rolling: false,
            first_generation: generation,
            since: now,
            settings,
        };
        let (first, min) = (u16::from(!pool.settings.template), pool.min_workers());
        let slot = |index| {
            let start = (index <= min).then_some(now);
            Slot::new(SlotId { pool: number, index }, generation, now, start)
        };
        pool.slots = (first..=pool.settings.workers).map(slot).collect();
        pool
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
        for slot in &self.slots {
            let load = slot.jobs.len();
            room.extend((load..load + slot.room(&self.settings)).map(|load| (load, slot.id)));
        }
        room.sort();
        room.into_iter().map(|(_, worker)| worker).collect()
    }

    /// The slot of a worker with room: the one meant, or the least loaded one.
    pub(super) fn place(&self, meant: Option<WorkerId>) -> Option<usize> {
        let with_room = || self.slots.iter().filter(|slot| slot.room(&self.settings) > 0);
        let meant = with_room().find(|slot| Some(slot.id) == meant);
        let found = meant.or_else(|| with_room().min_by_key(|slot| slot.jobs.len()))?.id;
        self.slots.iter().position(|slot| slot.id == found)
    }

    /// The slot for a job that must run alone: an empty one, else the one reserved for such jobs, else one to reserve
    /// from now on.
    pub(super) fn place_alone(&self) -> Option<usize> {
        let most = self.settings.jobs_at_once as usize;
        let least_loaded = self.slots.iter().filter(|slot| slot.room(&self.settings) > 0);
        let least_loaded = least_loaded.min_by_key(|slot| slot.jobs.len());
        let kept = self.slots.iter().find(|slot| slot.is_at_work() && slot.is_closed());
        let found = match (least_loaded, kept) {
            (Some(slot), _) if slot.jobs.is_empty() => slot.id,
            (_, Some(slot)) if slot.leased().count() < most => slot.id,
            (_, Some(_)) => return None,
            (least_loaded, None) => least_loaded?.id,
        };
        self.slots.iter().position(|slot| slot.id == found)
    }

    /// Takes out the job, if it waits for a worker.
    pub(super) fn take_waiting(&mut self, now: Instant, job: &JobId, fence: Fence) -> Option<Running> {
        if let Some(kept) = self.ahead.take(job, fence) {
            return Some(kept);
        }
        let is_it = |waiting: &Running| waiting.is(job, fence);
        self.slots.iter_mut().find_map(|slot| slot.take_waiting(now, is_it, &self.settings))
    }

    /// Whether some worker has room for a job.
    pub(super) fn has_room(&self) -> bool {
        self.slots.iter().any(|slot| slot.room(&self.settings) > 0)
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
        while let Some(slot) = self.next_start().filter(|slot| slot.deadline.is_some_and(|due| due <= now)) {
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
        let slot = &mut self.slots[at];
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
        self.startable().filter_map(|slot| slot.deadline).min()
    }

    fn next_start(&mut self) -> Option<&mut Slot> {
        let next = self.startable().min_by_key(|slot| slot.deadline)?.id;
        self.slots.iter_mut().find(|slot| slot.id == next)
    }

    /// The slots that may start. All that are down, but: without a ready template only that; while probing only one;
    /// while replacing another pool a quarter; while no worker takes jobs [`BOOTS`].
    fn startable(&self) -> impl Iterator<Item = &Slot> {
        let most = match (&self.boots.probing, self.rolling) {
            (Some(_), _) => 1,
            (None, true) => (self.places().count() / 4).max(1),
            (None, false) => usize::MAX,
        };
        let most = if self.slots.iter().any(Slot::works_on) { most } else { most.min(BOOTS) };
        let at_once = most.saturating_sub(self.slots.iter().filter(|slot| slot.is_booting()).count());
        let can_fork = self.template().is_none_or(|template| template.state == State::Ready);
        let wanted = |slot: &&Slot| slot.state == State::Down && slot.is_wanted();
        let down = self.slots.iter().filter(wanted);
        down.filter(move |slot| can_fork || slot.is_template()).take(at_once)
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
        for slot in &mut self.slots {
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
