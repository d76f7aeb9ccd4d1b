//! Takes the puts that members of the socket's group have left while no supervisor listened.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tracing::{error, info, warn};

use super::course::{SharedSeries, named};
use broker::{Broker, Complaints, Error};
use model::{Instant, Millis};
use process::watched;
use spool::{Desk, Fault, Left, Look, Waiting};

/// How long a start waits for the first look, so that a burst runs what was left, too.
const FIRST: Duration = Duration::from_secs(2);
/// Pause until the next look after a failure.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest time between two looks: what was set aside may have been seen to.
const SELDOM: Duration = Duration::from_secs(60);
/// Shortest time between two looks: members cause them.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a put waits for one whose job it needs: of two that were left at once it may be the first to be looked at.
const NEEDS: Duration = Duration::from_secs(10);
/// What waits, for the health.
const WAITS: &str = "puts wait in the spool";
/// What has failed for good, for the health.
const REFUSED: &str = "puts that members have left cannot be queued";
/// What cannot even be set aside, for the health.
const STUCK: &str = "stuck";
/// What is not seen, for the health.
const MORE: &str = "the spool holds more than a look takes in";
/// What cannot be looked at, for the health.
const UNREAD: &str = "the spool cannot be read";

struct Taker {
    desk: Desk,
    broker: Arc<Broker>,
    complaints: Complaints,
    series: SharedSeries,
    /// Since when a put, by its name, waits for one whose job it needs.
    needing: HashMap<String, Instant>,
    /// Directories that only root can move, and that the log has named.
    named: BTreeSet<PathBuf>,
    /// What could not be set aside in this pass.
    stuck: Vec<String>,
}

/// What has become of a put.
enum Taken {
    /// It is queued, set aside or gone.
    Over,
    /// A job that it needs is not there yet.
    Needing,
    /// Its file fails: the later ones of its user wait, so that they stay in order.
    Unread(String),
    /// The broker fails: nothing can be put now.
    Failed(String),
}

/// Takes what was left, now and as more comes; waits a while until the first of it is queued.
pub(super) async fn start(desk: Option<Desk>, broker: &Arc<Broker>, series: SharedSeries) {
    let Some(desk) = desk else { return };
    let (looked, first) = oneshot::channel();
    tokio::spawn(Taker::new(desk, broker, series).take(looked));
    tokio::time::timeout(FIRST, first).await.ok();
}

impl Taker {
    fn new(desk: Desk, broker: &Arc<Broker>, series: SharedSeries) -> Taker {
        let (complaints, broker) = (broker.complaints().clone(), broker.clone());
        let (needing, named, stuck) = Default::default();
        Taker { desk, broker, complaints, series, needing, named, stuck }
    }

    async fn take(mut self, looked: oneshot::Sender<()>) {
        let mut looked = Some(looked);
        loop {
            // The watch comes first, so that no put between it and the look is missed.
            let watch = self.desk.is_open().then(|| watch(&self.desk).ok()).flatten();
            let left = self.pass().await;
            looked.take().map(|looked| looked.send(()));
            if !self.desk.is_open() && left == Some(0) && self.note_aside().await == 0 {
                return;
            }
            let pause = if left == Some(0) { SELDOM } else { AGAIN };
            tokio::time::sleep(PAUSE).await;
            tokio::select! {
                () = changed(watch.as_ref()) => {}
                () = tokio::time::sleep(if watch.is_some() { pause } else { AGAIN }) => {}
            }
        }
    }

    /// Takes what is there; gives how much is left, if that is known.
    async fn pass(&mut self) -> Option<usize> {
        let look = self.on_files(Desk::look).await.unwrap_or_else(|error| Err(io::Error::other(error)));
        self.complaints.note(UNREAD, &look.as_ref().map_err(|error| self.unread(error)), clock::now());
        let Look { puts, has_more, odd, dirs, has_more_odd } = look.ok()?;
        self.note_more(has_more);
        let names: BTreeSet<&str> = puts.iter().map(|put| put.name.as_str()).collect();
        self.needing.retain(|name, _| names.contains(name.as_str()));
        self.stuck.clear();
        self.clear(odd, dirs).await;
        let waits = self.put_all(&puts).await;
        self.note_stuck();
        self.note_aside().await;
        // What cannot be moved is looked at seldom.
        let more_to_move = has_more_odd && self.stuck.is_empty();
        Some(waits + usize::from(has_more || more_to_move))
    }

    /// Queues these puts; gives how many still wait.
    async fn put_all(&mut self, puts: &[Waiting]) -> usize {
        let (mut waits, mut why, mut held) = (0, None, BTreeSet::new());
        for (number, put) in puts.iter().enumerate() {
            if held.contains(&put.uid) {
                waits += 1;
                continue;
            }
            match self.put(put).await {
                Taken::Over => {}
                Taken::Needing => waits += 1,
                Taken::Unread(how) => {
                    (waits, why) = (waits + 1, why.or(Some(how)));
                    held.insert(put.uid);
                }
                Taken::Failed(how) => {
                    (waits, why) = (waits + puts.len() - number, Some(how));
                    break;
                }
            }
        }
        match why {
            None => self.complaints.well(WAITS, clock::now()),
            Some(why) => {
                let dir = self.desk.dir().display();
                self.complaints.stands(WAITS, &format!("{waits} in {dir}: {why}"), clock::now());
            }
        }
        waits
    }

    /// Queues a put and removes it.
    async fn put(&mut self, put: &Waiting) -> Taken {
        let (name, path) = (put.name.clone(), self.desk.dir().join(&put.name));
        let read = self.on_files(move |desk| desk.read(&name)).await;
        let Left { uid, jobs } = match read.unwrap_or_else(|error| Err(Fault::Passing(error.into()))) {
            Ok(left) => left,
            Err(Fault::Gone) => return Taken::Over,
            Err(Fault::Passing(error)) => return Taken::Unread(unreadable(&path, put.uid, &error)),
            Err(Fault::Damaged(why)) => return self.set_aside(path, why).await,
        };
        let (count, named) = (jobs.len(), named(&jobs));
        match self.broker.put(jobs).await {
            Ok(_) => info!(uid, jobs = count, "queued a put that was left in the spool"),
            Err(error) if may_pass(&error) => return Taken::Failed(error.to_string()),
            Err(error) if needs_another(&error) && self.may_still_come(&put.name) => return Taken::Needing,
            Err(error) => return self.set_aside(path, error.to_string()).await,
        }
        self.needing.remove(&put.name);
        let name = put.name.clone();
        // What stays is put again by the next look, and recognized.
        match self.on_files(move |desk| desk.done(&name)).await.unwrap_or_else(|error| Err(error.into())) {
            Ok(()) => {
                self.series.put(&named, Millis(clock::wall_millis()));
                Taken::Over
            }
            Err(error) => {
                Taken::Unread(format!("{} is queued, but cannot be removed: {error}", path.display()))
            }
        }
    }

    /// Whether the put that this one needs may be among those that are put after it.
    fn may_still_come(&mut self, name: &str) -> bool {
        let now = clock::now();
        let since = *self.needing.entry(name.to_owned()).or_insert(now);
        now.since(since) < NEEDS
    }

    /// Does something with files, which may take its time, beside the loop.
    async fn on_files<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Desk) -> T + Send + 'static,
    ) -> Result<T, tokio::task::JoinError> {
        let desk = self.desk.clone();
        spawn_blocking(move || call(&desk)).await
    }

    fn unread(&self, error: &io::Error) -> Error {
        Error::Failed(format!("{}: {error}", self.desk.dir().display()))
    }

    /// Sets aside what is no put.
    async fn clear(&mut self, odd: Vec<(PathBuf, String)>, dirs: Vec<PathBuf>) {
        for (path, why) in odd {
            self.set_aside(path, why).await;
        }
        // Where the members have removed them, they are forgotten.
        self.named.retain(|known| dirs.contains(known));
        for path in dirs {
            let dir = path.clone();
            let removed = self.on_files(move |desk| desk.remove_dir(&dir)).await;
            // It holds up nothing, so that it is no matter of the health.
            if let Err(error) = removed.unwrap_or_else(|error| Err(error.into()))
                && self.named.insert(path.clone())
            {
                let path = path.display();
                warn!(%path, %error, "a member has made a directory in the spool: remove it as root");
            }
        }
    }

    async fn set_aside(&mut self, path: PathBuf, why: String) -> Taken {
        let (file, reason) = (path.clone(), why.clone());
        let moved = self.on_files(move |desk| desk.set_aside(&file, &reason)).await;
        if let Some(name) = path.file_name().and_then(OsStr::to_str) {
            self.needing.remove(name);
        }
        let path = path.display();
        match moved.unwrap_or_else(|error| Err(error.into())) {
            Ok(()) => error!(%path, why, "set aside a put that a member has left: it is not queued"),
            Err(failed) if failed.kind() == io::ErrorKind::NotFound => {}
            Err(failed) => {
                self.stuck.push(format!("{path}: {why}; failed to set it aside ({failed}): remove it"));
            }
        }
        Taken::Over
    }

    fn note_more(&self, has_more: bool) {
        match has_more {
            false => self.complaints.well(MORE, clock::now()),
            true => {
                let how =
                    format!("the puts in {} that came last are not seen yet", self.desk.dir().display());
                self.complaints.stands(MORE, &how, clock::now());
            }
        }
    }

    fn note_stuck(&self) {
        match &*self.stuck {
            [] => self.complaints.well_for(REFUSED, STUCK, clock::now()),
            [first, rest @ ..] => {
                let more = if rest.is_empty() { String::new() } else { format!("; and {} more", rest.len()) };
                self.complaints.stands_for(REFUSED, STUCK, &format!("{first}{more}"), clock::now());
            }
        }
    }

    /// Has the health name what was set aside; gives how much that is.
    async fn note_aside(&self) -> usize {
        let count = self.on_files(Desk::aside).await.unwrap_or_default();
        let (dir, now) = (self.desk.aside_dir().display().to_string(), clock::now());
        match count {
            0 => self.complaints.well_for(REFUSED, &dir, now),
            _ => {
                let how = format!("{count} in {dir}, with the reasons in .why; once seen to, remove them");
                self.complaints.stands_for(REFUSED, &dir, &how, now);
            }
        }
        count
    }
}

/// Why a file waits, and who must act.
fn unreadable(path: &Path, uid: u32, error: &io::Error) -> String {
    let path = path.display();
    format!(
        "{path} cannot be read ({error}), and later puts of uid {uid} wait behind it: its owner must let this user read \
         it, or remove it"
    )
}

/// Whether it fails for want of a job that may be put yet.
fn needs_another(error: &Error) -> bool {
    if let Error::PartlyPut { error, .. } = error {
        return needs_another(error);
    }
    matches!(error, Error::NoneToNeed(_))
}

/// Whether the broker may take the put later.
fn may_pass(error: &Error) -> bool {
    match error {
        Error::Failed(_) | Error::Unanswered(_) | Error::Lost(_) => true,
        Error::PartlyPut { error, in_doubt, .. } => !in_doubt.is_empty() || may_pass(error),
        Error::NoJob(_)
        | Error::NoneToNeed(_)
        | Error::NoQueue(_)
        | Error::NoRecurring(_)
        | Error::Exists(_)
        | Error::WrongState { .. }
        | Error::Needed { .. }
        | Error::InUse(..)
        | Error::NotAJob(..)
        | Error::Unsupported { .. }
        | Error::Url(_)
        | Error::Refused(_) => false,
    }
}

/// Watches for files that get their mark, or come in another way.
fn watch(desk: &Desk) -> std::io::Result<AsyncFd<OwnedFd>> {
    let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let comes = WatchFlags::ATTRIB | WatchFlags::CREATE | WatchFlags::MOVED_TO;
    inotify::add_watch(&inotify, desk.dir(), comes)?;
    watched(inotify, Interest::READABLE)
}

/// Waits until the watch has seen something; without a watch for ever.
async fn changed(watch: Option<&AsyncFd<OwnedFd>>) {
    match watch {
        Some(watch) => drop(watch.readable().await),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
