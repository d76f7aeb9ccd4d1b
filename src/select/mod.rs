//! Chooses the queue of the next job: pure, shared by the supervisor, the brokers and the simulation.

mod choose;
mod selection;
mod turns;

pub use choose::{Known, choose};
pub use selection::Selection;
pub use turns::Turns;
