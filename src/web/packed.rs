//! Answers of HTML on their way out.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::assets;

/// An answer of HTML, compressed where the browser takes that, and empty where it has it already.
pub(crate) fn packed(code: StatusCode, headers: &HeaderMap, html: &str) -> Response {
    let mut hash = DefaultHasher::new();
    html.hash(&mut hash);
    let tag = format!("\"{:016x}\"", hash.finish());
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    // Only a success may be 304 (RFC 9110, section 13.2.1). The page's script takes 304 for a page without a failure.
    if is_known && code.is_success() {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response();
    }
    let takes = headers.get(header::ACCEPT_ENCODING).and_then(|takes| takes.to_str().ok());
    let takes_gzip = takes.is_some_and(|takes| takes.split(',').any(is_gzip));
    let mut response = Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, "text/html; charset=utf-8")
        .header(header::ETAG, tag)
        .header(header::VARY, "accept-encoding, tv-fragment");
    // Another site cannot ask with the session (SameSite), so the length tells it nothing (BREACH).
    let body = match takes_gzip && html.len() > 1024 {
        true => {
            response = response.header(header::CONTENT_ENCODING, "gzip");
            Body::from(assets::gzip(html.as_bytes()))
        }
        false => Body::from(html.to_owned()),
    };
    response.body(body).unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// Whether a part of `Accept-Encoding` is gzip, and not with the weight 0, which refuses it (RFC 9110, section 12.4.2).
fn is_gzip(part: &str) -> bool {
    let mut words = part.split(';').map(str::trim);
    let is_named = words.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
    let weight = words.find_map(|word| word.strip_prefix("q=").or(word.strip_prefix("Q=")));
    is_named && weight.is_none_or(|weight| weight.parse::<f32>().is_ok_and(|weight| weight > 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_those_alone_that_take_it() {
        for (takes, packs) in [
            ("gzip", true),
            ("br;q=1.0, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("deflate, gzip; q=0.000", false),
            ("gzipped", false),
            ("", false),
        ] {
            let headers = [(header::ACCEPT_ENCODING, takes.parse().unwrap())].into_iter().collect();
            let answer = packed(StatusCode::OK, &headers, &"page".repeat(1000));
            assert_eq!(answer.headers().contains_key(header::CONTENT_ENCODING), packs, "{takes}");
        }
    }

    #[test]
    fn only_an_answer_that_succeeded_is_left_out_where_the_browser_has_it() {
        let first = packed(StatusCode::OK, &HeaderMap::new(), "page");
        let mut known = HeaderMap::new();
        known.insert(header::IF_NONE_MATCH, first.headers()[header::ETAG].clone());
        let again = packed(StatusCode::OK, &known, "page");
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(again.headers().get(header::ETAG), first.headers().get(header::ETAG));
        let failed = packed(StatusCode::SERVICE_UNAVAILABLE, &known, "page");
        assert_eq!(failed.status(), StatusCode::SERVICE_UNAVAILABLE, "it would look as if it worked again");
    }
}
