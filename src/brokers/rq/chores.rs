//! Periodic work, apart from calls that may block: registers workers, enqueues due jobs, repairs ended executions,
//! cleans registries.

use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;
use tokio::time::{Instant as Moment, interval};

use super::job::packed;
use super::shared::Shared;
use broker::{Error, Notice};
use model::{QueueName, QueueSet};
use redis_link::values::{Text, write_list};

/// RQ's scheduler looks at the same interval.
const TICK: Duration = Duration::from_secs(1);
const SIGN: Duration = Duration::from_secs(20);
/// Interval of cheap cleaning: jobs that got stuck between two steps.
const HEAL: Duration = Duration::from_secs(15);
const WRONG: &str = "the chores of RQ's registries cannot be done";

/// A job whose supervisor died under it this many times has failed; if it was the only one that ran, after the second
/// number.
pub(super) const INTERRUPTED: (u32, u32) = (5, 3);

/// The failure of such a job, as results hold it.
pub(super) fn interrupted() -> String {
    packed(
        "Moved to FailedJobRegistry, due to AbandonedJobError: its supervisor or host died too often while it ran",
    )
}

/// Does the periodic work until it is dropped.
pub(super) async fn attend(shared: Arc<Shared>) {
    let mut ticks = interval(TICK);
    // After a silence of the server one tick does what all the missed ones would.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut sign_at, mut heal_at, mut clean_at) = (Moment::now(), Moment::now(), Moment::now());
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shared.hurry.notified() => sign_at = Moment::now(),
        }
        shared.fail_refused().await;
        let now = Moment::now();
        let done = async {
            // A failure is given below: it keeps nothing else from being done. And a server that refuses to write is
            // known by ticks that fail: after that the holders of jobs get time to settle.
            let signed = if now >= sign_at { shared.sign().await } else { Ok(()) };
            if now >= sign_at && signed.is_ok() {
                sign_at = now + SIGN;
            }
            let queues = shared.queues();
            // No queue is known before the first fetch.
            if queues.is_empty() {
                return signed;
            }
            let ticked = tick(&shared, &queues).await;
            if now >= heal_at {
                let is_full = now >= clean_at;
                tidy(&shared, &queues, is_full).await?;
                // Only after it has worked: after an error the next tick tries again.
                heal_at = now + HEAL;
                if is_full {
                    clean_at = now + shared.settings.maintenance;
                }
            }
            signed.and(ticked)
        };
        match done.await {
            Ok(()) => shared.complaints.well(WRONG, shared.link.now()),
            Err(error) => shared.complaints.wrong(WRONG, &error, shared.link.now()),
        }
    }
}

/// A job that its worker has left, as the registry of running jobs has it, and its queue.
type Abandoned = (Vec<u8>, Vec<u8>);

async fn tick(shared: &Arc<Shared>, queues: &[QueueName]) -> Result<(), Error> {
    let owner = if shared.settings.schedules { shared.scheduler() } else { String::new() };
    let asked = shared.call("look after jobs in", "tick", |cmd| {
        cmd.arg(owner).arg(INTERRUPTED.0).arg(interrupted());
        write_list(cmd, queues.iter().map(QueueName::as_str));
        // After an outage the holders get time to renew before their executions expire.
        cmd.arg(if shared.link.is_settling() { "settling" } else { "" });
        cmd.arg(shared.workers.host()).arg(std::process::id());
    });
    let (abandoned, wrong, Text(mark)): (Vec<Abandoned>, Option<Text>, Text) = asked.await?;
    if shared.link.has_forgotten(&mark, &shared.complaints) {
        shared.workers.forget_signs();
        shared.hurry.notify_one();
    }
    for pair in &abandoned {
        // RQ keeps this text compressed, which the script cannot do.
        let said = format!(
            "Moved to FailedJobRegistry, due to AbandonedJobError, at {}: its worker did not say that it lives",
            clock::wall()
        );
        let write = |cmd: &mut Cmd| _ = cmd.arg(pair).arg(packed(&said));
        shared.call::<()>("look after jobs in", "abandon", write).await?;
    }
    if !abandoned.is_empty() {
        // Workers must call the callbacks of these jobs.
        shared.notices.push(Notice::Wake(QueueSet::All));
    }
    unless_wrong(shared, wrong)
}

/// The error if one of the chores failed; the script supplies the message.
fn unless_wrong(shared: &Shared, wrong: Option<Text>) -> Result<(), Error> {
    wrong.map_or(Ok(()), |Text(words)| Err(shared.link.refused("look after jobs in", &words)))
}

async fn tidy(shared: &Arc<Shared>, queues: &[QueueName], is_full: bool) -> Result<(), Error> {
    let write = |cmd: &mut Cmd| {
        cmd.arg(if is_full { "full" } else { "" });
        write_list(cmd, queues.iter().map(QueueName::as_str));
    };
    let wrong: Option<Text> = shared.call("clean registries in", "tidy", write).await?;
    unless_wrong(shared, wrong)
}
