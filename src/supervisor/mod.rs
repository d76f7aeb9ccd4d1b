//! The decisions: a pure function from events to commands. No clock, no I/O, no logging, no pid, no `Result`.

mod ahead;
mod assign;
mod burst;
mod classes;
mod command;
mod end;
mod event;
mod exchange;
mod fetch;
mod gap;
mod index;
mod intake;
mod jobs;
mod life;
mod lives;
mod load;
mod places;
mod pool;
mod reconcile;
mod restart;
mod roll;
mod settle;
mod size;
mod slots;
mod status;
mod stop;
#[expect(clippy::module_inception, reason = "the room is named for what is in its middle")]
mod supervisor;
mod suspect;
mod unsettled;
mod verdict;
mod wear;
mod why;
mod work;
mod worker;

pub use command::{Command, GaveUp};
pub use event::Event;
pub use roll::Step;
pub use supervisor::Supervisor;
