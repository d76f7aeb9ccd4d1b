//! Chooses the queue of the next job: pure, shared by the supervisor, the brokers and the simulation.

#![warn(unreachable_pub)]

mod choose;
mod demand;
mod plan;
mod selection;
pub mod terms;
mod turns;

pub use choose::{Known, choose};
pub use demand::Demand;
pub use plan::{Here, PollPlan, Receive, Wish};
pub use selection::Selection;
pub use turns::Turns;
