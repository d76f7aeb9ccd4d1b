//! What the status shows of a slot.

use std::sync::Arc;

use super::Slot;
use super::running::{Phase, Running};
use super::state::State;
use model::{Instant, Job, Payload, RunningJob, SlotName, SlotState, SlotStatus};

impl Slot {
    /// The slot as people see it; `pool` is the name of its pool.
    pub(crate) fn status(&self, now: Instant, pool: &Arc<str>) -> SlotStatus {
        // A life that is due waits for its turn: a recycle starts only a few at a time.
        let waits_its_turn = self.due_at().is_some_and(|at| at <= now);
        SlotStatus {
            slot: SlotName::new(pool.clone(), self.id.slot.index),
            place: self.id.slot,
            generation: self.id.generation,
            state: self.shown(),
            age: now.since(self.since),
            until: self.state.deadline().filter(|_| !waits_its_turn).map(|at| at.since(now)),
            jobs: self.jobs.iter().map(|running| running.status(now)).collect(),
            waits: self.waits.iter().map(|waiting| waiting.job.id.clone()).collect(),
            failing: self.record.is_failing(),
            restarts: self.record.restarts(),
            leaving: self.life.leaving.map(|why| why.as_str().into()),
            why: self.state.stuck().or(self.record.last_words()).map(str::to_owned),
            trace: None,
            warning: None,
            preloaded: vec![],
            process: None,
        }
    }

    fn shown(&self) -> SlotState {
        match self.state {
            State::Empty | State::Due { .. } => SlotState::Down,
            State::Starting { .. } => SlotState::Starting,
            State::Working { busy: false, .. } => SlotState::Ready,
            State::Working { busy: true, .. } => SlotState::Busy,
            State::Stopping { .. } => SlotState::Stopping,
            State::Killed { stuck: None, .. } => SlotState::Killed,
            State::Killed { stuck: Some(_), .. } | State::Unproven { .. } => SlotState::Unkillable,
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
            stopped: self.stands,
            flood: None,
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
