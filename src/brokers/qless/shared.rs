//! State that the calls and the listener share.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::awaited::Awaited;
use super::holds::Holds;
use super::recurs::Recurs;
use super::reply;
use super::reporter::Reporter;
use super::wake_debounce::Wakes;
use broker::{Complaints, Error, Notice};
use common::{Notices, Owed, Unheard, lock};
use model::{Fence, JobId, Presence, QueueName, QueueSet, Revocation};
use redis_link::{Link, Offset};

/// What a fetch has seen in its queues: one had jobs, but its limit of running jobs was reached.
pub(super) const IS_FULL: u8 = 1;
/// The same: jobs waited for others. Completing a job may release one.
pub(super) const HAS_DEPENDENTS: u8 = 2;

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
    /// The queues from which jobs were fetched, each with what the latest fetch has seen in it and those beside it.
    watched: Mutex<BTreeMap<QueueName, u8>>,
    /// Callers that wait for the ends of jobs.
    pub(super) awaited: Awaited,
    /// The jobs to keep when those of an earlier process are released.
    pub(super) owed: Owed<Vec<(JobId, Fence)>>,
    /// Whether workers of other programs take jobs, too. Their scripts do not announce all changes.
    pub(super) has_strangers: AtomicBool,
    /// Malformed keys that were logged: each is logged once.
    pub(super) odd: Mutex<HashSet<String>>,
    /// The queues of which something has to wait, and why.
    pub(super) spoiled: Mutex<BTreeMap<QueueName, String>>,
    /// The key of an index or a figure that another program has spoiled: no job waits for that.
    pub(super) spoiled_aside: Mutex<Option<String>>,
    /// Why no job can be put: another program has spoiled a key of all jobs.
    pub(super) spoiled_index: Mutex<Option<String>>,
    /// When to look for due recurring jobs.
    pub(super) recurs: Recurs,
    /// Limits how often messages wake the supervisor.
    pub(super) wakes: Wakes,
    /// The failures that last at the moment.
    pub(super) complaints: Complaints,
    /// Wake the supervisor when jobs become due in the queues of a fetch.
    timers: Mutex<BTreeMap<BTreeSet<QueueName>, JoinHandle<()>>>,
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
            unheard: Unheard::default(),
            reporter: Reporter::default(),
            watched: Mutex::default(),
            awaited: Awaited::default(),
            owed: Owed::default(),
            has_strangers: AtomicBool::new(false),
            odd: Mutex::default(),
            spoiled: Mutex::default(),
            spoiled_index: Mutex::default(),
            spoiled_aside: Mutex::default(),
            recurs: Recurs::default(),
            wakes: Wakes::default(),
            complaints: Complaints::default(),
            timers: Mutex::default(),
            own: own.clone(),
        })
    }

    /// Sends a command to the script.
    pub(super) async fn call(
        &self,
        verb: &str,
        command: &str,
        args: impl FnOnce(&mut Cmd, Offset) + Send,
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
        self.watched().keys().cloned().collect()
    }

    fn watched(&self) -> MutexGuard<'_, BTreeMap<QueueName, u8>> {
        lock(&self.watched)
    }

    /// From now on messages about these queues wake the supervisor.
    pub(super) fn watch(&self, queues: &[QueueName]) {
        let mut watched = self.watched();
        queues.iter().for_each(|queue| _ = watched.entry(queue.clone()).or_default());
    }

    /// Notes what a fetch has seen in its queues.
    pub(super) fn saw(&self, queues: &[QueueName], seen: u8) {
        self.watched().extend(queues.iter().map(|queue| (queue.clone(), seen)));
    }

    /// The queues in which the latest fetch has seen any of this.
    pub(super) fn seen(&self, what: u8) -> QueueSet {
        let watched = self.watched();
        let seen = watched.iter().filter(|(_, seen)| *seen & what != 0);
        QueueSet::Only(seen.map(|(queue, _)| queue.clone()).collect())
    }

    /// There may be jobs in these queues: wakes the supervisor if it fetches from one, but not for each of many
    /// messages.
    pub(super) fn wake(&self, mut queues: QueueSet) {
        if let QueueSet::Only(names) = &mut queues {
            let watched = self.watched();
            names.retain(|queue| watched.contains_key(queue));
        }
        let (Some(shared), Some(wait)) = (self.own.upgrade(), self.wakes.heard(self.link.now(), &queues))
        else {
            return;
        };
        if wait.is_zero() {
            self.notices.push(Notice::Wake(queues));
            return;
        }
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            shared.notices.push(Notice::Wake(queues));
        });
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

    /// Wakes the supervisor for these queues after this time; replaces the earlier wake-up for them.
    pub(super) fn wake_at(&self, queues: &[QueueName], wait: Option<Duration>) {
        let Some(shared) = self.own.upgrade() else { return };
        let queues: BTreeSet<QueueName> = queues.iter().cloned().collect();
        let mut timers = lock(&self.timers);
        timers.remove(&queues).inspect(JoinHandle::abort);
        let Some(wait) = wait else { return };
        let notice = Notice::Wake(QueueSet::Only(queues.clone()));
        let task = tokio::spawn(async move {
            // Jobs that are due but not handed out now must not cause fetches without a pause.
            tokio::time::sleep(wait.max(PAUSE)).await;
            shared.notices.push(notice);
        });
        timers.insert(queues, task);
    }

    /// Ends the wake-ups to come.
    pub(super) fn end_timers(&self) {
        lock(&self.timers).values().for_each(JoinHandle::abort);
    }
}
