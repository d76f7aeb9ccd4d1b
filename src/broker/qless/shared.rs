//! What the calls and the listener share.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::holds::Holds;
use super::recurs::Recurs;
use super::reply;
use super::reporter::Reporter;
use super::wake_debounce::Wakes;
use crate::broker::lost_replies::Unheard;
use crate::broker::notices::Notices;
use crate::broker::redis::{Link, Offset};
use crate::broker::{Complaints, Error, Notice};
use crate::model::{Fence, JobId, Presence, QueueName, Revocation};

/// The shortest time from one look at what is due to the next.
const PAUSE: Duration = Duration::from_millis(20);

/// The server, the holds on its jobs, and what is to be told of them.
pub(super) struct Shared {
    pub(super) link: Link,
    /// The name of this host.
    pub(super) host: String,
    /// Where this process keeps what is its own.
    pub(super) place: String,
    /// What this supervisor tells of itself, if it has said so.
    sign: Mutex<Option<Presence>>,
    /// It is to be told at once.
    pub(super) changed_sign: Notify,
    /// It has changed in how busy it is, which is to be told soon.
    pub(super) changed_load: Notify,
    pub(super) notices: Notices,
    pub(super) holds: Holds,
    pub(super) unheard: Unheard,
    /// Tells what happens to jobs.
    pub(super) reporter: Reporter,
    /// The queues that jobs were asked from.
    watched: Mutex<HashSet<QueueName>>,
    /// Something has happened to some job.
    pub(super) changed: Notify,
    /// What was held before this process has not been given back yet: the server was away.
    pub(super) owes: AtomicBool,
    /// A queue had jobs at the latest fetch, and no room for one more to run.
    pub(super) is_full: AtomicBool,
    /// Jobs of a queue waited for others at the latest fetch: who completes one may set them free.
    pub(super) has_dependents: AtomicBool,
    /// Workers of other programs take jobs, too. What their scripts do is not always told.
    pub(super) has_strangers: AtomicBool,
    /// The server has had a sign of life of this supervisor.
    pub(super) is_known: AtomicBool,
    /// Keys that were told of as odd: each is told of once.
    pub(super) odd: Mutex<HashSet<String>>,
    /// The queues from which nothing can be fetched, with why.
    pub(super) spoiled: Mutex<BTreeMap<QueueName, String>>,
    /// When to look for what recurs.
    pub(super) recurs: Recurs,
    /// When what is heard wakes.
    pub(super) wakes: Wakes,
    /// What goes wrong just now.
    pub(super) complaints: Complaints,
    /// Wakes when time alone makes work.
    timer: Mutex<Option<JoinHandle<()>>>,
    /// For what is spawned by those who only have a part of this.
    own: Weak<Shared>,
}

impl Shared {
    pub(super) fn new(link: Link, host: String, place: String) -> Arc<Shared> {
        Arc::new_cyclic(|own| Shared {
            link,
            host,
            place,
            sign: Mutex::default(),
            changed_sign: Notify::new(),
            changed_load: Notify::new(),
            notices: Notices::default(),
            holds: Holds::default(),
            unheard: Unheard::new(),
            reporter: Reporter::default(),
            watched: Mutex::default(),
            changed: Notify::new(),
            owes: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            has_dependents: AtomicBool::new(false),
            has_strangers: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
            odd: Mutex::default(),
            spoiled: Mutex::default(),
            recurs: Recurs::default(),
            wakes: Wakes::default(),
            complaints: Complaints::default(),
            timer: Mutex::default(),
            own: own.clone(),
        })
    }

    /// Has the script do a command.
    pub(super) async fn call(
        &self,
        verb: &str,
        command: &str,
        args: impl FnOnce(&mut Cmd, Offset),
    ) -> Result<Value, Error> {
        self.link.call(verb, command, self.link.now(), args).await
    }

    fn signed(&self) -> MutexGuard<'_, Option<Presence>> {
        self.sign.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None, too, before it is known that nobody else goes by its name.
    pub(super) fn sign(&self) -> Option<Presence> {
        self.signed().clone().filter(|_| !self.owes.load(Ordering::Relaxed))
    }

    /// The name of this supervisor, empty before it has said what it is.
    pub(super) fn instance(&self) -> String {
        self.signed().as_ref().map_or_else(String::new, |sign| sign.instance.as_str().into())
    }

    /// How busy it is can wait a little; another shape is told at once.
    pub(super) fn set_sign(&self, sign: Presence) {
        let before = self.signed().replace(sign.clone());
        if before.as_ref().map(Presence::shape) != Some(sign.shape()) {
            self.changed_sign.notify_one();
        } else if before != Some(sign) {
            self.changed_load.notify_one();
        }
    }

    pub(super) fn take_sign(&self) -> Option<Presence> {
        self.signed().take().filter(|_| !self.owes.load(Ordering::Relaxed))
    }

    /// Why nothing can be fetched from a queue, if there is one such.
    pub(super) fn spoiled(&self) -> Option<String> {
        self.spoiled.lock().unwrap_or_else(PoisonError::into_inner).values().next().cloned()
    }

    /// The queues that jobs were asked from.
    pub(super) fn watched_queues(&self) -> Vec<QueueName> {
        self.watched().iter().cloned().collect()
    }

    fn watched(&self) -> MutexGuard<'_, HashSet<QueueName>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on what happens in these queues wakes.
    pub(super) fn watch(&self, queues: &[QueueName]) {
        self.watched().extend(queues.iter().cloned());
    }

    /// There may be jobs in a queue.
    pub(super) fn wake(&self, queue: &QueueName) {
        if self.watched().contains(queue) {
            self.wake_any();
        }
    }

    /// There may be jobs: by what was heard, which may be much.
    pub(super) fn wake_any(&self) {
        let (Some(shared), Some(wait)) = (self.own.upgrade(), self.wakes.heard(self.link.now())) else {
            return;
        };
        if wait.is_zero() {
            self.notices.push(Notice::Wake);
            return;
        }
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            shared.notices.push(Notice::Wake);
        });
    }

    /// Something has happened to a job: whoever waits for its end looks.
    pub(super) fn happened(&self, _job: &JobId) {
        self.changed.notify_waiters();
    }

    /// Tells that a hold is lost, or that its job is to be canceled: that one goes on until it is settled.
    pub(super) fn revoke(&self, job: JobId, fence: Fence, why: Revocation) {
        if why != Revocation::Canceled {
            self.holds.ended(&job, fence);
        }
        self.notices.push(Notice::Revoked { job, fence, why });
    }

    /// Asks about all holds.
    pub(super) fn verify_all(&self) {
        self.verify(self.holds.all(), false);
    }

    /// Asks whether holds are in force, and tells of those that are not. Of those that something was `heard` of, one whose
    /// lease has run out is not.
    pub(super) fn verify(&self, holds: Vec<(JobId, Fence)>, heard: bool) {
        let Some(shared) = self.own.upgrade() else { return };
        if holds.is_empty() {
            return;
        }
        tokio::spawn(async move {
            let asked =
                shared.link.call("ask about jobs in", "taskvisor.verify", shared.link.now(), |cmd, _| {
                    cmd.arg(shared.instance()).arg(u8::from(heard)).arg(holds.len());
                    for (job, fence) in &holds {
                        cmd.arg(job.as_str()).arg(fence.0);
                    }
                });
            // When it fails, the leases end in their own time, or their renewal says what is.
            let Ok(answers) = asked.await.and_then(reply::array) else { return };
            for ((job, fence), answer) in holds.into_iter().zip(answers) {
                let why = match reply::text(&answer).as_deref() {
                    Some("canceled") => Revocation::Canceled,
                    Some("lost") => Revocation::LockLost,
                    _ => continue,
                };
                shared.revoke(job, fence, why);
            }
        });
    }

    /// Wakes at a moment, and no more at the one before.
    pub(super) fn wake_at(&self, wait: Option<Duration>) {
        let Some(shared) = self.own.upgrade() else { return };
        let task = wait.map(|wait| {
            tokio::spawn(async move {
                // What is due and yet is not done just now must not be asked for without a pause.
                tokio::time::sleep(wait.max(PAUSE)).await;
                shared.notices.push(Notice::Wake);
            })
        });
        let before = std::mem::replace(&mut *self.timer.lock().unwrap_or_else(PoisonError::into_inner), task);
        if let Some(before) = before {
            before.abort();
        }
    }
}
