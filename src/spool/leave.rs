//! Leaves a put.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::{BYTES, Body, DIR_MODE, MARK, PUTS, dir_in, name_of};
use model::NewJob;

/// The spool of another user's supervisor.
#[derive(Debug)]
pub struct Spool {
    dir: OwnedFd,
    path: PathBuf,
    owner: u32,
}

impl Spool {
    /// The spool of the supervisor with this run or state directory, if it is another user's and has one. `trusts` says
    /// whether the owner of that directory may get jobs.
    pub fn find(base: &Path, trusts: impl FnOnce(&Path, u32) -> bool) -> Option<Spool> {
        let owner = base.symlink_metadata().ok()?.uid();
        if owner == geteuid().as_raw() || !trusts(base, owner) {
            return None;
        }
        let path = dir_in(base);
        let path = path.canonicalize().unwrap_or(path);
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let dir = open(&path, flags, Mode::empty()).ok()?;
        let found = fstat(&dir).ok()?;
        let is_open = found.st_uid == owner && found.st_mode & 0o7777 == DIR_MODE;
        is_open.then_some(Spool { dir, path, owner })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The user whose supervisor takes what is left here.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Leaves a put. It is durable when this returns; until then no supervisor takes it.
    pub fn leave(&self, jobs: Vec<NewJob>) -> io::Result<()> {
        let body = serde_json::to_vec(&Body { jobs })?;
        if body.len() as u64 > BYTES {
            return Err(io::Error::other(format!("a put of more than {BYTES} bytes is not kept")));
        }
        let (name, file) = self.place()?;
        write(file, &body).inspect_err(|_| {
            unlinkat(self.dir.as_fd(), name.as_str(), UnlinkatFlags::NoRemoveDir).ok();
        })
    }

    /// A new file. Where to look first is as good as random, so that a look is short.
    fn place(&self) -> io::Result<(String, File)> {
        let uid = geteuid().as_raw();
        let first = process::id().wrapping_mul(0x9e37_79b9) ^ clock::wall_millis() as u32;
        for step in 0..PUTS {
            let name = name_of(uid, (first % PUTS + step) % PUTS);
            let flags =
                OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            match openat(self.dir.as_fd(), name.as_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR) {
                Ok(file) => return Ok((name, File::from(file))),
                Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other(format!("{PUTS} puts of uid {uid} wait there already")))
    }
}

/// Writes it, then marks it. To sync a file that was just made also keeps its name; its directory cannot be opened to sync
/// it, as members may not list it.
fn write(mut file: File, body: &[u8]) -> io::Result<()> {
    file.write_all(body)?;
    file.sync_all()?;
    file.set_permissions(Permissions::from_mode(MARK))?;
    file.sync_all()
}
