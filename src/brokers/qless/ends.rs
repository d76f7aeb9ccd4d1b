//! Subscribes a client without a supervisor's listener to the ends of jobs.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use redis::Msg;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant as Moment, sleep};

use super::awaited::OVER;
use super::shared::Shared;
use broker::Error;
use model::JobId;
use redis_link::Waits;

/// The name of this activity in errors.
const VERB: &str = "hear of the ends of jobs in";

/// Wakes waiting callers as long as the process runs. `ready` is true while it is subscribed.
pub(super) async fn hear(shared: Arc<Shared>, ready: watch::Sender<bool>) {
    let mut waits = Waits::default();
    loop {
        let began = Moment::now();
        // Without it they look again and again, and meet the error.
        let _ = hear_once(&shared, &ready).await;
        ready.send_replace(false);
        sleep(waits.after(began)).await;
    }
}

async fn hear_once(shared: &Shared, ready: &watch::Sender<bool>) -> Result<(), Error> {
    let (mut sink, mut messages) = shared.link.listener(VERB).await?.split();
    let subscribed = sink.subscribe(&["ql:log", OVER]).await;
    subscribed.map_err(|error| shared.link.explain(VERB, &error))?;
    ready.send_replace(true);
    while let Some(message) = poll_fn(|context| Pin::new(&mut messages).poll_next(context)).await {
        if let Some(job) = job_of(&message) {
            shared.awaited.ring(&job);
        }
    }
    Ok(())
}

/// The job that a message is about.
fn job_of(message: &Msg) -> Option<JobId> {
    #[derive(Deserialize)]
    struct Said {
        jid: Option<JobId>,
    }
    let bytes = message.get_payload_bytes();
    if message.get_channel_name() == OVER {
        return Some(String::from_utf8_lossy(bytes).as_ref().into());
    }
    serde_json::from_slice::<Said>(bytes).ok()?.jid
}
