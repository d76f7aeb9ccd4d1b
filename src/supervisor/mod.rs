//! The decisions: a pure function from facts to orders. No clock, no I/O, no logging, no pid, no `Result`.

mod command;
mod event;

pub use command::Command;
pub use event::Event;
