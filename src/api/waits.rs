//! Requests that wait for as long as it takes. The ends of many jobs come over one connection, a line for each.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::de::{Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use tokio::sync::mpsc::{Sender, UnboundedReceiver};
use tokio::time::Instant;

use super::connections::Activity;
use super::extract::{Answer, Api, PathOf, job_id, read_noting};
use super::lists::LINES;
use super::stream::{Piece, stream};
use super::{Peer, Problem, Service};
use model::verb::{Get, State as JobStateBody, VerbRequest};
use model::{JobId, JobRecord, JobState};

/// Limit of the jobs of a request.
const MOST: usize = 100_000;
/// Limit of the jobs of a request by a client that sees its own only.
const OWN_MOST: usize = 1000;
/// Limit of the body of a request, in bytes: [`MOST`] of the longest ids, as JSON.
const LARGEST: usize = 64 << 20;
/// While a body is read, this number of its bytes counts as a job: bodies take memory, too.
const BYTES_A_JOB: usize = LARGEST / MOST;
/// Limit of the body of a request by a client that sees its own only, in bytes.
const OWN_LARGEST: usize = OWN_MOST * BYTES_A_JOB;
/// Keep-alive interval: proxies close idle connections.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Limit of the ends in one piece of the answer.
const AT_ONCE: usize = 100;

/// The place of a client among those that wait; there is none in a test of the router alone.
pub(super) type Doing = Option<Extension<Arc<Activity>>>;

/// The body of `POST /v1/wait`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    /// The jobs to wait for, 100,000 at most.
    #[serde(deserialize_with = "jobs")]
    pub jobs: Vec<JobId>,
    /// Whether each answer has the job's record, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub records: bool,
}

/// Keeps no more jobs than a request may have: the millions that fit into a body would take gigabytes.
fn jobs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<JobId>, D::Error> {
    struct Jobs;
    impl<'de> Visitor<'de> for Jobs {
        type Value = Vec<JobId>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of ids of jobs")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut jobs = Vec::new();
            while jobs.len() < MOST
                && let Some(job) = list.next_element()?
            {
                jobs.push(job);
            }
            let mut count = jobs.len();
            while list.next_element::<IgnoredAny>()?.is_some() {
                count += 1;
            }
            let fault = || format!("{count} jobs to wait for: {MOST} are the most; wait in several requests");
            if count > MOST { Err(A::Error::custom(fault())) } else { Ok(jobs) }
        }
    }
    deserializer.deserialize_seq(Jobs)
}

/// The end of a job, or the reason why it is unknown.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Ended {
    pub job: JobId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// Left out if it has been removed meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Box<JobRecord>>,
    /// Why its end cannot be waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The HTTP status of that error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
}

/// Notes that a request waits, or refuses it.
pub(super) fn waits(doing: &Doing) -> Result<(), Problem> {
    doing.as_ref().map_or(Ok(()), |Extension(doing)| doing.waits())
}

/// Notes that a request follows an output, or refuses it.
pub(super) fn follows(doing: &Doing) -> Result<(), Problem> {
    doing.as_ref().map_or(Ok(()), |Extension(doing)| doing.follows())
}

/// Notes for how many jobs a request waits, or refuses it.
fn waits_for(doing: &Doing, count: usize) -> Result<(), Problem> {
    doing.as_ref().map_or(Ok(()), |Extension(doing)| doing.waits_for(count))
}

/// Refuses jobs that the client may not see. A job that is not there is left to the answer about it.
async fn judge_jobs(api: &dyn Service, peer: Peer, jobs: &[JobId]) -> Result<(), Problem> {
    if !peer.sees_own_only() {
        return Ok(());
    }
    // Each is looked up first.
    if jobs.len() > OWN_MOST {
        let why = format!("{} jobs to wait for with the put token: {OWN_MOST} are the most", jobs.len());
        return Err(Problem::bad_request(why).hint("wait in several requests"));
    }
    for job in jobs {
        match record(api, job).await {
            Ok(record) => peer.judge_job(&record)?,
            Err(problem) if problem.code == 404 => {}
            Err(problem) => return Err(problem),
        }
    }
    Ok(())
}

/// Answers when the job has ended.
pub(super) async fn wait(
    State(api): Api,
    Extension(peer): Extension<Peer>,
    doing: Doing,
    id: PathOf<String>,
) -> Answer<JobStateBody> {
    let id = job_id(id)?;
    waits(&doing)?;
    judge_jobs(&*api, peer, std::slice::from_ref(&id)).await?;
    Ok(Json(JobStateBody { state: api.ended(id).await? }))
}

/// Answers with a line for each job, as it ends.
pub(super) async fn wait_for_all(
    State(api): Api,
    Extension(peer): Extension<Peer>,
    doing: Doing,
    body: Body,
) -> Result<Response, Problem> {
    // Before the body is read: who is refused anyway takes no memory for it.
    waits(&doing)?;
    let largest = if peer.sees_own_only() { OWN_LARGEST } else { LARGEST };
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    waits_for(&doing, announced.min(largest) / BYTES_A_JOB)?;
    // Only bytes that have come hold places: who announces many and sends none keeps nobody out.
    waits_for(&doing, 0)?;
    let come = |bytes| waits_for(&doing, bytes / BYTES_A_JOB);
    let Wait { mut jobs, records } = read_noting(body, largest, come).await?;
    // Now by the jobs themselves: what the body had taken beyond that goes back.
    waits_for(&doing, jobs.len())?;
    let mut known = HashSet::with_capacity(jobs.len());
    // A job that is named twice has one line.
    jobs.retain(|job| known.insert(job.clone()));
    judge_jobs(&*api, peer, &jobs).await?;
    let ends = api.ends(jobs).await?;
    let (pieces, _, body) = stream();
    tokio::spawn(send(api, ends, known, records, pieces));
    Ok(([(header::CONTENT_TYPE, LINES), (header::CACHE_CONTROL, "no-store")], body).into_response())
}

/// Sends the ends of these jobs, until the last or until the reader has gone.
async fn send(
    api: Arc<dyn Service>,
    mut ends: UnboundedReceiver<(JobId, Result<JobState, Problem>)>,
    mut left: HashSet<JobId>,
    records: bool,
    pieces: Sender<Piece>,
) {
    let mut silent = tokio::time::interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    // The head of the answer goes out with the first piece.
    let mut piece: Piece = Ok(b"\n".to_vec());
    loop {
        let broken = piece.is_err();
        if pieces.send(piece).await.is_err() || broken || left.is_empty() {
            return;
        }
        let mut some = Vec::new();
        let count = tokio::select! {
            count = ends.recv_many(&mut some, AT_ONCE) => count,
            _ = silent.tick() => {
                piece = Ok(b"\n".to_vec());
                continue;
            }
            () = pieces.closed() => return,
        };
        let mut text = Vec::new();
        for (job, end) in some {
            // An end that comes twice is said once.
            if left.remove(&job) {
                let line = ended(&*api, job, end, records).await;
                text.extend(serde_json::to_vec(&line).unwrap_or_default());
                text.push(b'\n');
            }
        }
        piece = match count {
            // The sender has gone with ends still to come.
            0 => Err(Problem::unavailable("the supervisor ends")),
            _ => Ok(text),
        };
    }
}

async fn ended(api: &dyn Service, job: JobId, end: Result<JobState, Problem>, records: bool) -> Ended {
    let record = match &end {
        Ok(_) if records => record(api, &job).await.ok().map(Box::new),
        Ok(_) | Err(_) => None,
    };
    match end {
        Ok(state) => Ended { job, state: Some(state), record, error: None, code: None },
        Err(no) => Ended { job, state: None, record, error: Some(no.message), code: Some(no.code) },
    }
}

async fn record(api: &dyn Service, job: &JobId) -> Result<JobRecord, Problem> {
    let get = Get { job: job.clone() };
    Get::answer(api.ask(get.verb(), String::new()).await?)
        .ok_or_else(|| Problem::new(500, "the broker answered something else"))
}
