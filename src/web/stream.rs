//! Answers that go on: what changes, and the output of a job.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use api::Activity;
use model::{JobId, OutputLine, OutputQuery};

use crate::ansi::Ansi;
use crate::app::App;
use crate::form::Fields;
use crate::live::Pieces;

/// Proxies close connections that say nothing.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Says which parts of pages change.
pub async fn live(State(app): State<Arc<App>>, Extension(doing): Extension<Arc<Activity>>) -> Response {
    if doing.waits().is_err() {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let mut news = app.live.listen(app.source.client().ok());
    let (out, pieces) = mpsc::channel(4);
    tokio::spawn(async move {
        let mut piece = ": here\n\n".to_owned();
        while out.send(std::mem::take(&mut piece)).await.is_ok() {
            piece = tokio::select! {
                news = news.recv() => match news {
                    Ok(topics) => message("changed", &topics),
                    // A slow reader: it looks at everything.
                    Err(RecvError::Lagged(_)) => message("changed", "*"),
                    Err(RecvError::Closed) => return,
                },
                () = tokio::time::sleep(KEEP_ALIVE) => ":\n\n".to_owned(),
                () = out.closed() => return,
            };
        }
    });
    events(pieces)
}

/// Follows the output of a job as HTML.
pub async fn output(
    State(app): State<Arc<App>>,
    Extension(doing): Extension<Arc<Activity>>,
    Path(job): Path<String>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    if doing.waits().is_err() {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let fields = Fields::read(query.as_deref().unwrap_or_default());
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let from = last.or(fields.get("from")).and_then(|from| from.parse().ok()).unwrap_or(0);
    let query = OutputQuery { from, follow: true, ..OutputQuery::default() };
    let id = JobId::from(job);
    let mut lines = match app.source.output(&id, &query).await {
        Ok(lines) => lines,
        Err(trouble) => {
            return (StatusCode::from_u16(trouble.code).unwrap_or(StatusCode::BAD_GATEWAY), trouble.message)
                .into_response();
        }
    };
    let (out, pieces) = mpsc::channel(4);
    tokio::spawn(async move {
        let mut ansi = Ansi::default();
        loop {
            let parts = tokio::select! {
                parts = lines.next() => parts,
                () = out.closed() => return,
            };
            let Ok(parts) = parts else { return };
            if parts.is_empty() {
                return;
            }
            for part in parts {
                let piece = match part {
                    OutputLine::Part(part) => {
                        let next = part.from + part.text.0.len() as u64;
                        format!("id: {next}\n{}", message("output", &ansi.html(&part.text.0)))
                    }
                    OutputLine::End(_) => message("end", "."),
                };
                if out.send(piece).await.is_err() {
                    return;
                }
            }
        }
    });
    events(pieces)
}

/// A message of several lines.
fn message(kind: &str, text: &str) -> String {
    let mut out = format!("event: {kind}\n");
    for line in text.split('\n') {
        out += "data: ";
        out += line;
        out.push('\n');
    }
    out.push('\n');
    out
}

fn events(pieces: mpsc::Receiver<String>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        // For nginx: each message at once.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(Pieces(pieces))).into_response()
}
