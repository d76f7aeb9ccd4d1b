//! The decisions: a pure function from events to commands. No clock, no I/O, no logging, no pid, no `Result`.

#![warn(unreachable_pub)]

mod alive;
mod burst;
mod classes;
mod command;
mod early;
mod end;
mod event;
mod exchange;
mod gap;
mod lives;
mod pool;
mod pools;
mod reconcile;
mod restart;
mod roll;
mod settle;
mod slot;
mod status;
mod stop;
mod supervisor;
mod suspect;
mod tallies;
mod turn;
mod unsettled;
mod verdict;
mod wear;
mod why;
mod work;

pub use command::{Command, GaveUp};
pub use event::Event;
pub use roll::Step;
pub use supervisor::Supervisor;
