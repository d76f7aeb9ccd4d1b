//! The locks of the run directory and the state directory, and the text that their holder writes into them.

use std::fs::{DirEntry, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use config::{Config, must_be_two, private_dir};
use failure::{Failure, exit};
use keeper::Traces;
use model::Instant;

/// The locks that make this supervisor the only one of its directories. The process that holds them is alive.
#[derive(Debug)]
pub(crate) struct Locks {
    /// Lock of the run directory: one socket, one supervisor.
    pub run: Flock<File>,
    /// Lock of the state directory: one owner of the leases.
    pub state: Flock<File>,
    /// Locks of the directories themselves: the files in them can be removed.
    pub dirs: Vec<Flock<File>>,
}

/// How the names of our processes begin.
const OURS: [&str; 2] = ["taskvisor", "tv-"];

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
    let mut dirs = Vec::new();
    let mut take = |dir: &Path, path: &Path| {
        private_dir(dir)?;
        let file = lock(path, dir, end)?;
        dirs.extend(lock_dir(dir, path, end)?);
        Ok::<_, Failure>(file)
    };
    if at_state.exists() && !at_run.exists() {
        let state = take(&config.state_dir, &at_state)?;
        return Ok(Locks { run: take(&config.run_dir, &at_run)?, state, dirs });
    }
    let run = take(&config.run_dir, &at_run)?;
    Ok(Locks { run, state: take(&config.state_dir, &at_state)?, dirs })
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn lock(path: &Path, dir: &Path, end: Instant) -> Result<Flock<File>, Failure> {
    let attempted = |error: io::Error| Failure::from(error).of(format!("failed to lock {}", path.display()));
    match locked(open(path).map_err(attempted)?, end) {
        Ok(file) => Ok(file),
        Err((file, Errno::EWOULDBLOCK)) => Err(in_use(path, &file, dir)),
        Err((_, error)) => Err(attempted(error.into())),
    }
}

/// Locks a directory, as a file in it may have been removed and made again: then both files are locked, and the directory
/// has one owner all the same. None on a filesystem that locks no directories, such as NFS.
fn lock_dir(dir: &Path, path: &Path, end: Instant) -> Result<Option<Flock<File>>, Failure> {
    let Ok(own) = File::open(dir) else { return Ok(None) };
    match locked(own, end) {
        Ok(own) => Ok(Some(own)),
        Err((own, Errno::EWOULDBLOCK)) => Err(in_use(path, &own, dir)),
        Err(_) => Ok(None),
    }
}

/// Waits for a lock until that moment.
fn locked(mut file: File, end: Instant) -> Result<Flock<File>, (File, Errno)> {
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Err((file, Errno::EWOULDBLOCK)) if clock::now() < end => file,
            ended => return ended,
        };
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Makes sure that the run directory is locked for our keeper. If it was swept away, the keeper's own lock is on the
/// deleted file: then the supervisor makes and holds another one, as long as it lives, and so does the next one.
pub(super) fn hold_again(config: &Config) -> Result<(), Failure> {
    static HELD: Mutex<Option<Flock<File>>> = Mutex::new(None);
    again(&HELD, &config.run_dir, &run_lock(config), || in_run_lock(config))
}

/// The same for the state directory, whose lock says by which traces the next start finds what this one leaves.
pub(super) fn hold_state_again(config: &Config) -> Result<(), Failure> {
    static HELD: Mutex<Option<Flock<File>>> = Mutex::new(None);
    let traces = || {
        let tag = std::env::var(keeper::TAG_FOR_SUPERVISOR).ok();
        let traces = tag.and_then(|tag| Traces::of_keeper(nix::unistd::getppid().as_raw(), &tag));
        traces.map(|traces| traces.to_string()).unwrap_or_default()
    };
    again(&HELD, &config.state_dir, &state_lock(config), traces)
}

fn again(
    held: &Mutex<Option<Flock<File>>>,
    dir: &Path,
    path: &Path,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let keeper = nix::unistd::getppid().as_raw() as u32;
    let mut file = match lock(path, dir, clock::now()) {
        Ok(file) => file,
        // Our keeper's own lock: the file was not removed.
        Err(_) if is_signed_by(path, keeper) => return Ok(()),
        Err(error) => return Err(error),
    };
    sign_for(keeper, &mut file, path, &text())?;
    *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
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

/// Who holds the lock of an open file or directory: its pid and its name. None if that is not known, as in another
/// container.
fn holder(locked: &File) -> Option<(i32, String)> {
    let inode = format!(":{}", locked.metadata().ok()?.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let taken_by = locks.lines().find_map(|line| taker(line, &inode))?;
    let named = |pid| Some((pid, process::usage::process(pid)?.name));
    // Who has taken it may have ended, and left it to another that has the file open, as `flock` of a shell does.
    named(taken_by).or_else(|| named(heir(&inode)?))
}

/// The pid in a line of /proc/locks that is about this inode.
fn taker(line: &str, inode: &str) -> Option<i32> {
    match *line.split_whitespace().collect::<Vec<_>>() {
        [_, "FLOCK", _, _, pid, place, ..] if place.ends_with(inode) => pid.parse().ok(),
        _ => None,
    }
}

/// A process that has the locked file open.
fn heir(inode: &str) -> Option<i32> {
    let holds = |fd: io::Result<DirEntry>| {
        let info = std::fs::read_to_string(fd.ok()?.path()).ok()?;
        info.lines().find_map(|line| taker(line.strip_prefix("lock:")?, inode))
    };
    let pids = std::fs::read_dir("/proc").ok()?.flatten();
    pids.filter_map(|pid| pid.file_name().to_str()?.parse::<i32>().ok()).find(|pid| {
        std::fs::read_dir(format!("/proc/{pid}/fdinfo"))
            .is_ok_and(|mut fds| fds.any(|fd| holds(fd).is_some()))
    })
}

fn in_use(path: &Path, locked: &File, dir: &Path) -> Failure {
    let signed = std::fs::read_to_string(path).unwrap_or_default();
    let signed = signed.lines().next();
    if let Some((pid, name)) = holder(locked)
        && signed != Some(&pid.to_string())
        && !OURS.iter().any(|ours| name.starts_with(ours))
    {
        let what =
            format!("'{name}' (pid {pid}), which is no supervisor, has locked {} (flock)", dir.display());
        return Failure::new(exit::UNAVAILABLE, what)
            .hint("once it has ended, start again; --run-dir and --state-dir name other directories");
    }
    let who = signed.map(|owner| format!(" (pid {owner})")).unwrap_or_default();
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
