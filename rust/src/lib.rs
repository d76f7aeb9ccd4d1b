//! Workers in Rust for [taskvisor](../../README.md): handlers for classes of jobs, in programs that speak
//! `docs/worker-protocol.md`.
//!
//! ```no_run
//! use std::time::Duration;
//! use taskvisor_worker::{Class, End, Job, Worker};
//!
//! fn send(job: &Job) -> Result<usize, End> {
//!     let to: String = job.data()?;
//!     if to.is_empty() {
//!         return Err(End::fail("nobody to send to"));
//!     }
//!     job.progress(Some(0.5), "half of it");
//!     Ok(to.len())
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     Worker::new()
//!         .handle(Class::new("mail.Send").time_limit(Duration::from_secs(60)).retries(3), send)
//!         .run()
//! }
//! ```
//!
//! | start it with | jobs run | |
//! |---|---|---|
//! | `taskvisor start -w 8 -- ./my-worker` | one after the other in 8 processes | [`Worker`] |
//! | `taskvisor start -w 8 -m fork -- ./my-worker` | each in a fork of one process that has made its handlers | [`Worker`] |
//! | `taskvisor start -w 2 -m coroutine -- ./my-worker` | up to 100 at a time in each process | `AsyncWorker`, feature `async` |
//!
//! A handler that returns an error of any kind has failed, and its job is tried again while tries remain; [`End`] says
//! otherwise. A panic is a failure too. The crate depends on serde, serde_json, base64 and libc; `async` adds tokio.

#![warn(unreachable_pub)]

mod bad_line;
mod blocking;
mod class;
#[cfg(feature = "async")]
mod concurrent;
mod end;
mod job;
mod pipe;
pub mod protocol;
mod put;
mod raw;
mod sys;
mod template;
mod verbs;

pub use blocking::Worker;
pub use class::Class;
#[cfg(feature = "async")]
pub use concurrent::{AsyncJob, AsyncWorker};
pub use end::{Advance, End};
pub use job::Job;
pub use put::Put;
