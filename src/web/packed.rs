//! Answers of HTML on their way out.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::assets;

/// An answer of HTML, compressed where the browser takes that, and empty where it has it already.
pub fn packed(code: StatusCode, headers: &HeaderMap, html: &str) -> Response {
    let mut hash = DefaultHasher::new();
    html.hash(&mut hash);
    let tag = format!("\"{:016x}\"", hash.finish());
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    let takes_gzip = headers.get(header::ACCEPT_ENCODING).is_some_and(|takes| {
        takes.to_str().is_ok_and(|takes| takes.split(',').any(|one| one.trim().starts_with("gzip")))
    });
    let mut response = Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, "text/html; charset=utf-8")
        .header(header::ETAG, tag)
        .header(header::VARY, "accept-encoding, tv-fragment");
    let body = match takes_gzip && html.len() > 1024 {
        true => {
            response = response.header(header::CONTENT_ENCODING, "gzip");
            Body::from(assets::gzip(html.as_bytes()))
        }
        false => Body::from(html.to_owned()),
    };
    response.body(body).unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}
