//! The routes that change what is kept up: settings, pools, intake.

use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::extract::State;
use axum::extract::rejection::PathRejection;
use axum::routing::{get, post};
use std::sync::Arc;

use super::body::Reload;
use super::router::{Answer, Api, SMALL_LIMIT, read, read_or_default};
use super::{Problem, Reloaded, Service};
use crate::model::verb::Done;
use crate::model::{Change, Scale};

/// The routes over a service.
pub(super) fn routes() -> Router<Arc<dyn Service>> {
    Router::new()
        .route("/v1/reload", post(reload))
        .route("/v1/recycle", post(|api: Api| change(api, None, Change::Recycle)))
        .route("/v1/pause", post(|api: Api| change(api, None, Change::Pause)))
        .route("/v1/resume", post(|api: Api| change(api, None, Change::Resume)))
        .route("/v1/at-rest", get(at_rest))
        .route("/v1/pools/{pool}/recycle", post(|api: Api, pool: PoolOf| of(api, pool, Change::Recycle)))
        .route("/v1/pools/{pool}/pause", post(|api: Api, pool: PoolOf| of(api, pool, Change::Pause)))
        .route("/v1/pools/{pool}/resume", post(|api: Api, pool: PoolOf| of(api, pool, Change::Resume)))
        .route("/v1/pools/{pool}/scale", post(scale))
}

type PoolOf = Result<Path<String>, PathRejection>;

async fn reload(State(api): Api, body: Body) -> Answer<Reloaded> {
    let Reload { rehearsal } = read_or_default(body, SMALL_LIMIT).await?;
    Ok(Json(api.reload(rehearsal).await?))
}

async fn change(State(api): Api, pool: Option<String>, change: Change) -> Answer<Done> {
    api.change(pool, change).await?;
    Ok(Json(Done {}))
}

async fn of(api: Api, pool: PoolOf, what: Change) -> Answer<Done> {
    change(api, Some(name(pool)?), what).await
}

async fn scale(api: Api, pool: PoolOf, body: Body) -> Answer<Done> {
    let scale: Scale = read(body, SMALL_LIMIT).await?;
    of(api, pool, Change::Scale(scale)).await
}

async fn at_rest(State(api): Api) -> Answer<Done> {
    api.at_rest().await?;
    Ok(Json(Done {}))
}

fn name(pool: PoolOf) -> Result<String, Problem> {
    pool.map(|Path(pool)| pool).map_err(|error| Problem::bad_request(error.body_text()))
}
