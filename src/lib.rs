//! taskvisor: a preforking supervisor for job-queue workers that knows the job and its whole process tree.
//!
//! `ARCHITECTURE.md` is the map of the rooms below.

pub mod api;
mod boot;
pub mod broker;
pub mod cli;
pub mod clock;
pub mod config;
mod engine;
pub mod failpoint;
mod failure;
pub mod kale;
pub mod keeper;
mod log;
pub mod model;
mod process;
pub mod select;
pub mod simulate;
pub mod start_dir;
pub mod supervisor;
pub mod wire;
pub mod wq;
