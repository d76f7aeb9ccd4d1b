//! Takes the puts that members of the socket's group have left while no supervisor listened.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tracing::{error, info};

use broker::{Broker, Complaints, Error};
use model::Class;
use process::watched;
use spool::{Desk, Fault, Left, Look};

/// How long a start waits for the first look, so that a burst runs what was left, too.
const FIRST: Duration = Duration::from_secs(2);
/// Pause until the next look after a failure.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest time between two looks: what was set aside may have been seen to.
const SELDOM: Duration = Duration::from_secs(60);
/// Limit of the classes that a pass finds held: each may cost it the patience of a broker that does not answer.
const TRIES: usize = 10;
/// What waits, for the health.
const WAITS: &str = "puts wait in the spool";
/// What has failed for good, for the health.
const REFUSED: &str = "puts that members have left cannot be queued";
/// What cannot even be set aside, for the health.
const STUCK: &str = "stuck";
/// What cannot be looked at, for the health.
const UNREAD: &str = "the spool cannot be read";

/// Puts that a pass leaves for the next. A route leads jobs of a class elsewhere: one that fails holds up these alone, in
/// their order.
#[derive(Default)]
struct Held {
    count: usize,
    /// Why the first of them waits.
    why: Option<String>,
    classes: BTreeSet<Class>,
}

struct Taker {
    desk: Desk,
    broker: Arc<Broker>,
    complaints: Complaints,
}

/// Takes what was left, now and as more comes; waits a while until the first of it is queued.
pub(super) async fn start(desk: Option<Desk>, broker: &Arc<Broker>) {
    let Some(desk) = desk else { return };
    let complaints = broker.complaints().clone();
    let taker = Taker { desk, broker: broker.clone(), complaints };
    let (looked, first) = oneshot::channel();
    tokio::spawn(taker.take(looked));
    tokio::time::timeout(FIRST, first).await.ok();
}

impl Taker {
    async fn take(self, looked: oneshot::Sender<()>) {
        let mut looked = Some(looked);
        loop {
            // The watch comes first, so that no put between it and the look is missed.
            let watch = self.desk.is_open().then(|| watch(&self.desk).ok()).flatten();
            let left = self.pass().await;
            looked.take().map(|looked| looked.send(()));
            // Members can leave nothing more, and nothing is left to take or to name.
            if !self.desk.is_open() && left == Some(0) && self.note_aside() == 0 {
                return;
            }
            let pause = if left == Some(0) { SELDOM } else { AGAIN };
            tokio::select! {
                () = changed(watch.as_ref()) => {}
                () = tokio::time::sleep(if watch.is_some() { pause } else { AGAIN }) => {}
            }
        }
    }

    /// Takes what is there; gives how many puts still wait, if that is known.
    async fn pass(&self) -> Option<usize> {
        let desk = self.desk.clone();
        let look = spawn_blocking(move || desk.look()).await.ok()?;
        self.complaints.note(UNREAD, &look.as_ref().map_err(|error| self.unread(error)), clock::now());
        let Look { puts, odd } = look.ok()?;
        // Cleared first: files that still cannot be set aside are reported again below.
        self.complaints.well_for(REFUSED, STUCK, clock::now());
        for (path, why) in odd {
            self.set_aside(&path, &why);
        }
        let mut held = Held::default();
        for name in puts {
            if let Err(why) = self.put(&name, &mut held).await {
                held.count += 1;
                held.why.get_or_insert(why);
            }
        }
        match &held.why {
            Some(why) => self.wait(held.count, why),
            None => self.complaints.well(WAITS, clock::now()),
        }
        self.note_aside();
        Some(held.count)
    }

    /// Queues a put and removes it. Err: it may work later.
    async fn put(&self, name: &str, held: &mut Held) -> Result<(), String> {
        if held.classes.len() >= TRIES {
            return Err("the broker refuses others, too".into());
        }
        let (desk, file) = (self.desk.clone(), name.to_owned());
        let read = spawn_blocking(move || desk.read(&file)).await.map_err(|error| error.to_string())?;
        let Left { uid, jobs } = match read {
            Ok(left) => left,
            Err(Fault::Passing(error)) => return Err(error.to_string()),
            Err(Fault::Damaged(why)) => {
                self.set_aside(&self.desk.dir().join(name), &why);
                return Ok(());
            }
        };
        let classes: BTreeSet<Class> = jobs.iter().map(|job| job.class.clone()).collect();
        if let Some(class) = classes.intersection(&held.classes).next() {
            return Err(format!("an earlier put of {class} waits"));
        }
        let count = jobs.len();
        match self.broker.put(jobs).await {
            Ok(_) => info!(uid, jobs = count, "queued a put that was left in the spool"),
            Err(error) if held.count > 0 && needs_another(&error) => return Err(error.to_string()),
            Err(error) if may_pass(&error) => {
                held.classes.extend(classes);
                return Err(error.to_string());
            }
            Err(error) => {
                self.set_aside(&self.desk.dir().join(name), &error.to_string());
                return Ok(());
            }
        }
        // What stays is put again by the next look, and recognized.
        self.desk.done(name).map_err(|error| error.to_string())
    }

    fn unread(&self, error: &std::io::Error) -> Error {
        Error::Failed(format!("{}: {error}", self.desk.dir().display()))
    }

    fn wait(&self, count: usize, why: &str) {
        let dir = self.desk.dir().display();
        self.complaints.stands(WAITS, &format!("{count} in {dir}: {why}"), clock::now());
    }

    fn set_aside(&self, path: &std::path::Path, why: &str) {
        let path_shown = path.display();
        match self.desk.set_aside(path, why) {
            Ok(()) => {
                error!(path = %path_shown, why, "set aside a put that a member has left: it is not queued")
            }
            Err(failed) => {
                let why = format!("{path_shown}: {why}; failed to set it aside ({failed}): remove it");
                self.complaints.stands_for(REFUSED, STUCK, &why, clock::now());
            }
        }
    }

    /// Has the health name what was set aside; gives how much that is.
    fn note_aside(&self) -> usize {
        let (count, dir, now) =
            (self.desk.aside(), self.desk.aside_dir().display().to_string(), clock::now());
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

/// Whether the broker may take the put later.
fn may_pass(error: &Error) -> bool {
    match error {
        Error::Failed(_) | Error::Disk(_) | Error::Unanswered(_) | Error::Lost(_) => true,
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

/// Whether a job of the put needs one that the broker does not have: an earlier put that waits may have it.
fn needs_another(error: &Error) -> bool {
    if let Error::PartlyPut { error, .. } = error {
        return needs_another(error);
    }
    matches!(error, Error::NoneToNeed(_))
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
