//! Looks at what somebody else can take from a running supervisor without an error anywhere: the files in its run directory,
//! and the room on the disk of its state directory. Costs no wake-up of its own: the kernel tells of the one, and the keeper
//! pings a supervisor at rest now and then.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, statvfs, utimensat};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::getpid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tracing::warn;

use broker::Complaints;
use process::watched;

/// Longest time between two looks of a supervisor that is never at rest.
const SELDOM: Duration = Duration::from_secs(3600);
/// The same without inotify: nothing else tells a busy supervisor that a file is gone.
const BLIND: Duration = Duration::from_secs(10);
/// Pause until the next look while something is not as it should be.
const AGAIN: Duration = Duration::from_secs(1);
/// With less room than this, in bytes, a store can commit nothing.
const ROOM: u64 = 256 << 10;
/// What failed, in complaints.
const UNREACHED: &str = "no client reaches the API's socket";

/// Makes the files of the run directory again.
pub struct RunFiles {
    /// Makes the API's socket, and opens it to its clients, or says why it cannot.
    pub bind: Box<dyn Fn() -> Result<UnixListener, String> + Send>,
    /// Puts the others back where one is missing. False: that failed, and is to be tried again.
    pub put_back: Box<dyn Fn() -> bool + Send>,
}

/// What a look for the socket found.
enum Found {
    /// The socket is in its place.
    There,
    /// It was gone, and is made again.
    Made,
}

/// Device and inode of a file.
type FileId = (u64, u64);

/// Looks after the run directory, and the lock of the state directory.
pub(super) struct Lookout {
    /// The path of the API's socket.
    pub(super) socket: PathBuf,
    /// The path of the state directory's lock.
    pub(super) state_lock: PathBuf,
    pub(super) files: RunFiles,
    pub(super) complaints: Complaints,
    /// Told when the keeper pings.
    pub(super) pinged: Arc<Notify>,
}

impl Lookout {
    /// Looks for ever; `serve` gets each new listener.
    pub(super) async fn look(self, serve: impl Fn(UnixListener) -> io::Result<()>) {
        let mut own = socket_at(&self.socket).ok().flatten();
        loop {
            // The watch comes first, so that no change between it and the look is missed. A directory that was replaced
            // needs a new watch.
            let watch = watch(self.dir(), &self.state_lock).ok();
            let found = self.look_for_socket(&mut own, &serve);
            match &found {
                Ok(_) => self.complaints.well(UNREACHED, clock::now()),
                Err(why) => self.complaints.wrong(UNREACHED, why, clock::now()),
            }
            // Where no socket can be, there is often no directory for the others either.
            match found.map(|found| (found, (self.files.put_back)())) {
                // The directory may be new, too, and was not there for the watch.
                Ok((Found::Made, true)) if watch.is_none() => continue,
                Ok((Found::Made | Found::There, true)) => {}
                Ok((_, false)) | Err(_) => {
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
            }
            self.touch();
            tokio::select! {
                () = changed(watch.as_ref()) => {}
                () = self.pinged.notified() => {}
                () = tokio::time::sleep(if watch.is_some() { SELDOM } else { BLIND }) => {}
            }
        }
    }

    fn dir(&self) -> &Path {
        self.socket.parent().unwrap_or(&self.socket)
    }

    /// Binds the socket again if it is gone; `own` is the file of the last one. Another file in its place may be that of
    /// another program, and stays.
    fn look_for_socket(
        &self,
        own: &mut Option<FileId>,
        serve: &impl Fn(UnixListener) -> io::Result<()>,
    ) -> Result<Found, String> {
        let path = self.socket.display();
        match socket_at(&self.socket) {
            Ok(found) if found.is_some() && found == *own => return Ok(Found::There),
            // Some shared file systems give a file another number at times.
            Ok(Some(found)) if listens_here(&self.socket) => {
                *own = Some(found);
                return Ok(Found::There);
            }
            Ok(_) => return Err(format!("another file is in the place of {path}: remove it")),
            // A plain file in the place of the directory, too, is somebody's.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(format!("cannot look at {path}: {error}")),
        }
        let listener = (self.files.bind)()?;
        serve(listener).map_err(|error| {
            // A socket without a listener would look as if all were well.
            fs::remove_file(&self.socket).ok();
            format!("cannot listen on {path}: {error}")
        })?;
        *own = socket_at(&self.socket).ok().flatten();
        warn!(%path, "somebody has removed the API's socket; it is made again");
        Ok(Found::Made)
    }

    /// What is old in a directory for temporary files is swept away.
    fn touch(&self) {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let now = Timestamps { last_access: now, last_modification: now };
        let [lock, store, spool] = ["lock", "store", "spool"].map(|name| self.dir().join(name));
        for path in [&self.socket, &lock, &store, &spool, self.dir()] {
            // A file that is not there is seen elsewhere.
            utimensat(CWD, path, &now, AtFlags::SYMLINK_NOFOLLOW).ok();
        }
    }
}

/// Identifies the socket at a path. None: another kind of file is there.
fn socket_at(path: &Path) -> io::Result<Option<FileId>> {
    let found = fs::symlink_metadata(path)?;
    Ok(found.file_type().is_socket().then(|| (found.dev(), found.ino())))
}

/// Whether this process listens on the socket at a path.
fn listens_here(path: &Path) -> bool {
    let ask = || {
        // While the backlog is full, connect would wait for a place in it.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        socket_peercred(&socket)
    };
    ask().is_ok_and(|listener| listener.pid == getpid())
}

/// Watches for files that leave a directory or take the place of others, and for its own end; and for the end of a lock,
/// with that of the directory which it is in.
fn watch(dir: &Path, lock: &Path) -> io::Result<AsyncFd<OwnedFd>> {
    let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let leaves = WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::MOVED_TO;
    let ends = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
    inotify::add_watch(&inotify, dir, leaves | ends)?;
    // A file that the keeper has open is not deleted yet when it is removed: it has one name less. If one of these is not
    // there, the look that follows sees it.
    inotify::add_watch(&inotify, lock, ends | WatchFlags::ATTRIB).ok();
    lock.parent().and_then(|dir| inotify::add_watch(&inotify, dir, ends).ok());
    watched(inotify, Interest::READABLE)
}

/// Waits until the watch has seen something; without a watch for ever.
async fn changed(watch: Option<&AsyncFd<OwnedFd>>) {
    match watch {
        Some(watch) => drop(watch.readable().await),
        None => std::future::pending().await,
    }
}

/// Why nothing can be written there, if the disk is full; None also if that cannot be told.
pub(super) fn no_room(dir: &Path) -> Option<String> {
    let disk = statvfs(dir).ok()?;
    let room = disk.f_bavail.saturating_mul(disk.f_frsize);
    // A filesystem without blocks (/proc), or without a fixed number of inodes (btrfs), reports 0 of them.
    let what = match (room < ROOM && disk.f_blocks > 0, disk.f_files > 0 && disk.f_favail == 0) {
        (true, _) => format!("{} KiB are left, free some space", room >> 10),
        (false, true) => "no further file fits (inodes), remove some".to_owned(),
        (false, false) => return None,
    };
    Some(format!("the disk of {} is full, what is written there is refused or lost: {what}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_is_known_by_its_listener_whatever_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, plain) = (dir.path().join("ours"), dir.path().join("plain"));
        let listener = UnixListener::bind(&ours).unwrap();
        fs::write(&plain, "").unwrap();
        assert!(listens_here(&ours) && !listens_here(&plain));
        drop(listener);
        assert!(!listens_here(&ours), "nobody listens");
    }

    #[test]
    fn only_a_full_disk_has_no_room() {
        assert_eq!(no_room(Path::new("/dev/shm")), None);
        assert_eq!(no_room(Path::new("/proc")), None, "it has no blocks at all");
        assert_eq!(no_room(Path::new("/no/such/directory")), None);
    }
}
