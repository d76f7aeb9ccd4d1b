//! The jobs of RQ (Python): what `rq worker` takes, taken from the same keys of the same Redis, beside it or instead of it.
//! The functions run in workers of Python; here is what an `rq worker` does around them: taking jobs, executions, registries,
//! retries, repeats, dependents, concurrency limits, scheduler, maintenance and commands.
//!
//! A job leaves its queue in the same step in which it becomes somebody's, so no end of any process loses one. An execution is
//! ours while the hash `<prefix>:taskvisor:held` names it; each change names the execution, and a change by one that is over
//! does nothing. Each call is one run of one script (see `script/`).

mod adapter;
mod bell;
mod chores;
mod commands;
mod faces;
mod feed;
mod job;
mod put;
mod record;
mod script;
mod settings;
mod settle;
mod shared;
mod sign;
mod source;
mod wake;
mod workers;

pub use adapter::RqOnRedis;
