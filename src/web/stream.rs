//! Answers that go on: what changes, and the output of a job.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use api::{Activity, Lines};
use model::{JobId, OutputLine, OutputQuery};

use crate::ansi::Ansi;
use crate::app::{App, Visit};
use crate::form::Fields;
use crate::live::Pieces;

/// Proxies close connections that say nothing.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Says which parts of pages change.
pub(crate) async fn live(
    State(app): State<Arc<App>>,
    Extension(doing): Extension<Arc<Activity>>,
    Extension(visit): Extension<Visit>,
) -> Response {
    // It takes a place for waits: while its page is open it would hold one for ordinary requests.
    if doing.waits().is_err() {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let mut news = app.live.listen(app.source.client().ok());
    let (out, pieces) = mpsc::channel(4);
    tokio::spawn(async move {
        let mut piece = ": here\n\n".to_owned();
        while told(&app, &visit, &out, std::mem::take(&mut piece)).await {
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

/// Sends a piece; false if the reader has gone, or its session has ended.
async fn told(app: &App, visit: &Visit, out: &mpsc::Sender<String>, piece: String) -> bool {
    // An open stream must not keep its session from ending by disuse: `role` would.
    app.sessions.lives(&visit.session) && out.send(piece).await.is_ok()
}

/// Follows the output of a job as HTML.
pub(crate) async fn output(
    State(app): State<Arc<App>>,
    Extension(doing): Extension<Arc<Activity>>,
    Extension(visit): Extension<Visit>,
    Path(job): Path<String>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    // Without a place the page fetches the output again and again.
    let Ok(place) = app.follows.clone().try_acquire_owned() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    if doing.waits().is_err() {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let fields = Fields::read(query.as_deref().unwrap_or_default());
    // A browser that connects again by itself says how far it came.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let from = last.or(fields.get("from")).and_then(|from| from.parse().ok()).unwrap_or(0);
    let query = OutputQuery { from, follow: true, ..OutputQuery::default() };
    let id = JobId::from(crate::text::named(&job));
    let lines = match app.source.output(&id, &query).await {
        Ok(lines) => lines,
        Err(trouble) => {
            return (StatusCode::from_u16(trouble.code).unwrap_or(StatusCode::BAD_GATEWAY), trouble.message)
                .into_response();
        }
    };
    let (out, pieces) = mpsc::channel(4);
    tokio::spawn(async move {
        pass_on(&app, &visit, lines, &out).await;
        drop(place);
    });
    events(pieces)
}

/// Passes an output on until its end, or until nobody reads it.
async fn pass_on(app: &App, visit: &Visit, mut lines: Lines<OutputLine>, out: &mpsc::Sender<String>) {
    let mut ansi = Ansi::default();
    loop {
        // One wait for all of the silence: it ends when the supervisor is silent for too long.
        let next = lines.next();
        tokio::pin!(next);
        let parts = loop {
            tokio::select! {
                parts = &mut next => break parts,
                () = tokio::time::sleep(KEEP_ALIVE) => {
                    if !told(app, visit, out, ":\n\n".to_owned()).await {
                        return;
                    }
                }
                () = out.closed() => return,
            }
        };
        // The browser connects again, from the last id that it has.
        let Ok(parts) = parts else { return };
        if parts.is_empty() {
            return;
        }
        for part in parts {
            let piece = match part {
                OutputLine::Part(part) => {
                    let next = part.from + part.text.0.len() as u64;
                    // The id is the place behind this part, from where a reader goes on.
                    format!("id: {next}\n{}", message("output", &ansi.html(&part.text.0)))
                }
                // Browsers pass on no event without data.
                OutputLine::End(_) => message("end", "."),
            };
            if !told(app, visit, out, piece).await {
                return;
            }
        }
    }
}

/// A message of several lines.
fn message(kind: &str, text: &str) -> String {
    let mut out = format!("event: {kind}\n");
    // A carriage return would end a line of the stream as well: `Ansi` leaves none.
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
