//! The keeper of a run directory, as other processes see it: for a supervisor that does not answer.

use std::fs::{self, File};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::locks::run_lock;
use config::Config;
use process::usage::process;

/// A keeper that lives on this machine.
#[derive(Clone, Copy, Debug)]
pub struct LivingKeeper {
    /// Its pid; None if its lock does not say.
    pid: Option<i32>,
}

/// The keeper that holds the lock of the run directory. None if none does, or if the supervisor is on another machine.
pub fn living_keeper(config: &Config) -> Option<LivingKeeper> {
    if config.remote.is_some() {
        return None;
    }
    let path = run_lock(config);
    // Shared: two commands that look at a time must not take each other for the keeper.
    let held = Flock::lock(File::open(&path).ok()?, FlockArg::LockSharedNonblock);
    matches!(held, Err((_, Errno::EWOULDBLOCK))).then(|| {
        let text = fs::read_to_string(&path).unwrap_or_default();
        LivingKeeper { pid: text.lines().next().and_then(|pid| pid.parse().ok()).filter(|pid| *pid > 0) }
    })
}

impl LivingKeeper {
    /// Its name for people.
    pub fn name(self) -> String {
        self.pid.map_or_else(|| "its keeper".into(), |pid| format!("its keeper (pid {pid})"))
    }

    /// How to let it go on, if it is stopped (state T).
    pub fn how_to_continue(self) -> Option<String> {
        let pid = self.pid.filter(|pid| process(*pid).is_some_and(|process| process.state == "T"))?;
        Some(format!("kill -CONT {pid}"))
    }

    /// What to do about it while it has no supervisor that answers.
    pub fn hint(self) -> String {
        match self.how_to_continue() {
            Some(how) => format!("{} is stopped; {how} lets it go on", self.name()),
            None => format!(
                "{} lives and tries to start one again, its log says what keeps it; taskvisor stop ends it",
                self.name()
            ),
        }
    }

    /// Has it end itself and all below it, as SIGTERM does. False if that cannot be asked for.
    pub fn end(self) -> bool {
        self.pid.is_some_and(|pid| kill(Pid::from_raw(pid), Signal::SIGTERM).is_ok())
    }
}
