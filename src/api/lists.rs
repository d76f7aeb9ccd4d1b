//! Lists of jobs of any length: read and sent page by page.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::mpsc::Sender;

use super::body::Refusal;
use super::stream::{Piece, stream};
use super::{Problem, Service};
use model::{Cut, Filter, JobRecord, Page};

/// One record per line. If an error occurs on the way, the last line is a refusal.
pub(super) const LINES: &str = "application/x-ndjson";

/// Answers with the whole list, as lines for clients that accept them, else as one array.
pub(super) async fn answer(
    api: Arc<dyn Service>,
    filter: Filter,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let is_lines = takes_lines(headers);
    if filter.search.is_some() {
        return found(&*api, &filter, is_lines).await;
    }
    // Before the answer has begun it can still be a refusal.
    let first = api.page(&filter, None).await?;
    let (pieces, _, body) = stream();
    let text = Text { is_lines, has_begun: false };
    tokio::spawn(send(api, filter, first, text, pieces));
    Ok(([(header::CONTENT_TYPE, kind_of(is_lines))], body).into_response())
}

/// The header of a search that was cut: the job after which it goes on.
pub(super) const NEXT: &str = "taskvisor-next";
/// The header of a search that was cut: how many jobs it has looked at.
pub(super) const LOOKED: &str = "taskvisor-looked";

/// Answers with what a search finds. Where it was cut stands before it, so it is read first: it has a limit.
async fn found(api: &dyn Service, filter: &Filter, is_lines: bool) -> Result<Response, Problem> {
    let (mut text, mut at, mut all) = (Text { is_lines, has_begun: false }, None, Vec::new());
    let cut = loop {
        let Page { jobs, next, cut } = api.page(filter, at).await?;
        all.extend(text.of(&jobs, next.is_none())?);
        match next {
            Some(_) => at = next,
            None => break cut,
        }
    };
    let mut answer = ([(header::CONTENT_TYPE, kind_of(is_lines))], all).into_response();
    if let Some(Cut { after, looked }) = cut {
        // No id has characters that control a terminal, which are all that a header does not take.
        let after = HeaderValue::from_bytes(after.as_str().as_bytes()).ok();
        answer.headers_mut().extend(after.map(|after| (HeaderName::from_static(NEXT), after)));
        answer.headers_mut().insert(LOOKED, looked.into());
    }
    Ok(answer)
}

fn kind_of(is_lines: bool) -> &'static str {
    if is_lines { LINES } else { "application/json" }
}

/// Whether the client accepts lines.
pub(super) fn takes_lines(headers: &HeaderMap) -> bool {
    let says = |accept: &header::HeaderValue| accept.to_str().is_ok_and(|said| said.contains(LINES));
    headers.get_all(header::ACCEPT).iter().any(says)
}

/// Sends page after page, each once the one before is on its way. Ends early when the client has gone.
async fn send(api: Arc<dyn Service>, filter: Filter, first: Page, mut text: Text, pieces: Sender<Piece>) {
    let mut page = Ok(first);
    loop {
        let (piece, next) = match page {
            Ok(Page { jobs, next, .. }) => (text.of(&jobs, next.is_none()), next),
            Err(problem) => (text.broken_off(problem), None),
        };
        if pieces.send(piece).await.is_err() {
            return;
        }
        let Some(at) = next else { return };
        page = api.page(&filter, Some(at)).await;
    }
}

/// State of a list while it is written as text.
struct Text {
    is_lines: bool,
    has_begun: bool,
}

impl Text {
    fn of(&mut self, jobs: &[JobRecord], is_last: bool) -> Piece {
        let mut text = Vec::new();
        for job in jobs {
            match (self.is_lines, std::mem::replace(&mut self.has_begun, true)) {
                (false, false) => text.push(b'['),
                (false, true) => text.push(b','),
                (true, _) => {}
            }
            serde_json::to_writer(&mut text, job).map_err(|error| Problem::new(500, error.to_string()))?;
            if self.is_lines {
                text.push(b'\n');
            }
        }
        if is_last && !self.is_lines {
            text.extend(if self.has_begun { &b"]"[..] } else { b"[]" });
        }
        Ok(text)
    }

    fn broken_off(&self, problem: Problem) -> Piece {
        match serde_json::to_vec(&Refusal::from(problem.clone())) {
            Ok(line) if self.is_lines => Ok(line),
            // An array has no place for a refusal: it breaks off.
            Ok(_) | Err(_) => Err(problem),
        }
    }
}
