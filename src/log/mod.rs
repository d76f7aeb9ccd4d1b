//! What is written for people to read later: the supervisor's own log, and what jobs and slots print. Each has a thread of
//! its own, so that a slow disk or a reader that has fallen asleep delays nobody.

mod outputs;
mod rotated;
mod shelf;
mod writer;

pub use outputs::{JobFile, Outputs, Places};
pub use shelf::removed_until;
