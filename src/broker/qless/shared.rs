//! State that the calls and the listener share.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::AtomicBool;
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
use crate::broker::lock::lock;
use crate::broker::lost_replies::Unheard;
use crate::broker::notices::Notices;
use crate::broker::owed::Owed;
use crate::broker::redis::{Link, Offset};
use crate::broker::{Complaints, Error, Notice};
use crate::model::{Fence, JobId, Presence, QueueName, Revocation};

/// Shortest time from one look at due jobs to the next.
const PAUSE: Duration = Duration::from_millis(20);

/// The connection to the server, the leases held, and the notices to deliver.
pub(super) struct Shared {
    pub(super) link: Link,
    /// The name of this host.
    pub(super) host: String,
    /// Identifies the state directory of this process.
    pub(super) place: String,
    /// This supervisor's presence, once `sign` was called.
    sign: Mutex<Option<Presence>>,
    /// Wakes when the presence must be published at once.
    pub(super) changed_sign: Notify,
    /// Wakes when only the number of running jobs has changed, which can wait a little.
    pub(super) changed_load: Notify,
    pub(super) notices: Notices,
    pub(super) holds: Holds,
    pub(super) unheard: Unheard,
    /// Publishes events of jobs.
    pub(super) reporter: Reporter,
    /// The queues from which jobs were fetched.
    watched: Mutex<HashSet<QueueName>>,
    /// Wakes when any job has changed.
    pub(super) changed: Notify,
    /// The jobs to keep when those of an earlier process are released.
    pub(super) owed: Owed<Vec<(JobId, Fence)>>,
    /// Whether at the latest fetch a queue had jobs, but its limit of running jobs was reached.
    pub(super) is_full: AtomicBool,
    /// Whether jobs of a queue waited for others at the latest fetch: completing a job may then release one.
    pub(super) has_dependents: AtomicBool,
    /// Whether workers of other programs take jobs, too. Their scripts do not announce all changes.
    pub(super) has_strangers: AtomicBool,
    /// Whether the server has this supervisor's presence.
    pub(super) is_known: AtomicBool,
    /// Malformed keys that were logged: each is logged once.
    pub(super) odd: Mutex<HashSet<String>>,
    /// The queues from which nothing can be fetched, and why.
    pub(super) spoiled: Mutex<BTreeMap<QueueName, String>>,
    /// Why no job can be put: another program has spoiled a key of all jobs.
    pub(super) spoiled_index: Mutex<Option<String>>,
    /// When to look for due recurring jobs.
    pub(super) recurs: Recurs,
    /// Limits how often messages wake the supervisor.
    pub(super) wakes: Wakes,
    /// The failures that last at the moment.
    pub(super) complaints: Complaints,
    /// Wakes the supervisor when jobs become due.
    timer: Mutex<Option<JoinHandle<()>>>,
    /// For tasks that are spawned with only a part of this.
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
            owed: Owed::default(),
            is_full: AtomicBool::new(false),
            has_dependents: AtomicBool::new(false),
            has_strangers: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
            odd: Mutex::default(),
            spoiled: Mutex::default(),
            spoiled_index: Mutex::default(),
            recurs: Recurs::default(),
            wakes: Wakes::default(),
            complaints: Complaints::default(),
            timer: Mutex::default(),
            own: own.clone(),
        })
    }

    /// Sends a command to the script.
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

    /// This supervisor's presence. None also before it is known that no other supervisor uses its name.
    pub(super) fn sign(&self) -> Option<Presence> {
        self.signed().clone().filter(|_| self.owed.get().is_none())
    }

    /// The name of this supervisor, empty before `sign` was called.
    pub(super) fn instance(&self) -> String {
        self.signed().as_ref().map_or_else(String::new, |sign| sign.instance.as_str().into())
    }

    /// Sets the presence. A change in the number of running jobs can wait a little; any other is published at once.
    pub(super) fn set_sign(&self, sign: Presence) {
        let before = self.signed().replace(sign.clone());
        if before.as_ref().map(Presence::shape) != Some(sign.shape()) {
            self.changed_sign.notify_one();
        } else if before != Some(sign) {
            self.changed_load.notify_one();
        }
    }

    pub(super) fn take_sign(&self) -> Option<Presence> {
        self.signed().take().filter(|_| self.owed.get().is_none())
    }

    /// Why no job can be put, or none be fetched from some queue, if that is so.
    pub(super) fn spoiled(&self) -> Option<String> {
        lock(&self.spoiled_index).clone().or_else(|| lock(&self.spoiled).values().next().cloned())
    }

    /// The queues from which jobs were fetched.
    pub(super) fn watched_queues(&self) -> Vec<QueueName> {
        self.watched().iter().cloned().collect()
    }

    fn watched(&self) -> MutexGuard<'_, HashSet<QueueName>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on messages about these queues wake the supervisor.
    pub(super) fn watch(&self, queues: &[QueueName]) {
        self.watched().extend(queues.iter().cloned());
    }

    /// There may be jobs in a queue: wakes the supervisor if it fetches from it.
    pub(super) fn wake(&self, queue: &QueueName) {
        if self.watched().contains(queue) {
            self.wake_any();
        }
    }

    /// There may be jobs: wakes the supervisor, but not for each of many messages.
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

    /// A job has changed: callers that wait for its end look again.
    pub(super) fn happened(&self, _job: &JobId) {
        self.changed.notify_waiters();
    }

    /// Reports that a lease is lost, or that its job is to be canceled. A canceled job keeps its lease until it is
    /// settled.
    pub(super) fn revoke(&self, job: JobId, fence: Fence, why: Revocation) {
        if why != Revocation::Canceled {
            self.holds.ended(&job, fence);
        }
        self.notices.push(Notice::Revoked { job, fence, why });
    }

    /// Asks the server for the state of all leases.
    pub(super) fn verify_all(&self) {
        self.verify(self.holds.all(), false);
    }

    /// Asks the server for the state of leases, and reports those that are lost. With `heard`, after a message about
    /// the job, an expired lease counts as lost.
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
            // If the question fails, the leases expire by themselves, or their renewal gives the answer.
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

    /// Wakes the supervisor after this time; replaces the earlier wake-up.
    pub(super) fn wake_at(&self, wait: Option<Duration>) {
        let Some(shared) = self.own.upgrade() else { return };
        let task = wait.map(|wait| {
            tokio::spawn(async move {
                // Jobs that are due but not handed out now must not cause fetches without a pause.
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
