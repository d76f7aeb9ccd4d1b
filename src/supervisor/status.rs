//! What the status shows to people.

use std::sync::Arc;

use super::jobs::{Phase, Running};
use super::pool::Pool;
use super::worker::{Slot, State};
use model::{
    Class, Fit, Instant, Job, JobId, Payload, PoolStatus, RunningJob, SlotName, SlotState, SlotStatus,
};

impl Pool {
    /// Whether the pool takes jobs of a class.
    pub(super) fn fit_of(&self, class: Option<&Class>) -> Fit {
        let settings = &self.settings;
        match class {
            Some(class) if !settings.filter.matches(class) => Fit::Filtered,
            Some(class) if settings.knows.as_ref().is_some_and(|known| !known.contains_key(class)) => {
                Fit::Unknown
            }
            Some(_) | None => Fit::Runs,
        }
    }

    pub(super) fn status(&self, now: Instant, suspect: Option<&JobId>) -> PoolStatus {
        let slots = self.slots.iter().filter(|slot| !slot.is_template() && slot.is_wanted());
        let name = &Arc::from(self.settings.name.as_str());
        PoolStatus {
            name: self.settings.name.clone(),
            mode: self.settings.mode().into(),
            queues: self.settings.queues.clone(),
            concurrency: self.settings.jobs_at_once,
            user: None,
            probing: self.boots.probing.clone(),
            paused: self.intake.paused,
            pause: None,
            suspect: suspect.cloned(),
            outdated: self.outdated,
            time_of_day: None,
            scaled: self.is_scaled().then_some(self.settings.workers),
            scaled_by: None,
            recycled: None,
            template: self.template().map(|template| template.status(now, name)),
            grace: self.settings.grace,
            unknown: self.unknown.counts(),
            slots: slots.map(|slot| slot.status(now, name)).collect(),
        }
    }
}

impl Slot {
    fn status(&self, now: Instant, pool: &Arc<str>) -> SlotStatus {
        SlotStatus {
            slot: SlotName::new(pool.clone(), self.id.slot.index),
            place: self.id.slot,
            generation: self.id.generation,
            state: self.shown(),
            age: now.since(self.since),
            until: self.deadline.filter(|at| !self.awaits_turn(now, *at)).map(|at| at.since(now)),
            jobs: self.jobs.iter().map(|running| running.status(now)).collect(),
            waits: self.waits.iter().map(|waiting| waiting.job.id.clone()).collect(),
            failing: self.failing,
            restarts: self.restarts,
            leaving: self.life.leaving.map(|why| why.as_str().into()),
            why: self.life.stuck.clone().or_else(|| self.why.clone()),
            trace: None,
            warning: None,
            process: None,
        }
    }

    /// Whether the next life is due and waits for its turn, as a recycle starts only a few at a time.
    fn awaits_turn(&self, now: Instant, deadline: Instant) -> bool {
        self.state == State::Down && deadline <= now
    }

    fn shown(&self) -> SlotState {
        match self.state {
            State::Down => SlotState::Down,
            State::Starting => SlotState::Starting,
            State::Ready => SlotState::Ready,
            State::Busy => SlotState::Busy,
            State::Stopping(_) => SlotState::Stopping,
            State::Killed(_) if self.life.stuck.is_none() => SlotState::Killed,
            State::Killed(_) | State::Unproven => SlotState::Unkillable,
        }
    }
}

impl Running {
    fn status(&self, now: Instant) -> RunningJob {
        let ending = match &self.phase {
            Phase::Runs | Phase::Said(_) => None,
            Phase::Ends(why) => Some(why.as_str().into()),
        };
        RunningJob {
            id: self.job.id.clone(),
            class: self.job.class.clone(),
            title: title(&self.job),
            attempt: self.job.attempt,
            ran: now.since(self.since),
            time_limit: self.limits.time,
            ending,
            alone: self.alone,
            died_before: self.died_before.as_deref().cloned(),
            progress: None,
        }
    }
}

/// A program by its name and arguments, anything else by its class.
fn title(job: &Job) -> String {
    const LONGEST: usize = 80;
    match &job.payload {
        Payload::Exec(exec) => {
            let words: Vec<_> = exec.argv.iter().map(|word| word.to_text()).collect();
            words.join(" ").chars().take(LONGEST).collect()
        }
        Payload::Data(_) => job.class.to_string(),
    }
}
