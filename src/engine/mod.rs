//! The only room that knows both the decisions and the effects: it joins them.

mod asks;
mod burst;
mod calls;
mod count_cache;
mod counting;
mod decisions;
mod effects;
mod event_log;
mod event_loop;
mod explain;
mod flood;
mod inbox;
mod judge;
mod mutes;
mod orders;
mod presence;
mod publish;
mod record;
mod recover;
mod reload;
mod reports;
mod served;
mod service;
mod size_clock;
mod snapshots;
mod supervise;
mod systemd;
mod unconfirmed;
mod waiting;
mod watch;
mod worker_calls;

pub use event_loop::Ended;
pub use orders::Pauses;
pub use reload::{Fresh, KeepChanges, ReadSettings};
pub use supervise::{Setup, supervise};
