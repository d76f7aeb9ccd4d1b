//! Notifies other processes on the same store, by a file `<store>-bell`. A process that listens holds a lock on the
//! file and watches it by inotify. A process that has changed something for others writes a byte to it, if the lock
//! shows that one listens. Where inotify is refused, as its instances are used up, it looks at the file instead.

use std::fs::{self, File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::message::Message;
use super::place::Place;
use common::lock;

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
    /// Why the thread polls the files in place of inotify, while it does.
    looks: Arc<Mutex<Option<String>>>,
}

impl Ear {
    pub(super) fn listen(path: &Path, place: &Place, store: Sender<Message>) -> io::Result<Ear> {
        let (end, stop) = io::pipe()?;
        let looks = Arc::default();
        let files = Files { bell: path.to_owned(), store: place.files().map(Path::to_owned).collect() };
        let mut hearing = Hearing { files, end, store, looks: Arc::clone(&looks) };
        let inotify = hearing.try_to_watch();
        if let Some(why) = lock(&looks).as_ref() {
            tracing::warn!("{why}");
        }
        let thread =
            std::thread::Builder::new().name("store bell".into()).spawn(move || hearing.run(inotify))?;
        Ok(Ear { thread: Some(thread), stop: Some(stop), looks })
    }

    /// The warning for `status`, while it polls.
    pub(super) fn concern(&self) -> Option<String> {
        lock(&self.looks).clone()
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

/// The bell, and the files whose place matters.
struct Files {
    bell: PathBuf,
    store: Vec<PathBuf>,
}

/// What of a file shows that it was written to, moved or removed; None if it is gone.
type Seen = Option<(u64, u64, u64, SystemTime)>;

impl Files {
    fn watch(&self) -> nix::Result<Inotify> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        inotify.add_watch(&self.bell, AddWatchFlags::IN_MODIFY)?;
        for file in &self.store {
            // The number of a file's names is one of its attributes: an open file that loses its last name is not
            // deleted yet.
            inotify.add_watch(file, AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_ATTRIB)?;
        }
        Ok(inotify)
    }

    fn look(&self) -> Vec<Seen> {
        let seen = |path: &PathBuf| {
            let found = fs::metadata(path).ok()?;
            Some((found.dev(), found.ino(), found.nlink(), found.modified().ok()?))
        };
        let places = self
            .store
            .iter()
            .map(|path| seen(path).map(|(dev, ino, links, _)| (dev, ino, links, UNIX_EPOCH)));
        std::iter::once(seen(&self.bell)).chain(places).collect()
    }
}

/// Pause between two looks at the files.
const LOOK: Duration = Duration::from_millis(250);
/// Number of looks before inotify is tried again.
const LOOKS: u32 = 40;
/// Two writes within this time may leave the same time at a file.
const TICK: Duration = Duration::from_millis(50);

struct Hearing {
    files: Files,
    end: PipeReader,
    store: Sender<Message>,
    looks: Arc<Mutex<Option<String>>>,
}

impl Hearing {
    /// A watch, or None if there is none to be had: then it is noted why.
    fn try_to_watch(&mut self) -> Option<Inotify> {
        let watch = self.files.watch();
        *lock(&self.looks) = watch.as_ref().err().map(|errno| {
            format!(
                "inotify is refused ({errno}): changes by other processes are seen after {} ms instead of at once; more for \
                 this user: sysctl fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=65536",
                LOOK.as_millis()
            )
        });
        watch.ok()
    }

    /// Tells the store of each change until it is to end.
    fn run(mut self, mut inotify: Option<Inotify>) {
        loop {
            let goes_on = match inotify.take() {
                Some(watch) => self.hear(&watch),
                None => self.look().inspect(|()| inotify = self.try_to_watch()),
            };
            if goes_on.is_none() {
                return;
            }
        }
    }

    /// Tells what inotify reports; None = it is to end.
    fn hear(&self, inotify: &Inotify) -> Option<()> {
        loop {
            self.wait(Some(inotify.as_fd()), PollTimeout::NONE)?;
            if inotify.read_events().is_ok() {
                self.store.send(Message::Bell).ok()?;
            }
        }
    }

    /// Looks at the files for some time; None = it is to end.
    fn look(&self) -> Option<()> {
        let mut before = Vec::new();
        for _ in 0..LOOKS {
            let now = self.files.look();
            let is_recent = now[0].is_some_and(|(.., at)| at.elapsed().is_ok_and(|age| age < LOOK + TICK));
            if now != before || is_recent {
                self.store.send(Message::Bell).ok()?;
            }
            before = now;
            self.wait(None, PollTimeout::from(LOOK.as_millis() as u16))?;
        }
        // What happens until a watch is there is seen by the next look.
        self.store.send(Message::Bell).ok()
    }

    /// Waits for something to hear, or for that time; None = it is to end.
    fn wait(&self, inotify: Option<BorrowedFd<'_>>, time: PollTimeout) -> Option<()> {
        let fds = [Some(self.end.as_fd()), inotify].into_iter().flatten();
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut fds, time) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
        fds[0].revents().is_none_or(|events| events.is_empty()).then_some(())
    }
}
