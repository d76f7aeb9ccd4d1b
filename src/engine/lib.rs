//! Joins the decisions and the effects: the only room that knows both.

mod announce;
mod aside;
mod asks;
mod authors;
mod burst;
mod calls;
mod count_cache;
mod counting;
mod decisions;
mod effects;
mod event_log;
mod event_loop;
mod explain;
mod failing;
mod farewell;
mod flood;
mod fresh;
mod inbox;
mod judge;
mod line;
mod lookout;
mod mutes;
mod orders;
mod presence;
mod publish;
mod record;
mod recover;
mod reload;
mod renewals;
mod renewing;
mod reports;
mod request;
mod served;
mod service;
mod size_clock;
mod snapshots;
mod supervise;
mod systemd;
mod task_ttls;
mod telemetry;
mod unconfirmed;
mod verb_lines;
mod waiting;
mod watch;
mod worker_calls;

pub use authors::Authors;
pub use event_loop::Ended;
pub use fresh::{Fresh, KeepChanges, Kept, ReadSettings};
pub use supervise::{Setup, supervise};

// The rooms that this one uses, by the names that its files know.
#[allow(clippy::single_component_path_imports, reason = "its files say crate::model")]
use {api, broker, clock, failpoint, log, model, process, supervisor, wire, wq};
