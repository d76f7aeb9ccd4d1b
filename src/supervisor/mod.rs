//! The decisions: a pure function from facts to orders. No clock, no I/O, no logging, no pid, no `Result`.

mod command;
mod event;
mod fetch;
mod jobs;
mod restart;
mod settle;
mod status;
mod stop;
mod supervisor;
mod verdict;
mod worker;

pub use command::Command;
pub use event::Event;
pub use supervisor::Supervisor;
