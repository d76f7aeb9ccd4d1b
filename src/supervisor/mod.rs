//! The decisions: a pure function from facts to orders. No clock, no I/O, no logging, no pid, no `Result`.

mod ahead;
mod burst;
mod classes;
mod command;
mod end;
mod event;
mod fetch;
mod jobs;
mod lives;
mod load;
mod pool;
mod reconcile;
mod restart;
mod roll;
mod settle;
mod size;
mod status;
mod stop;
#[expect(clippy::module_inception, reason = "the room is named for what is in its middle")]
mod supervisor;
mod suspect;
mod verdict;
mod wear;
mod why;
mod work;
mod worker;

pub use command::{Command, GaveUp};
pub use event::Event;
pub use roll::Step;
pub use supervisor::Supervisor;
