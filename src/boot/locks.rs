//! The locks of the run directory and the state directory, and the text that their holder writes into them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use config::{Config, must_be_two, private_dir};
use failure::{Failure, exit};
use model::Instant;

/// The locks that make this supervisor the only one of its directories. The process that holds them is alive.
#[derive(Debug)]
pub struct Locks {
    /// Lock of the run directory: one socket, one supervisor.
    pub run: Flock<File>,
    /// Lock of the state directory: one owner of the leases.
    pub state: Flock<File>,
}

/// How long to wait for the locks of a predecessor: one that was just killed holds them until its last process is gone,
/// and looks alive until then.
const LAST_BREATH: Duration = Duration::from_secs(2);

/// The lock of the run directory, which `stop` waits for.
pub fn run_lock(config: &Config) -> PathBuf {
    config.run_dir.join("lock")
}

pub(super) fn state_lock(config: &Config) -> PathBuf {
    config.state_dir.join("lock")
}

/// Takes both locks. A directory that exists may be in use, so its lock is taken before the other directory is made: a
/// refusal leaves nothing behind.
pub(super) fn lock_both(config: &Config) -> Result<Locks, Failure> {
    must_be_two(&config.run_dir, &config.state_dir)?;
    let (at_run, at_state) = (run_lock(config), state_lock(config));
    let end = clock::now() + LAST_BREATH;
    let take = |dir: &Path, path: &Path| {
        private_dir(dir)?;
        lock(path, dir, end)
    };
    if at_state.exists() && !at_run.exists() {
        let state = take(&config.state_dir, &at_state)?;
        return Ok(Locks { run: take(&config.run_dir, &at_run)?, state });
    }
    let run = take(&config.run_dir, &at_run)?;
    Ok(Locks { run, state: take(&config.state_dir, &at_state)? })
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
            Ok(file) => return Ok(file),
            Err((file, Errno::EWOULDBLOCK)) if clock::now() < end => file,
            Err((file, Errno::EWOULDBLOCK)) => return Err(in_use(file, dir)),
            Err((_, error)) => return Err(Failure::from(io::Error::from(error)).of(attempted())),
        };
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Makes sure that the run directory is locked for our keeper. If it was swept away, the keeper's own lock is on the
/// deleted file: then the supervisor makes and holds another one, as long as it lives, and so does the next one.
pub(super) fn hold_again(config: &Config) -> Result<(), Failure> {
    static HELD: Mutex<Option<Flock<File>>> = Mutex::new(None);
    let (path, keeper) = (run_lock(config), nix::unistd::getppid().as_raw() as u32);
    let mut held = match lock(&path, &config.run_dir, clock::now()) {
        Ok(held) => held,
        // Our keeper's own lock: the directory was not swept.
        Err(_) if is_signed_by(&path, keeper) => return Ok(()),
        Err(error) => return Err(error),
    };
    sign_for(keeper, &mut held, &path, &in_run_lock(config))?;
    *HELD.lock().unwrap_or_else(PoisonError::into_inner) = Some(held);
    Ok(())
}

fn is_signed_by(path: &Path, keeper: u32) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().next() == Some(&keeper.to_string())
}

/// What stands in the lock of the run directory below the pid: a client may ask for the state directory.
pub(super) fn in_run_lock(config: &Config) -> String {
    format!("{}\n", config.state_dir.display())
}

/// Writes into a lock file. Only the kernel says who holds the lock; the pid is for people, and the traces for the next
/// start.
pub(super) fn sign(file: &mut Flock<File>, path: &Path, traces: &str) -> Result<(), Failure> {
    sign_for(std::process::id(), file, path, traces)
}

fn sign_for(keeper: u32, file: &mut Flock<File>, path: &Path, traces: &str) -> Result<(), Failure> {
    let text = format!("{keeper}\n{traces}");
    let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(text.as_bytes()));
    written.map_err(|error| Failure::from(error).of(format!("failed to write {}", path.display())))
}

fn in_use(mut file: File, dir: &Path) -> Failure {
    let mut signed = String::new();
    let who = match (file.read_to_string(&mut signed), signed.lines().next()) {
        (Ok(_), Some(owner)) => format!(" (pid {owner})"),
        (Ok(_) | Err(_), _) => String::new(),
    };
    // supervisord names itself to what it starts.
    let hint = match std::env::var_os("SUPERVISOR_ENABLED") {
        Some(_) => {
            "numprocs=1 in supervisord: one taskvisor has all workers (--workers, WQ_WORKERS); --run-dir and \
             --state-dir give another one directories of its own"
        }
        None => "taskvisor stop ends it; --run-dir and --state-dir give this one directories of its own",
    };
    Failure::new(exit::UNAVAILABLE, format!("a supervisor uses {} already{who}", dir.display())).hint(hint)
}
