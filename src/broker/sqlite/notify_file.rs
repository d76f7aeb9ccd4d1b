//! Notifies other processes on the same store, by a file `<store>-bell`. A process that listens holds a lock on the
//! file and watches it by inotify. A process that has changed something for others writes a byte to it, if the lock
//! shows that one listens.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::message::Message;
use super::place::Place;

pub(super) struct Bell {
    file: File,
}

impl Bell {
    /// Opens the bell; `listen` says whether this process listens.
    pub(super) fn open(path: &Path, listen: bool) -> io::Result<Bell> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        if listen {
            // The lock belongs to this opening of the file, not to the process, so two stores in one process see each
            // other.
            fcntl(&file, FcntlArg::F_OFD_SETLK(&whole(libc::F_RDLCK)))?;
        }
        Ok(Bell { file })
    }

    /// Wakes the other processes, if there are any.
    pub(super) fn ring(&self) {
        let mut lock = whole(libc::F_WRLCK);
        let alone = fcntl(&self.file, FcntlArg::F_OFD_GETLK(&mut lock)).is_ok()
            && lock.l_type == libc::F_UNLCK as i16;
        if !alone && let Err(error) = self.file.write_all_at(b"!", 0) {
            tracing::warn!(
                %error,
                "failed to write the store's notify file: other processes see the change later"
            );
        }
    }
}

fn whole(kind: libc::c_int) -> libc::flock {
    libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: 0, l_len: 0, l_pid: 0 }
}

/// The thread that waits for the bell, and notices when a file of the store is moved or removed.
pub(super) struct Ear {
    thread: Option<JoinHandle<()>>,
    /// Closed to end the thread.
    stop: Option<PipeWriter>,
}

impl Ear {
    pub(super) fn listen(path: &Path, place: &Place, store: Sender<Message>) -> io::Result<Ear> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        inotify.add_watch(path, AddWatchFlags::IN_MODIFY)?;
        for file in place.files() {
            // The number of a file's names is one of its attributes: an open file that loses its last name is not
            // deleted yet.
            inotify.add_watch(file, AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_ATTRIB)?;
        }
        let (end, stop) = io::pipe()?;
        let thread = std::thread::Builder::new()
            .name("store bell".into())
            .spawn(move || hear(&inotify, &end, &store))?;
        Ok(Ear { thread: Some(thread), stop: Some(stop) })
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn hear(inotify: &Inotify, end: &PipeReader, store: &Sender<Message>) {
    loop {
        let mut fds =
            [PollFd::new(inotify.as_fd(), PollFlags::POLLIN), PollFd::new(end.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
        if fds[1].revents().is_some_and(|events| !events.is_empty()) {
            return;
        }
        if inotify.read_events().is_ok() && store.send(Message::Bell).is_err() {
            return;
        }
    }
}
