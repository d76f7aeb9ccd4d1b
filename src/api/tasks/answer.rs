//! The routes for tasks: requests and answers.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::routing::{delete, get, post};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::extract::{Answer, Api, SMALL_LIMIT, read};
use super::super::routes::Routes;
use super::super::{Peer, Problem, Service};
use super::asked::{Asked, ByStatus, Whose, filter};
use super::list::{self, Shown};
use super::notify::{CLASS, KEPT, notify};
use super::remove::remove;
use crate::model::verb::{Answer as VerbAnswer, Number, Queues, Route, Verb};
use crate::wq::{AskedStatus, Scope, Settings, Taken, Task, TaskRuntime};

/// A notification, as context brokers send it.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Notification {
    /// The entities, each with an id and a type.
    data: Vec<serde_json::Value>,
}

/// The answers that clients of QuantumLeap expect.
const TAKEN: &str = "Notification successfully processed";

/// The routes over a service.
pub(in super::super) fn routes(routes: Routes) -> Routes {
    let routes = own(routes);
    let notify =
        Route { method: "POST", path: "/v2/notify", does: "Takes a notification in, as QuantumLeap does." };
    let routes = routes.headed::<Notification, String>(notify, &HEADERS_OF_NOTIFY, post(notify_as_there));
    ["/management/queue/notifications", "/wq/notifications"].into_iter().fold(routes, as_there)
}

const HEADERS_OF_NOTIFY: [&str; 5] =
    [Whose::HEADERS[0], Whose::HEADERS[1], Whose::HEADERS[2], Whose::HEADERS[3], CLASS];

fn own(routes: Routes) -> Routes {
    let notify = Route {
        method: "POST",
        path: "/v1/tasks/notify",
        does: "Takes a notification in, and answers when its job is durable.",
    };
    routes
        .headed::<Notification, Taken>(notify, &HEADERS_OF_NOTIFY, post(take))
        .asks::<Asked, Vec<Task>>("/v1/tasks", "Lists tasks, in the order of their ids.", get(show_all))
        .asks::<Asked, Vec<TaskRuntime>>(
            "/v1/tasks/summary",
            "Lists what has become of tasks, without their data.",
            get(summarize),
        )
        .asks::<Asked<Option<String>>, Number>("/v1/tasks/count", "Counts tasks.", get(count))
        .act::<Asked, Number>(
            "/v1/tasks/remove",
            "Removes tasks, those that run once their processes are dead, and says how many.",
            post(remove_some),
        )
}

/// QuantumLeap's own routes, below one of its two paths.
fn as_there(routes: Routes, path: &'static str) -> Routes {
    let is_wiki = path.starts_with("/wq");
    let below = |code: &'static str, wiki: &'static str| if is_wiki { wiki } else { code };
    let summary = below("/management/queue/notifications/summary", "/wq/notifications/summary");
    let count = below("/management/queue/notifications/count", "/wq/notifications/count");
    let route = |method, path, does| Route { method, path, does };
    routes
        .headed::<ByStatus, Vec<Task>>(
            route("GET", path, "Lists tasks, as QuantumLeap does."),
            &Whose::HEADERS,
            get(show_all_as_there),
        )
        .headed::<ByStatus, Vec<TaskRuntime>>(
            route("GET", summary, "Lists what has become of tasks, as QuantumLeap does."),
            &Whose::HEADERS,
            get(summarize_as_there),
        )
        .headed::<ByStatus, u64>(
            route("GET", count, "Counts tasks, as QuantumLeap does."),
            &Whose::HEADERS,
            get(count_as_there),
        )
        .headed::<(), ()>(
            route("DELETE", path, "Removes tasks, as QuantumLeap does, and what they run."),
            &Whose::HEADERS,
            delete(remove_as_there),
        )
}

/// The settings, if notifications are accepted here.
fn settings(api: &Arc<dyn Service>) -> Result<Arc<Settings>, Problem> {
    api.tasks().ok_or_else(|| {
        Problem::not_found("this supervisor takes no notifications")
            .hint("set wq.enabled: true, and start it again")
    })
}

async fn take(
    State(api): Api,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Taken> {
    notify(&*api, &*settings(&api)?, peer, &headers, body).await.map(Json)
}

async fn notify_as_there(
    State(api): Api,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let taken = notify(&*api, &*settings(&api)?, peer, &headers, body).await?;
    let kept = taken.kept.then_some([(KEPT, "true")]);
    Ok((kept.map(AppendHeaders), Json(TAKEN)).into_response())
}

async fn show_all(State(api): Api, uri: Uri) -> Result<Response, Problem> {
    show(api, &uri, Shown::Whole).await
}

async fn summarize(State(api): Api, uri: Uri) -> Result<Response, Problem> {
    show(api, &uri, Shown::Runtime).await
}

async fn show(api: Arc<dyn Service>, uri: &Uri, shown: Shown) -> Result<Response, Problem> {
    settings(&api)?;
    let asked: Asked = Asked::of(uri)?;
    list::answer(api, filter(&asked.scope()?, asked.status), shown).await
}

async fn show_all_as_there(State(api): Api, request: Request) -> Result<Response, Problem> {
    show_as_there(api, &request, Shown::Whole)?.await
}

async fn summarize_as_there(State(api): Api, request: Request) -> Result<Response, Problem> {
    show_as_there(api, &request, Shown::Runtime)?.await
}

fn show_as_there(
    api: Arc<dyn Service>,
    request: &Request,
    shown: Shown,
) -> Result<impl Future<Output = Result<Response, Problem>> + use<>, Problem> {
    settings(&api)?;
    let scope = Whose::of(request.headers())?.scope();
    let filter = filter(&scope, ByStatus::of(request.uri())?);
    Ok(list::answer(api, filter, shown))
}

async fn count(State(api): Api, uri: Uri) -> Answer<Number> {
    let asked: Asked<Option<String>> = Asked::of(&uri)?;
    Ok(Json(Number { count: counted(&api, asked.scope_if_said()?, asked.status).await? }))
}

async fn count_as_there(State(api): Api, headers: HeaderMap, uri: Uri) -> Answer<u64> {
    Ok(Json(counted(&api, Whose::of(&headers)?.scope_if_said(), ByStatus::of(&uri)?).await?))
}

/// The number of tasks; without a tenant, that of all jobs of their queue.
async fn counted(
    api: &Arc<dyn Service>,
    scope: Option<Scope>,
    status: Option<AskedStatus>,
) -> Result<u64, Problem> {
    let settings = settings(api)?;
    let Some(scope) = scope else {
        let VerbAnswer::Queues(queues) = api.ask(Verb::Queues(Queues {}), String::new()).await? else {
            return Err(Problem::new(500, "the broker answered something else"));
        };
        let jobs = queues.get(&settings.queue).map(|counts| &counts.jobs);
        let counts = |state| status.is_none_or(|status| status.includes(state));
        return Ok(jobs
            .into_iter()
            .flatten()
            .filter(|(state, _)| counts(**state))
            .map(|(_, count)| count)
            .sum());
    };
    api.count_tasks(&scope.prefix(), &status.map(AskedStatus::states).unwrap_or_default()).await
}

async fn remove_some(State(api): Api, Extension(peer): Extension<Peer>, body: Body) -> Answer<Number> {
    settings(&api)?;
    let asked: Asked = read(body, SMALL_LIMIT).await?;
    let filter = filter(&asked.scope()?, asked.status);
    Ok(Json(Number { count: remove(&api, &filter, &peer.to_string()).await? }))
}

async fn remove_as_there(
    State(api): Api,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    settings(&api)?;
    let filter = filter(&Whose::of(&headers)?.scope(), None);
    remove(&api, &filter, &peer.to_string()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
