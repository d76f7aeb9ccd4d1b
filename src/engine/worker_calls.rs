//! Answers a worker's `call`: a verb with its arguments in, JSON or a reason out.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

use super::aside::aside;
use super::request::Request;
use super::served;
use broker::Broker;
use model::verb::{Get, Prioritize, SetData, Tag, Track, Untrack, VerbRequest};
use model::{Class, Fence, JobId, NewJob, Object, Payload, WorkerId, batch};
use wire::worker::{FRAME_MAX, reply};

/// The answer to a call.
pub(super) struct Answer {
    pub(super) worker: WorkerId,
    pub(super) n: u64,
    /// The whole frame of the answer.
    pub(super) frame: Vec<u8>,
}

/// Carries out the calls of workers.
pub(super) struct WorkerCalls {
    broker: Arc<Broker>,
    /// Requests to the loop.
    requests: Sender<Request>,
    /// Receives the answers.
    answers: Sender<Answer>,
}

impl WorkerCalls {
    /// Calls that this broker and the loop answer.
    pub(super) fn new(
        broker: Arc<Broker>,
        requests: Sender<Request>,
        answers: Sender<Answer>,
    ) -> WorkerCalls {
        WorkerCalls { broker, requests, answers }
    }

    /// Carries out call `n` of a worker, as a task of its own.
    pub(super) fn grant(&self, worker: WorkerId, by: String, n: u64, verb: String, args: String) {
        let (broker, requests) = (self.broker.clone(), self.requests.clone());
        let answers = self.answers.clone();
        // The loop does not wait for the broker, and a worker may have several calls open: each has its number.
        tokio::spawn(async move {
            let result = match verb.as_str() {
                "stopped" => stopped(&requests, worker, &args).await,
                verb => answer(&broker, &requests, verb, args, by).await,
            };
            let frame = reply(n, result.map_err(|Wrong(why)| why));
            answers.send(Answer { worker, n, frame }).await.ok();
        });
    }
}

/// Why there is no answer.
struct Wrong(String);

impl From<broker::Error> for Wrong {
    fn from(error: broker::Error) -> Self {
        Wrong(error.to_string())
    }
}

async fn answer(
    broker: &Broker,
    requests: &Sender<Request>,
    verb: &str,
    text: String,
    by: String,
) -> Result<String, Wrong> {
    let args = text.as_str();
    let wrong = |error: serde_json::Error| Wrong(format!("{verb}: {error}"));
    match verb {
        "put" => {
            let jobs = read_jobs(text, by).await?;
            json(&served::put(broker, requests, jobs).await?)
        }
        "cancel" => {
            let Named { id } = fields(args).map_err(wrong)?;
            json(&serde_json::json!({ "state": broker.cancel(id, by).await? }))
        }
        "job" => {
            let Named { id } = fields(args).map_err(wrong)?;
            job(broker, id, by).await
        }
        "data" => {
            let Rewritten { id, fence, data } = fields(args).map_err(wrong)?;
            ask(broker, SetData { job: id, fence, data: data.get().into() }, by).await
        }
        "priority" => {
            let Prioritized { id, priority } = fields(args).map_err(wrong)?;
            ask(broker, Prioritize { job: id, priority }, by).await
        }
        "tag" => {
            let Tagged { id, add, remove } = fields(args).map_err(wrong)?;
            ask(broker, Tag { job: id, add, remove }, by).await
        }
        "track" => {
            let Named { id } = fields(args).map_err(wrong)?;
            ask(broker, Track { job: id }, by).await
        }
        "untrack" => {
            let Named { id } = fields(args).map_err(wrong)?;
            ask(broker, Untrack { job: id }, by).await
        }
        _ => Err(Wrong(format!(
            "no verb is called '{verb:.40}'; known are: put, cancel, job, stopped, data, priority, tag, track, untrack"
        ))),
    }
}

/// For how long a job of the worker was stopped: what its own clock counts too much.
async fn stopped(requests: &Sender<Request>, worker: WorkerId, args: &str) -> Result<String, Wrong> {
    let Run { id, fence } = fields(args).map_err(|error| Wrong(format!("stopped: {error}")))?;
    let none = || Wrong(format!("stopped: this worker does not run job {id} with the fence {fence}"));
    let (answer, answered) = oneshot::channel();
    requests.send(Request::Stopped { worker, job: id.clone(), fence, answer }).await.ok();
    let time = answered.await.ok().flatten().ok_or_else(none)?;
    json(&serde_json::json!({ "seconds": time.as_secs_f64() }))
}

fn fields<'a, T: Deserialize<'a>>(args: &'a str) -> Result<T, serde_json::Error> {
    serde_json::from_str(args).map(|Object(value)| value)
}

async fn ask<V: VerbRequest>(broker: &Broker, verb: V, by: String) -> Result<String, Wrong> {
    json(&broker.tell(verb, by).await?)
}

/// The job as JSON. If its data would not fit into a frame, this fails before encoding.
async fn job(broker: &Broker, id: JobId, by: String) -> Result<String, Wrong> {
    let record = broker.tell(Get { job: id }, by).await?;
    let bytes = match &record.payload {
        Some(Payload::Data(data)) => data.0.len(),
        Some(Payload::Exec(exec)) => exec.stdin.0.len(),
        None => 0,
    };
    if bytes > FRAME_MAX {
        return Err(Wrong(format!("job: its data has {bytes} bytes, and a frame has {FRAME_MAX} at most")));
    }
    json(&record)
}

fn json(answer: &impl serde::Serialize) -> Result<String, Wrong> {
    serde_json::to_string(answer).map_err(|error| Wrong(error.to_string()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    id: JobId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    id: JobId,
    fence: Fence,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rewritten<'a> {
    id: JobId,
    fence: Fence,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Prioritized {
    id: JobId,
    priority: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tagged {
    id: JobId,
    #[serde(default)]
    add: Vec<String>,
    #[serde(default)]
    remove: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Put {
    #[serde(deserialize_with = "batch")]
    jobs: Vec<NewJob>,
}

/// Lists longer than this, in total bytes, are parsed on a thread of their own: the loop would stand still meanwhile, 0.13 s
/// for 450,000 jobs.
const LONG: usize = 256 << 10;

async fn read_jobs(args: String, by: String) -> Result<Vec<NewJob>, Wrong> {
    let is_long = args.len() > LONG;
    let read = move || {
        let put: Put = fields(&args).map_err(|error| Wrong(format!("put: {error}")))?;
        put.jobs.into_iter().map(|job| new_job(job, &by)).collect::<Result<Vec<_>, String>>().map_err(Wrong)
    };
    match is_long {
        true => aside(read).await.map_err(|error| Wrong(format!("put: {error}")))?,
        false => read(),
    }
}

/// Checks a job that a worker puts. Programs are refused: they would run as the supervisor's user.
fn new_job(job: NewJob, by: &str) -> Result<NewJob, String> {
    if job.queue.as_str().is_empty() || job.class.as_str().is_empty() {
        return Err("put: a job needs a queue and a class, each with a name".into());
    }
    if job.class.as_str() == Class::EXEC || matches!(job.payload, Payload::Exec(_)) {
        return Err(
            "put: jobs of the class 'exec' are programs; put them with taskvisor put -- COMMAND".into()
        );
    }
    Ok(NewJob { by: Some(by.into()), ..job })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[tokio::test]
    async fn many_jobs_at_once_are_not_read_on_the_loop() {
        let text = |jobs: usize| {
            let job = r#"{"queue":"q","class":"c","data":[1]}"#;
            format!(r#"{{"jobs":[{}]}}"#, vec![job; jobs].join(","))
        };
        let context = &mut Context::from_waker(Waker::noop());
        let mut few = pin!(read_jobs(text(3), "w".into()));
        assert!(matches!(few.as_mut().poll(context), Poll::Ready(Ok(jobs)) if jobs.len() == 3));
        let mut many = Box::pin(read_jobs(text(50_000), "w".into()));
        assert!(many.as_mut().poll(context).is_pending());
        assert!(many.await.is_ok_and(|jobs| jobs.len() == 50_000 && jobs[7].by.as_deref() == Some("w")));
    }
}
