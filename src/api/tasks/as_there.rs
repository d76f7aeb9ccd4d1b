//! The routes of QuantumLeap: its paths, its answers, and refusals in its words besides ours.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::body::Refusal;
use super::super::describe::Describe;
use super::super::extract::Api;
use super::super::routes::Routes;
use super::super::{Peer, Problem, Service};
use super::answer::{HEADERS_OF_NOTIFY, Notification, counted, settings};
use super::asked::{ByStatus, Whose, filter};
use super::list::{self, Shown};
use super::notify::{KEPT, notify};
use super::remove::remove;
use model::verb::Route;
use wq::{Task, TaskRuntime};

/// The answers that clients of QuantumLeap expect.
const TAKEN: &str = "Notification successfully processed";

/// The version of the program that answers.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Version {
    /// The version of taskvisor.
    version: String,
}

/// A refusal on these routes.
struct AsThere(Problem);

impl From<Problem> for AsThere {
    fn from(problem: Problem) -> AsThere {
        AsThere(problem)
    }
}

impl IntoResponse for AsThere {
    fn into_response(self) -> Response {
        /// The members of a refusal that clients of QuantumLeap read, beside ours.
        #[derive(Serialize)]
        struct Both {
            #[serde(flatten)]
            refusal: Refusal,
            detail: String,
            status: u16,
            title: &'static str,
        }
        let code = StatusCode::from_u16(self.0.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let refusal = Refusal::from(self.0);
        let title = code.canonical_reason().unwrap_or_default();
        let (detail, hint) = (refusal.error.clone(), refusal.hint.iter());
        let detail = hint.fold(detail, |detail, hint| format!("{detail}: {hint}"));
        (code, Json(Both { refusal, detail, status: code.as_u16(), title })).into_response()
    }
}

/// A refusal in the words of these routes.
pub(in super::super) fn refused(problem: Problem) -> Response {
    AsThere(problem).into_response()
}

/// The routes, for a port that has no others.
pub(in super::super) fn alone(service: Arc<dyn Service>) -> Router {
    let nothing = async |request: Request| {
        AsThere(Problem::not_found(format!("there is no {} here", request.uri().path())))
    };
    as_quantumleap(Routes::to_serve()).router.fallback(nothing).with_state(service)
}

/// The routes over a service.
pub(super) fn as_quantumleap<D: Describe>(routes: Routes<D>) -> Routes<D> {
    let notify =
        Route { method: "POST", path: "/v2/notify", does: "Takes a notification in, as QuantumLeap does." };
    let routes = routes
        .headed::<Notification, String>(notify, &HEADERS_OF_NOTIFY, post(notify_as_there))
        .look::<Version>("/version", "Says which version answers.", get(version));
    ["/management/queue/notifications", "/wq/notifications"].into_iter().fold(routes, as_there)
}

/// QuantumLeap's own routes, below one of its two paths.
fn as_there<D: Describe>(routes: Routes<D>, path: &'static str) -> Routes<D> {
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
        .headed::<ByStatus, ()>(
            route("DELETE", path, "Removes tasks, as QuantumLeap does, and what they run."),
            &Whose::HEADERS,
            delete(remove_as_there),
        )
}

async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION").into() })
}

async fn notify_as_there(
    State(api): Api,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, AsThere> {
    let taken = notify(&*api, &*settings(&api)?, peer, &headers, body).await?;
    let kept = taken.kept.then_some([(KEPT, "true")]);
    Ok((kept.map(AppendHeaders), Json(TAKEN)).into_response())
}

async fn show_all_as_there(State(api): Api, request: Request) -> Result<Response, AsThere> {
    Ok(show_as_there(api, &request, Shown::Whole)?.await?)
}

async fn summarize_as_there(State(api): Api, request: Request) -> Result<Response, AsThere> {
    Ok(show_as_there(api, &request, Shown::Runtime)?.await?)
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

async fn count_as_there(State(api): Api, headers: HeaderMap, uri: Uri) -> Result<Json<u64>, AsThere> {
    Ok(Json(counted(&api, Whose::of(&headers)?.scope_if_said(), ByStatus::of(&uri)?).await?))
}

async fn remove_as_there(
    State(api): Api,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, AsThere> {
    settings(&api)?;
    let filter = filter(&Whose::of(&headers)?.scope(), ByStatus::of(&uri)?);
    remove(&api, &filter, &peer.to_string()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
