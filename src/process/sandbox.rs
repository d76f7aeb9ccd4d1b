//! A directory for each life, empty when a job begins.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::remove::remove;
use model::Identity;

/// Prefix of names that are to be removed. A life's name has a dash.
const GONE: &str = "gone.";

/// Pause between two tries to remove what could not be removed.
const AGAIN: Duration = Duration::from_secs(10);

/// Hears what became of a try to remove a directory.
pub type Removed = Arc<dyn Fn(&Path, io::Result<()>) + Send + Sync>;

/// The directories of all lives, and a thread that removes what jobs have left in them: a job may leave a million
/// files, and the next one must not wait for that.
pub(super) struct Sandboxes {
    /// The parent of the directories.
    root: PathBuf,
    /// Sends paths to the thread, which starts with the first one.
    thread: Option<Sender<PathBuf>>,
    /// Number of directories moved aside.
    count: u64,
    /// Directories of ended lives that could not be moved aside, and those aside that the thread did not get.
    stuck: BTreeSet<PathBuf>,
    removed: Removed,
}

impl Sandboxes {
    /// Begins by removing what jobs of an earlier supervisor have left: none of those jobs lives.
    pub(super) fn new(root: PathBuf, removed: Removed) -> Sandboxes {
        let mut sandboxes = Sandboxes { root, thread: None, count: 0, stuck: BTreeSet::new(), removed };
        let left: Vec<PathBuf> = fs::read_dir(&sandboxes.root)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        for dir in left {
            sandboxes.leave(&dir);
        }
        sandboxes
    }

    /// Has the directory of a life that has ended removed, and with it those for which that has failed before.
    pub(super) fn leave(&mut self, dir: &Path) {
        let mut dirs = std::mem::take(&mut self.stuck);
        let known = dirs.clone();
        dirs.insert(dir.to_owned());
        for dir in dirs {
            if known.contains(&dir) && self.is_aside(&dir) {
                self.hand_over(dir);
                continue;
            }
            match self.clear(&dir) {
                Ok(()) if known.contains(&dir) => (self.removed)(&dir, Ok(())),
                Ok(()) => {}
                Err(error) => {
                    (self.removed)(&dir, Err(error));
                    self.stuck.insert(dir);
                }
            }
        }
    }

    /// Makes an empty directory for a life.
    pub(super) fn empty(&mut self, dir: &Path, owner: Option<&Identity>) -> io::Result<PathBuf> {
        self.clear(dir)?;
        if self.stuck.remove(dir) {
            (self.removed)(dir, Ok(()));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        if let Some(who) = owner {
            chown(dir, Some(who.uid), Some(who.gid))?;
            // That user needs access to the path: to the parent of the lives' directories, and to the state directory,
            // in which everything else is closed by its own mode.
            dir.ancestors().skip(1).take(2).try_for_each(let_pass)?;
        }
        Ok(dir.to_owned())
    }

    /// Moves the directory aside, if it exists, and has it removed.
    pub(super) fn clear(&mut self, dir: &Path) -> io::Result<()> {
        loop {
            self.count += 1;
            let aside = self.root.join(format!("{GONE}{}", self.count));
            match fs::rename(dir, &aside) {
                Ok(()) => {
                    self.hand_over(aside);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                // An earlier supervisor has left a directory of that name.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn is_aside(&self, dir: &Path) -> bool {
        let is_gone = |name: &OsStr| name.as_encoded_bytes().starts_with(GONE.as_bytes());
        dir.parent() == Some(&self.root) && dir.file_name().is_some_and(is_gone)
    }

    /// Sends a directory that was moved aside to the thread. If that fails, it is sent again when the next life ends:
    /// by the name aside, as there is nothing under the other one any more.
    fn hand_over(&mut self, aside: PathBuf) {
        if let Err(error) = self.tell(&aside) {
            (self.removed)(&aside, Err(error));
            self.stuck.insert(aside);
        }
    }

    fn tell(&mut self, aside: &Path) -> io::Result<()> {
        let thread = match self.thread.take() {
            Some(thread) => thread,
            None => start(self.removed.clone())?,
        };
        let ended = |_| io::Error::other("the thread that removes directories has ended");
        thread.send(aside.to_owned()).map_err(ended)?;
        // One that has ended is not kept: the next try starts another.
        self.thread = Some(thread);
        Ok(())
    }
}

/// Starts the one thread, however much jobs leave. The next supervisor removes what is left when this one ends.
fn start(removed: Removed) -> io::Result<Sender<PathBuf>> {
    let (sender, dirs) = channel();
    let builder = std::thread::Builder::new().name("tv-sandbox".into()).stack_size(128 << 10);
    builder.spawn(move || remove_all(&dirs, &removed, AGAIN))?;
    Ok(sender)
}

/// Removes directories as they come, and tries those that could not be removed again after each pause.
fn remove_all(dirs: &Receiver<PathBuf>, removed: &Removed, pause: Duration) {
    let mut left: Vec<PathBuf> = Vec::new();
    let mut again = clock::now() + pause;
    loop {
        let next = match left.is_empty() {
            true => dirs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => dirs.recv_timeout(again.since(clock::now())),
        };
        let mut tried = match next {
            Ok(dir) => vec![dir],
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // Also after one that came: in a busy pool there is always one.
        if clock::now() >= again {
            tried.append(&mut left);
            again = clock::now() + pause;
        }
        for dir in tried {
            let result = match remove(&dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                result => result,
            };
            let is_left = result.is_err();
            removed(&dir, result);
            if is_left {
                left.push(dir);
            }
        }
    }
}

/// Lets others pass through a directory, but see nothing in it.
fn let_pass(dir: &Path) -> io::Result<()> {
    let mode = fs::metadata(dir)?.mode() & 0o7777;
    if mode & 0o011 == 0o011 {
        return Ok(());
    }
    fs::set_permissions(dir, Permissions::from_mode(mode | 0o011))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(root: &Path) -> Vec<String> {
        let entries = fs::read_dir(root).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn sandboxes_left_by_an_earlier_supervisor_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("sandbox");
        for left in ["gone.1/a/b", "gone.2/c", "pool-1/d", "gone-1/e"] {
            fs::create_dir_all(root.join(left)).unwrap();
        }
        let mut sandboxes = Sandboxes::new(root.clone(), Arc::new(|_, _| ()));
        let slot = sandboxes.empty(&root.join("gone-1"), None).unwrap();
        // The thread ends after it has removed all queued directories.
        let (thread, done) = (sandboxes.thread.take().unwrap(), sandboxes.root.clone());
        drop(thread);
        while names(&done).len() > 1 {
            std::thread::yield_now();
        }
        assert_eq!(names(&root), ["gone-1"]);
        assert_eq!(names(&slot), [""; 0]);
    }

    #[test]
    fn what_cannot_be_moved_aside_is_told_and_moved_later() {
        let place = tempfile::tempdir().unwrap();
        // No directory, so that nothing can be moved into it.
        let (root, dir) = (place.path().join("sandbox"), place.path().join("pool-1.1"));
        fs::write(&root, "").unwrap();
        fs::create_dir(&dir).unwrap();
        let (told, heard) = channel();
        let removed: Removed = Arc::new(move |dir, result| drop(told.send((dir.to_owned(), result.is_ok()))));
        let mut sandboxes = Sandboxes::new(root.clone(), removed);
        sandboxes.leave(&dir);
        assert_eq!(heard.recv(), Ok((dir.clone(), false)));
        fs::remove_file(&root).unwrap();
        fs::create_dir(&root).unwrap();
        sandboxes.leave(&place.path().join("pool-1.2"));
        assert_eq!(heard.recv(), Ok((dir.clone(), true)));
        assert!(!dir.exists());
    }

    #[test]
    fn what_the_thread_could_not_be_told_is_removed_after_the_next_life() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("sandbox");
        let (told, heard) = channel();
        let removed: Removed = Arc::new(move |dir, result| drop(told.send((dir.to_owned(), result.is_ok()))));
        let mut sandboxes = Sandboxes::new(root.clone(), removed);
        // A thread that has ended.
        sandboxes.thread = Some(channel().0);
        let dir = sandboxes.empty(&root.join("pool-1.1"), None).unwrap();
        sandboxes.leave(&dir);
        let (aside, is_removed) = heard.recv().unwrap();
        assert!(!is_removed && aside.exists() && aside != dir, "{}", aside.display());
        sandboxes.leave(&root.join("pool-1.2"));
        assert_eq!(heard.recv(), Ok((aside.clone(), true)));
        assert!(!aside.exists());
    }

    #[test]
    fn what_cannot_be_removed_is_tried_again_while_others_come() {
        let place = tempfile::tempdir().unwrap();
        let (file, pause) = (place.path().join("file"), Duration::from_millis(500));
        fs::write(&file, "").unwrap();
        let (told, heard) = channel();
        let removed: Removed = Arc::new(move |dir, result| drop(told.send((dir.to_owned(), result.is_ok()))));
        let (sender, dirs) = channel();
        std::thread::spawn(move || remove_all(&dirs, &removed, pause));
        sender.send(file.clone()).unwrap();
        assert_eq!(heard.recv(), Ok((file.clone(), false)));
        fs::remove_file(&file).unwrap();
        let begun = clock::now();
        while heard.try_iter().all(|(dir, _)| dir != file) {
            assert!(clock::now().since(begun) < 20 * pause, "it is not tried again");
            sender.send(place.path().join("none")).unwrap();
            std::thread::sleep(pause / 50);
        }
    }

    #[test]
    fn what_cannot_be_removed_is_told_and_removed_when_it_can() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("sandbox");
        // No directory: it can be moved aside, and not be removed as one.
        fs::create_dir(&root).unwrap();
        fs::write(root.join("pool-1.1"), "").unwrap();
        let (told, heard) = channel();
        let removed: Removed = Arc::new(move |dir, result| drop(told.send((dir.to_owned(), result.is_ok()))));
        let _sandboxes = Sandboxes::new(root.clone(), removed);
        let (dir, is_removed) = heard.recv().unwrap();
        assert!(!is_removed);
        fs::remove_file(&dir).unwrap();
        assert_eq!(heard.recv_timeout(3 * AGAIN), Ok((dir, true)));
    }
}
