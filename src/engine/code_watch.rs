//! Watches directories of code: a save has all workers exchanged for new ones (`start --watch`). The kernel tells of
//! changes by inotify; where it refuses, the directories are looked at now and then.

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
/// How often to look at all files where inotify is refused: a look at the most files takes a good part of a second.
const LOOK: Duration = Duration::from_secs(10);

/// How often to see whether the directories are still those that the kernel watches: it follows a directory that is
/// renamed, and says nothing of the one that takes its name, nor of a link that leads elsewhere now.
const CHECK: Duration = Duration::from_secs(2);

/// Limits of what is watched: one look stays short, and the memory small.
struct Limits {
    files: usize,
    dirs: usize,
}

const LIMITS: Limits = Limits { files: 50_000, dirs: 10_000 };

/// The ends of names of code. Jobs write reports, data and logs beside it, and those exchange no workers.
const CODE: [&str; 21] = [
    "cjs", "cts", "erb", "ex", "exs", "j2", "jinja", "js", "jsx", "lua", "mjs", "mts", "php", "pl", "pm",
    "py", "rake", "rb", "ru", "ts", "tsx",
];
/// Directories that hold what tools make.
const MADE: [&str; 4] = ["__pycache__", "node_modules", "site-packages", "target"];

/// The files of code, each with what a save changes: its inode, its size and its time in nanoseconds.
type Picture = BTreeMap<PathBuf, (u64, u64, i128)>;

/// The device and the inode of each directory to watch, behind links. None = it is away.
type Places = Vec<Option<(u64, u64)>>;

/// Watches these directories, if any, in a thread of its own, for as long as the supervisor lives.
pub(super) fn watch(dirs: &[PathBuf], requests: &Sender<Request>) -> io::Result<()> {
    if dirs.is_empty() {
        return Ok(());
    }
    let (dirs, requests) = (dirs.to_vec(), requests.clone());
    let mut bell = Bell::new();
    // Before the first worker loads the code: what is saved while it does counts.
    let places = places(&dirs);
    let before = look(&dirs, &LIMITS, &mut bell);
    let run = move || run(&dirs, bell, places, before, &requests);
    std::thread::Builder::new().name("code watch".into()).spawn(run).map(drop)
}

fn run(dirs: &[PathBuf], mut bell: Bell, mut known: Places, mut before: Picture, requests: &Sender<Request>) {
    loop {
        if bell.wait(|| places(dirs) != known) {
            bell.renew();
            // Files may still come into the new directory: this look watches it, so that `settle` sees the last.
            look(dirs, &LIMITS, &mut bell);
        }
        bell.settle();
        // Before the look: another directory that comes later is seen by the next wait.
        let places = places(dirs);
        say_away(dirs, &known, &places);
        known = places;
        let mut now = look(dirs, &LIMITS, &mut bell);
        keep_away(dirs, &before, &mut now);
        if let Some(changed) = changed(&before, &now) {
            let (answer, _) = oneshot::channel(); // The log has the outcome.
            let (how, by) = (PauseOrder::default(), format!("--watch, as {changed} changed"));
            let order = Request::Change { pool: None, change: Change::Recycle, how, by, answer };
            if requests.blocking_send(order).is_err() {
                return;
            }
        }
        before = now;
    }
}

fn places(dirs: &[PathBuf]) -> Places {
    let found = |dir| fs::metadata(dir).ok().filter(fs::Metadata::is_dir);
    dirs.iter().map(|dir| found(dir).map(|dir| (dir.dev(), dir.ino()))).collect()
}

/// Names in the log the directories that have gone away.
fn say_away(dirs: &[PathBuf], known: &Places, now: &Places) {
    for ((dir, known), now) in dirs.iter().zip(known).zip(now) {
        if known.is_some() && now.is_none() {
            warn!("{} is away: --watch exchanges no workers for its code until it is back", dir.display());
        }
    }
}

/// The files of a directory that is away count as they were: workers could load nothing from it now.
fn keep_away(dirs: &[PathBuf], before: &Picture, now: &mut Picture) {
    for dir in dirs.iter().filter(|dir| !dir.is_dir()) {
        let files = before.iter().filter(|(path, _)| path.starts_with(dir));
        now.extend(files.map(|(path, file)| (path.clone(), *file)));
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
fn look(dirs: &[PathBuf], limits: &Limits, bell: &mut Bell) -> Picture {
    let (mut picture, mut left, mut looked) = (Picture::new(), dirs.to_vec(), 0);
    while let Some(dir) = left.pop() {
        if looked == limits.dirs {
            bell.beyond(&format!("{} directories", limits.dirs), &dir);
            break;
        }
        looked += 1;
        bell.add(&dir);
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            match entry.file_type() {
                // Not a link to a directory: it could lead back up, and the walk would never end.
                Ok(kind) if kind.is_dir() && !name.starts_with('.') && !MADE.contains(&&*name) => {
                    left.push(path);
                }
                // A link to a file is followed: deploys and dotfiles are made of them.
                Ok(kind) if !kind.is_dir() && is_code(&name) => {
                    if picture.len() == limits.files {
                        bell.beyond(&format!("{} files", limits.files), &path);
                        return picture;
                    }
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
    /// None = the kernel refuses.
    inotify: Option<Inotify>,
    /// Whether the kernel refused to watch a directory: all are looked at now and then.
    is_deaf: bool,
    /// Whether the log says that some code is not watched.
    is_beyond: bool,
}

impl Bell {
    fn new() -> Bell {
        let mut bell = Bell { inotify: None, is_deaf: false, is_beyond: false };
        bell.renew();
        bell
    }

    /// Forgets all directories that are watched: those that were replaced count for the limit of the kernel, too.
    fn renew(&mut self) {
        self.inotify = None;
        match Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK) {
            Ok(inotify) => self.inotify = Some(inotify),
            Err(error) => self.refused(error),
        }
    }

    /// What is watched already still rings at once.
    fn refused(&mut self, error: Errno) {
        // Each look tries it again: one line is enough.
        if !self.is_deaf {
            let every = LOOK.as_secs();
            warn!(%error, "the kernel watches no more directories for this user: --watch looks each {every} s, \
                  sysctl fs.inotify raises the limit");
        }
        self.is_deaf = true;
    }

    /// Says once that there is more code than is watched.
    fn beyond(&mut self, most: &str, path: &Path) {
        if !self.is_beyond {
            let path = path.display();
            warn!(
                "--watch watches {most} at most: saves of {path} and others exchange no workers, name smaller directories"
            );
        }
        self.is_beyond = true;
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

    /// Waits until something may have changed, and says whether a directory has moved, for which it asks each 2 s.
    fn wait(&self, has_moved: impl Fn() -> bool) -> bool {
        let end = self.is_deaf.then(|| clock::now() + LOOK);
        loop {
            if self.rings(CHECK) {
                return false;
            }
            if has_moved() {
                return true;
            }
            if end.is_some_and(|end| clock::now() >= end) {
                return false;
            }
        }
    }

    /// Waits until a save is over.
    fn settle(&self) {
        let end = clock::now() + LONGEST;
        loop {
            // One read gives what its buffer holds. What is left would ring again at once.
            while self
                .inotify
                .as_ref()
                .is_some_and(|all| all.read_events().is_ok_and(|events| !events.is_empty()))
            {}
            if clock::now() >= end || !self.rings(SETTLED) {
                return;
            }
        }
    }

    /// Waits for an event for this time, and says whether there is one.
    fn rings(&self, patience: Duration) -> bool {
        let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
        // Without inotify it waits for the time alone.
        let mut fds: Vec<_> =
            self.inotify.iter().map(|inotify| PollFd::new(inotify.as_fd(), PollFlags::POLLIN)).collect();
        // Interrupted by a signal it may be over, too: the look that follows decides.
        poll(&mut fds, patience).map_or(true, |count| count > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn saves_of_code_are_seen_and_what_tools_and_jobs_write_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (dirs, path) = ([dir.path().to_owned()], |name: &str| dir.path().join(name));
        let mut bell = Bell::new();
        let look = |bell: &mut Bell| look(&dirs, &LIMITS, bell);
        for name in ["app", "app/__pycache__", ".git", "node_modules"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("app/jobs.py"), "1").unwrap();
        let before = look(&mut bell);
        for made in [
            "app/__pycache__/jobs.py",
            ".git/config.py",
            "node_modules/x.js",
            "out.csv",
            "app/report.html",
            "app/totals.yaml",
            "app/totals.yml",
            "app/totals.toml",
            "app/totals.ini",
            "app/totals.env",
            "app/.jobs.py.swp",
            "app/#jobs.py",
            "app/jobs.py~",
            "app/4913",
        ] {
            fs::write(path(made), "x").unwrap();
        }
        assert_eq!(changed(&before, &look(&mut bell)), None);
        fs::write(path("app/jobs.py"), "22").unwrap();
        let saved = look(&mut bell);
        assert_eq!(changed(&before, &saved), Some(path("app/jobs.py").display().to_string()));
        fs::remove_file(path("app/jobs.py")).unwrap();
        fs::write(path("app/new.py"), "").unwrap();
        let named = format!("{} and 1 more", path("app/new.py").display());
        assert_eq!(changed(&saved, &look(&mut bell)), Some(named));
    }

    #[test]
    fn what_is_beyond_the_limits_is_said_and_ends_the_look() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..4 {
            fs::create_dir(dir.path().join(format!("d{n}"))).unwrap();
            fs::write(dir.path().join(format!("d{n}/jobs.py")), "1").unwrap();
        }
        // Limits, the files that are watched, whether it is said that there are others.
        for (files, dirs, seen, is_beyond) in [(4, 5, 4, false), (3, 5, 3, true), (4, 4, 3, true)] {
            let mut bell = Bell::new();
            let picture = look(&[dir.path().to_owned()], &Limits { files, dirs }, &mut bell);
            assert_eq!((picture.len(), bell.is_beyond), (seen, is_beyond), "{files} {dirs}");
        }
    }

    #[test]
    fn kernel_that_refuses_a_directory_still_rings_for_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let mut bell = Bell::new();
        look(&[dir.path().to_owned()], &LIMITS, &mut bell);
        bell.refused(Errno::ENOSPC);
        assert!(bell.is_deaf, "it looks now and then");
        fs::write(dir.path().join("jobs.py"), "1").unwrap();
        assert!(bell.rings(LOOK), "it rings at once");
    }

    #[test]
    fn kernel_wakes_for_a_save_in_a_new_directory() {
        let dir = tempfile::tempdir().unwrap();
        let mut bell = Bell::new();
        assert!(bell.inotify.is_some(), "inotify is there");
        look(&[dir.path().to_owned()], &LIMITS, &mut bell);
        fs::create_dir(dir.path().join("new")).unwrap();
        assert!(bell.rings(LOOK));
        bell.settle();
        look(&[dir.path().to_owned()], &LIMITS, &mut bell);
        fs::write(dir.path().join("new/jobs.py"), "1").unwrap();
        assert!(bell.rings(LOOK));
    }

    #[tokio::test]
    async fn directory_that_is_replaced_and_link_that_leads_elsewhere_are_watched_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let make = |name: &str| {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(&format!("{name}/jobs.py")), "1").unwrap();
        };
        let link = |to: &str| {
            symlink(path(to), path("new")).unwrap();
            fs::rename(path("new"), path("current")).unwrap();
        };
        ["app", "release1", "release2"].into_iter().for_each(make);
        link("release1");
        let (requests, mut orders) = tokio::sync::mpsc::channel(8);
        watch(&[path("app"), path("current")], &requests).unwrap();
        let mut ordered = async || match tokio::time::timeout(LOOK, orders.recv()).await {
            Ok(Some(Request::Change { by, .. })) => by,
            _ => "nothing".to_owned(),
        };
        let saved = |name: &str| format!("--watch, as {} changed", path(name).display());
        fs::rename(path("app"), path("old")).unwrap();
        make("app");
        assert_eq!(ordered().await, saved("app/jobs.py"));
        fs::write(path("app/jobs.py"), "22").unwrap();
        assert_eq!(ordered().await, saved("app/jobs.py"));
        link("release2");
        assert_eq!(ordered().await, saved("current/jobs.py"));
        fs::write(path("release2/jobs.py"), "22").unwrap();
        assert_eq!(ordered().await, saved("current/jobs.py"));
        // While it is away its files count as they were: a save elsewhere is the only one.
        fs::rename(path("app"), path("older")).unwrap();
        fs::write(path("release2/jobs.py"), "333").unwrap();
        assert_eq!(ordered().await, saved("current/jobs.py"));
        make("app");
        assert_eq!(ordered().await, saved("app/jobs.py"));
    }
}
