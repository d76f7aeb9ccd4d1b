//! RQ as a source of jobs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use redis::{Cmd, Direction, Value};
use serde_json::json;
use tokio::task::JoinSet;

use super::job::{Taken, class_of, fence};
use super::settings::Settings;
use super::settle::{End, settled};
use super::shared::{Held, Shared, lock};
use super::{chores, commands, put};
use crate::broker::redis::Arrivals;
use crate::broker::redis::values::{array, number, parts, text, write_list};
use crate::broker::{Error, Fetch, Health, Notice, Peers, Recovery, Renewal, Settling, Source, stored};
use crate::model::{
    Fence, Fetched, Instance, JobId, Lease, NewJob, Presence, Progress, QueueName, Revocation, Settlement,
    Take, WorkerId, WorkerName,
};

/// RQ's jobs in one Redis.
pub struct Rq {
    pub(super) shared: Arc<Shared>,
    /// They end with this value.
    tasks: Mutex<JoinSet<()>>,
}

/// A worker to which a job may go: its name in RQ, its life, and the execution that the job would be.
struct Asking {
    name: String,
    worker: WorkerId,
    fence: Fence,
    execution: String,
}

impl Rq {
    /// RQ's jobs at the Redis of `settings`, shown as `name`. Sends no request yet.
    pub(super) fn open(settings: Settings, name: &str) -> Result<Rq, Error> {
        Ok(Rq { shared: Shared::new(settings, name)?, tasks: Mutex::default() })
    }

    /// Sets the supervisor that holds the leases, and starts the periodic work.
    fn serve(&self, instance: &Instance) {
        if self.shared.instance.set(instance.clone()).is_ok() {
            let mut tasks = lock(&self.tasks);
            tasks.spawn(chores::attend(self.shared.clone()));
            tasks.spawn(commands::listen(self.shared.clone()));
        }
    }

    /// Prepares for a fetch.
    async fn prepare(&self, request: &Fetch, asking: &[Asking]) -> Result<(), Error> {
        if let Some(keep) = self.shared.owed.get() {
            self.give_back(&request.instance, &keep).await?;
            self.shared.owed.is_paid();
        }
        let names: Vec<String> = asking.iter().map(|one| one.name.clone()).collect();
        if self.shared.workers.take(&names, &request.queues) {
            self.shared.workers.sign(&self.shared).await?;
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

    /// Which of the first jobs of its queues a request may take; `None` = all.
    async fn wanted(&self, request: &Fetch) -> Result<Option<Vec<JobId>>, Error> {
        let filter = &request.filter;
        if filter.only.is_empty() && filter.except.is_empty() {
            return Ok(None);
        }
        let asked = self.shared.call("look at jobs in", "heads", |cmd| {
            write_list(cmd, request.queues.iter().map(QueueName::as_str));
        });
        let wanted = array(asked.await?)?.into_iter().filter_map(|one| {
            let [id, Value::BulkString(data)] = parts(one).ok()? else { return None };
            filter.matches(&class_of(&data)).then(|| text(&id).map(JobId::from))?
        });
        Ok(Some(wanted.collect()))
    }

    /// Releases what an earlier process of this instance held, apart from `keep`.
    async fn give_back(&self, instance: &Instance, keep: &[(JobId, Fence)]) -> Result<u64, Error> {
        let kept: Vec<String> =
            keep.iter().map(|(job, fence)| format!("{job}:{}", self.shared.execution(*fence))).collect();
        let answer = self.shared.call("release jobs in", "recover", |cmd| {
            cmd.arg(instance.as_str()).arg(chores::INTERRUPTED.1).arg(chores::INTERRUPTED.0);
            cmd.arg(chores::interrupted()).arg(kept.len()).arg(kept);
        });
        Ok(number(&answer.await?))
    }

    /// The jobs that were taken, each with its worker.
    fn given(
        &self,
        jobs: Vec<Value>,
        asking: &[Asking],
        request: &Fetch,
        at: crate::model::Instant,
    ) -> Vec<Fetched> {
        let shared = &self.shared;
        let read = jobs.into_iter().filter_map(Taken::read);
        let given = read.filter_map(|(place, taken)| {
            let asked = asking.get(place)?;
            let timeout = taken.timeout();
            let job = taken.job(&asked.execution, &asked.name, &shared.settings.prefix);
            let lease = Lease { job: job.id.clone(), fence: asked.fence, expires_at: at + request.lease };
            let (queue, class) = (job.queue.clone(), job.class.clone());
            let held = Held { queue, class, worker: asked.name.clone(), timeout, asked: None };
            shared.tell_taken(&job.id, &held, WorkerName::new(request.pool.clone(), asked.worker));
            shared.hold(job.id.clone(), asked.fence, held);
            Some(Fetched { job, lease })
        });
        given.collect()
    }

    /// Notes how many jobs a fetch has `left` in each queue; that is no list if RQ is suspended.
    fn listen(&self, queues: &[QueueName], left: &Value, is_full: bool) {
        let mut known = lock(&self.shared.arrivals);
        for (at, queue) in queues.iter().enumerate() {
            let arrivals = known.entry(queue.clone()).or_insert_with(|| self.begin_to_listen(queue));
            if let Value::Array(left) = left {
                arrivals.fetched(u64::from(left.get(at) != Some(&Value::Int(0))), is_full);
            } else {
                arrivals.fetched(1, false);
            }
        }
    }

    fn begin_to_listen(&self, queue: &QueueName) -> Arc<Arrivals> {
        let arrivals = Arc::new(Arrivals::new(self.shared.key(&format!("queue:{queue}")), Direction::Left));
        let (shared, own) = (self.shared.clone(), arrivals.clone());
        lock(&self.tasks).spawn(async move {
            own.listen(&shared.link, &shared.complaints, || shared.notices.push(Notice::Wake)).await;
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
        let at = self.shared.link.now();
        let wanted = self.wanted(&request).await?;
        let unheard = lock(&self.shared.unheard).clone();
        let answer = self.shared.call("fetch jobs from", "take", |cmd| {
            write_take(cmd, &request, wanted.as_deref(), &asking, &unheard);
        });
        let answer = match answer.await {
            Ok(answer) => answer,
            Err(error) => {
                let executions = asking.iter().map(|one| (one.execution.clone(), one.name.clone()));
                lock(&self.shared.unheard).extend(executions);
                return Err(error);
            }
        };
        lock(&self.shared.unheard).retain(|one| !unheard.contains(one));
        let [jobs, spoiled, left] = parts(answer)?;
        let jobs = array(jobs)?;
        self.shared.tell_spoiled(&spoiled);
        self.listen(&request.queues, &left, jobs.len() >= asking.len());
        self.shared.took(jobs.len());
        Ok(self.given(jobs, &asking, &request, at))
    }

    async fn renew(&self, leases: Vec<Lease>, by: Duration) -> Result<Vec<Renewal>, Error> {
        let at = self.shared.link.now();
        let asked = self.shared.call("renew leases in", "renew", |cmd| {
            cmd.arg(seconds(by)).arg(leases.len());
            for lease in &leases {
                cmd.arg(lease.job.as_str()).arg(self.shared.execution(lease.fence));
            }
        });
        let answers = array(asked.await?)?;
        let renewals = leases.into_iter().zip(answers).map(|(lease, answer)| {
            if text(&answer).as_deref() != Some("renewed") {
                self.shared.let_go(&lease.job, lease.fence);
                return Renewal::Lost(Revocation::LockLost);
            }
            let held = self.shared.held(&lease.job, lease.fence);
            let lease = Lease { expires_at: at + by, ..lease };
            match held.and_then(|held| held.asked) {
                Some(_) => Renewal::Canceling(lease),
                None => Renewal::Renewed(lease),
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
                end.write(cmd, settlement.job.as_str(), &self.shared.execution(settlement.fence));
            }
        });
        let answers = array(asked.await?)?;
        if ends.iter().any(End::has_callback) {
            self.shared.notices.push(Notice::Wake);
        }
        let settlings = settlements.iter().zip(answers).map(|(settlement, answer)| {
            let settling = settled(settlement.job.as_str(), text(&answer).as_deref());
            if !matches!(settling, Settling::Failed(_))
                && let Some(held) = self.shared.let_go(&settlement.job, settlement.fence)
            {
                self.shared.tell_settled(settlement, &held, &settling);
            }
            settling
        });
        Ok(settlings.collect())
    }

    async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error> {
        let written = jobs.iter().map(put::write).collect::<Result<Vec<_>, Error>>()?;
        let answer = self.shared.call("put jobs into", "put", |cmd| {
            cmd.arg(jobs.len());
            jobs.iter().zip(&written).for_each(|(job, written)| written.write(cmd, job));
        });
        if let Some(id) = array(answer.await?)?.first().and_then(text) {
            return Err(Error::Exists(id.into()));
        }
        written.iter().zip(&jobs).for_each(|(one, job)| self.shared.tell_put(&one.id, job));
        Ok(written.into_iter().map(|one| Ok(one.id)).collect())
    }

    async fn progress(&self, notes: Vec<(JobId, Fence, Progress)>) -> Result<(), Error> {
        let noted = self.shared.call("note progress in", "progress", |cmd| {
            cmd.arg(notes.len());
            for (job, fence, progress) in &notes {
                cmd.arg(job.as_str()).arg(self.shared.execution(*fence));
                cmd.arg(stored::to_json(progress).unwrap_or_default());
            }
        });
        noted.await.map(drop)
    }

    async fn next_notice(&self) -> Notice {
        self.shared.notices.next().await
    }

    fn health(&self) -> Health {
        Health { trouble: self.shared.link.trouble(), ..Health::default() }
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
        let held = array(asked.await?)?.into_iter().filter_map(|one| {
            let [job, execution, life] = parts(one).ok()?.map(|part| text(&part));
            let life = WorkerId::from_u64(life?.parse().ok()?);
            Some((job?.into(), fence(&execution?)?, life))
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
            tokio::spawn(async move { shared.workers.leave(&shared, &gone, &[]).await });
        }
    }

    async fn leave(&self) -> Result<(), Error> {
        lock(&self.tasks).abort_all();
        let (names, queues) = (self.shared.workers.names(), self.shared.queues());
        self.shared.workers.leave(&self.shared, &names, &queues).await
    }
}

/// Whole seconds, rounded up, as keys expire by them.
fn seconds(time: Duration) -> u64 {
    time.as_secs().max(1)
}

fn write_take(
    cmd: &mut Cmd,
    request: &Fetch,
    wanted: Option<&[JobId]>,
    asking: &[Asking],
    unheard: &[(String, String)],
) {
    cmd.arg(seconds(request.lease)).arg(request.instance.as_str()).arg(match request.take {
        Take::InOrder => "order",
        Take::InTurn => "turn",
    });
    cmd.arg(unheard.len());
    unheard.iter().for_each(|(execution, worker)| _ = cmd.arg(execution).arg(worker));
    write_list(cmd, request.queues.iter().map(QueueName::as_str));
    match wanted {
        None => _ = cmd.arg("all"),
        Some(ids) => {
            cmd.arg("some");
            write_list(cmd, ids.iter().map(JobId::as_str));
        }
    }
    cmd.arg(asking.len());
    for one in asking {
        let slot = json!(WorkerName::new(request.pool.clone(), one.worker)).to_string();
        cmd.arg(&one.name).arg(one.worker.to_u64()).arg(slot).arg(&one.execution);
    }
}
