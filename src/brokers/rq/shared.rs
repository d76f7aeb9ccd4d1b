//! State that the calls and the tasks of a broker of RQ share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use redis::{Cmd, FromRedisValue};
use tokio::sync::Notify;

use super::hearing::Hearing;
use super::job::execution;
use super::script::NEEDS;
use super::settings::Settings;
use super::workers::Workers;
use broker::{Complaints, Error, Notice};
pub(super) use common::lock;
use common::{Damper, Notices, Owed, Unheard};
use model::{Class, Fence, Instance, JobId, JobState, Millis, PublishedEvent, QueueName, Revocation, What};
use redis_link::values::{Text, read, write_list};
use redis_link::{Arrivals, Link};

/// The version of RQ whose keys are written.
const VERSION: &str = "3.0.0";

pub(super) struct Shared {
    pub link: Link,
    pub settings: Settings,
    /// The supervisor that holds the leases; known from the first call that names it.
    pub instance: OnceLock<Instance>,
    fence: AtomicU64,
    pub notices: Notices,
    held: Mutex<HashMap<(JobId, Fence), Held>>,
    /// Fetches without a reply: the next fetch puts their jobs back.
    pub unheard: Unheard,
    /// The jobs to keep when those of an earlier process are released.
    pub owed: Owed<Vec<(JobId, Fence)>>,
    pub workers: Workers,
    pub hearing: Hearing,
    /// The queues from which jobs were fetched.
    pub arrivals: Mutex<BTreeMap<QueueName, Arc<Arrivals>>>,
    /// Makes the periodic work run at once.
    pub hurry: Notify,
    taken: AtomicU64,
    /// Whether the latest fetch has found all queues suspended.
    pub is_suspended: AtomicBool,
    spoiled: Mutex<BTreeSet<String>>,
    /// Jobs that cannot be run and are still to be failed: their ids and executions.
    pub refused: Mutex<Vec<(Vec<u8>, String)>>,
    pub complaints: Complaints,
    /// Lines about commands that end no job: anybody can publish them.
    pub strange: Damper,
}

/// What is known here of a running job.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub queue: QueueName,
    pub class: Class,
    /// The name of the worker in RQ.
    pub worker: String,
    /// The job's time limit in seconds, if it has one.
    pub timeout: Option<u64>,
    pub asked: Option<Asked>,
}

/// A request about a running job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// RQ's `stop-job`, or a cancel: the job is not tried again.
    Stop,
    /// RQ's `kill-horse`: the job has failed.
    Kill,
}

impl Shared {
    pub(super) fn new(settings: Settings, name: &str) -> Result<Arc<Shared>, Error> {
        let link = Link::new(&settings.url, name, &NEEDS, None, clock::now)?;
        Ok(Arc::new(Shared {
            link,
            workers: Workers::new(settings.name.clone()),
            settings,
            instance: OnceLock::new(),
            // Greater than the fences of every earlier supervisor.
            fence: AtomicU64::new(u64::try_from(clock::wall_millis()).unwrap_or(1) * 1000),
            notices: Notices::default(),
            held: Mutex::default(),
            unheard: Unheard::default(),
            owed: Owed::default(),
            hearing: Hearing::default(),
            arrivals: Mutex::default(),
            hurry: Notify::new(),
            taken: AtomicU64::new(0),
            is_suspended: AtomicBool::new(false),
            spoiled: Mutex::default(),
            refused: Mutex::default(),
            complaints: Complaints::default(),
            strange: Damper::default(),
        }))
    }

    /// Sends `command` to the script, which gets the prefix of all keys before the command's own arguments.
    pub(super) async fn call<T: FromRedisValue>(
        &self,
        verb: &str,
        command: &str,
        args: impl FnOnce(&mut Cmd) + Send,
    ) -> Result<T, Error> {
        let prefix = &self.settings.prefix;
        let write = |cmd: &mut Cmd, _| {
            cmd.arg(prefix);
            args(cmd);
        };
        read(self.link.call(verb, command, self.link.now(), write).await?)
    }

    pub(super) fn key(&self, rest: &str) -> String {
        format!("{}:{rest}", self.settings.prefix)
    }

    pub(super) fn instance(&self) -> &str {
        self.instance.get().map_or("", Instance::as_str)
    }

    pub(super) fn next_fence(&self) -> Fence {
        Fence(self.fence.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn execution(&self, fence: Fence) -> String {
        execution(self.instance(), fence)
    }

    pub(super) fn hold(&self, job: JobId, fence: Fence, held: Held) {
        lock(&self.held).insert((job, fence), held);
    }

    pub(super) fn held(&self, job: &JobId, fence: Fence) -> Option<Held> {
        lock(&self.held).get(&(job.clone(), fence)).cloned()
    }

    pub(super) fn let_go(&self, job: &JobId, fence: Fence) -> Option<Held> {
        lock(&self.held).remove(&(job.clone(), fence))
    }

    /// Has the matching jobs that run here ended. Gives their number.
    pub(super) fn end(&self, what: Asked, matches: impl Fn(&JobId, Fence, &Held) -> bool) -> usize {
        let mut count = 0;
        for ((job, fence), held) in &mut *lock(&self.held) {
            if matches(job, *fence, held) {
                count += 1;
                // The first request decides how the end is recorded.
                if held.asked.is_none() {
                    held.asked = Some(what);
                    let (job, fence) = (job.clone(), *fence);
                    self.notices.push(Notice::Revoked { job, fence, why: Revocation::Canceled });
                }
            }
        }
        count
    }

    /// The owner of RQ's lock of the scheduler.
    pub(super) fn scheduler(&self) -> String {
        let base = self.instance.get().map_or("", |instance| self.workers.base(instance));
        format!("{base}-scheduler-{}", std::process::id())
    }

    /// Registers the workers, which keeps them alive for RQ.
    pub(super) async fn sign(&self) -> Result<(), Error> {
        let all = self.workers.known();
        if all.is_empty() {
            return Ok(());
        }
        let common = [
            ("hostname", self.workers.host().to_owned()),
            // RQ's own workers use the same word where the server does not tell.
            ("ip_address", self.link.client_address().await?.unwrap_or_else(|| "unknown".into())),
            ("pid", std::process::id().to_string()),
            ("version", VERSION.into()),
            ("python_version", String::new()),
        ];
        let write = |cmd: &mut Cmd| {
            cmd.arg(self.settings.worker_ttl).arg(2 * common.len());
            common.iter().for_each(|(name, value)| _ = cmd.arg(*name).arg(value));
            cmd.arg(all.len());
            for (name, known) in &all {
                cmd.arg(name).arg(if known.is_signed { "again" } else { "first" });
                write_list(cmd, known.queues.iter().map(QueueName::as_str));
            }
        };
        self.call::<()>("tell workers to", "sign", write).await?;
        self.workers.signed(&all);
        Ok(())
    }

    /// Removes workers that are gone, and the scheduler of these queues.
    pub(super) async fn leave(&self, names: &[String], queues: &[QueueName]) -> Result<(), Error> {
        let write = |cmd: &mut Cmd| {
            write_list(cmd, names.iter().map(String::as_str));
            cmd.arg(self.scheduler());
            write_list(cmd, queues.iter().map(QueueName::as_str));
        };
        self.call("take workers out of", "leave", write).await
    }

    /// The reason why no job is taken from any queue, if all are suspended.
    pub(super) fn suspended(&self) -> Option<String> {
        let why = "RQ is suspended, so no job is taken from any queue: `rq resume` ends that";
        self.is_suspended.load(Ordering::Relaxed).then(|| why.into())
    }

    /// All queues from which jobs were fetched.
    pub(super) fn queues(&self) -> Vec<QueueName> {
        lock(&self.arrivals).keys().cloned().collect()
    }

    /// Number of further jobs that may be taken.
    pub(super) fn room(&self) -> usize {
        let taken = self.taken.load(Ordering::Relaxed);
        let left = self.settings.max_jobs.map(|most| most.saturating_sub(taken));
        left.and_then(|left| usize::try_from(left).ok()).unwrap_or(usize::MAX)
    }

    pub(super) fn took(&self, count: usize) {
        self.taken.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Publishes, if there are subscribers, what has happened to a job, its state since then, and `more`.
    pub(super) fn tell(
        &self,
        (what, state): (What, JobState),
        (job, queue, class): (&JobId, &QueueName, &Class),
        more: impl FnOnce(PublishedEvent) -> PublishedEvent,
    ) {
        if let Some(room) = self.notices.heard() {
            room.tell(more(PublishedEvent {
                job: Some(job.clone()),
                queue: Some(queue.clone()),
                class: Some(class.clone()),
                state: Some(state),
                ..PublishedEvent::new(what, Millis(clock::wall_millis()))
            }));
        }
    }

    /// Logs keys of another type than those of jobs and queues, each once.
    pub(super) fn tell_spoiled(&self, keys: Vec<Text>) {
        const MANY: usize = 1000;
        for Text(key) in keys {
            // Other programs may make any number of such keys, and all names are kept.
            let mut told = lock(&self.spoiled);
            if told.len() < MANY && told.insert(key.clone()) {
                tracing::warn!(
                    key,
                    "another program has put something else in the place of a job or a queue; it is passed over"
                );
            }
        }
    }
}
