//! RQ as a source of jobs.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use redis::{Cmd, Direction};
use serde_json::json;
use tokio::task::JoinSet;

use super::job::{Fields, Taken, class_of, fence};
use super::put::{self, Written};
use super::settings::Settings;
use super::settle::{self, End};
use super::shared::{Held, Shared, lock};
use super::sweeps::Sweeps;
use super::{chores, commands};
use broker::{Address, Complaints, Error, Fetch, Health, Notice, Peers, Recovery, Renewal, Settling, Source};
use common::stored;
use model::{
    Fence, Fetched, Instance, Instant, JobId, JobState, Lease, NewJob, Presence, Progress, PublishedEvent,
    QueueName, QueueSet, Settlement, Take, What, WorkerId, WorkerName,
};
use redis_link::Arrivals;
use redis_link::values::{Text, write_list};

/// RQ's jobs in one Redis.
pub(crate) struct Rq {
    pub(super) shared: Arc<Shared>,
    /// They end with this value.
    tasks: Mutex<JoinSet<()>>,
    /// Where changes of many jobs go on.
    pub(super) sweeps: Sweeps,
}

/// A worker to which a job may go: its name in RQ, its life, and the execution that the job would be.
struct Asking {
    name: String,
    worker: WorkerId,
    fence: Fence,
    execution: String,
}

impl Rq {
    /// RQ's jobs at this address. Sends no request yet.
    pub(super) fn open(at: &Address) -> Result<Rq, Error> {
        let settings = Settings::read(at.reveal())?;
        Ok(Rq {
            shared: Shared::new(settings, &at.to_string())?,
            tasks: Mutex::default(),
            sweeps: Sweeps::default(),
        })
    }

    /// Sets the supervisor that holds the leases, and starts the periodic work.
    fn serve(&self, instance: &Instance) {
        if self.shared.instance.set(instance.clone()).is_ok() {
            let mut tasks = lock(&self.tasks);
            tasks.spawn(chores::attend(self.shared.clone()));
            tasks.spawn(commands::listen(self.shared.clone()));
            let shared = self.shared.clone();
            tasks.spawn(async move { shared.link.pulse().await });
        }
    }

    /// Prepares for a fetch.
    async fn prepare(&self, request: &Fetch, asking: &[Asking]) -> Result<(), Error> {
        if let Some(keep) = self.shared.owed.get() {
            self.give_back(&request.instance, &keep).await?;
            self.shared.owed.is_paid();
        }
        let names: Vec<String> = asking.iter().map(|one| one.name.clone()).collect();
        // Before the jobs are taken: the script names these workers as their holders.
        if self.shared.workers.take(&names, &request.queues) {
            self.shared.sign().await?;
        }
        Ok(())
    }

    fn asking(&self, request: &Fetch) -> Vec<Asking> {
        let shared = &self.shared;
        let room = shared.room();
        let asking = request.workers.iter().take(room).map(|worker| {
            let fence = shared.next_fence();
            let name = shared.workers.name(&request.instance, &request.pool, worker.slot.index);
            Asking { name, worker: *worker, fence, execution: shared.execution(fence) }
        });
        asking.filter(|one| !shared.workers.is_shut_down(&one.name)).collect()
    }

    /// Those of the first jobs of its queues that a request may take; `None` = all.
    async fn wanted(&self, request: &Fetch) -> Result<Option<Vec<Vec<u8>>>, Error> {
        // The class is inside a job's compressed data, which the script cannot read.
        let filter = &request.filter;
        if filter.only.is_empty() && filter.except.is_empty() {
            return Ok(None);
        }
        let asked = self.shared.call("look at jobs in", "heads", |cmd| {
            write_list(cmd, request.queues.iter().map(QueueName::as_str));
        });
        let heads: Vec<(Vec<u8>, Vec<u8>)> = asked.await?;
        let wanted = heads.into_iter().filter(|(_, data)| filter.matches(&class_of(data)));
        Ok(Some(wanted.map(|(id, _)| id).collect()))
    }

    /// Releases what an earlier process of this instance held, apart from `keep`.
    async fn give_back(&self, instance: &Instance, keep: &[(JobId, Fence)]) -> Result<u64, Error> {
        let kept: Vec<String> =
            keep.iter().map(|(job, fence)| format!("{job}:{}", self.shared.execution(*fence))).collect();
        let write = |cmd: &mut Cmd| {
            cmd.arg(instance.as_str()).arg(chores::INTERRUPTED.1).arg(chores::INTERRUPTED.0);
            cmd.arg(chores::interrupted()).arg(kept.len()).arg(kept);
        };
        self.shared.call("release jobs in", "recover", write).await
    }

    /// Holds a job that was taken for a worker of the request that was sent at this moment.
    fn given(
        &self,
        (queue, id, fields): (Text, String, Fields),
        asked: &Asking,
        request: &Fetch,
        at: Instant,
    ) -> Fetched {
        let taken = Taken { queue: queue.0.into(), id: id.into(), fields };
        let (shared, timeout) = (&self.shared, taken.timeout());
        let job = taken.job(&asked.execution, &asked.name, &shared.settings.prefix);
        let lease = Lease { job: job.id.clone(), fence: asked.fence, expires_at: at + request.lease };
        let worker = WorkerName::new(request.pool.clone(), asked.worker);
        shared.tell((What::Fetched, JobState::Running), (&job.id, &job.queue, &job.class), |event| {
            PublishedEvent { worker: Some(worker), ..event }
        });
        let (queue, class) = (job.queue.clone(), job.class.clone());
        let held = Held { queue, class, worker: asked.name.clone(), timeout, asked: None };
        shared.hold(job.id.clone(), asked.fence, held);
        Fetched { job, lease, waited: None }
    }

    /// Notes how many jobs a fetch has `left` in each queue; `None` if RQ is suspended.
    fn listen(&self, queues: &[QueueName], left: Option<Vec<u64>>, is_full: bool) {
        self.shared.is_suspended.store(left.is_none(), Ordering::Relaxed);
        let mut known = lock(&self.shared.arrivals);
        let is_full = is_full && left.is_some();
        // While RQ is suspended nothing is known of its queues: each may hold a job.
        for (queue, left) in queues.iter().zip(left.unwrap_or_else(|| vec![1; queues.len()])) {
            let arrivals = known.entry(queue.clone()).or_insert_with(|| self.begin_to_listen(queue));
            arrivals.fetched(left, is_full);
        }
    }

    fn begin_to_listen(&self, queue: &QueueName) -> Arc<Arrivals> {
        let arrivals = Arc::new(Arrivals::new(self.shared.key(&format!("queue:{queue}")), Direction::Left));
        let (shared, own, queue) = (self.shared.clone(), arrivals.clone(), queue.clone());
        lock(&self.tasks).spawn(async move {
            let wake = || shared.notices.push(Notice::Wake(queue.clone().into()));
            own.listen(&shared.link, &shared.complaints, wake).await;
        });
        arrivals
    }
}

#[async_trait]
impl Source for Rq {
    async fn fetch(&self, request: Fetch) -> Result<Vec<Fetched>, Error> {
        self.serve(&request.instance);
        let asking = self.asking(&request);
        self.prepare(&request, &asking).await?;
        // Before the request: a lease must not seem longer here than it is at the server.
        let at = self.shared.link.now();
        let wanted = self.wanted(&request).await?;
        let (name, unheard) = (self.shared.unheard.name(), self.shared.unheard.all());
        let mut is_sent = false;
        let answer = self.shared.call("fetch jobs from", "take", |cmd| {
            // A call that failed before this has taken nothing.
            is_sent = true;
            write_list(cmd.arg(&name), unheard.iter());
            write_take(cmd, &request, wanted.as_deref(), &asking);
        });
        let answer = answer.await;
        if answer.is_err() && is_sent {
            self.shared.unheard.add(name);
        }
        let (jobs, spoiled, left): (Vec<(Text, Vec<u8>, usize, Fields, Text)>, Vec<Text>, _) = answer?;
        // With its answer the script has put back what those fetches had taken.
        self.shared.unheard.remove(&unheard);
        self.shared.tell_spoiled(spoiled);
        self.listen(&request.queues, left, jobs.len() >= asking.len());
        self.shared.took(jobs.len());
        let mut given = Vec::new();
        for (queue, id, place, fields, Text(waited)) in jobs {
            let Some(asked) = asking.get(place) else { continue };
            match String::from_utf8(id) {
                Ok(id) => {
                    let fetched = self.given((queue, id, fields), asked, &request, at);
                    given.push(Fetched { waited: duration(&waited), ..fetched });
                }
                Err(odd) => self.shared.refuse(odd.into_bytes(), asked.execution.clone()),
            }
        }
        Ok(given)
    }

    async fn renew(&self, leases: Vec<Lease>, by: Duration) -> Result<Vec<Renewal>, Error> {
        let at = self.shared.link.now();
        let asked = self.shared.call("renew leases in", "renew", |cmd| {
            cmd.arg(seconds(by)).arg(leases.len());
            for lease in &leases {
                cmd.arg(lease.job.as_str()).arg(self.shared.execution(lease.fence));
            }
        });
        let answers: Vec<Text> = asked.await?;
        let renewals = leases.into_iter().zip(answers).map(|(lease, Text(said))| {
            let (job, fence) = (lease.job.clone(), lease.fence);
            let verb = format!("renew the lease of job '{job}' in");
            let refused = |why: &str| self.shared.link.refused(&verb, why);
            match Renewal::read(Lease { expires_at: at + by, ..lease }, Some(&said), refused) {
                Renewal::Renewed(lease) => match self.shared.held(&job, fence).and_then(|held| held.asked) {
                    Some(_) => Renewal::Canceling(lease),
                    None => Renewal::Renewed(lease),
                },
                Renewal::Lost(why) => {
                    self.shared.let_go(&job, fence);
                    Renewal::Lost(why)
                }
                other @ (Renewal::Canceling(_) | Renewal::Failed(_)) => other,
            }
        });
        Ok(renewals.collect())
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settling>, Error> {
        let ttl = self.shared.settings.result_ttl;
        let end = |settlement: &Settlement| {
            End::of(settlement, self.shared.held(&settlement.job, settlement.fence).as_ref(), ttl)
        };
        let ends: Vec<End> = settlements.iter().map(end).collect();
        let asked = self.shared.call("settle jobs in", "settle", |cmd| {
            cmd.arg(ends.len());
            for (settlement, end) in settlements.iter().zip(&ends) {
                end.write(cmd, settlement.job.as_str().as_bytes(), &self.shared.execution(settlement.fence));
            }
        });
        let answers: Vec<Text> = asked.await?;
        // Workers fetch a callback as they fetch a job.
        if ends.iter().any(End::has_callback) {
            self.shared.notices.push(Notice::Wake(QueueSet::All));
        }
        let settlings = settlements.iter().zip(answers).map(|(settlement, Text(said))| {
            let verb = format!("settle job '{}' in", settlement.job);
            let settled = Settling::read(Some(&said), |why| self.shared.link.refused(&verb, why));
            let happened = match &settled {
                Settling::Settled(state) => (What::of_end(*state), *state),
                Settling::NotOurs => (What::LockLost, JobState::Waiting),
                // The end of a callback that ran by itself is no end of a job: no event says it.
                Settling::Aside => {
                    self.shared.let_go(&settlement.job, settlement.fence);
                    settle::tell_callback(settlement);
                    return settled;
                }
                Settling::Failed(_) => return settled,
            };
            if let Some(held) = self.shared.let_go(&settlement.job, settlement.fence) {
                self.shared.tell(happened, (&settlement.job, &held.queue, &held.class), |event| event);
            }
            settled
        });
        Ok(settlings.collect())
    }

    async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error> {
        // All are checked before any is sent: one that RQ could not run refuses them all.
        let written = jobs.iter().map(put::write).collect::<Result<Vec<_>, Error>>()?;
        let answer = self.shared.call("put jobs into", "put", |cmd| {
            cmd.arg(jobs.len());
            jobs.iter().zip(&written).for_each(|(job, written)| written.write(cmd, job));
        });
        let there: Option<Text> = answer.await?;
        if let Some(id) = there {
            return Err(Error::Exists(id.0.into()));
        }
        for (Written { id, .. }, job) in written.iter().zip(&jobs) {
            let state = if job.delay.is_zero() { JobState::Waiting } else { JobState::Delayed };
            self.shared.tell((What::Put, state), (id, &job.queue, &job.class), |event| event);
        }
        Ok(written.into_iter().map(|one| Ok(one.id)).collect())
    }

    async fn progress(&self, notes: Vec<(JobId, Fence, Progress)>) -> Result<(), Error> {
        let write = |cmd: &mut Cmd| {
            cmd.arg(notes.len());
            for (job, fence, progress) in &notes {
                cmd.arg(job.as_str()).arg(self.shared.execution(*fence));
                cmd.arg(stored::to_json(progress).unwrap_or_default());
            }
        };
        self.shared.call("note progress in", "progress", write).await
    }

    async fn next_notice(&self) -> Notice {
        self.shared.notices.next().await
    }

    fn complaints(&self) -> Complaints {
        self.shared.complaints.clone()
    }

    fn health(&self) -> Health {
        Health {
            trouble: self.shared.link.trouble().or_else(|| self.shared.suspended()),
            concern: self.shared.link.concern(),
            ..Health::default()
        }
    }
}

#[async_trait]
impl Recovery for Rq {
    async fn recover(&self, instance: Instance, keep: Vec<(JobId, Fence)>) -> Result<u64, Error> {
        self.serve(&instance);
        self.shared.owed.or_owed(self.give_back(&instance, &keep).await, keep)
    }

    async fn held_by(&self, instance: Instance) -> Result<Vec<(JobId, Fence, WorkerId)>, Error> {
        self.serve(&instance);
        let asked = self.shared.call("ask about jobs in", "held", |cmd| _ = cmd.arg(instance.as_str()));
        let held: Vec<(Text, Text, u64)> = asked.await?;
        let held = held.into_iter().filter_map(|(job, execution, life)| {
            Some((job.0.into(), fence(&execution.0)?, WorkerId::from_u64(life)))
        });
        Ok(held.collect())
    }
}

#[async_trait]
impl Peers for Rq {
    fn sign(&self, sign: Presence) {
        self.serve(&sign.instance);
        let gone = self.shared.workers.set(&sign.instance, &sign.pools);
        self.shared.hurry.notify_one();
        if !gone.is_empty() {
            let shared = self.shared.clone();
            tokio::spawn(async move { shared.leave(&gone, &[]).await });
        }
    }

    async fn leave(&self) -> Result<(), Error> {
        // First: the chores would register the workers again.
        lock(&self.tasks).abort_all();
        let (names, queues) = (self.shared.workers.names(), self.shared.queues());
        self.shared.leave(&names, &queues).await
    }
}

/// A time in seconds that the script has written, if it is one.
fn duration(seconds: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
}

/// Whole seconds, rounded up, as keys expire by them.
fn seconds(time: Duration) -> u64 {
    time.as_millis().div_ceil(1000).max(1) as u64
}

fn write_take(cmd: &mut Cmd, request: &Fetch, wanted: Option<&[Vec<u8>]>, asking: &[Asking]) {
    cmd.arg(seconds(request.lease)).arg(request.instance.as_str()).arg(match request.take {
        Take::InOrder => "order",
        Take::InTurn => "turn",
    });
    write_list(cmd, request.queues.iter().map(QueueName::as_str));
    match wanted {
        None => _ = cmd.arg("all"),
        Some(ids) => {
            cmd.arg("some");
            write_list(cmd, ids.iter().map(Vec::as_slice));
        }
    }
    cmd.arg(asking.len());
    for one in asking {
        let slot = json!(WorkerName::new(request.pool.clone(), one.worker)).to_string();
        cmd.arg(&one.name).arg(one.worker.to_u64()).arg(slot).arg(&one.execution);
    }
}
