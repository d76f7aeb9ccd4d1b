//! Routes: HTTP to [`Service`] and back. Every answer is JSON, refusals too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::de::DeserializeOwned;

use super::body::{Cancel, Done, Ids, Pause, Put, Refusal, State as JobStateBody, StopOrder};
use super::{Gate, Peer, Problem, Service, gate, health, metrics, pools};
use crate::model::{
    Class, Filter, JobId, JobRecord, NewJob, Payload, QueueCounts, QueueName, Status, Subject, Why,
};

/// The largest body of a put.
const PUT_LIMIT: usize = 64 << 20;
/// The largest body of anything else.
pub(super) const SMALL_LIMIT: usize = 64 << 10;
/// A body that is not complete after this long is not read further.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How many jobs a list gives unless asked, and at most.
const LIST: u32 = 100;
const LIST_MAX: u32 = 10_000;

pub(super) type Api = State<Arc<dyn Service>>;
type PathOf<T> = Result<Path<T>, PathRejection>;
pub(super) type Answer<T> = Result<Json<T>, Problem>;

/// The routes over a service. Requests carry the [`Peer`] as an extension, which [`serve`](super::serve) sets.
pub fn router(service: Arc<dyn Service>) -> Router {
    Router::new()
        .route("/v1", get(here))
        .route("/v1/jobs", post(put).get(jobs))
        .route("/v1/jobs/{id}", get(job))
        .route("/v1/jobs/{id}/cancel", post(cancel))
        .route("/v1/jobs/{id}/retry", post(retry))
        .route("/v1/jobs/{id}/wait", get(wait))
        .route("/v1/queues", get(queues))
        .route("/v1/queues/{queue}/pause", post(pause))
        .route("/v1/queues/{queue}/resume", post(resume))
        .route("/v1/status", get(status))
        .route("/v1/why/job/{id}", get(why_job))
        .route("/v1/why/slot/{slot}", get(why_slot))
        .route("/v1/why/pool/{pool}", get(why_pool))
        .route("/v1/stop", post(stop))
        .route("/metrics", get(show_metrics))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .merge(pools::routes())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .with_state(service)
}

/// The same routes for those who pass the gate.
pub fn behind(gate: Gate, router: Router) -> Router {
    router.layer(from_fn_with_state(Arc::new(gate), gate::watch))
}

/// Whoever gets no answer to something else may ask this: it waits for nothing.
async fn here() -> Json<Done> {
    Json(Done {})
}

async fn put(State(api): Api, Extension(peer): Extension<Peer>, body: Body) -> Answer<Ids> {
    let Put { mut jobs } = read(body, PUT_LIMIT).await?;
    if !peer.may_put_programs() && jobs.iter().any(is_program) {
        return Err(Problem::new(403, "programs cannot be put by TCP").hint("api.allow_exec: true allows it"));
    }
    jobs.iter_mut().for_each(|job| job.by = Some(peer.to_string()));
    Ok(Json(Ids { ids: api.put(jobs).await? }))
}

fn is_program(job: &NewJob) -> bool {
    matches!(job.payload, Payload::Exec(_)) || job.class.as_str() == Class::EXEC
}

async fn jobs(
    State(api): Api,
    query: Result<Query<BTreeMap<String, String>>, QueryRejection>,
) -> Answer<Vec<JobRecord>> {
    let Query(query) = query.map_err(|error| Problem::bad_request(error.body_text()))?;
    Ok(Json(api.jobs(filter(query)?).await?))
}

async fn job(State(api): Api, id: PathOf<String>) -> Answer<JobRecord> {
    Ok(Json(api.job(job_id(id)?).await?))
}

async fn cancel(
    State(api): Api,
    Extension(peer): Extension<Peer>,
    id: PathOf<String>,
    body: Body,
) -> Answer<JobStateBody> {
    let Cancel { wait } = read_or_default(body).await?;
    Ok(Json(JobStateBody { state: api.cancel(job_id(id)?, wait, peer.to_string()).await? }))
}

async fn retry(State(api): Api, Extension(peer): Extension<Peer>, id: PathOf<String>) -> Answer<Done> {
    api.retry(job_id(id)?, peer.to_string()).await?;
    Ok(Json(Done {}))
}

async fn wait(State(api): Api, id: PathOf<String>) -> Answer<JobStateBody> {
    Ok(Json(JobStateBody { state: api.ended(job_id(id)?).await? }))
}

async fn queues(State(api): Api) -> Answer<BTreeMap<QueueName, QueueCounts>> {
    Ok(Json(api.queues().await?))
}

async fn pause(
    State(api): Api,
    Extension(peer): Extension<Peer>,
    queue: PathOf<String>,
    body: Body,
) -> Answer<Done> {
    let Pause { reason } = read_or_default(body).await?;
    api.pause(queue_name(queue)?, peer.to_string(), reason).await?;
    Ok(Json(Done {}))
}

async fn resume(State(api): Api, queue: PathOf<String>) -> Answer<Done> {
    api.resume(queue_name(queue)?).await?;
    Ok(Json(Done {}))
}

async fn status(State(api): Api) -> Answer<Status> {
    Ok(Json(api.status().await?))
}

async fn why_job(State(api): Api, id: PathOf<String>) -> Answer<Why> {
    Ok(Json(api.why(Subject::Job(job_id(id)?)).await?))
}

async fn why_slot(State(api): Api, slot: PathOf<String>) -> Answer<Why> {
    Ok(Json(api.why(Subject::Slot(named(slot)?)).await?))
}

async fn why_pool(State(api): Api, pool: PathOf<String>) -> Answer<Why> {
    Ok(Json(api.why(Subject::Pool(named(pool)?)).await?))
}

async fn stop(State(api): Api, body: Body) -> Answer<Done> {
    let StopOrder { how } = read(body, SMALL_LIMIT).await?;
    api.stop(how).await?;
    Ok(Json(Done {}))
}

async fn show_metrics(State(api): Api) -> Result<Response, Problem> {
    let page = metrics::render(&api.meters().await?);
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response())
}

async fn livez(State(api): Api) -> Answer<Done> {
    health::live(api.turn()).await?;
    Ok(Json(Done {}))
}

async fn readyz(State(api): Api) -> Answer<Done> {
    health::ready(&api.meters().await?.status)?;
    Ok(Json(Done {}))
}

async fn no_route(request: Request) -> Problem {
    Problem::not_found(format!("there is no {} here", request.uri().path()))
        .hint("the routes are /v1/jobs, /v1/queues, /v1/pools, /v1/status, /v1/why, /v1/reload, /v1/pause, /v1/resume, /v1/recycle, /v1/at-rest, /v1/stop, /metrics, /livez and /readyz")
}

async fn no_method(request: Request) -> Problem {
    Problem::new(405, format!("{} does not take {}", request.uri().path(), request.method()))
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (code, Json(Refusal { error: self.message, hint: self.hint })).into_response()
    }
}

fn job_id(id: PathOf<String>) -> Result<JobId, Problem> {
    named(id).map(Into::into)
}

fn queue_name(queue: PathOf<String>) -> Result<QueueName, Problem> {
    named(queue).map(Into::into)
}

fn named(name: PathOf<String>) -> Result<String, Problem> {
    name.map(|Path(name)| name).map_err(|error| Problem::bad_request(error.body_text()))
}

fn filter(query: BTreeMap<String, String>) -> Result<Filter, Problem> {
    let mut filter = Filter { limit: LIST, ..Filter::default() };
    for (key, value) in query {
        match key.as_str() {
            "state" => {
                for state in value.split(',') {
                    filter.states.push(state.parse().map_err(Problem::bad_request)?);
                }
            }
            "queue" => filter.queue = Some(value.into()),
            "class" => filter.class = Some(value.into()),
            "after" => filter.after = Some(value.into()),
            "limit" => {
                let limit: u32 = value
                    .parse()
                    .map_err(|_| Problem::bad_request(format!("limit is a number, not '{value}'")))?;
                filter.limit = limit.min(LIST_MAX);
            }
            unknown => {
                return Err(Problem::bad_request(format!("jobs are not listed by '{unknown}'"))
                    .hint("by state, queue, class, limit and after"));
            }
        }
    }
    Ok(filter)
}

pub(super) async fn read_or_default<T: DeserializeOwned + Default>(body: Body) -> Result<T, Problem> {
    let bytes = collect(body, SMALL_LIMIT).await?;
    if bytes.is_empty() { Ok(T::default()) } else { parse(&bytes) }
}

pub(super) async fn read<T: DeserializeOwned>(body: Body, limit: usize) -> Result<T, Problem> {
    parse(&collect(body, limit).await?)
}

async fn collect(body: Body, limit: usize) -> Result<axum::body::Bytes, Problem> {
    let too_large = || {
        Problem::new(413, format!("the body is larger than {limit} bytes"))
            .hint("put fewer jobs in one batch")
    };
    // What is announced as too large is not read at all.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_over_limit(&error) => Err(too_large()),
        Ok(Err(error)) => Err(Problem::bad_request(format!("failed to read the body: {error}"))),
        Err(_) => Err(Problem::new(408, format!("the body did not come within {BODY_TIMEOUT:?}"))),
    }
}

fn is_over_limit(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::bad_request(format!("the body is not right: {error}")))
}
