//! What is in a slot.

use crate::why::Why;
use model::Instant;

/// What is in a slot, with what is known of it only there.
#[derive(Debug)]
pub(super) enum State {
    /// No process, and none is wanted.
    Empty,
    /// No process; the next life may start at this time.
    Due { at: Instant },
    /// Being made; killed at this time if it is not ready.
    Starting { kill_at: Instant },
    /// The worker has jobs or takes some. `busy`: it has no room for another one. `idle_since`: since when it has had no
    /// jobs, while it has none.
    Working { busy: bool, idle_since: Instant },
    /// Asked to end, or ending as planned; killed at this time.
    Stopping { why: Why, kill_at: Instant },
    /// Killed; only the proof is missing. `stuck`: why it does not die.
    Killed { why: Why, stuck: Option<String> },
    /// The first process has ended by itself, or at the self-fence, and some process that it left does not die for this
    /// cause: only the proof is missing.
    Unproven { cause: String },
}

impl State {
    /// Of a slot without a process: the next life may start at this time, if one is wanted.
    pub(super) fn down(due: Option<Instant>) -> Self {
        due.map_or(State::Empty, |at| State::Due { at })
    }

    /// Whether there is no process.
    pub(super) fn is_down(&self) -> bool {
        matches!(self, State::Empty | State::Due { .. })
    }

    /// Whether the worker has jobs or takes some.
    pub(super) fn is_at_work(&self) -> bool {
        matches!(self, State::Working { .. })
    }

    /// When the supervisor has to act: to start the next life, or to kill this one.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            State::Due { at } => Some(*at),
            State::Starting { kill_at } | State::Stopping { kill_at, .. } => Some(*kill_at),
            State::Empty | State::Working { .. } | State::Killed { .. } | State::Unproven { .. } => None,
        }
    }

    /// When this life is killed, if it has not come further by then.
    pub(super) fn kill_at(&mut self) -> Option<&mut Instant> {
        match self {
            State::Starting { kill_at } | State::Stopping { kill_at, .. } => Some(kill_at),
            State::Empty | State::Due { .. } => None,
            State::Working { .. } | State::Killed { .. } | State::Unproven { .. } => None,
        }
    }

    /// When this life, which was asked to end, is killed.
    pub(super) fn stop_by(&mut self) -> Option<&mut Instant> {
        match self {
            State::Stopping { kill_at, .. } => Some(kill_at),
            State::Empty | State::Due { .. } | State::Starting { .. } => None,
            State::Working { .. } | State::Killed { .. } | State::Unproven { .. } => None,
        }
    }

    /// Why the processes in the slot do not die.
    pub(super) fn stuck(&self) -> Option<&str> {
        match self {
            State::Killed { stuck, .. } => stuck.as_deref(),
            State::Unproven { cause } => Some(cause),
            State::Empty | State::Due { .. } | State::Starting { .. } => None,
            State::Working { .. } | State::Stopping { .. } => None,
        }
    }

    /// Why we end, or have killed, what is in the slot.
    pub(super) fn ended_for(&self) -> Option<Why> {
        match self {
            State::Stopping { why, .. } | State::Killed { why, .. } => Some(*why),
            State::Empty | State::Due { .. } | State::Starting { .. } => None,
            State::Working { .. } | State::Unproven { .. } => None,
        }
    }
}
