//! Requests that wait for as long as it takes. The ends of many jobs come over one connection, a line for each.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{Sender, UnboundedReceiver};
use tokio::time::Instant;

use super::connections::Activity;
use super::extract::{Answer, Api, PathOf, job_id, read};
use super::lists::LINES;
use super::stream::{Piece, stream};
use super::{Problem, Service};
use model::verb::{Get, State as JobStateBody, Verb};
use model::{JobId, JobRecord, JobState};

/// Limit of the jobs of a request.
const MOST: usize = 100_000;
/// Limit of the body of a request, in bytes: so many of the longest ids, as JSON.
const LARGEST: usize = 64 << 20;
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
    pub jobs: Vec<JobId>,
    /// Whether each answer has the job's record, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub records: bool,
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

/// Answers when the job has ended.
pub(super) async fn wait(State(api): Api, doing: Doing, id: PathOf<String>) -> Answer<JobStateBody> {
    let id = job_id(id)?;
    waits(&doing)?;
    Ok(Json(JobStateBody { state: api.ended(id).await? }))
}

/// Answers with a line for each job, as it ends.
pub(super) async fn wait_for_all(State(api): Api, doing: Doing, body: Body) -> Result<Response, Problem> {
    let Wait { mut jobs, records } = read(body, LARGEST).await?;
    let mut known = HashSet::with_capacity(jobs.len());
    jobs.retain(|job| known.insert(job.clone()));
    if jobs.len() > MOST {
        return Err(Problem::bad_request(format!("{} jobs to wait for: {MOST} are the most", jobs.len())));
    }
    waits(&doing)?;
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
            if left.remove(&job) {
                let line = ended(&*api, job, end, records).await;
                text.extend(serde_json::to_vec(&line).unwrap_or_default());
                text.push(b'\n');
            }
        }
        piece = match count {
            0 => Err(Problem::unavailable("the supervisor ends")),
            _ => Ok(text),
        };
    }
}

async fn ended(api: &dyn Service, job: JobId, end: Result<JobState, Problem>, records: bool) -> Ended {
    let record = match &end {
        Ok(_) if records => match api.ask(Verb::Get(Get { job: job.clone() }), String::new()).await {
            Ok(model::verb::Answer::Get(record)) => Some(Box::new(record)),
            Ok(_) | Err(_) => None,
        },
        Ok(_) | Err(_) => None,
    };
    match end {
        Ok(state) => Ended { job, state: Some(state), record, error: None, code: None },
        Err(no) => Ended { job, state: None, record, error: Some(no.message), code: Some(no.code) },
    }
}
