//! Takes puts out of the spool.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;

use super::{BYTES, Body, DIR_MODE, MARK, dir_in, uid_in};
use model::{Exists, NewJob};

/// Age of a file without its mark that nobody writes any more: its put was never acknowledged.
const UNFINISHED: Duration = Duration::from_secs(3600);
/// What is left of the time by which a job is to begin, if it is over: the broker has it expire.
const LEAST: Duration = Duration::from_millis(1);
/// Limit of the directory entries that one look reads; the rest is for later looks.
const FILES: usize = 100_000;

/// The spool of a supervisor.
#[derive(Clone, Debug)]
pub struct Desk {
    dir: PathBuf,
    /// Where what cannot be put is kept until a person has seen to it.
    aside: PathBuf,
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
    /// It is damaged: no later look can read it.
    Damaged(String),
    /// It could not be read this time.
    Passing(io::Error),
}

/// What a look has found.
#[derive(Debug, Default)]
pub struct Look {
    /// The names of the puts, first come first.
    pub puts: Vec<String>,
    /// What is there and is none, each with the reason.
    pub odd: Vec<(PathBuf, String)>,
}

impl Desk {
    /// Opens the spool of this state directory to the group, or closes it. None: there is none, and none is wanted.
    pub fn open(state_dir: &Path, group: Option<u32>) -> io::Result<Option<Desk>> {
        let desk =
            Desk { dir: dir_in(state_dir), aside: state_dir.join("spool-aside"), is_open: group.is_some() };
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
        if let Some(group) = group {
            // Not while all is well: a put may come at any moment.
            if !is_as_wanted {
                chown(&desk.dir, None, Some(group))?;
                fs::set_permissions(&desk.dir, Permissions::from_mode(DIR_MODE))?;
            }
            // Members pass through the state directory, in which everything else is closed by its own mode.
            let mode = fs::metadata(state_dir)?.mode();
            fs::set_permissions(state_dir, Permissions::from_mode(mode & 0o7777 | 0o011))?;
        }
        Ok(Some(desk))
    }

    /// The spool of this state directory, to look into it.
    pub fn at(state_dir: &Path) -> Desk {
        Desk { dir: dir_in(state_dir), aside: state_dir.join("spool-aside"), is_open: false }
    }

    /// Where puts are left.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where those are that cannot be put.
    pub fn aside_dir(&self) -> &Path {
        &self.aside
    }

    /// Whether members may leave more.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Looks for puts. Removes what nobody has finished.
    pub fn look(&self) -> io::Result<Look> {
        let (mut look, mut puts) = (Look::default(), Vec::new());
        for entry in fs::read_dir(&self.dir)?.take(FILES) {
            let entry = entry?;
            // Gone meanwhile: it was not finished, and its user has given it up.
            let Ok(found) = entry.metadata() else { continue };
            let name = entry.file_name();
            let uid = name.to_str().and_then(uid_in);
            match name.to_str() {
                Some(name)
                    if found.is_file() && found.mode() & 0o7777 == MARK && uid == Some(found.uid()) =>
                {
                    puts.push((found.ctime(), found.ctime_nsec(), name.to_owned()));
                }
                _ if found.is_file() && found.mode() & 0o1000 == 0 => {
                    // Its owner sets all other times.
                    let age = clock::wall_millis() / 1000 - found.ctime();
                    if age > UNFINISHED.as_secs() as i64 {
                        fs::remove_file(entry.path())?;
                    }
                }
                _ => {
                    let kind = if found.is_file() { "a file" } else { "no regular file" };
                    let (mode, owner) = (found.mode() & 0o7777, found.uid());
                    let why = format!("it is no put of its owner ({kind} of uid {owner}, mode {mode:o})");
                    look.odd.push((entry.path(), why));
                }
            }
        }
        puts.sort();
        look.puts = puts.into_iter().map(|(.., name)| name).collect();
        Ok(look)
    }

    /// Reads a put.
    pub fn read(&self, name: &str) -> Result<Left, Fault> {
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let opened = File::options().read(true).custom_flags(flags.bits()).open(self.dir.join(name));
        let file = opened.map_err(Fault::Passing)?;
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
            job.expires = job.expires.map(|expires| expires.saturating_sub(age));
            if job.expires == Some(Duration::ZERO) {
                // Its time is over already: due and expiry round to the same millisecond, so it never begins.
                (job.delay, job.expires) = (LEAST * 8 / 10, Some(LEAST * 9 / 10));
            }
            job.by = Some(format!("uid {}", found.uid()));
        }
        Ok(Left { uid: found.uid(), jobs })
    }

    /// Removes a put that was taken.
    pub fn done(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(name))
    }

    /// Sets aside what cannot be put, with the reason in a file beside it.
    pub fn set_aside(&self, path: &Path, why: &str) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.aside) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // The next one of that name must not take its place.
        let name = format!("{name}-{}", clock::wall_millis());
        fs::rename(path, self.aside.join(&name))?;
        let reason = self.aside.join(format!("{name}.why"));
        let mut reason = File::options().write(true).create_new(true).mode(0o600).open(reason)?;
        writeln!(reason, "{why}")
    }

    /// The number of puts that were set aside.
    pub fn aside(&self) -> usize {
        let is_reason = |name: &std::ffi::OsStr| name.as_encoded_bytes().ends_with(b".why");
        let entries = fs::read_dir(&self.aside).into_iter().flatten().flatten();
        entries.filter(|entry| !is_reason(&entry.file_name())).count()
    }
}
