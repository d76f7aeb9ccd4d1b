//! Which path leads to which page.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use crate::answer::answer;
use crate::app::{App, Visit};
use crate::form::Fields;
use crate::trouble::Trouble;
use crate::{acts, assets, enter, gate, pages, stream, text};

type Shared = State<Arc<App>>;
type Visitor = Extension<Visit>;

/// The page, below its path.
pub(crate) fn router(app: Arc<App>) -> Router {
    let pages = Router::new()
        .route("/", get(overview))
        .route("/jobs", get(jobs))
        .route("/job/{job}", get(job))
        .route("/job/{job}/output", get(stream::output))
        .route("/job/{job}/picture", get(picture))
        .route("/failures", get(failures))
        .route("/queues", get(listed))
        .route("/batches", get(listed))
        .route("/recurring", get(listed))
        .route("/workers", get(listed))
        .route("/fleet", get(listed))
        .route("/events", get(listed))
        .route("/config", get(listed))
        .route("/doctor", get(listed))
        // axum prefers literal segments, so this hides no route that is more exact.
        .route("/{kind}/{name}", get(named))
        // GET only asks; the POST of the form on that page carries the order out.
        .route("/act", get(acts::ask).post(acts::carry_out))
        .route("/live", get(stream::live))
        .route("/enter", get(enter::by_key).post(enter::by_token))
        // By POST alone, so that a link or an image of another site signs nobody out.
        .route("/leave", post(enter::leave))
        // For probes, which have no session.
        .route("/livez", get(|| async { "ok\n" }))
        .route("/static/{print}/{name}", get(assets::file))
        .fallback(nowhere)
        // A layer covers what was added before it: strangers do not learn which paths exist, either.
        .layer(middleware::from_fn_with_state(app.clone(), gate::watch))
        .with_state(app.clone());
    // The layer runs before the routes are looked at, so that they do not know the path.
    Router::new().fallback_service(pages).layer(middleware::from_fn_with_state(app, below))
}

/// Takes the page's own path away.
async fn below(State(app): Shared, mut request: Request, next: Next) -> Response {
    if !app.base.is_empty() {
        let whole = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let rest =
            // `/jobsx` is not below `/jobs`.
            whole.strip_prefix(&app.base).filter(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
        let Some(rest) = rest else {
            let why = format!(
                "this page is at {}/ and was asked for {whole}: a proxy passes paths on as they are (nginx: proxy_pass without a path)\n",
                app.base
            );
            return sealed((StatusCode::NOT_FOUND, why).into_response());
        };
        let rest = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
        match rest.parse::<Uri>() {
            Ok(uri) => *request.uri_mut() = uri,
            Err(_) => return sealed(StatusCode::BAD_REQUEST.into_response()),
        }
    }
    next.run(request).await
}

/// An answer that the gate does not see.
fn sealed(mut response: Response) -> Response {
    gate::seal(&mut response);
    response
}

async fn nowhere(State(app): Shared, Extension(visit): Visitor, headers: HeaderMap) -> Response {
    answer(&app, &visit, &headers, Err(Trouble::new(404, "there is no such page"))).await
}

async fn overview(State(app): Shared, Extension(visit): Visitor, headers: HeaderMap) -> Response {
    let page = pages::overview::page(&app, &visit).await;
    answer(&app, &visit, &headers, page).await
}

async fn jobs(
    State(app): Shared,
    Extension(visit): Visitor,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let fields = Fields::read(query.as_deref().unwrap_or_default());
    let page = pages::jobs::page(&app, &visit, &fields).await;
    answer(&app, &visit, &headers, page).await
}

async fn job(
    State(app): Shared,
    Extension(visit): Visitor,
    headers: HeaderMap,
    Path(job): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let fields = Fields::read(query.as_deref().unwrap_or_default());
    let page = pages::job::page(&app, &visit, &text::named(&job).into(), &fields).await;
    answer(&app, &visit, &headers, page).await
}

async fn picture(
    State(app): Shared,
    Extension(visit): Visitor,
    headers: HeaderMap,
    Path(job): Path<String>,
) -> Response {
    let page = pages::picture::page(&app, &visit, &text::named(&job).into()).await;
    answer(&app, &visit, &headers, page).await
}

async fn failures(
    State(app): Shared,
    Extension(visit): Visitor,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let fields = Fields::read(query.as_deref().unwrap_or_default());
    let page = pages::failures::page(&app, &visit, &fields).await;
    answer(&app, &visit, &headers, page).await
}

/// A page of which there is one.
async fn listed(State(app): Shared, Extension(visit): Visitor, headers: HeaderMap, uri: Uri) -> Response {
    let page = match uri.path() {
        "/queues" => pages::queues::page(&app).await,
        "/batches" => pages::batches::page(&app).await,
        "/recurring" => pages::recurring::page(&app).await,
        "/workers" => pages::workers::page(&app, &visit).await,
        "/fleet" => pages::fleet::page(&app).await,
        "/config" => pages::config::page(&app, &Fields::read(uri.query().unwrap_or_default())).await,
        "/doctor" => pages::doctor::page(&app).await,
        _ => pages::events::page(&app).await,
    };
    answer(&app, &visit, &headers, page).await
}

/// The page of one thing with a name.
async fn named(
    State(app): Shared,
    Extension(visit): Visitor,
    headers: HeaderMap,
    Path((kind, name)): Path<(String, String)>,
) -> Response {
    let name = text::named(&name);
    let page = match kind.as_str() {
        "queue" => pages::queues::one(&app, &visit, name).await,
        "batch" => pages::batches::one(&app, name).await,
        "recurring" => pages::recurring::one(&app, &visit, name).await,
        "pool" => pages::workers::pool(&app, &visit, name).await,
        "slot" => pages::workers::slot(&app, name).await,
        _ => Err(Trouble::new(404, "there is no such page")),
    };
    answer(&app, &visit, &headers, page).await
}
