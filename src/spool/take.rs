//! Takes puts out of the spool.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::OFlag;

use super::aside::Aside;
use super::{BYTES, Body, DIR_MODE, MARK, dir_in, uid_in};
use model::{Exists, NewJob};

/// Age of a file without its mark that nobody writes any more: its put was never acknowledged.
const UNFINISHED: Duration = Duration::from_secs(3600);
/// What is left of the time by which a job is to begin, if it is over: the broker has it expire.
const LEAST: Duration = Duration::from_millis(1);
/// Limit of the puts of one look. What is no put does not count: else one member hides the puts of the others.
const MOST: usize = 100_000;
/// Limit of what is no put, of one look.
const ODD: usize = 100;

/// The spool of a supervisor.
#[derive(Clone, Debug)]
pub struct Desk {
    dir: PathBuf,
    aside: Arc<Aside>,
    /// Whether members may leave puts; if not, only those of before are taken.
    is_open: bool,
}

/// A put that was left.
#[derive(Debug)]
pub struct Left {
    /// Who has put it.
    pub uid: u32,
    /// Its jobs. Each is recognized if it is put again.
    pub jobs: Vec<NewJob>,
}

/// Why a put is not taken.
#[derive(Debug)]
pub enum Fault {
    /// Its owner has removed it.
    Gone,
    /// It never can be.
    Damaged(String),
    /// It could not be read this time.
    Passing(io::Error),
}

/// A put that waits. The order is that in which they were left, as far as the clock of files tells it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// When it was left, in seconds and nanoseconds.
    at: (i64, i64),
    /// The name of its file.
    pub name: String,
    /// Who has put it.
    pub uid: u32,
}

/// What a look has found.
#[derive(Debug, Default)]
pub struct Look {
    /// The puts, first come first: 100,000 at most.
    pub puts: Vec<Waiting>,
    /// Whether there are more puts.
    pub has_more: bool,
    /// What is there and is none, each with the reason: 100 at most.
    pub odd: Vec<(PathBuf, String)>,
    /// Directories there: 100 at most. Only root can move those of another user.
    pub dirs: Vec<PathBuf>,
    /// Whether more than that is no put.
    pub has_more_odd: bool,
}

/// What a name in the spool stands for.
enum Found {
    Put(Waiting),
    /// Its owner still writes it, or has died.
    Unfinished,
    Dir,
    /// None of these: why it is no put.
    Odd(String),
}

impl Desk {
    /// Opens the spool of this state directory to the group, or closes it. None: there is none, and none is wanted.
    pub fn open(state_dir: &Path, group: Option<u32>) -> io::Result<Option<Desk>> {
        let desk = Desk { is_open: group.is_some(), ..Desk::at(state_dir) };
        match (fs::symlink_metadata(&desk.dir), group) {
            (Ok(found), _) if !found.is_dir() => {
                return Err(io::Error::other(format!("{} is not a directory", desk.dir.display())));
            }
            (Ok(_), _) => {}
            (Err(error), Some(_)) if error.kind() == ErrorKind::NotFound => {
                DirBuilder::new().mode(0o700).create(&desk.dir)?;
            }
            (Err(error), None) if error.kind() == ErrorKind::NotFound => return Ok(None),
            (Err(error), _) => return Err(error),
        }
        let found = fs::symlink_metadata(&desk.dir)?;
        let is_as_wanted = found.mode() & 0o7777 == DIR_MODE && Some(found.gid()) == group;
        if !is_as_wanted {
            // The members of another group are to leave nothing more.
            fs::set_permissions(&desk.dir, Permissions::from_mode(0o700))?;
        }
        let passes = fs::metadata(state_dir)?.mode() & 0o7777;
        if let Some(group) = group {
            // Not while all is well: a put may come at any moment.
            if !is_as_wanted {
                chown(&desk.dir, None, Some(group))?;
                fs::set_permissions(&desk.dir, Permissions::from_mode(DIR_MODE))?;
            }
            // Members pass through the state directory, in which everything else is closed by its own mode.
            fs::set_permissions(state_dir, Permissions::from_mode(passes | 0o011))?;
        } else if found.mode() & 0o7777 == DIR_MODE && passes == 0o711 {
            // Opened for members. Pools with users of their own open it again.
            fs::set_permissions(state_dir, Permissions::from_mode(0o700))?;
        }
        Ok(Some(desk))
    }

    /// The spool of this state directory, to look into it.
    pub fn at(state_dir: &Path) -> Desk {
        let aside = Arc::new(Aside::new(state_dir.join("spool-aside")));
        Desk { dir: dir_in(state_dir), aside, is_open: false }
    }

    /// Where puts are left.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where those are that cannot be put.
    pub fn aside_dir(&self) -> &Path {
        &self.aside.dir
    }

    /// Whether members may leave more.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Looks for puts. Removes what nobody has finished.
    pub fn look(&self) -> io::Result<Look> {
        self.look_at(MOST)
    }

    pub(super) fn look_at(&self, most: usize) -> io::Result<Look> {
        let (mut look, mut puts) = (Look::default(), Vec::new());
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            // Gone meanwhile: it was not finished, and its user has given it up.
            let Ok(found) = entry.metadata() else { continue };
            match sort_out(&entry.file_name(), &found) {
                Found::Put(put) => {
                    puts.push(put);
                    // The first to come may be the last to be listed.
                    if puts.len() > 2 * most {
                        look.has_more |= keep_first(&mut puts, most);
                    }
                }
                Found::Unfinished => self.remove_old(&entry.path(), &found, &mut look),
                Found::Dir if look.dirs.len() < ODD => look.dirs.push(entry.path()),
                Found::Odd(why) if look.odd.len() < ODD => look.odd.push((entry.path(), why)),
                Found::Dir | Found::Odd(_) => look.has_more_odd = true,
            }
        }
        look.has_more |= keep_first(&mut puts, most);
        look.puts = puts;
        Ok(look)
    }

    /// Removes what its owner has not finished for long.
    fn remove_old(&self, path: &Path, found: &Metadata, look: &mut Look) {
        // Its owner sets all other times.
        let age = clock::wall_millis() / 1000 - found.ctime();
        if age <= UNFINISHED.as_secs() as i64 {
            return;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound && look.odd.len() < ODD => {
                look.odd
                    .push((path.to_owned(), format!("it is not finished, and cannot be removed: {error}")));
            }
            Ok(()) | Err(_) => {}
        }
    }

    /// Reads a put.
    pub fn read(&self, name: &str) -> Result<Left, Fault> {
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let opened = File::options().read(true).custom_flags(flags.bits()).open(self.dir.join(name));
        let is_gone = |error: &io::Error| error.kind() == ErrorKind::NotFound;
        let file =
            opened.map_err(|error| if is_gone(&error) { Fault::Gone } else { Fault::Passing(error) })?;
        let found = file.metadata().map_err(Fault::Passing)?;
        let damaged = |why: String| Err(Fault::Damaged(why));
        if !found.is_file() || found.mode() & 0o7777 != MARK || uid_in(name) != Some(found.uid()) {
            return damaged("it is no put of its owner".into());
        }
        if found.nlink() != 1 {
            return damaged(format!("it has {} names: another may have been given it", found.nlink()));
        }
        if found.len() > BYTES {
            return damaged(format!("it is longer than {BYTES} bytes"));
        }
        let mut body = Vec::new();
        file.take(BYTES).read_to_end(&mut body).map_err(Fault::Passing)?;
        let Body { mut jobs } = serde_json::from_slice(&body)
            .map_err(|error| Fault::Damaged(format!("it is damaged: {error}")))?;
        if jobs.iter().any(|job| job.id.is_none()) {
            return damaged("a job in it has no id, and could be queued twice".into());
        }
        let left_at = found.ctime() * 1000 + found.ctime_nsec() / 1_000_000;
        let age = Duration::from_millis(u64::try_from(clock::wall_millis() - left_at).unwrap_or(0));
        for job in &mut jobs {
            // If it is taken twice, as when a supervisor dies in between, it is known by this.
            if job.exists == Exists::Refuse && job.token.is_none() {
                job.token = Some(format!("{name}:{}.{:09}", found.ctime(), found.ctime_nsec()));
            }
            // Both count from the put.
            job.delay = job.delay.saturating_sub(age);
            job.expires = job.expires.map(|expires| expires.saturating_sub(age).max(job.delay + LEAST));
            job.by = Some(format!("uid {}", found.uid()));
        }
        Ok(Left { uid: found.uid(), jobs })
    }

    /// Removes a put that was taken.
    pub fn done(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.dir.join(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Sets aside what cannot be put, with the reason in a file beside it. No more than 1,000 are kept.
    pub fn set_aside(&self, path: &Path, why: &str) -> io::Result<()> {
        self.aside.keep(path, why)
    }

    /// Removes a directory that somebody has made, or sets it aside if something is in it.
    pub fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path).or_else(|_| self.aside.keep(path, "it is a directory"))
    }

    /// The number of puts that were set aside, up to 1,000.
    pub fn aside(&self) -> usize {
        self.aside.count()
    }
}

fn sort_out(name: &OsStr, found: &Metadata) -> Found {
    let (mode, owner) = (found.mode() & 0o7777, found.uid());
    match name.to_str() {
        Some(name) if found.is_file() && mode == MARK && uid_in(name) == Some(owner) => {
            Found::Put(Waiting { at: (found.ctime(), found.ctime_nsec()), name: name.to_owned(), uid: owner })
        }
        _ if found.is_file() && mode & 0o1000 == 0 => Found::Unfinished,
        _ if found.is_dir() => Found::Dir,
        _ => {
            let kind = if found.is_file() { "a file" } else { "no regular file" };
            Found::Odd(format!("it is no put of its owner ({kind} of uid {owner}, mode {mode:o})"))
        }
    }
}

/// Keeps the first of these puts, in order. True: there were more.
fn keep_first(puts: &mut Vec<Waiting>, most: usize) -> bool {
    puts.sort();
    let has_more = puts.len() > most;
    puts.truncate(most);
    has_more
}
