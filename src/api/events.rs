//! Events as they happen: server-sent events, or one JSON document per line.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use super::Problem;
use super::extract::Api;
use super::gathered::Gathered;
use super::lists;
use super::stream::{Piece, stream};
use super::waits::{Doing, waits};
use model::{Interest, PublishedEvent, What};

/// Keep-alive interval: proxies close idle connections.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Bytes of a piece, without its last event: a limit of what a reader that is slow keeps from being lost.
const PIECE: usize = 16 << 10;

/// How often events are taken in during a pause: of 80,000 a second none is lost.
const LOOK: Duration = Duration::from_millis(50);

/// Limit of the pause that a reader may ask for: a stop waits a second for its last event.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

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

/// Sends events as they come; those that come while a piece is on its way are the next piece. A reader that is too slow
/// loses the oldest events, and gets an event that says so.
async fn send(
    news: &mut Receiver<Arc<PublishedEvent>>,
    interest: Interest,
    form: Form,
    pieces: Sender<Piece>,
) {
    // The head of the answer goes out with the first piece.
    let mut piece = form.nothing();
    // The reader does not see events that are filtered out: they do not replace a keep-alive.
    let mut silent = tokio::time::interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    let mut is_over = false;
    loop {
        if !piece.is_empty() && pieces.send(Ok(std::mem::take(&mut piece))).await.is_err() || is_over {
            return;
        }
        let next = tokio::select! {
            // No event is lost if another branch wins: `recv` is cancel-safe.
            next = news.recv() => next,
            _ = silent.tick() => {
                piece = form.nothing();
                continue;
            }
            () = pieces.closed() => return,
        };
        (piece, is_over) = gather(next, news, &interest, form);
        if let Some(pause) = interest.pause.filter(|_| !is_over) {
            if pieces.send(Ok(std::mem::take(&mut piece))).await.is_err() {
                return;
            }
            (piece, is_over) = rest(pause.min(LONGEST_PAUSE), news, &interest, form).await;
        }
    }
}

/// The piece of what happens within the pause after another, and whether it was the last.
async fn rest(
    pause: Duration,
    news: &mut Receiver<Arc<PublishedEvent>>,
    interest: &Interest,
    form: Form,
) -> (Vec<u8>, bool) {
    let (end, mut gathered, mut is_over) = (Instant::now() + pause, Gathered::default(), false);
    while !is_over && Instant::now() < end {
        // Not at each event: it costs more to wake up than to look.
        tokio::time::sleep(LOOK.min(end - Instant::now())).await;
        is_over = loop {
            match news.try_recv() {
                Ok(news) if news.what == What::Ended => {
                    gathered.add(news);
                    break true;
                }
                Ok(news) if interest.takes(&news) => gathered.add(news),
                Ok(_) => {}
                Err(TryRecvError::Lagged(count)) => gathered.add(Arc::new(lost(count))),
                Err(TryRecvError::Empty) => break false,
                Err(TryRecvError::Closed) => break true,
            }
        };
    }
    (gathered.take().iter().flat_map(|news| form.of(news)).collect(), is_over)
}

/// The piece of an event and of those that wait behind it, and whether they were the last.
fn gather(
    mut next: Result<Arc<PublishedEvent>, RecvError>,
    news: &mut Receiver<Arc<PublishedEvent>>,
    interest: &Interest,
    form: Form,
) -> (Vec<u8>, bool) {
    let mut piece = Vec::new();
    loop {
        match next {
            Ok(news) if news.what == What::Ended => {
                piece.extend(form.of(&news));
                return (piece, true);
            }
            Ok(news) if interest.takes(&news) => piece.extend(form.of(&news)),
            Ok(_) => {}
            Err(RecvError::Lagged(count)) => piece.extend(form.of(&lost(count))),
            Err(RecvError::Closed) => return (piece, true),
        }
        if piece.len() >= PIECE {
            return (piece, false);
        }
        next = match news.try_recv() {
            Ok(news) => Ok(news),
            Err(TryRecvError::Empty) => return (piece, false),
            Err(TryRecvError::Lagged(count)) => Err(RecvError::Lagged(count)),
            Err(TryRecvError::Closed) => Err(RecvError::Closed),
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
