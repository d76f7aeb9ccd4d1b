//! The supervisor's hands: it talks to the keeper and to the children, and knows pids. Decides nothing.

mod about;
mod alarm;
mod assign;
mod calls;
mod channel;
mod children;
mod gauge;
mod leftovers;
mod life;
mod link;
mod look;
mod meaning;
mod output;
mod plan;
mod program;
mod remove;
mod sandbox;
pub mod snapshot;
mod unkillable;
pub mod usage;
mod watched;
mod weight;

pub use alarm::Alarm;
pub use assign::Unassigned;
pub use children::{Children, Remains};
pub use gauge::{Found, Gauge};
pub use life::{JobEnd, Word};
pub use link::{Letter, Link, on_top};
pub use plan::Plan;
pub use unkillable::cause as unkillable_cause;
