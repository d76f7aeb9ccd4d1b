//! A directory for each life, empty when a job begins.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};

use super::remove::remove;
use model::Identity;

/// Prefix of names that are to be removed. A life's name has a dash.
const GONE: &str = "gone.";

/// The directories of all lives, and a thread that removes what jobs have left in them: a job may leave a million
/// files, and the next one must not wait for that.
pub(super) struct Sandboxes {
    /// The parent of the directories.
    root: PathBuf,
    /// Sends paths to the thread, which starts with the first one.
    thread: Option<Sender<PathBuf>>,
    /// Number of directories moved aside.
    count: u64,
}

impl Sandboxes {
    /// Begins by removing what jobs of an earlier supervisor have left: none of those jobs lives.
    pub(super) fn new(root: PathBuf) -> Sandboxes {
        let mut sandboxes = Sandboxes { root, thread: None, count: 0 };
        let left: Vec<PathBuf> = fs::read_dir(&sandboxes.root)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        for dir in left {
            if let Err(error) = sandboxes.clear(&dir) {
                tracing::warn!(%error, path = %dir.display(), "failed to remove what an earlier job left");
            }
        }
        sandboxes
    }

    /// Makes an empty directory for a life.
    pub(super) fn empty(&mut self, dir: &Path, owner: Option<&Identity>) -> io::Result<PathBuf> {
        self.clear(dir)?;
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
                Ok(()) => return self.hand_over(aside),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                // An earlier supervisor has left a directory of that name.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn hand_over(&mut self, aside: PathBuf) -> io::Result<()> {
        let thread = match &self.thread {
            Some(thread) => thread,
            None => self.thread.insert(start()?),
        };
        thread.send(aside).map_err(|_| io::Error::other("the thread that removes directories has ended"))
    }
}

/// Starts the one thread, however much jobs leave. The next supervisor removes what is left when this one ends.
fn start() -> io::Result<Sender<PathBuf>> {
    let (sender, dirs) = channel::<PathBuf>();
    std::thread::Builder::new().name("tv-sandbox".into()).stack_size(128 << 10).spawn(move || {
        for dir in dirs {
            if let Err(error) = remove(&dir) {
                tracing::warn!(%error, path = %dir.display(), "failed to remove what a job left");
            }
        }
    })?;
    Ok(sender)
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
        let mut sandboxes = Sandboxes::new(root.clone());
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
}
