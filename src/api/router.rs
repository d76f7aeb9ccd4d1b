//! Routes: from HTTP to [`Service`] and back. Every answer is JSON, including refusals.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Query, Request, State};
use axum::http::{Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};

use super::body::{Put, Ready, StopOrder};
use super::by::By;
use super::describe::Describe;
use super::events::events;
use super::extract::{Answer, Api, PUT_LIMIT, PathOf, SMALL_LIMIT, job_id, may_put, named, read};
use super::logs::logs;
use super::openapi::Text;
use super::routes::Routes;
use super::waits::{Ended, Wait, wait, wait_for_all};
use super::{Gate, Here, Peer, Problem, Queued, Service, gate, health, metrics, pools, tasks, verbs};
use model::verb::{Done, Route, State as JobStateBody};
use model::{
    ConfigShown, Diagnosis, Filter, Interest, JobCounts, OutputLine, OutputQuery, Picture, PublishedEvent,
    SeriesQuery, Status, Subject, TimeSeries, Why,
};

/// The routes over a service. Requests carry the [`Peer`] as an extension, which [`serve`](super::serve) sets.
pub fn router(service: Arc<dyn Service>) -> Router {
    let router = all(Routes::to_serve()).router;
    router.fallback(no_route).method_not_allowed_fallback(no_method).with_state(service)
}

/// The text of `GET /v1/openapi.json`: what [`openapi`] has made of this version, as a test holds.
const DESCRIPTION: &str = include_str!("../../docs/openapi.json");

/// The description, made of the types that are served. It is for tests: the program serves the text in docs.
pub fn openapi() -> String {
    all(Routes::to_describe()).document.text()
}

fn all<D: Describe>(routes: Routes<D>) -> Routes<D> {
    let routes = of_jobs(routes)
        .look::<Here>("/v1", "Says at once that somebody is here.", get(here))
        .look::<serde_json::Value>("/v1/openapi.json", "This description.", get(describe))
        .look::<Status>(
            "/v1/status",
            "Shows the supervisor, its workers, what they run, and the queues.",
            get(status),
        )
        .look::<ConfigShown>(
            "/v1/config",
            "Shows the settings in force, each with its source, without secrets.",
            get(config),
        )
        .look::<Diagnosis>(
            "/v1/doctor",
            "Looks at what this machine lacks for this supervisor, which takes up to 10 s.",
            get(doctor),
        )
        .look::<Why>("/v1/why/job/{id}", "Says why a job is as it is.", get(why_job))
        .look::<Why>("/v1/why/slot/{slot}", "Says why a slot is as it is.", get(why_slot))
        .look::<Why>("/v1/why/pool/{pool}", "Says why a pool is as it is.", get(why_pool))
        .stream::<Interest, PublishedEvent>(
            Route {
                method: "GET",
                path: "/v1/events",
                does: "Tells what happens to jobs and workers, as it happens.",
            },
            &["text/event-stream"],
            get(events),
        )
        .act::<StopOrder, Done>("/v1/stop", "Orders the stop, which goes on after the answer.", post(stop))
        .look::<Text>("/metrics", "Shows what Prometheus reads.", get(show_metrics))
        .look::<Done>("/livez", "Says whether the supervisor's loop turns.", get(livez))
        .look::<Ready>(
            "/readyz",
            "Says whether a job could be taken now, and what is wrong all the same.",
            get(readyz),
        );
    tasks::routes(pools::routes(verbs::routes(routes)))
}

/// The routes about jobs that are not in the table of verbs.
fn of_jobs<D: Describe>(routes: Routes<D>) -> Routes<D> {
    routes
        .asks::<Filter, JobCounts>("/v1/count", "Counts jobs by filter, up to a limit.", get(count))
        .asks::<SeriesQuery, TimeSeries>(
            "/v1/series",
            "Shows what happened to jobs in each step of the last hour or the last day.",
            get(series),
        )
        .act::<Put, Queued>(
            "/v1/jobs",
            "Puts jobs, all or none, and answers when they are durable.",
            post(put),
        )
        .look::<JobStateBody>("/v1/jobs/{job}/wait", "Waits until a job has ended and says how.", get(wait))
        .look::<Picture>(
            "/v1/jobs/{job}/picture",
            "Shows what the processes of a running job do now.",
            get(picture),
        )
        .stream::<OutputQuery, OutputLine>(
            Route {
                method: "GET",
                path: "/v1/jobs/{job}/logs",
                does: "Reads or follows the output of a job.",
            },
            &["text/plain"],
            get(logs),
        )
        .stream::<Wait, Ended>(
            Route {
                method: "POST",
                path: "/v1/wait",
                does: "Waits for many jobs, and tells each as it ends.",
            },
            &[],
            post(wait_for_all),
        )
}

/// The routes of QuantumLeap alone, for a port whose clients know no token.
pub fn tasks_router(service: Arc<dyn Service>) -> Router {
    tasks::alone(service)
}

/// Routes behind a gate.
pub fn behind(gate: Gate, router: Router) -> Router {
    router.layer(from_fn_with_state(gate, gate::watch))
}

/// For a client that gets no other answer: this one waits for nothing.
async fn here(State(api): Api) -> Json<Here> {
    Json(Here { broker: Some(api.broker()) })
}

async fn describe() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DESCRIPTION).into_response()
}

async fn put(State(api): Api, Extension(peer): Extension<Peer>, By(by): By, body: Body) -> Answer<Queued> {
    let Put { mut jobs } = read(body, PUT_LIMIT).await?;
    jobs.iter().try_for_each(|job| may_put(peer, job))?;
    // Whatever the client wrote there: the connection says who it is.
    jobs.iter_mut().for_each(|job| job.by = Some(by.clone()));
    let mut queued = api.put(jobs).await?;
    if peer.sees_own_only() {
        // What was probably meant is the name of a queue or class that this client may not ask for.
        queued.notes.iter_mut().for_each(|note| note.hint = None);
    }
    Ok(Json(queued))
}

/// Unlike a list it has no limit of its own.
async fn count(State(api): Api, uri: Uri) -> Answer<JobCounts> {
    let Query(mut filter) =
        Query::<Filter>::try_from_uri(&uri).map_err(|error| Problem::bad_request(error.body_text()))?;
    // Without one the filter has the limit of a list.
    if !uri.query().is_some_and(|query| query.split('&').any(|field| field.starts_with("limit="))) {
        filter.limit = JobCounts::MOST;
    }
    Ok(Json(api.count_jobs(&filter).await?))
}

async fn series(State(api): Api, uri: Uri) -> Answer<TimeSeries> {
    let Query(query) =
        Query::<SeriesQuery>::try_from_uri(&uri).map_err(|error| Problem::bad_request(error.body_text()))?;
    let names = [query.queue.is_some(), query.class.is_some(), query.each.is_some()];
    if names.into_iter().filter(|given| *given).count() > 1 {
        return Err(Problem::bad_request("a series is of a queue, of a class or of each of them: name one"));
    }
    Ok(Json(api.series(&query)?))
}

async fn status(State(api): Api) -> Answer<Status> {
    Ok(Json(api.status().await?))
}

async fn config(State(api): Api) -> Answer<ConfigShown> {
    Ok(Json(api.config()?))
}

async fn doctor(State(api): Api) -> Answer<Diagnosis> {
    Ok(Json(api.doctor().await?))
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

async fn picture(State(api): Api, id: PathOf<String>) -> Answer<Picture> {
    Ok(Json(api.picture_of(job_id(id)?).await?))
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

async fn readyz(State(api): Api) -> Answer<Ready> {
    Ok(Json(health::ready(&api.meters().await?.status)?))
}

async fn no_route(request: Request) -> Problem {
    Problem::not_found(format!("there is no {} here", request.uri().path()))
        .hint("the routes are /v1/jobs, /v1/count, /v1/queues, /v1/recurring, /v1/pools, /v1/status, /v1/config, /v1/doctor, /v1/series, /v1/why, /v1/wait, /v1/reload, /v1/pause, /v1/resume, /v1/recycle, /v1/at-rest, /v1/stop, /v1/events, /v1/tasks, /v2/notify, /v1/openapi.json, /version, /metrics, /livez and /readyz")
}

async fn no_method(request: Request) -> Problem {
    Problem::new(405, format!("{} does not take {}", request.uri().path(), request.method()))
}
