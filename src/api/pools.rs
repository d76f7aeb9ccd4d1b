//! The routes that change settings, pools and their intake.

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::extract::State;
use axum::extract::rejection::PathRejection;
use axum::routing::{get, post};

use super::body::Reload;
use super::by::By;
use super::describe::Describe;
use super::extract::{Answer, Api, SMALL_LIMIT, read, read_or_default};
use super::routes::Routes;
use super::waits::{Doing, waits};
use super::{PauseOrder, Problem, Reloaded};
use model::verb::{Done, reason_fault};
use model::{Change, PoolsNow, Scale};

/// The routes over a service.
pub(super) fn routes<D: Describe>(routes: Routes<D>) -> Routes<D> {
    let all = |what: Change| move |api: Api, by: By| change(api, by, None, what);
    let one = |what: Change| move |api: Api, by: By, pool: PoolOf| change_named(api, by, pool, what);
    routes
        .act::<Reload, Reloaded>("/v1/reload", "Reads the settings again: all or nothing.", post(reload))
        .act::<Done, PoolsNow>(
            "/v1/recycle",
            "Exchanges all workers for new ones.",
            post(all(Change::Recycle)),
        )
        .act::<PauseOrder, PoolsNow>("/v1/pause", "Takes no more jobs in any pool.", post(pause_all))
        .act::<Done, PoolsNow>("/v1/resume", "Takes jobs again in all pools.", post(all(Change::Resume)))
        .look::<Done>("/v1/at-rest", "Waits until no job runs.", get(at_rest))
        .act::<Done, PoolsNow>(
            "/v1/pools/{pool}/recycle",
            "Exchanges the workers of a pool for new ones.",
            post(one(Change::Recycle)),
        )
        .act::<PauseOrder, PoolsNow>("/v1/pools/{pool}/pause", "Takes no more jobs in a pool.", post(pause))
        .act::<Done, PoolsNow>(
            "/v1/pools/{pool}/resume",
            "Takes jobs again in a pool.",
            post(one(Change::Resume)),
        )
        .act::<Scale, PoolsNow>("/v1/pools/{pool}/scale", "Gives a pool more or fewer workers.", post(scale))
}

type PoolOf = Result<Path<String>, PathRejection>;

async fn reload(State(api): Api, By(by): By, body: Body) -> Answer<Reloaded> {
    let Reload { dry_run } = read_or_default(body, SMALL_LIMIT).await?;
    Ok(Json(api.reload(dry_run, by).await?))
}

async fn change(State(api): Api, By(by): By, pool: Option<String>, change: Change) -> Answer<PoolsNow> {
    Ok(Json(api.change(pool, change, PauseOrder::default(), by).await?))
}

async fn change_named(api: Api, by: By, pool: PoolOf, what: Change) -> Answer<PoolsNow> {
    change(api, by, Some(name(pool)?), what).await
}

async fn pause(api: Api, by: By, pool: PoolOf, body: Body) -> Answer<PoolsNow> {
    paused(api, by, Some(name(pool)?), body).await
}

async fn pause_all(api: Api, by: By, body: Body) -> Answer<PoolsNow> {
    paused(api, by, None, body).await
}

async fn paused(State(api): Api, By(by): By, pool: Option<String>, body: Body) -> Answer<PoolsNow> {
    let how: PauseOrder = read_or_default(body, SMALL_LIMIT).await?;
    if let Some(fault) = reason_fault(how.reason.as_deref()) {
        return Err(Problem::bad_request(fault));
    }
    Ok(Json(api.change(pool, Change::Pause, how, by).await?))
}

async fn scale(api: Api, by: By, pool: PoolOf, body: Body) -> Answer<PoolsNow> {
    let scale: Scale = read(body, SMALL_LIMIT).await?;
    change_named(api, by, pool, Change::Scale(scale)).await
}

async fn at_rest(State(api): Api, doing: Doing) -> Answer<Done> {
    waits(&doing)?;
    api.at_rest().await?;
    Ok(Json(Done {}))
}

fn name(pool: PoolOf) -> Result<String, Problem> {
    pool.map(|Path(pool)| pool).map_err(|error| Problem::bad_request(error.body_text()))
}
