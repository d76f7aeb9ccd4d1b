//! Calls to the broker, each a task of its own that ends in an event or an answer.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc::Sender;
use tracing::warn;

use crate::broker::{Broker, Fetch, Renewal, Verbs};
use crate::model::{
    Bytes, Class, Exists, Fence, JobId, JobState, Lease, NewJob, Payload, QueueCounts, QueueName, Retry,
    WorkerId,
};
use crate::supervisor::Event;

/// What a worker asked for: JSON, or why it is not to be had.
pub(super) struct Answer {
    pub(super) worker: WorkerId,
    pub(super) n: u64,
    pub(super) result: Result<String, String>,
}

pub(super) async fn fetch(broker: Arc<dyn Broker>, events: Sender<Event>, pool: u16, request: Fetch) {
    let queues = request.queues.clone();
    let event = match broker.fetch(request).await {
        Ok(fetched) => Event::Fetched(pool, fetched),
        Err(error) => {
            let queues: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
            warn!(queue = queues.join(","), %error, "failed to fetch");
            Event::FetchFailed(pool)
        }
    };
    events.send(event).await.ok();
}

pub(super) async fn renew(broker: Arc<dyn Broker>, events: Sender<Event>, leases: Vec<Lease>, by: Duration) {
    let asked: Vec<(JobId, Fence)> = leases.iter().map(|lease| (lease.job.clone(), lease.fence)).collect();
    let answers: Vec<Event> = match broker.renew(leases, by).await {
        Ok(renewals) => asked.into_iter().zip(renewals).map(renewed).collect(),
        Err(error) => {
            warn!(%error, "failed to renew");
            asked.into_iter().map(|(job, fence)| Event::RenewFailed(job, fence)).collect()
        }
    };
    for event in answers {
        events.send(event).await.ok();
    }
}

fn renewed(((job, fence), renewal): ((JobId, Fence), Renewal)) -> Event {
    match renewal {
        Renewal::Renewed(lease) => Event::Renewed(lease),
        Renewal::Lost(why) => Event::Revoked(job, fence, why),
    }
}

/// Answers only when nothing is left to do there.
pub(super) async fn ask_idle(broker: Arc<dyn Broker>, events: Sender<Event>, queues: Vec<QueueName>) {
    let Ok(counts) = broker.counts().await else { return };
    // What waits in a paused queue waits for a person.
    let open: u64 = queues
        .iter()
        .filter_map(|queue| counts.get(queue))
        .filter(|counts| counts.paused.is_none() || counts.jobs.contains_key(&JobState::Running))
        .flat_map(|counts| &counts.jobs)
        .filter(|(state, _)| !JobState::has_ended(**state))
        .map(|(_, count)| count)
        .sum();
    if open == 0 {
        events.send(Event::Idle).await.ok();
    }
}

pub(super) async fn ask_waiting(
    broker: Arc<dyn Broker>,
    events: Sender<Event>,
    pool: u16,
    queues: Vec<QueueName>,
) {
    let waits =
        |counts: &QueueCounts| counts.paused.is_none() && counts.jobs.contains_key(&JobState::Waiting);
    let waiting = match broker.counts().await {
        Ok(counts) => queues.iter().filter_map(|queue| counts.get(queue)).any(waits),
        Err(_) => false,
    };
    events.send(Event::Waiting(pool, waiting)).await.ok();
}

/// Does what a worker asks for.
pub(super) async fn call(
    broker: Arc<dyn Broker>,
    answers: Sender<Answer>,
    worker: WorkerId,
    n: u64,
    verb: String,
    args: String,
) {
    let by = format!("worker {worker}");
    let result = match verb.as_str() {
        "put" => put(&*broker, &args, &by).await,
        "cancel" => cancel(&*broker, &args, by).await,
        "job" => job(&*broker, &args).await,
        _ => Err(format!("no verb is called '{verb}'; known are: put, cancel, job")),
    };
    answers.send(Answer { worker, n, result }).await.ok();
}

#[derive(Deserialize)]
struct Put<'a> {
    #[serde(borrow)]
    jobs: Vec<PutJob<'a>>,
}

/// A job as a worker puts it; times in seconds.
#[derive(Deserialize)]
struct PutJob<'a> {
    queue: String,
    class: String,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    delay: f64,
    #[serde(default)]
    tags: Vec<String>,
    retries: Option<u32>,
    time_limit: Option<f64>,
    id: Option<String>,
    #[serde(default)]
    exists: Exists,
    #[serde(default)]
    depends: Vec<JobId>,
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

async fn put(broker: &dyn Broker, args: &str, by: &str) -> Result<String, String> {
    let put: Put<'_> = serde_json::from_str(args).map_err(|error| format!("put: {error}"))?;
    let jobs = put.jobs.into_iter().map(|job| new_job(job, by)).collect::<Result<Vec<_>, String>>()?;
    let ids = broker.enqueue(jobs).await.map_err(|error| error.to_string())?;
    Ok(serde_json::json!({ "ids": ids }).to_string())
}

fn new_job(job: PutJob<'_>, by: &str) -> Result<NewJob, String> {
    let seconds = |name: &str, number: f64| {
        Duration::try_from_secs_f64(number)
            .map_err(|_| format!("put: {name} {number} is no number of seconds"))
    };
    if job.queue.is_empty() || job.class.is_empty() {
        return Err("put: a job needs a queue and a class, each with a name".into());
    }
    if job.class == Class::EXEC {
        return Err(
            "put: jobs of the class 'exec' are programs; put them with taskvisor put -- COMMAND".into()
        );
    }
    Ok(NewJob {
        id: job.id.map(Into::into),
        queue: job.queue.into(),
        class: job.class.into(),
        payload: Payload::Data(Bytes::from(job.data.map_or("null", RawValue::get))),
        exists: job.exists,
        priority: job.priority,
        delay: seconds("delay", job.delay)?,
        depends: job.depends,
        tags: job.tags,
        retry: job.retries.map(|retries| Retry { retries, ..Retry::CLASS }),
        time_limit: job.time_limit.map(|limit| seconds("time_limit", limit)).transpose()?,
        by: Some(by.into()),
    })
}

async fn cancel(broker: &dyn Broker, args: &str, by: String) -> Result<String, String> {
    let Named { id } = serde_json::from_str(args).map_err(|error| format!("cancel: {error}"))?;
    let state = broker.cancel(id.into(), by).await.map_err(|error| error.to_string())?;
    Ok(serde_json::json!({ "state": state }).to_string())
}

async fn job(broker: &dyn Broker, args: &str) -> Result<String, String> {
    let Named { id } = serde_json::from_str(args).map_err(|error| format!("job: {error}"))?;
    let found = broker.get(id.as_str().into()).await.map_err(|error| error.to_string())?;
    let record = found.ok_or_else(|| format!("no job has the id '{id}'"))?;
    serde_json::to_string(&record).map_err(|error| error.to_string())
}
