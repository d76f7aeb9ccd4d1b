//! The connection that listens: for messages about jobs that we hold, and for new jobs.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_core::Stream;
use redis::Msg;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant as Moment, sleep, sleep_until, timeout};

use super::awaited::OVER;
use super::fleet;
use super::shared::{HAS_DEPENDENTS, IS_FULL, Shared};
use broker::{Error, Notice};
use model::{JobId, QueueName, QueueSet};
use redis_link::Waits;

/// The name of this activity in errors.
pub(super) const VERB: &str = "listen to";
/// What failed, for the log.
const DEAF: &str = "the events of Redis are not heard";
/// In one of this many checks the server's clock is measured again: clocks drift, and are set.
const MEASURED: u32 = 20;
/// A reply comes within this time, or never.
const HEARD: Duration = Duration::from_secs(5);

/// A message about a job.
#[derive(Deserialize)]
struct Said {
    jid: Option<String>,
    event: String,
    queue: Option<serde_json::Value>,
    /// The queue in which the job goes on.
    to: Option<String>,
}

/// Listens as long as the process runs, on one connection after the other. `ready` becomes true once subscribed.
pub(super) async fn listen(shared: Arc<Shared>, workers: String, ready: watch::Sender<bool>) {
    let (mut waits, mut again) = (Waits::default(), false);
    loop {
        let began = Moment::now();
        let heard = hear(&shared, &workers, &ready, again).await;
        again = true;
        ready.send_replace(false);
        if let Err(error) = heard {
            shared.link.note(VERB, Some(&error));
            shared.complaints.wrong(DEAF, &error, shared.link.now());
        }
        sleep(waits.after(began)).await;
    }
}

/// Listens until the connection breaks; `again` says that there was an earlier one.
async fn hear(
    shared: &Arc<Shared>,
    workers: &str,
    ready: &watch::Sender<bool>,
    again: bool,
) -> Result<(), Error> {
    let failed = |error: redis::RedisError| shared.link.explain(VERB, &error);
    let own = format!("{workers}alive");
    let (mut sink, mut messages) = shared.link.listener(VERB).await?.split();
    let subscribed = timeout(HEARD, async {
        sink.psubscribe(pattern(workers)).await?;
        sink.subscribe(&["ql:log", "ql:taskvisor", OVER]).await
    });
    subscribed.await.map_err(|_| shared.link.silent(VERB))?.map_err(failed)?;
    shared.link.note(VERB, None);
    shared.complaints.well(DEAF, shared.link.now());
    ready.send_replace(true);
    // Messages between two connections are lost: ask for each lease, and fetch.
    if again {
        shared.notices.push(Notice::Wake(QueueSet::All));
        shared.recurs.look_now();
        shared.verify_all();
    }
    let (mut try_at, mut tried_at) = (Moment::now(), Moment::now());
    let mut tries = 0;
    let mut deadline = None;
    loop {
        let next = poll_fn(|context| Pin::new(&mut messages).poll_next(context));
        tokio::select! {
            message = next => match message {
                // The message that `sign` has sent is back: the subscription works.
                Some(message) if message.get_channel_name() == own => deadline = None,
                Some(message) => heard(shared, &message),
                None => return Err(shared.link.broken(VERB)),
            },
            () = shared.changed_sign.notified() => try_at = Moment::now(),
            () = shared.changed_load.notified() => try_at = try_at.min(tried_at + fleet::PAUSE),
            () = sleep_until(try_at) => {
                tried_at = Moment::now();
                try_at = tried_at + fleet::every(shared.has_strangers.load(Ordering::Relaxed));
                // A check that still has no answer keeps its deadline.
                deadline = deadline.or(Some(Moment::now() + HEARD));
                tries += 1;
                let (shared, own, measures) = (shared.clone(), own.clone(), tries % MEASURED == 0);
                // Spawned, so that messages are read on while the request runs.
                tokio::spawn(async move {
                    // A failure shows at the next request.
                    let signed = fleet::sign(&shared, &own).await;
                    shared.complaints.note("failed to give a sign of life", &signed, shared.link.now());
                    if measures {
                        let _ = shared.link.measure().await;
                    }
                });
            }
            () = sleep_until(deadline.unwrap_or(try_at)), if deadline.is_some() => {
                return Err(shared.link.silent(VERB));
            }
        }
    }
}

fn heard(shared: &Arc<Shared>, message: &Msg) {
    let channel = message.get_channel_name();
    if channel == "ql:taskvisor" {
        match &*String::from_utf8_lossy(message.get_payload_bytes()) {
            // An empty queue name means that recurring jobs have changed.
            "" => shared.recurs.look_now(),
            queue => shared.wake(QueueName::from(queue).into()),
        }
        return;
    }
    if channel == OVER {
        shared.awaited.ring(&String::from_utf8_lossy(message.get_payload_bytes()).as_ref().into());
        return;
    }
    let Ok(said) = serde_json::from_slice::<Said>(message.get_payload_bytes()) else {
        tracing::debug!("an event of Redis cannot be read");
        return;
    };
    if channel == "ql:log" {
        match (said.event.as_str(), &said.queue) {
            ("put", Some(serde_json::Value::String(queue))) => {
                shared.wake(QueueName::from(queue.as_str()).into())
            }
            // Scripts of other clients do not announce this as a put.
            ("advanced", _) if let Some(queue) = &said.to => {
                shared.wake(QueueName::from(queue.as_str()).into())
            }
            // A job of another worker may be free now, and options limit how many jobs may run.
            ("lock_lost" | "config_set" | "config_unset", _) => shared.wake(QueueSet::All),
            _ => {}
        }
        let is_over = matches!(&*said.event, "completed" | "failed" | "canceled" | "advanced");
        // The end of a job leaves room under such a limit, and other jobs may have waited for it, on any host.
        let may_free = [(is_over, IS_FULL), (said.event == "completed", HAS_DEPENDENTS)];
        for (_, what) in may_free.into_iter().filter(|(may, _)| *may) {
            shared.wake(shared.seen(what));
        }
        if let Some(job) = said.jid {
            shared.awaited.ring(&job.into());
        }
        return;
    }
    if !matches!(&*said.event, "lock_lost" | "canceled" | "put") {
        return;
    }
    // Anyone can send such a message, also about an earlier lease: so ask the server.
    let job = said.jid.map(JobId::from);
    if let Some(hold) = job.and_then(|job| shared.holds.heard(&job, shared.link.now())) {
        shared.verify(vec![hold], true);
    }
}

/// The channels of this supervisor's workers, as a pattern with special characters escaped.
fn pattern(workers: &str) -> String {
    let mut pattern = String::with_capacity(workers.len() + 1);
    for letter in workers.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '\\' | '^') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern + "*"
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn subscription_pattern_escapes_the_worker_names() {
        assert_eq!(pattern("ql:w:host[1]-*-"), r"ql:w:host\[1\]-\*-*");
    }
}
