//! taskvisor's own routes for tasks: requests and answers.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::describe::Describe;
use super::super::extract::{Answer, Api, SMALL_LIMIT, read};
use super::super::routes::Routes;
use super::super::{Peer, Problem, Service};
use super::asked::{Asked, Whose, filter};
use super::list::{self, Shown};
use super::notify::{CLASS, TIME_INDEX, notify};
use super::remove::remove;
use model::verb::{Answer as VerbAnswer, Number, Queues, Route, Verb};
use wq::{AskedStatus, Scope, Settings, Taken, Task, TaskRuntime};

/// The headers that a notification may have.
pub(super) const HEADERS_OF_NOTIFY: [&str; 6] =
    [Whose::HEADERS[0], Whose::HEADERS[1], Whose::HEADERS[2], Whose::HEADERS[3], CLASS, TIME_INDEX];

/// A notification, as context brokers send it.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) struct Notification {
    /// The entities, each with an id and a type.
    data: Vec<serde_json::Value>,
}

/// taskvisor's own routes over a service.
pub(super) fn own<D: Describe>(routes: Routes<D>) -> Routes<D> {
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

/// The settings, if notifications are accepted here.
pub(super) fn settings(api: &Arc<dyn Service>) -> Result<Arc<Settings>, Problem> {
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

async fn count(State(api): Api, uri: Uri) -> Answer<Number> {
    let asked: Asked<Option<String>> = Asked::of(&uri)?;
    Ok(Json(Number { count: counted(&api, asked.scope_if_said()?, asked.status).await? }))
}

/// The number of tasks; without a tenant, that of all jobs of their queue.
pub(super) async fn counted(
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
