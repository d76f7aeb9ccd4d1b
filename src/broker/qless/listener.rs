//! The connection that listens: what happens to the jobs that are held here, and where there are new ones.

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

use super::fleet;
use super::shared::Shared;
use crate::broker::redis::backoff;
use crate::broker::{Error, Notice};
use crate::model::{JobId, QueueName};

/// What it is called where it fails.
pub(super) const VERB: &str = "listen to";
/// What is told in the log then.
const DEAF: &str = "the events of Redis are not heard";
/// At how many of these tries the server's clock is measured: clocks drift, and are set.
const MEASURED: u32 = 20;
/// What was said is heard after this long, or never.
const HEARD: Duration = Duration::from_secs(5);
/// A connection that lasted for this long was a good one.
const LASTED: Duration = Duration::from_secs(2);

/// What is said of a job.
#[derive(Deserialize)]
struct Said {
    jid: Option<String>,
    event: String,
    queue: Option<serde_json::Value>,
    /// The queue that a job goes on in.
    to: Option<String>,
}

/// Listens for as long as somebody wants it to, on one connection after the other. `ready` tells whether it hears.
pub(super) async fn listen(shared: Arc<Shared>, workers: String, ready: watch::Sender<bool>) {
    let (mut failed, mut again) = (0, false);
    loop {
        let began = Moment::now();
        let heard = hear(&shared, &workers, &ready, again).await;
        again = true;
        ready.send_replace(false);
        if let Err(error) = heard {
            shared.link.note(VERB, Some(&error));
            shared.complaints.wrong(DEAF, &error, shared.link.now());
        }
        failed = if began.elapsed() > LASTED { 1 } else { (failed + 1).min(16) };
        sleep(backoff(failed)).await;
    }
}

/// Listens until the connection breaks; `again` says that there was one before.
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
        sink.subscribe(&["ql:log", "ql:taskvisor"]).await
    });
    subscribed.await.map_err(|_| shared.link.silent(VERB))?.map_err(failed)?;
    shared.link.note(VERB, None);
    shared.complaints.well(DEAF, shared.link.now());
    ready.send_replace(true);
    // What was said while nobody listened is lost: each hold is asked about, and there may be jobs.
    if again {
        shared.notices.push(Notice::Wake);
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
                Some(message) if message.get_channel_name() == own => deadline = None,
                Some(message) => heard(shared, &message),
                None => return Err(shared.link.broken(VERB)),
            },
            () = shared.changed_sign.notified() => try_at = Moment::now(),
            () = shared.changed_load.notified() => try_at = try_at.min(tried_at + fleet::PAUSE),
            () = sleep_until(try_at) => {
                tried_at = Moment::now();
                try_at = tried_at + fleet::every(shared.has_strangers.load(Ordering::Relaxed));
                deadline = deadline.or(Some(Moment::now() + HEARD));
                tries += 1;
                let (shared, own, measures) = (shared.clone(), own.clone(), tries % MEASURED == 0);
                tokio::spawn(async move {
                    // What fails is known to whoever asks next.
                    let _ = fleet::sign(&shared, &own).await;
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
            // Of no queue: of what recurs.
            "" => shared.recurs.look_now(),
            queue => shared.wake(&QueueName::from(queue)),
        }
        return;
    }
    let Ok(said) = serde_json::from_slice::<Said>(message.get_payload_bytes()) else {
        tracing::debug!("an event of Redis cannot be read");
        return;
    };
    if channel == "ql:log" {
        match (said.event.as_str(), &said.queue) {
            ("put", Some(serde_json::Value::String(queue))) => shared.wake(&QueueName::from(queue.as_str())),
            // Other clients' scripts do not tell it as a put.
            ("advanced", _) if let Some(queue) = &said.to => shared.wake(&QueueName::from(queue.as_str())),
            // A job may be taken that was another's, and options say how many may run.
            ("lock_lost" | "config_set" | "config_unset", _) => shared.wake_any(),
            _ => {}
        }
        let is_over = matches!(&*said.event, "completed" | "failed" | "canceled" | "advanced");
        // So it leaves room where only so many may run, and others may have waited for it, whoever ran it.
        let may_free = is_over && shared.is_full.load(Ordering::Relaxed);
        if may_free || said.event == "completed" && shared.has_dependents.load(Ordering::Relaxed) {
            shared.wake_any();
        }
        if let Some(job) = said.jid {
            shared.happened(&job.into());
        }
        return;
    }
    if !matches!(&*said.event, "lock_lost" | "canceled" | "put") {
        return;
    }
    // Anybody may say so, also of a hold before this one: what is so is asked.
    let job = said.jid.map(JobId::from);
    if let Some(hold) = job.and_then(|job| shared.holds.heard(&job, shared.link.now())) {
        shared.verify(vec![hold], true);
    }
}

/// The channels of this supervisor's workers, as a pattern: what is special in it stands for itself.
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
    fn a_pattern_means_its_own_workers_alone() {
        assert_eq!(pattern("ql:w:host[1]-*-"), r"ql:w:host\[1\]-\*-*");
    }
}
