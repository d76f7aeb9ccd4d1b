//! Events as they happen: server-sent events, or one JSON document per line.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use super::Problem;
use super::extract::Api;
use super::lists;
use super::stream::{Piece, stream};
use super::waits::{Doing, waits};
use model::{Interest, PublishedEvent, What};

/// Keep-alive interval: proxies close idle connections.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Answers with events from now on, as long as the client reads.
pub(super) async fn events(
    State(api): Api,
    doing: Doing,
    headers: HeaderMap,
    interest: Result<Query<Interest>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(interest) = interest.map_err(|error| Problem::bad_request(error.body_text()))?;
    waits(&doing)?;
    let form = if lists::takes_lines(&headers) { Form::Lines } else { Form::Events };
    let (pieces, gone, body) = stream();
    let mut news = api.news().await;
    tokio::spawn(async move {
        send(&mut news, interest, form, pieces).await;
        // The subscription lasts until the last byte is sent: the supervisor does not end before.
        gone.wait().await;
    });
    let kind = match form {
        Form::Lines => lists::LINES,
        Form::Events => "text/event-stream",
    };
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

/// Sends each event once the one before is on its way. A reader that is too slow loses the oldest events, and gets an
/// event that says so.
async fn send(
    news: &mut Receiver<Arc<PublishedEvent>>,
    interest: Interest,
    form: Form,
    pieces: Sender<Piece>,
) {
    // The head of the answer goes out with the first piece.
    let mut piece = Some(form.nothing());
    // The reader does not see events that are filtered out: they do not replace a keep-alive.
    let mut silent = tokio::time::interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    loop {
        if let Some(piece) = piece.take()
            && pieces.send(Ok(piece)).await.is_err()
        {
            return;
        }
        let next = tokio::select! {
            next = news.recv() => next,
            _ = silent.tick() => {
                piece = Some(form.nothing());
                continue;
            }
            () = pieces.closed() => return,
        };
        piece = match next {
            Ok(news) if news.what == What::Ended => {
                let _ = pieces.send(Ok(form.of(&news))).await;
                return;
            }
            Ok(news) => interest.takes(&news).then(|| form.of(&news)),
            Err(RecvError::Lagged(count)) => Some(form.of(&lost(count))),
            Err(RecvError::Closed) => return,
        };
    }
}

fn lost(count: u64) -> PublishedEvent {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_millis();
    let at = model::Millis(i64::try_from(now).unwrap_or(i64::MAX));
    PublishedEvent { count: Some(count), ..PublishedEvent::new(What::Lost, at) }
}

#[derive(Clone, Copy)]
enum Form {
    Events,
    Lines,
}

impl Form {
    fn of(self, news: &PublishedEvent) -> Vec<u8> {
        let data = serde_json::to_string(news).unwrap_or_default();
        match self {
            // Of this reader alone: the id stays that of the last event of all.
            Form::Events if news.n == 0 => format!("event: {}\ndata: {data}\n\n", news.what),
            Form::Events => format!("id: {}\nevent: {}\ndata: {data}\n\n", news.n, news.what),
            Form::Lines => data + "\n",
        }
        .into_bytes()
    }

    fn nothing(self) -> Vec<u8> {
        match self {
            Form::Events => b":\n\n".into(),
            Form::Lines => b"\n".into(),
        }
    }
}
