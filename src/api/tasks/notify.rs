//! Turns a notification into a job.

use axum::body::Body;
use axum::http::HeaderMap;
use jiff::Timestamp;
use uuid::Uuid;

use super::super::extract::{PUT_LIMIT, collect, may_put};
use super::super::{Peer, Problem, Service};
use super::asked::{Whose, header};
use model::{Bytes, Class, NewJob, Payload};
use wq::{Settings, Taken, TaskId, TaskInput, entities};

/// A header of the answer: the job waits here, as the broker is away.
pub(super) const KEPT: &str = "taskvisor-kept";

/// A header that names the class of the job. Where the settings name one, it can only be that.
pub(super) const CLASS: &str = "taskvisor-class";

/// A header that names the attribute with the time of each entity.
pub(super) const TIME_INDEX: &str = "fiware-timeindex-attribute";

/// Puts the job and gives its id when it is durable.
pub(super) async fn notify(
    api: &dyn Service,
    settings: &Settings,
    peer: Peer,
    headers: &HeaderMap,
    body: Body,
) -> Result<Taken, Problem> {
    let job = job(settings, headers, &collect(body, PUT_LIMIT).await?)?;
    may_put(peer, &job)?;
    api.notify(NewJob { by: Some(peer.to_string()), ..job }).await.map_err(as_500)
}

fn job(settings: &Settings, headers: &HeaderMap, body: &[u8]) -> Result<NewJob, Problem> {
    let whose = Whose::of(headers)?;
    // The id has the same time: of now.
    let unique = Uuid::now_v7();
    let now = unique.get_timestamp().map_or((0, 0), |at| at.to_unix());
    let now = Timestamp::new(now.0.try_into().unwrap_or_default(), now.1.try_into().unwrap_or_default());
    let now = now.map_err(|error| Problem::new(500, error.to_string()))?;
    let named = header(headers, TIME_INDEX)?;
    let payload = entities(body, named.as_deref(), now).map_err(Problem::bad_request)?;
    let class = match header(headers, CLASS)? {
        Some(class) if settings.class.as_ref().is_some_and(|pinned| pinned.as_str() != class) => {
            return Err(Problem::bad_request(format!(
                "the settings allow one class, and {CLASS} names another"
            ))
            .hint("leave the header out; without wq.class in the settings, clients choose the class"));
        }
        // A class of programs would have the notification's data run as one.
        Some(class) if class == Class::EXEC => {
            return Err(Problem::bad_request(format!(
                "the header {CLASS} names the class '{}' of programs: a notification is none",
                Class::EXEC
            )));
        }
        Some(class) => class.into(),
        None => settings.class.clone().ok_or_else(|| {
            Problem::bad_request("nothing says which class the task has")
                .hint(format!("set wq.class, or name it in the header {CLASS}"))
        })?,
    };
    let id = TaskId {
        tenant: whose.tenant(),
        service_path: whose.path(),
        correlator: whose.correlator.clone().unwrap_or_default(),
        unique: unique.as_u128(),
    };
    let input = TaskInput {
        fiware_service: whose.tenant(),
        fiware_service_path: whose.path(),
        fiware_correlator: whose.correlator,
        payload,
    };
    let data = serde_json::to_vec(&input).map_err(|error| Problem::new(500, error.to_string()))?;
    let data = Payload::Data(Bytes(data));
    Ok(NewJob {
        id: Some(id.job_id().map_err(Problem::bad_request)?),
        retry: Some(settings.retry()),
        ..NewJob::new(settings.queue.clone(), class, data)
    })
}

/// If the broker cannot take the job, that is never the client's fault.
fn as_500(problem: Problem) -> Problem {
    match problem.code {
        ..500 => problem,
        _ => Problem { code: 500, ..problem },
    }
}
