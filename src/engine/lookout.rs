//! Looks at what somebody else can take from a running supervisor without an error anywhere: the socket in its run directory,
//! and the room on the disk of its state directory. Costs no wake-up of its own: the kernel tells of the one, and the keeper
//! pings a supervisor at rest now and then.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, statvfs, utimensat};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tracing::warn;

use broker::Complaints;
use process::watched;

/// Longest time between two looks of a supervisor that is never at rest.
const SELDOM: Duration = Duration::from_secs(3600);
/// Pause after a failure to bind the socket.
const AGAIN: Duration = Duration::from_secs(1);
/// With less room than this, in bytes, a store can commit nothing.
const ROOM: u64 = 256 << 10;
/// What failed, in complaints.
const UNBOUND: &str = "the API's socket was removed and cannot be made again";

/// Makes the API's socket, or says why it cannot be made.
pub type Bind = Box<dyn Fn() -> Result<UnixListener, String> + Send>;

/// What a look for the socket found.
enum Found {
    /// The socket, or another file, is in its place.
    There,
    /// It was gone, and is made again.
    Made,
}

/// Looks after the API's socket.
pub(super) struct Lookout {
    /// The path of the socket.
    pub(super) socket: PathBuf,
    pub(super) bind: Bind,
    pub(super) complaints: Complaints,
    /// Told when the keeper pings.
    pub(super) pinged: Arc<Notify>,
}

impl Lookout {
    /// Looks for ever; `serve` gets each new listener.
    pub(super) async fn look(self, serve: impl Fn(UnixListener)) {
        loop {
            // The watch comes first, so that no change between it and the look is missed. A directory that was replaced
            // needs a new watch.
            let watch = watch(self.dir()).ok();
            self.touch();
            match self.look_for_socket(&serve) {
                // The directory may be new, too, and was not there for the watch.
                Ok(Found::Made) if watch.is_none() => continue,
                Ok(Found::Made | Found::There) => {}
                Err(()) => {
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
            }
            tokio::select! {
                () = changed(watch.as_ref()) => {}
                () = self.pinged.notified() => {}
                () = tokio::time::sleep(SELDOM) => {}
            }
        }
    }

    fn dir(&self) -> &Path {
        self.socket.parent().unwrap_or(&self.socket)
    }

    /// Binds the socket again if it is gone. Another file in its place may be that of another supervisor, and stays.
    fn look_for_socket(&self, serve: &impl Fn(UnixListener)) -> Result<Found, ()> {
        let found = fs::symlink_metadata(&self.socket);
        let is_gone = found.is_err_and(|error| error.kind() == ErrorKind::NotFound);
        if is_gone {
            let listener = (self.bind)().map_err(|why| self.complaints.wrong(UNBOUND, &why, clock::now()))?;
            warn!(path = %self.socket.display(), "somebody has removed the API's socket; it is made again");
            serve(listener);
        }
        self.complaints.well(UNBOUND, clock::now());
        Ok(if is_gone { Found::Made } else { Found::There })
    }

    /// What is old in a directory for temporary files is swept away.
    fn touch(&self) {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let now = Timestamps { last_access: now, last_modification: now };
        for path in [&self.socket, &self.dir().join("lock"), &self.dir().join("store"), self.dir()] {
            // A file that is not there is seen elsewhere.
            utimensat(CWD, path, &now, AtFlags::SYMLINK_NOFOLLOW).ok();
        }
    }
}

/// Watches for files that leave a directory, and for its own end.
fn watch(dir: &Path) -> io::Result<AsyncFd<OwnedFd>> {
    let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let leaves =
        WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
    inotify::add_watch(&inotify, dir, leaves)?;
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
    fn only_a_full_disk_has_no_room() {
        assert_eq!(no_room(Path::new("/dev/shm")), None);
        assert_eq!(no_room(Path::new("/proc")), None, "it has no blocks at all");
        assert_eq!(no_room(Path::new("/no/such/directory")), None);
    }
}
