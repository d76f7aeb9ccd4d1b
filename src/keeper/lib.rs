//! The keeper: the process that systemd sees. It forks, waits, kills and holds descriptors, and decides nothing.
//!
//! One thread turns one `poll` over the supervisor's socket, a signalfd and a timerfd. Every death arrives by
//! SIGCHLD and `wait4(-1)`: the keeper is the only one who reaps its children, so a pid it has not reaped is safe to
//! signal and no pidfd is needed.

#![warn(unreachable_pub)]
// Only this room makes system calls that no safe wrapper offers: a clone3 that works like fork, wait4 with resource
// usage, close_range, descriptors that arrive by number.
#![allow(unsafe_code)]

mod abilities;
mod beside;
mod cgroup;
mod children;
mod command;
mod controllers;
mod crashes;
mod essentials;
mod farewell;
mod fence;
mod forks;
mod gap;
mod inherited;
mod launch;
mod leaf;
mod life;
mod main_loop;
mod mark;
mod newborn;
mod notify;
mod oom;
mod orders;
mod parked;
mod phase;
mod priority;
mod proof;
mod report_queue;
mod say;
mod setup;
mod spawn;
mod spawner;
mod spawner_process;
mod state;
mod strangers;
mod strays;
mod supervisor;
mod sweep;
mod sys;
mod template;
mod traces;
mod tree;
mod turn;
mod unborn;
mod unmap;
mod users;
mod vfork;
mod watch;
mod watchdog;

pub use abilities::{Abilities, abilities};
pub use beside::{keep_descriptors, live_beside, look_beside};
pub use command::command;
pub use essentials::{Missing, essentials};
pub use inherited::inherited_socket;
pub use main_loop::run;
pub use oom::of_jobs as oom_score_of_jobs;
pub use setup::{Restarts, Setup, Without};
pub use sweep::{Left, Sweeper, Swept};
pub use sys::{give_back_large_blocks, peer_groups};
pub use traces::{Traces, tag};
pub use unmap::unmap_code;
pub use users::{Refused, try_user};

/// Set for the supervisor: the descriptor of its socket to the keeper.
pub const FD_VARIABLE: &str = "TASKVISOR_KEEPER_FD";

/// Set for the supervisor: the value it must give [`TAG_VARIABLE`] in the environment of every program, so that
/// [`Sweeper`] finds what outlived the keeper.
pub const TAG_FOR_SUPERVISOR: &str = "TASKVISOR_KEEPER_TAG";

/// Environment variable of the keeper, the supervisor and every program: names the keeper under which they live.
pub const TAG_VARIABLE: &str = "TASKVISOR_KEEPER";

/// Exit code when the supervisor crashed too often.
pub const EXIT_CRASHES: u8 = 70;

/// Exit code when the keeper itself could not start.
pub const EXIT_SYSTEM: u8 = 71;

/// Exit code when the end of a job's processes could not be proven here: the settings, or the machine, must change.
pub const EXIT_NO_PROOF: u8 = 78;

/// Exit code when the supervisor did not even read an order to stop before the deadline.
pub const EXIT_STALLED: u8 = 124;
