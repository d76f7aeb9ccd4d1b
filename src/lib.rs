//! taskvisor: a preforking supervisor for job-queue workers that knows the job and its whole process tree.
//!
//! `ARCHITECTURE.md` is the map of the rooms below.

#![warn(unreachable_pub)]

pub mod cli;
