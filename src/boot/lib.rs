//! How a process becomes keeper or supervisor. `start` makes all checks, takes the locks and becomes the keeper by
//! `exec`. The keeper starts the supervisor, which opens its broker and its API and runs the loop until it is stopped.

#![warn(unreachable_pub)]

mod doctor;
mod in_force;
mod kept_at;
mod lasting;
mod launch;
mod living_keeper;
mod locks;
mod noted;
mod page;
mod run_files;
mod seen;
mod serve;
mod signals;
mod start;

pub use self::in_force::settings_in_force;
pub use self::kept_at::refuse_gone_store;
pub use self::launch::broker_was_typed;
pub use self::living_keeper::{LivingKeeper, living_keeper};
pub use self::locks::run_lock;
pub use self::noted::{Noted, last as last_broker, noted, unread};
pub use self::serve::{LAST_LINES, serve};
pub use self::start::{can_run, start};
