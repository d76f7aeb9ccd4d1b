//! `start`: everything that can be refused is refused here, before anything runs.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

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
    let end = Instant::now() + LAST_BREATH;
    let run = lock(&run_lock(&config), &config.run_dir, end)?;
    let state = lock(&config.state_dir.join("lock"), &config.state_dir, end)?;
    Err(launch(&config, &Locks { run, state }))
}

/// How long the locks of a predecessor are waited for: one that was just killed holds them until it is gone to the last
/// process, and looks like a living one until then.
const LAST_BREATH: Duration = Duration::from_secs(2);

/// The lock of the run directory, which `stop` waits for.
pub(super) fn run_lock(config: &Config) -> PathBuf {
    config.run_dir.join("lock")
}

fn lock(path: &Path, dir: &Path, end: Instant) -> Result<Flock<File>, Failure> {
    let attempted = || format!("failed to lock {}", path.display());
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| Failure::from(error).of(attempted()))?;
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => {
                let failed = |error| Failure::from(error).of(format!("failed to write {}", path.display()));
                return sign(file).map_err(failed);
            }
            Err((file, Errno::EWOULDBLOCK)) if Instant::now() < end => file,
            Err((file, Errno::EWOULDBLOCK)) => return Err(in_use(file, dir)),
            Err((_, error)) => return Err(Failure::from(std::io::Error::from(error)).of(attempted())),
        };
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What stands in a lock file helps a person only: who holds the lock is the kernel's word.
fn sign(mut file: Flock<File>) -> std::io::Result<Flock<File>> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    Ok(file)
}

fn in_use(mut file: File, dir: &Path) -> Failure {
    let mut owner = String::new();
    let who = match file.read_to_string(&mut owner) {
        Ok(_) if !owner.trim().is_empty() => format!(" (pid {})", owner.trim()),
        Ok(_) | Err(_) => String::new(),
    };
    Failure::new(exit::UNAVAILABLE, format!("a supervisor uses {} already{who}", dir.display()))
        .hint("taskvisor stop ends it; --run-dir and --state-dir give this one directories of its own")
}
