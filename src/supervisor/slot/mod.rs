//! A slot: the place in which one worker lives at a time, from the order to make it to the proof that it is dead.
//!
//! Only this folder reads and writes the fields. `state` says what is in the slot, `life` what is known of the worker in
//! it, `record` what of those before it; `signals` decides on TERM and KILL, `jobs` on its jobs, `fence` on its
//! self-fence, `gap` on time that did not pass.

mod end;
mod fence;
mod gap;
mod jobs;
mod life;
mod record;
mod running;
mod signals;
mod stand;
mod state;
mod status;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use crate::why::Why;
use life::Life;
use model::{Instant, PoolSettings, SlotId, Unproven, WorkerId};
use record::Record;
use state::State;

use crate::wear::{Wear, Wears};
pub(crate) use gap::Gap;
pub(crate) use jobs::RoomFor;
pub(crate) use life::End;
pub(crate) use running::{Heard, MARGIN, Phase, Running, fence_at, release, unstarted};

/// A place in which one worker lives at a time.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The life in the slot; while the slot is down, the next one.
    id: WorkerId,
    state: State,
    /// When the slot came into that state.
    since: Instant,
    /// The jobs that the slot runs. As the slot owns them, a job is in one slot only.
    jobs: Vec<Running>,
    /// Jobs that will run here without company, one after the other, once the others have ended.
    waits: VecDeque<Running>,
    life: Life,
    record: Record,
}

/// Makes a slot, and says what it is.
impl Slot {
    /// An empty slot; it wants a worker at `start`, if at all.
    pub(crate) fn new(slot: SlotId, generation: u32, now: Instant, start: Option<Instant>) -> Self {
        Slot {
            id: WorkerId { slot, generation },
            state: State::down(start),
            since: now,
            jobs: Vec::new(),
            waits: VecDeque::new(),
            life: Life::new(now),
            record: Record::new(),
        }
    }

    /// The slot of a life that belonged to an earlier supervisor and of which a process still lives. Its jobs are ours
    /// until that is proven dead.
    pub(crate) fn inherited(now: Instant, life: Unproven, lease: Duration) -> Self {
        let Unproven { worker, cause, jobs } = life;
        let mut slot = Slot::new(worker.slot, worker.generation, now, None);
        slot.state = State::Killed { why: Why::Orphaned, stuck: Some(cause) };
        slot.jobs = jobs.into_iter().map(|job| Running::orphaned(now, job, lease)).collect();
        slot
    }

    /// The life in the slot; while the slot is down, the next one.
    pub(crate) fn id(&self) -> WorkerId {
        self.id
    }

    /// Whether this is the slot of the template that forks the others; it never gets a job.
    pub(crate) fn is_template(&self) -> bool {
        self.id.slot.index == 0
    }

    /// Whether no process is in the slot.
    pub(crate) fn is_down(&self) -> bool {
        self.state.is_down()
    }

    /// When the next life may start, if the slot is down and wants one.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        match self.state {
            State::Due { at } => Some(at),
            State::Empty | State::Starting { .. } | State::Working { .. } => None,
            State::Stopping { .. } | State::Killed { .. } | State::Unproven { .. } => None,
        }
    }

    /// Whether the slot has a worker, or wants one.
    pub(crate) fn is_wanted(&self) -> bool {
        !matches!(self.state, State::Empty)
    }

    /// Whether a life is being made.
    pub(crate) fn is_starting(&self) -> bool {
        matches!(self.state, State::Starting { .. })
    }

    /// Whether the life has yet to take jobs.
    pub(crate) fn is_to_come(&self) -> bool {
        self.is_down() || self.is_starting()
    }

    /// Whether the worker is ready and has room for a job.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.state, State::Working { busy: false, .. })
    }

    /// Whether the worker has jobs or takes some.
    pub(crate) fn is_at_work(&self) -> bool {
        self.state.is_at_work()
    }

    /// Whether the worker takes jobs, and is not leaving.
    pub(crate) fn works_on(&self) -> bool {
        self.is_at_work() && !self.is_template() && self.life.leaving.is_none()
    }

    /// Whether a process of the slot does not die.
    pub(crate) fn is_stuck(&self) -> bool {
        self.state.stuck().is_some()
    }

    /// Whether a worker has become ready here, and none has failed to since.
    pub(crate) fn has_booted(&self) -> bool {
        self.record.is_booted()
    }

    /// Whether the life takes no more jobs and ends after those that it has.
    pub(crate) fn is_leaving(&self) -> bool {
        self.life.leaving.is_some()
    }

    /// Whether the slot will run the jobs fetched ahead.
    pub(crate) fn lasts(&self) -> bool {
        let runs = matches!(self.state, State::Working { .. } | State::Stopping { .. });
        runs && !self.is_template() && !self.is_leaving_for_good()
    }

    /// Whether the slot stays empty after this life.
    pub(crate) fn is_leaving_for_good(&self) -> bool {
        self.state.ended_for().into_iter().chain(self.life.leaving).any(Why::empties_the_place)
    }

    /// Whether the life is on its way to its first ready, or dies because it did not get there.
    pub(crate) fn is_booting(&self) -> bool {
        match self.state {
            State::Starting { .. }
            | State::Stopping { why: Why::Boot, .. }
            | State::Killed { why: Why::Boot | Why::Fault, .. }
            | State::Unproven { .. } => !self.life.ready,
            State::Empty | State::Due { .. } | State::Working { .. } => false,
            State::Stopping { .. } | State::Killed { .. } => false,
        }
    }

    /// The smaller, the sooner the slot can be spared: first empty slots, then those that end, then those that start,
    /// then those with the fewest jobs; the last slot first.
    pub(crate) fn worth(&self) -> (u8, usize, Reverse<u16>) {
        let state = match self.state {
            State::Empty | State::Due { .. } => 0,
            State::Killed { .. } | State::Stopping { .. } | State::Unproven { .. } => 1,
            State::Starting { .. } => 2,
            State::Working { .. } => 3,
        };
        (state, self.leased().count(), Reverse(self.id.slot.index))
    }

    /// Why no job could be begun here, at least this many lives in a row.
    pub(crate) fn cannot_begin(&self, tries: u32) -> Option<&str> {
        self.record.why_unfit(tries)
    }

    /// How many more jobs the worker can take.
    pub(crate) fn room(&self, pool: &PoolSettings) -> usize {
        match self.state {
            State::Working { .. } if self.is_template() || self.is_closed() => 0,
            State::Working { .. } if self.life.leaving.is_some() || self.life.unfit.is_some() => 0,
            State::Working { .. } => {
                let at_once = (pool.jobs_at_once as usize).saturating_sub(self.jobs.len());
                let in_life = pool.jobs_per_life.map(|limit| limit.saturating_sub(self.life.taken));
                let left = in_life.or_else(|| self.life.until_worn());
                left.map_or(at_once, |left| at_once.min(usize::try_from(left).unwrap_or(at_once)))
            }
            State::Empty | State::Due { .. } | State::Starting { .. } => 0,
            State::Stopping { .. } | State::Killed { .. } | State::Unproven { .. } => 0,
        }
    }
}

/// What happens to the worker in the slot.
impl Slot {
    /// A worker is wanted here.
    pub(crate) fn want(&mut self, at: Instant) {
        self.state = State::Due { at };
    }

    /// The next life begins.
    pub(crate) fn start(
        &mut self,
        now: Instant,
        boot_timeout: Duration,
        template: Option<WorkerId>,
        wears: Wears,
    ) {
        self.life = Life { template, wears, ..Life::new(now) };
        self.enter(State::Starting { kill_at: now + boot_timeout }, now);
    }

    /// The worker is ready to take jobs. Gives whether it was starting.
    pub(crate) fn ready(&mut self, now: Instant) -> bool {
        let begins = self.is_starting();
        if begins {
            self.life.ready = true;
            self.record.note_ready();
            self.enter(State::Working { busy: false, idle_since: now }, now);
        }
        begins
    }

    /// The worker broke the protocol and cannot be trusted any more.
    pub(crate) fn faulty(&mut self, how: String) {
        match self.state {
            State::Starting { .. } | State::Working { .. } | State::Stopping { .. } => {
                self.life.fault = Some(how);
            }
            State::Empty | State::Due { .. } | State::Killed { .. } | State::Unproven { .. } => {}
        }
    }

    /// The worker has outgrown the size at which its pool recycles it.
    pub(crate) fn outgrown(&mut self) {
        self.life.outgrown = true;
    }

    /// The life is not needed any more: it ends its jobs and goes.
    pub(crate) fn let_go(&mut self, now: Instant, why: Why) {
        match self.state {
            State::Empty | State::Due { .. } => self.enter(State::Empty, now),
            State::Starting { .. }
            | State::Working { .. }
            | State::Stopping { .. }
            | State::Killed { .. }
            | State::Unproven { .. } => self.life.leaving = Some(why),
        }
    }

    /// Whether the life leaves because its pool has fewer slots, and nothing has ended it yet.
    pub(crate) fn may_stay(&self) -> bool {
        let leaves = matches!(self.life.leaving, Some(Why::Scaled));
        leaves && (self.is_starting() || self.is_at_work())
    }

    /// The life is needed after all.
    pub(crate) fn stay(&mut self, now: Instant, pool: &PoolSettings) {
        self.life.leaving = None;
        self.weigh(now, pool);
    }

    /// The worker leaves if it is worn out.
    pub(crate) fn let_go_if_worn(&mut self, now: Instant) {
        self.life.leaving = self.wear(now).map(Why::Worn);
    }

    /// The worker says that it is to be replaced. Another reason to leave, which may leave the slot empty, goes first.
    pub(crate) fn leave_by_its_word(&mut self, now: Instant) {
        if self.life.leaving.is_none() {
            self.let_go(now, Why::OwnWord);
        }
    }

    /// The life ends, and the slot makes the next one at `due`.
    fn wait_instead(&mut self, due: Instant) {
        (self.life.leaving, self.life.next_after) = (Some(Why::Backoff), Some(due));
    }

    /// Some process of the tree does not die for this cause.
    pub(crate) fn stuck(&mut self, now: Instant, cause: String) {
        match &mut self.state {
            State::Killed { stuck, .. } => *stuck = Some(cause),
            State::Unproven { cause: known } => *known = cause,
            State::Stopping { why, .. } => {
                let why = *why;
                self.enter(State::Killed { why, stuck: Some(cause) }, now);
            }
            State::Empty | State::Due { .. } | State::Starting { .. } | State::Working { .. } => {
                self.enter(State::Unproven { cause }, now);
            }
        }
    }

    /// The supervisor stops: whatever was to be killed later is killed at `deadline`.
    pub(crate) fn end_by(&mut self, deadline: Instant) {
        if let Some(kill_at) = self.state.kill_at() {
            *kill_at = (*kill_at).min(deadline);
        }
    }

    /// The jobs have changed: notes whether the worker has room for another one, and when the last has ended.
    fn weigh(&mut self, now: Instant, pool: &PoolSettings) {
        let (is_full, has_jobs) = (self.room(pool) == 0, !self.jobs.is_empty());
        if let State::Working { busy, idle_since } = &mut self.state {
            *idle_since = if has_jobs { *idle_since } else { now };
            if *busy != is_full {
                (*busy, self.since) = (is_full, now);
            }
        }
    }

    /// Moves to a state.
    fn enter(&mut self, state: State, now: Instant) {
        (self.state, self.since) = (state, now);
    }
}

/// The wear of the worker.
impl Slot {
    /// When the life was ordered.
    pub(crate) fn born(&self) -> Instant {
        self.life.born
    }

    /// Since when the slot has held no lease, if its worker takes jobs and is not leaving.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        match self.state {
            State::Working { idle_since, .. } if self.works_on() && self.is_idle() => Some(idle_since),
            State::Working { .. } | State::Empty | State::Due { .. } | State::Starting { .. } => None,
            State::Stopping { .. } | State::Killed { .. } | State::Unproven { .. } => None,
        }
    }

    /// Why the worker is worn out, if it is.
    pub(crate) fn wear(&self, now: Instant) -> Option<Wear> {
        self.life.wear(now, self.idle_since())
    }

    /// When the worker will be worn out by the passing of time alone.
    pub(crate) fn worn_at(&self) -> Option<Instant> {
        self.life.worn_at(self.idle_since()).map(|(at, _)| at)
    }

    /// Whether the worker is worn out, however old it is.
    pub(crate) fn is_worn_by_use(&self) -> bool {
        self.life.worn_by_use().is_some()
    }
}
