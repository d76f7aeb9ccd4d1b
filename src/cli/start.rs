//! `start`: everything that can be refused is refused here, before anything runs.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::exit;
use super::failure::Failure;
use super::launch::launch;
use crate::config::{Config, private_dir};

/// The locks that make this supervisor the only one of its directories. Whoever holds them is alive.
#[derive(Debug)]
pub struct Locks {
    /// Of the run directory: one socket, one supervisor.
    pub run: Flock<File>,
    /// Of the state directory: one owner of the leases.
    pub state: Flock<File>,
}

/// Makes the directories, takes the locks, and launches.
pub(super) fn start(config: Config) -> Result<ExitCode, Failure> {
    private_dir(&config.run_dir)?;
    private_dir(&config.state_dir)?;
    let run = lock(&run_lock(&config), &config.run_dir)?;
    let state = lock(&config.state_dir.join("lock"), &config.state_dir)?;
    Err(launch(&config, &Locks { run, state }))
}

/// The lock of the run directory, which `stop` waits for.
pub(super) fn run_lock(config: &Config) -> PathBuf {
    config.run_dir.join("lock")
}

fn lock(path: &Path, dir: &Path) -> Result<Flock<File>, Failure> {
    let attempted = || format!("failed to lock {}", path.display());
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| Failure::from(error).of(attempted()))?;
    let mut owner = String::new();
    // What stands in it helps a person only: who holds the lock is the kernel's word.
    let _ = file.read_to_string(&mut owner);
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut file) => {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())?;
            Ok(file)
        }
        Err((_, Errno::EWOULDBLOCK)) => {
            let owner = owner.trim();
            let who = if owner.is_empty() { String::new() } else { format!(" (pid {owner})") };
            Err(Failure::new(exit::UNAVAILABLE, format!("a supervisor uses {} already{who}", dir.display()))
                .hint(
                    "taskvisor stop ends it; --run-dir and --state-dir give this one directories of its own",
                ))
        }
        Err((_, error)) => Err(Failure::from(std::io::Error::from(error)).of(attempted())),
    }
}
