//! Watches directories of code: a save has all workers exchanged for new ones (`start --watch`). The kernel tells of
//! changes by inotify; where it refuses, the directories are looked at each second.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;
use tracing::warn;

use super::request::Request;
use api::PauseOrder;
use model::Change;

/// A save is over when nothing has changed for this time: editors and checkouts write several files.
const SETTLED: Duration = Duration::from_millis(200);
/// After this time it counts as over, whatever else changes.
const LONGEST: Duration = Duration::from_secs(2);
/// How often to look where inotify is refused.
const LOOK: Duration = Duration::from_secs(1);
/// Limit of the files that are watched.
const MOST: usize = 50_000;

/// What code is, by the ends of names: what jobs write beside it, such as data and logs, exchanges no workers.
const CODE: [&str; 21] = [
    "cjs", "env", "ex", "exs", "html", "ini", "j2", "jinja", "js", "jsx", "lua", "mjs", "php", "pl", "py",
    "rb", "toml", "ts", "tsx", "yaml", "yml",
];
/// Directories that hold what tools make.
const MADE: [&str; 4] = ["__pycache__", "node_modules", "site-packages", "target"];

/// The files of code, each with what a save changes: its inode, its size and its time in nanoseconds.
type Picture = BTreeMap<PathBuf, (u64, u64, i128)>;

/// Watches these directories, if any, in a thread of its own, for as long as the supervisor lives.
pub(super) fn watch(dirs: &[PathBuf], requests: &Sender<Request>) -> io::Result<()> {
    if dirs.is_empty() {
        return Ok(());
    }
    let (dirs, requests) = (dirs.to_vec(), requests.clone());
    let mut bell = Bell::new();
    // Before the first worker loads the code: what is saved while it does counts.
    let before = look(&dirs, &mut bell);
    let run = move || run(&dirs, bell, before, &requests);
    std::thread::Builder::new().name("code watch".into()).spawn(run).map(drop)
}

fn run(dirs: &[PathBuf], mut bell: Bell, mut before: Picture, requests: &Sender<Request>) {
    loop {
        bell.wait();
        let now = look(dirs, &mut bell);
        if let Some(changed) = changed(&before, &now) {
            let (answer, _) = oneshot::channel();
            let (how, by) = (PauseOrder::default(), format!("--watch, as {changed} changed"));
            let order = Request::Change { pool: None, change: Change::Recycle, how, by, answer };
            if requests.blocking_send(order).is_err() {
                return;
            }
        }
        before = now;
    }
}

/// The first file that was saved, made or removed, and how many others.
fn changed(before: &Picture, now: &Picture) -> Option<String> {
    let saved = now.iter().filter(|(path, file)| before.get(*path) != Some(file));
    let removed = before.iter().filter(|(path, _)| !now.contains_key(*path));
    let mut all = saved.chain(removed).map(|(path, _)| path);
    let first = all.next()?;
    let others = all.count();
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    Some(format!("{}{more}", first.display()))
}

/// All files of code below these directories. What cannot be read is left out: it comes back with a later look.
fn look(dirs: &[PathBuf], bell: &mut Bell) -> Picture {
    let (mut picture, mut left) = (Picture::new(), dirs.to_vec());
    while let Some(dir) = left.pop() {
        bell.add(&dir);
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !name.starts_with('.') && !MADE.contains(&&*name) => {
                    left.push(path);
                }
                // A link to a file is followed: deploys and dotfiles are made of them.
                Ok(kind) if !kind.is_dir() && is_code(&name) && picture.len() < MOST => {
                    if let Ok(file) = fs::metadata(&path) {
                        let at = i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec());
                        picture.insert(path, (file.ino(), file.size(), at));
                    }
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    picture
}

/// Whether a file holds code. The files that editors make for a moment begin with a point or end otherwise.
fn is_code(name: &str) -> bool {
    let end = Path::new(name).extension().and_then(|end| end.to_str());
    !name.starts_with(['.', '#']) && end.is_some_and(|end| CODE.contains(&end))
}

/// Wakes when something may have changed.
struct Bell {
    /// None = the kernel refuses: then each second counts.
    inotify: Option<Inotify>,
}

impl Bell {
    fn new() -> Bell {
        match Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK) {
            Ok(inotify) => Bell { inotify: Some(inotify) },
            Err(error) => {
                let mut bell = Bell { inotify: None };
                bell.refused(error);
                bell
            }
        }
    }

    fn refused(&mut self, error: Errno) {
        warn!(%error, "the kernel watches no more files for this user: --watch looks each second (fs.inotify)");
        self.inotify = None;
    }

    /// Watches a directory, which may be watched already.
    fn add(&mut self, dir: &Path) {
        let Some(inotify) = &self.inotify else { return };
        let what = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE;
        match inotify.add_watch(dir, what) {
            // It is gone already, or not ours to read.
            Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => {}
            Err(error) => self.refused(error),
        }
    }

    /// Waits until something may have changed, and then until the save is over.
    fn wait(&self) {
        let Some(inotify) = &self.inotify else { return std::thread::sleep(LOOK) };
        let rings = |patience: PollTimeout| {
            let mut fds = [PollFd::new(inotify.as_fd(), PollFlags::POLLIN)];
            // Interrupted by a signal it may be over, too: the look that follows decides.
            poll(&mut fds, patience).map_or(true, |count| count > 0)
        };
        rings(PollTimeout::NONE);
        let settled = PollTimeout::try_from(SETTLED).unwrap_or(PollTimeout::ZERO);
        let end = clock::now() + LONGEST;
        loop {
            while inotify.read_events().is_ok_and(|events| !events.is_empty()) {}
            if clock::now() >= end || !rings(settled) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saves_of_code_are_seen_and_what_tools_and_jobs_write_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (dirs, path) = ([dir.path().to_owned()], |name: &str| dir.path().join(name));
        let mut bell = Bell { inotify: None };
        for name in ["app", "app/__pycache__", ".git", "node_modules"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("app/jobs.py"), "1").unwrap();
        let before = look(&dirs, &mut bell);
        for made in [
            "app/__pycache__/jobs.py",
            ".git/config.py",
            "node_modules/x.js",
            "out.csv",
            "app/.jobs.py.swp",
            "app/#jobs.py",
            "app/jobs.py~",
            "app/4913",
        ] {
            fs::write(path(made), "x").unwrap();
        }
        assert_eq!(changed(&before, &look(&dirs, &mut bell)), None);
        fs::write(path("app/jobs.py"), "22").unwrap();
        let saved = look(&dirs, &mut bell);
        assert_eq!(changed(&before, &saved), Some(path("app/jobs.py").display().to_string()));
        fs::remove_file(path("app/jobs.py")).unwrap();
        fs::write(path("app/new.py"), "").unwrap();
        let named = format!("{} and 1 more", path("app/new.py").display());
        assert_eq!(changed(&saved, &look(&dirs, &mut bell)), Some(named));
    }

    #[test]
    fn kernel_wakes_for_a_save_in_a_new_directory() {
        let dir = tempfile::tempdir().unwrap();
        let mut bell = Bell::new();
        assert!(bell.inotify.is_some(), "inotify is there");
        look(&[dir.path().to_owned()], &mut bell);
        fs::create_dir(dir.path().join("new")).unwrap();
        bell.wait();
        look(&[dir.path().to_owned()], &mut bell);
        fs::write(dir.path().join("new/jobs.py"), "1").unwrap();
        bell.wait();
    }
}
