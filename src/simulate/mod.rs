//! Simulates a workload on a fleet in virtual time, without a clock and without I/O. It chooses queues with the
//! production code ([`select`](crate::select)).
//!
//! ```
//! use taskvisor::simulate::{Plan, Workload, simulate};
//! let text = "duration: 1m\nqueues:\n  mail: {rate: 8/s, run_time: 200ms}\n";
//! let workload = Workload::from_yaml(text, 1).unwrap();
//! let report = simulate(&workload, &Plan { workers: 2, ..Plan::default() });
//! assert_eq!(report.all.jobs, workload.jobs().len());
//! assert!((0.6..1.0).contains(&report.utilisation));
//! ```

mod calls;
mod csv;
mod describe;
mod goal;
mod report;
mod run;
mod workload;

pub use calls::{Calls, Prices};
pub use goal::Goal;
pub use report::{Latency, Report};
pub use run::{Plan, simulate};
pub use workload::{Queue, Workload, WrongWorkload};
