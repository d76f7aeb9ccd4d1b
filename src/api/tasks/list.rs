//! Lists of tasks of any length: read and sent page by page.

use std::sync::Arc;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;

use super::super::stream::{Piece, stream};
use super::super::{Problem, Service};
use model::verb::{Answer, Get, Verb};
use model::{Filter, JobId, JobRecord, Page};
use wq::{Task, TaskId, TaskRuntime};

/// The parts to show of each task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// The whole task.
    Whole,
    /// Only the status and the errors of a task.
    Runtime,
}

/// Limit of the jobs in memory at a time.
const AT_A_TIME: usize = 16;

/// Answers with all tasks, as one array.
pub(super) async fn answer(api: Arc<dyn Service>, filter: Filter, shown: Shown) -> Result<Response, Problem> {
    let filter = Filter { whole: true, ..filter };
    // Before the answer has begun it can still be a refusal.
    let first = api.page(&filter, None).await?;
    let (pieces, _, body) = stream();
    tokio::spawn(send(api, filter, first, shown, pieces));
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Sends some tasks after the others, each time once those before are on their way. Ends early when the client has
/// gone.
async fn send(api: Arc<dyn Service>, filter: Filter, first: Page, shown: Shown, pieces: Sender<Piece>) {
    if pieces.send(Ok(b"[\n".to_vec())).await.is_err() {
        return;
    }
    let (mut page, mut has_begun) = (Ok(first), false);
    loop {
        let (jobs, next) = match page {
            Ok(Page { jobs, next, .. }) => (jobs, next),
            Err(problem) => return drop(pieces.send(Err(problem)).await),
        };
        for some in jobs.chunks(AT_A_TIME) {
            let piece = text(&api, some, shown, &mut has_begun).await;
            let is_over = piece.is_err();
            if pieces.send(piece).await.is_err() || is_over {
                return;
            }
        }
        let Some(at) = next else { break };
        page = api.page(&filter, Some(at)).await;
    }
    pieces.send(Ok(b"\n]\n".to_vec())).await.ok();
}

/// These tasks as text: each with a comma before it, except the first of all.
async fn text(api: &Arc<dyn Service>, jobs: &[JobRecord], shown: Shown, has_begun: &mut bool) -> Piece {
    let needs =
        |job: &JobRecord| job.payload.is_none() && (shown == Shown::Whole || TaskRuntime::needs_history(job));
    // A job that somebody put with an id that begins the same is no task.
    let tasks = jobs.iter().filter(|job| TaskId::parse(job.id.as_str()).is_some());
    // All are asked for at once, and written in their order.
    let asked: Vec<_> =
        tasks.map(|job| (job, needs(job).then(|| whole(api.clone(), job.id.clone())))).collect();
    let mut text = Vec::new();
    for (job, asked) in asked {
        let found = match asked {
            None => Some(job.clone()),
            Some(asked) => asked.await.map_err(|error| Problem::new(500, error.to_string()))??,
        };
        // It may have been removed meanwhile.
        let Some(found) = found else { continue };
        if std::mem::replace(has_begun, true) {
            text.extend(b",\n");
        }
        match shown {
            Shown::Whole => write(&mut text, &Task::of(&found))?,
            Shown::Runtime => write(&mut text, &TaskRuntime::of(&found))?,
        }
    }
    Ok(text)
}

fn write(text: &mut Vec<u8>, value: &impl Serialize) -> Result<(), Problem> {
    serde_json::to_writer(text, value).map_err(|error| Problem::new(500, error.to_string()))
}

/// A job with its data and its history; `None` if it does not exist any more.
fn whole(api: Arc<dyn Service>, job: JobId) -> JoinHandle<Result<Option<JobRecord>, Problem>> {
    tokio::spawn(async move {
        match api.ask(Verb::Get(Get { job }), String::new()).await {
            Ok(Answer::Get(job)) => Ok(Some(job)),
            Ok(_) => Err(Problem::new(500, "the broker answered something else")),
            Err(problem) if problem.code == 404 => Ok(None),
            Err(problem) => Err(problem),
        }
    })
}
