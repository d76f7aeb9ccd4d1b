//! The child's side: handlers in Rust, as workers that speak `docs/worker-protocol.md`.
//!
//! One job at a time, in plain functions:
//!
//! ```no_run
//! use taskvisor::worker::{End, Job, Worker};
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
//!     Worker::new().handle("mail.Send", send).run()
//! }
//! ```
//!
//! Start it with `taskvisor start -w 8 -- ./my-worker`. For many jobs at a time in one process see [`AsyncWorker`]
//! (`-m coroutine`). A handler that returns an error of any kind has failed, and is tried again while tries remain;
//! [`End`] says it otherwise. A panic is a failure too.

mod blocking;
mod concurrent;
mod end;
mod job;
mod pipe;

pub use blocking::Worker;
pub use concurrent::{AsyncJob, AsyncWorker};
pub use end::{Advance, End};
pub use job::{Job, Put};
