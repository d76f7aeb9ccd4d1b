//! The supervisor's effects on processes: talks to the keeper and to the children, and knows pids. Decides nothing.

#![warn(unreachable_pub)]

mod about;
mod alarm;
mod assign;
mod calls;
mod channel;
mod children;
mod gauge;
mod heavy;
mod job_end;
mod life;
mod link;
mod look;
mod meaning;
mod names;
mod oom_kills;
mod orphans;
mod output;
mod page;
mod plan;
mod program;
mod remains;
mod remove;
mod sandbox;
pub mod snapshot;
mod stacks;
mod stand;
mod told;
mod unkillable;
pub mod usage;
mod watched;
mod weight;

pub use alarm::Alarm;
pub use children::Children;
pub use gauge::{Found, Gauge};
pub use job_end::JobEnd;
pub use life::WorkerEvent;
pub use link::{KeeperMessage, Link, on_top};
pub use oom_kills::oom_kills;
pub use plan::Plan;
pub use remains::Remains;
pub use sandbox::Removed;
pub use unkillable::cause as unkillable_cause;
pub use watched::watched;
