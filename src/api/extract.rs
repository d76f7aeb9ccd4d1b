//! Reads a route's request, and refuses what it cannot accept.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, HttpBody as _};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;

use super::body::Refusal;
use super::{Peer, Problem, Service};
use model::{Bytes, Class, JobId, NewJob, Object, Payload};

/// The largest body of a put: the longest data of a job, which JSON at most doubles, plus a batch.
pub(super) const PUT_LIMIT: usize = 2 * Bytes::LONGEST + (16 << 20);
/// The largest body of any other request.
pub(super) const SMALL_LIMIT: usize = 64 << 10;
/// A body that is not complete after this time is not read further.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The service, as an argument of a route.
pub(super) type Api = State<Arc<dyn Service>>;
pub(super) type PathOf<T> = Result<Path<T>, PathRejection>;
pub(super) type Answer<T> = Result<Json<T>, Problem>;

/// Whether this client may put such a job.
pub(super) fn may_put(peer: Peer, job: &NewJob) -> Result<(), Problem> {
    // The class alone makes a job a program, however its data came.
    peer.judge_programs(matches!(job.payload, Payload::Exec(_)) || job.class.as_str() == Class::EXEC)
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (code, Json(Refusal::from(self))).into_response()
    }
}

pub(super) fn job_id(id: PathOf<String>) -> Result<JobId, Problem> {
    named(id).map(Into::into)
}

pub(super) fn named(name: PathOf<String>) -> Result<String, Problem> {
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

/// Reads a request; `come` learns how many bytes of it have come, and may refuse more.
pub(super) async fn read_noting<T: DeserializeOwned>(
    body: Body,
    limit: usize,
    come: impl FnMut(usize) -> Result<(), Problem>,
) -> Result<T, Problem> {
    parse(&collect_noting(body, limit, come).await?)
}

pub(super) async fn collect(body: Body, limit: usize) -> Result<Vec<u8>, Problem> {
    collect_noting(body, limit, |_| Ok(())).await
}

async fn collect_noting(
    mut body: Body,
    limit: usize,
    mut come: impl FnMut(usize) -> Result<(), Problem>,
) -> Result<Vec<u8>, Problem> {
    let too_large = || {
        Problem::new(413, format!("the body is larger than {limit} bytes"))
            .hint("put what is large into a file and its name into the job; put many jobs a few at a time")
    };
    // A body that is announced as too large is not read at all.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let all = async {
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|error| Problem::bad_request(format!("failed to read the body: {error}")))?;
            // Trailers are no data.
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > limit {
                return Err(too_large());
            }
            bytes.extend_from_slice(&data);
            come(bytes.len())?;
        }
        Ok(bytes)
    };
    let late = |_| Problem::new(408, format!("the body did not come within {BODY_TIMEOUT:?}"));
    tokio::time::timeout(BODY_TIMEOUT, all).await.map_err(late)?
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes)
        // `Object` refuses a list, which serde would read as the fields in their order.
        .map(|Object(value)| value)
        .map_err(|error| Problem::bad_request(format!("the body is not right: {error}")))
}
