//! taskvisor: a preforking supervisor for job-queue workers that knows the job and its whole process tree.
//!
//! `ARCHITECTURE.md` is the map of the rooms below.

pub mod cli;

pub use {
    api, broker, clock, config, failpoint, kale, keeper, model, select, simulate, supervisor, wire, wq,
};
#[allow(clippy::single_component_path_imports, reason = "its files say crate::log")]
use {boot, failure, log};
