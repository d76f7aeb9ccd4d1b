//! Routes: HTTP to [`Service`] and back. Every answer is JSON, refusals too.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::de::DeserializeOwned;

use super::body::{Put, Refusal, StopOrder};
use super::events::events;
use super::openapi::Text;
use super::routes::Routes;
use super::{Gate, Here, Peer, Problem, Queued, Service, gate, health, metrics, pools, tasks, verbs};
use crate::model::verb::{Done, State as JobStateBody};
use crate::model::{
    Bytes, Class, Interest, JobId, NewJob, Object, Payload, PublishedEvent, Status, Subject, Why,
};

/// The largest body of a put: the longest data of a job, which JSON makes twice as long at most, and a batch beside it.
pub(super) const PUT_LIMIT: usize = 2 * Bytes::LONGEST + (16 << 20);
/// The largest body of anything else.
pub(super) const SMALL_LIMIT: usize = 64 << 10;
/// A body that is not complete after this long is not read further.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
pub(super) type Api = State<Arc<dyn Service>>;
type PathOf<T> = Result<Path<T>, PathRejection>;
pub(super) type Answer<T> = Result<Json<T>, Problem>;

/// The routes over a service. Requests carry the [`Peer`] as an extension, which [`serve`](super::serve) sets.
pub fn router(service: Arc<dyn Service>) -> Router {
    let router = all(Routes::to_serve()).router;
    router.fallback(no_route).method_not_allowed_fallback(no_method).with_state(service)
}

/// The API as OpenAPI describes it: the text of `GET /v1/openapi.json`.
pub fn openapi() -> String {
    all(Routes::to_describe()).text()
}

fn all(routes: Routes) -> Routes {
    let routes = routes
        .look::<Here>("/v1", "Says at once that somebody is here.", get(here))
        .look::<serde_json::Value>("/v1/openapi.json", "This description.", get(describe))
        .act::<Put, Queued>(
            "/v1/jobs",
            "Puts jobs, all or none, and answers when they are durable.",
            post(put),
        )
        .look::<JobStateBody>("/v1/jobs/{job}/wait", "Waits until a job has ended and says how.", get(wait))
        .look::<Status>(
            "/v1/status",
            "Shows the supervisor, its workers, what they run, and the queues.",
            get(status),
        )
        .look::<Why>("/v1/why/job/{id}", "Says why a job is as it is.", get(why_job))
        .look::<Why>("/v1/why/slot/{slot}", "Says why a slot is as it is.", get(why_slot))
        .look::<Why>("/v1/why/pool/{pool}", "Says why a pool is as it is.", get(why_pool))
        .stream::<Interest, PublishedEvent>(
            "/v1/events",
            "Tells what happens to jobs and workers, as it happens.",
            get(events),
        )
        .act::<StopOrder, Done>("/v1/stop", "Orders the stop, which goes on after the answer.", post(stop))
        .look::<Text>("/metrics", "Shows what Prometheus reads.", get(show_metrics))
        .look::<Done>("/livez", "Says whether the supervisor's loop turns.", get(livez))
        .look::<Done>("/readyz", "Says whether a job could be taken now.", get(readyz));
    tasks::routes(pools::routes(verbs::routes(routes)))
}

/// The same routes for those who pass the gate.
pub fn behind(gate: Gate, router: Router) -> Router {
    router.layer(from_fn_with_state(gate, gate::watch))
}

/// Whoever gets no answer to something else may ask this: it waits for nothing.
async fn here(State(api): Api) -> Json<Here> {
    Json(Here { broker: Some(api.broker()) })
}

async fn describe() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], openapi()).into_response()
}

async fn put(State(api): Api, Extension(peer): Extension<Peer>, body: Body) -> Answer<Queued> {
    let Put { mut jobs } = read(body, PUT_LIMIT).await?;
    jobs.iter().try_for_each(|job| may_put(peer, job))?;
    jobs.iter_mut().for_each(|job| job.by = Some(peer.to_string()));
    Ok(Json(api.put(jobs).await?))
}

/// Whether a job may come from there.
pub(super) fn may_put(peer: Peer, job: &NewJob) -> Result<(), Problem> {
    peer.judge_programs(matches!(job.payload, Payload::Exec(_)) || job.class.as_str() == Class::EXEC)
}

async fn wait(State(api): Api, id: PathOf<String>) -> Answer<JobStateBody> {
    Ok(Json(JobStateBody { state: api.ended(job_id(id)?).await? }))
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

async fn stop(State(api): Api, Extension(peer): Extension<Peer>, body: Body) -> Answer<Done> {
    let StopOrder { how } = read(body, SMALL_LIMIT).await?;
    api.stop(how, peer.to_string()).await?;
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
        .hint("the routes are /v1/jobs, /v1/queues, /v1/recurring, /v1/pools, /v1/status, /v1/why, /v1/reload, /v1/pause, /v1/resume, /v1/recycle, /v1/at-rest, /v1/stop, /v1/events, /v1/tasks, /v1/openapi.json, /metrics, /livez and /readyz")
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

fn named(name: PathOf<String>) -> Result<String, Problem> {
    name.map(|Path(name)| name).map_err(|error| Problem::bad_request(error.body_text()))
}

pub(super) async fn read_or_default<T: DeserializeOwned + Default>(
    body: Body,
    limit: usize,
) -> Result<T, Problem> {
    let bytes = collect(body, limit).await?;
    if bytes.is_empty() { Ok(T::default()) } else { parse(&bytes) }
}

pub(super) async fn read<T: DeserializeOwned>(body: Body, limit: usize) -> Result<T, Problem> {
    parse(&collect(body, limit).await?)
}

pub(super) async fn collect(body: Body, limit: usize) -> Result<axum::body::Bytes, Problem> {
    let too_large = || {
        Problem::new(413, format!("the body is larger than {limit} bytes"))
            .hint("put what is large into a file and its name into the job; put many jobs a few at a time")
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
        .map(|Object(value)| value)
        .map_err(|error| Problem::bad_request(format!("the body is not right: {error}")))
}
