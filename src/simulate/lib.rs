//! Simulates a workload on a fleet in virtual time, without a clock and without I/O. It chooses queues with the
//! production code ([`select`]), on SQS also those that are received from.
//!
//! ```
//! use taskvisor_simulate::{Plan, Workload, simulate};
//! let text = "duration: 1m\nqueues:\n  mail: {rate: 8/s, run_time: 200ms}\n";
//! let workload = Workload::from_yaml(text, 1).unwrap();
//! let report = simulate(&workload, &Plan { workers: 2, ..Plan::default() });
//! assert_eq!(report.all.jobs, workload.jobs().len());
//! assert!((0.6..1.0).contains(&report.utilisation));
//! ```

#![warn(unreachable_pub)]

mod calls;
mod csv;
mod describe;
mod goal;
mod report;
mod run;
mod sqs;
mod supply;
mod workload;

pub use calls::Calls;
pub use goal::Goal;
pub use report::{Latency, Report};
pub use run::{Plan, simulate};
pub use sqs::Sqs;
pub use workload::{Queue, Workload, WrongWorkload};

/// A time in nanoseconds.
fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
