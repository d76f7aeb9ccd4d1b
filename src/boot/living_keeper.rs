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
    /// When the process of this pid started, in ticks since the boot; None if it cannot be seen from here.
    started: Option<u64>,
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
        let pid = text.lines().next().and_then(|pid| pid.parse().ok()).filter(|pid| *pid > 0);
        LivingKeeper { pid, started: pid.and_then(start_of) }
    })
}

/// When this process started; None if it has ended.
fn start_of(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    // Of those behind the name the first is the state, the twentieth the start.
    fields.get(19).filter(|_| !matches!(fields[0], "Z" | "X"))?.parse().ok()
}

impl LivingKeeper {
    /// Whether it has died, though another process, such as the next keeper, may hold the lock by now. False if it cannot
    /// be seen from here.
    pub fn has_died(self) -> bool {
        self.pid.zip(self.started).is_some_and(|(pid, started)| start_of(pid) != Some(started))
    }

    /// Whether its process can be seen from here.
    pub fn is_seen(self) -> bool {
        self.started.is_some()
    }

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
