//! Commands that RQ's tools send to workers: `stop-job`, `stop-execution`, `kill-horse`, `shutdown`.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use nix::sys::signal::{Signal, kill};
use nix::unistd::getppid;
use redis::Msg;
use serde::Deserialize;
use tokio::time::{Instant as Moment, sleep};

use super::shared::{Asked, Held, Shared};
use broker::{Error, Notice};
use model::{JobId, QueueSet};
use redis_link::Waits;
use redis_link::values::escaped;

const VERB: &str = "listen to";
const DEAF: &str = "commands to the workers of RQ are not heard";

/// A command as RQ publishes it.
#[derive(Deserialize)]
struct Command {
    command: String,
    job_id: Option<String>,
    execution_id: Option<String>,
}

/// Listens until it is dropped.
pub(super) async fn listen(shared: Arc<Shared>) {
    let mut waits = Waits::default();
    loop {
        let began = Moment::now();
        let heard = hear(&shared).await;
        shared.link.note(VERB, heard.as_ref().err());
        if let Err(error) = heard {
            shared.complaints.wrong(DEAF, &error, shared.link.now());
        }
        sleep(waits.after(began)).await;
    }
}

async fn hear(shared: &Shared) -> Result<(), Error> {
    let failed = |error: redis::RedisError| shared.link.explain(VERB, &error);
    let (mut sink, mut messages) = shared.link.listener(VERB).await?.split();
    let channels = shared.key("pubsub:");
    let base = shared.instance.get().map_or("", |instance| shared.workers.base(instance));
    // One pattern for all slots: the names of this supervisor's workers begin alike.
    sink.psubscribe(format!("{}*", escaped(&format!("{channels}{base}")))).await.map_err(failed)?;
    shared.link.note(VERB, None);
    shared.complaints.well(DEAF, shared.link.now());
    // It may be another server, or the same one after it has lost its data.
    shared.workers.forget_signs();
    shared.hurry.notify_one();
    shared.notices.push(Notice::Wake(QueueSet::All));
    loop {
        match poll_fn(|context| Pin::new(&mut messages).poll_next(context)).await {
            Some(message) => obey(shared, &channels, &message),
            None => return Err(shared.link.broken(VERB)),
        }
    }
}

fn obey(shared: &Shared, channels: &str, message: &Msg) {
    let channel = message.get_channel_name();
    let Some(worker) = channel.strip_prefix(channels) else { return };
    let Ok(said) = serde_json::from_slice::<Command>(message.get_payload_bytes()) else {
        if let Some(left_out) = shared.strange.allows(shared.link.now()) {
            tracing::warn!(worker, left_out, "a command of RQ to a worker cannot be read");
        }
        return;
    };
    let is_of = |held: &Held| held.worker == worker;
    let ended = match (said.command.as_str(), &said.job_id, &said.execution_id) {
        ("stop-execution", _, Some(execution)) => {
            shared.end(Asked::Stop, |_, fence, held| is_of(held) && shared.execution(fence) == *execution)
        }
        ("stop-job", Some(job), _) => {
            let job = JobId::from(job.as_str());
            shared.end(Asked::Stop, |id, _, held| is_of(held) && *id == job)
        }
        ("kill-horse", ..) => shared.end(Asked::Kill, |_, _, held| is_of(held)),
        ("shutdown", ..) => {
            tracing::info!(worker, "RQ tells a worker to shut down: it takes no more jobs");
            if shared.workers.shut_down(worker) {
                // Signals the keeper, as a person would to stop the service.
                let _ = kill(getppid(), Signal::SIGTERM);
            }
            return;
        }
        _ => 0,
    };
    // A command that ends a job is always logged; anybody can publish the others.
    let allowed = if ended > 0 { Some(0) } else { shared.strange.allows(shared.link.now()) };
    if let Some(left_out) = allowed {
        // Anybody can publish a command of any length.
        let command: String = said.command.chars().take(80).collect();
        tracing::info!(worker, left_out, "RQ tells a worker to {command}: it ends {ended} jobs");
    }
}
