//! The jobs of RQ (Python): taken from the same keys of the same Redis as `rq worker` does, beside it or in place of
//! it. The functions run in Python workers. This code does what an `rq worker` does around them: taking jobs,
//! executions, registries, retries, repeats, dependents, concurrency limits, scheduler, maintenance and commands.
//!
//! A job leaves its queue in the same step that gives it an owner, so no crash loses it. An execution is ours while the
//! hash `<prefix>:taskvisor:held` names it. Each change names its execution; a change by an execution that is over does
//! nothing. Each call is one run of one script (see `script/`).

#![warn(unreachable_pub)]

mod adapter;
mod chores;
mod commands;
mod edits;
mod ends;
mod faces;
mod hearing;
mod job;
mod lists;
mod put;
mod record;
mod refused;
mod script;
mod settings;
mod settle;
mod shared;
mod source;
mod sweeps;
mod workers;

pub use adapter::RqOnRedis;
