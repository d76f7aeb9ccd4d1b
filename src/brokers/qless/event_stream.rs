//! Job events from any client of this Redis, subscribed to while anyone listens. Our script publishes events on a
//! channel of its own; for other scripts there are the lines on `ql:log`.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use redis::Msg;
use redis::aio::PubSubStream;
use tokio::sync::watch;
use tokio::time::{Instant as Moment, sleep, sleep_until, timeout};

use super::event_parser::{About, CHANNELS, Reader, Spoken};
use super::reply;
use super::shared::Shared;
use broker::{Error, EventBus};
use model::{JobState, Millis, PublishedEvent, What};
use redis_link::Waits;

/// How often to check that the subscription still works.
const TRIED: Duration = Duration::from_secs(15);
/// A reply or an event comes within this time, or never.
const HEARD: Duration = Duration::from_secs(3);
/// Limit of the messages handled together: one request looks up facts about the jobs of other scripts.
const AT_ONCE: usize = 256;
/// What failed, for the log.
const VERB: &str = "hear the news of";
const DEAF: &str = "the news of Redis are not heard";

/// Returns when the present subscribers will get all events from now on.
pub(super) async fn begin(shared: &Arc<Shared>) {
    shared.reporter.begin(|tell| tokio::spawn(report(shared.clone(), tell))).await;
}

/// Publishes events, on one connection after the other, until there are no subscribers.
async fn report(shared: Arc<Shared>, tried: watch::Sender<bool>) {
    let mut waits = Waits::default();
    while let Some(room) = shared.reporter.room(&shared.notices) {
        let began = Moment::now();
        let heard = tokio::select! {
            heard = hear(&shared, &room, &tried) => heard,
            () = room.unheard() => continue,
        };
        // After a failure, too: whoever begins to listen must not wait for a server that is away.
        tried.send_replace(true);
        if let Err(error) = heard {
            shared.complaints.wrong(DEAF, &error, shared.link.now());
        }
        tokio::select! {
            () = sleep(waits.after(began)) => {}
            () = room.unheard() => {}
        }
    }
}

/// Publishes events until the connection breaks.
async fn hear(shared: &Shared, room: &EventBus, tried: &watch::Sender<bool>) -> Result<(), Error> {
    let failed = |error: redis::RedisError| shared.link.explain(VERB, &error);
    let silent = |_| shared.link.silent(VERB);
    let (mut sink, mut messages) = shared.link.listener(VERB).await?.split();
    timeout(HEARD, sink.subscribe(&CHANNELS)).await.map_err(silent)?.map_err(failed)?;
    shared.complaints.well(DEAF, shared.link.now());
    // Not the first connection: what was said since the last one is lost.
    if *tried.borrow() {
        room.tell(missed());
    }
    tried.send_replace(true);
    let mut reader = Reader::default();
    let mut try_at = Moment::now() + TRIED;
    loop {
        tokio::select! {
            some = poll_fn(|context| next(&mut messages, context)) => {
                if some.is_empty() {
                    return Err(shared.link.broken(VERB));
                }
                let spoken = some.iter().filter_map(|message| {
                    reader.read(message.get_channel_name(), message.get_payload_bytes())
                });
                tell(shared, room, spoken.collect()).await;
            }
            () = sleep_until(try_at) => {
                // A connection that broke silently looks like one without news.
                timeout(HEARD, sink.ping::<redis::Value>()).await.map_err(silent)?.map_err(failed)?;
                try_at = Moment::now() + TRIED;
            }
        }
    }
}

/// The messages that have arrived, at least one; none if the connection is closed.
fn next(messages: &mut PubSubStream, context: &mut Context<'_>) -> Poll<Vec<Msg>> {
    let mut some = Vec::new();
    while some.len() < AT_ONCE {
        match Pin::new(&mut *messages).poll_next(context) {
            Poll::Ready(Some(message)) => some.push(message),
            Poll::Pending if some.is_empty() => return Poll::Pending,
            Poll::Ready(None) | Poll::Pending => break,
        }
    }
    Poll::Ready(some)
}

/// An event that says that events were lost; it is not known how many.
fn missed() -> PublishedEvent {
    let why = Some("the connection to Redis was broken".into());
    PublishedEvent { why, ..PublishedEvent::new(What::Lost, Millis(clock::wall_millis())) }
}

async fn tell(shared: &Shared, room: &EventBus, spoken: Vec<Spoken>) {
    // If the lookup fails, the events go out without these facts.
    let mut known = about(shared, &spoken).await.unwrap_or_default().into_iter();
    for one in spoken {
        room.tell(match one {
            Spoken::PublishedEvent(news) => *news,
            Spoken::Line(line) => line.news(known.next().unwrap_or_default()),
        });
    }
}

/// Looks up facts about the jobs of other scripts' messages.
async fn about(shared: &Shared, spoken: &[Spoken]) -> Result<Vec<About>, Error> {
    let jobs: Vec<&str> = spoken.iter().filter_map(Spoken::unknown).collect();
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let mut at = None;
    let answer =
        shared.link.call("ask about jobs in", "taskvisor.about", shared.link.now(), |cmd, offset| {
            at = Some(offset.millis(shared.link.now()));
            cmd.arg(jobs.len()).arg(&jobs);
        });
    let answers = reply::array(answer.await?)?;
    let of = |value| {
        let [queue, state, tags] = reply::parts(value)?;
        Ok(About {
            at,
            queue: reply::text(&queue).unwrap_or_default(),
            state: reply::text(&state).and_then(|state| state.parse::<JobState>().ok()),
            tags: reply::json(&tags).unwrap_or_default(),
        })
    };
    answers.into_iter().map(of).collect()
}
