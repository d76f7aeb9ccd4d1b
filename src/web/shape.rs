//! States, each by a word and a shape: no state is told by its colour alone.

use maud::{Markup, html};
use model::{Fitness, Health, JobState, SlotState};

/// A state as a badge.
fn badge(class: &str, path: &str, word: &str) -> Markup {
    html! {
        span class={ "state s-" (class) } {
            svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true" { path d=(path) {} }
            (word)
        }
    }
}

const RING: &str = "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9zM6 3a3 3 0 1 1 0 6a3 3 0 1 1 0-6z";
const DISC: &str = "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9z";
const PLAY: &str = "M3 1.5L10.5 6L3 10.5z";
const DASH: &str = "M2 5.2h8v1.6H2z";
const TICK: &str = "M1.5 6.2L2.8 4.9L4.8 6.9L9.3 2.4L10.6 3.7L4.8 9.5z";
const CROSS: &str = "M2.4 1.4L6 5L9.6 1.4L10.6 2.4L7 6L10.6 9.6L9.6 10.6L6 7L2.4 10.6L1.4 9.6L5 6L1.4 2.4z";
const BARS: &str = "M2.5 1.5h2.5v9h-2.5zM7 1.5h2.5v9h-2.5z";
const CLOCK: &str = "M6 1a5 5 0 1 0 0 10a5 5 0 1 0 0-10zM6 2.3a3.7 3.7 0 1 1 0 7.4a3.7 3.7 0 1 1 0-7.4zM5.4 3.2h1.2v2.6l1.8 1l-.6 1.1L5.4 6.6z";
const LINK: &str = "M1 5.2h6.2L5 3L6 2l4.2 4L6 10L5 9l2.2-2.2H1z";
const BAN: &str = "M6 1a5 5 0 1 0 0 10a5 5 0 1 0 0-10zM6 2.4a3.6 3.6 0 0 1 2.1.7L3.1 8.1A3.6 3.6 0 0 1 6 2.4zM8.9 3.9A3.6 3.6 0 0 1 3.9 8.9z";
const ALERT: &str = "M6 .8L11.6 10.8H.4zM5.3 4.2v3h1.4v-3zM5.3 8.1v1.3h1.4V8.1z";

/// The state of a job.
pub(crate) fn job(state: JobState) -> Markup {
    badge(state.as_str(), of_job(state), state.as_str())
}

fn of_job(state: JobState) -> &'static str {
    match state {
        JobState::Waiting => RING,
        JobState::Delayed => CLOCK,
        JobState::Depends => LINK,
        JobState::Running => PLAY,
        JobState::Canceling | JobState::Canceled => BAN,
        JobState::Complete => TICK,
        JobState::Failed => CROSS,
        JobState::Held => BARS,
    }
}

/// The verdict on the whole.
pub(crate) fn health(health: Health) -> Markup {
    let (class, path) = match health {
        Health::Healthy => ("complete", DISC),
        Health::Degraded => ("held", ALERT),
        Health::Unhealthy => ("failed", CROSS),
    };
    badge(class, path, health.as_str())
}

/// The weight of a finding.
pub(crate) fn fitness(state: Fitness) -> Markup {
    let (class, path) = match state {
        Fitness::Ok => ("complete", TICK),
        Fitness::Less => ("held", ALERT),
        Fitness::Bad => ("failed", CROSS),
    };
    badge(class, path, state.as_str())
}

/// Something that is paused.
pub(crate) fn paused() -> Markup {
    badge("held", BARS, "paused")
}
/// The state of a slot.
pub(crate) fn slot(state: SlotState) -> Markup {
    let (class, path) = match state {
        SlotState::Down => ("held", DASH),
        SlotState::Starting => ("delayed", CLOCK),
        SlotState::Ready => ("waiting", RING),
        SlotState::Busy => ("running", PLAY),
        SlotState::Stopping | SlotState::Killed => ("canceling", BAN),
        SlotState::Unkillable => ("failed", ALERT),
    };
    badge(class, path, state.as_str())
}

/// Something that needs a look.
pub(crate) fn alert(word: &str) -> Markup {
    badge("failed", ALERT, word)
}
