//! Ends of jobs in SQS. Sends the copy (retry, dead letter, next queue) before it deletes the message.

use std::sync::Arc;
use std::time::Duration;

use super::client::{JOB, Outgoing};
use super::fault::Fault;
use super::queue::Queue;
use super::shared::{DELAY_MAX, Dead, Held, Shared, once};
use crate::broker::Settling;
use crate::clock;
use crate::model::{Failure, JobState, Next, Settlement, Verdict};

/// Whether the message of a job in this state is deleted.
fn is_deleted(state: JobState) -> bool {
    match state {
        JobState::Complete | JobState::Failed | JobState::Held | JobState::Canceled => true,
        JobState::Waiting
        | JobState::Delayed
        | JobState::Depends
        | JobState::Running
        | JobState::Canceling => false,
    }
}

/// Records the end in the ledger before the message can be taken for another delivery.
pub(super) async fn settle_and_note(shared: &Arc<Shared>, settlement: Settlement) -> Settling {
    let in_force = shared.ledger.in_force(vec![settlement.clone()]).await;
    let answer = settle(shared, in_force.first().unwrap_or(&settlement)).await;
    let (job, fence) = (settlement.job.clone(), settlement.fence);
    match &answer {
        Settling::Settled(state) => {
            shared.ledger.settle(vec![settlement]).await;
            shared.let_go(&job, fence, is_deleted(*state));
        }
        Settling::NotOurs => shared.let_go(&job, fence, false),
        Settling::Failed(_) => {}
    }
    answer
}

async fn settle(shared: &Arc<Shared>, settlement: &Settlement) -> Settling {
    let Some(held) = shared.ends(&settlement.job, settlement.fence) else { return Settling::NotOurs };
    let queue = shared.queue_of(&held.source);
    let later = |after: Duration| after.min(held.room(clock::now()));
    let done = match &settlement.verdict {
        Verdict::Complete { next: Some(next), .. } if !next.depends.is_empty() => {
            let message =
                "it was to go on once other jobs are complete, and SQS cannot have a job wait for others";
            let failure = Failure { group: "unsupported".into(), message: message.into(), trace: None };
            bury(shared, settlement, &held, &failure).await.map(|()| JobState::Held)
        }
        Verdict::Complete { next: Some(next), .. } => match go_on(shared, settlement, &held, next).await {
            Ok(()) => queue.delete(&held.handle).await.map(|_| JobState::Complete),
            Err(fault) => Err(fault),
        },
        Verdict::Complete { next: None, .. } => queue.delete(&held.handle).await.map(|_| JobState::Complete),
        Verdict::Canceled => queue.delete(&held.handle).await.map(|_| JobState::Canceled),
        Verdict::Retry { after, .. } | Verdict::Release { after, .. } => {
            let state = if after.is_zero() { JobState::Waiting } else { JobState::Delayed };
            let waits = match &held.next_body {
                None => queue.hide(&held.handle, later(*after)).await.map(drop),
                Some(body) => replace(shared, &queue, settlement, &held, body, *after).await,
            };
            waits.map(|()| state)
        }
        Verdict::Fail { failure } => {
            bury(shared, settlement, &held, failure).await.map(|()| JobState::Failed)
        }
        Verdict::Hold { failure } => bury(shared, settlement, &held, failure).await.map(|()| JobState::Held),
    };
    match done {
        Ok(state) => Settling::Settled(state),
        Err(Fault::NotOurs | Fault::NoQueue) => Settling::NotOurs,
        Err(fault) => Settling::Failed(fault.error("settle a message of", &queue.name)),
    }
}

/// Sends the job as a new message, and then deletes the old one: in between it exists twice, and it is never lost.
async fn replace(
    shared: &Shared,
    queue: &Queue,
    settlement: &Settlement,
    held: &Held,
    body: &str,
    after: Duration,
) -> Result<(), Fault> {
    send(shared, settlement, held, (&queue.name, body, after)).await?;
    queue.delete(&held.handle).await.map(drop)
}

/// Sends the job to a queue as a new message of this body and delay, with its id and its message group. Not a second time, if
/// the deletion of the old message had to be tried again.
async fn send(
    shared: &Shared,
    settlement: &Settlement,
    held: &Held,
    (queue, body, delay): (&str, &str, Duration),
) -> Result<(), Fault> {
    let is_fifo = shared.queue(queue).is_fifo();
    let outgoing = Outgoing {
        body: body.to_owned(),
        delay: if is_fifo { Duration::ZERO } else { delay.min(DELAY_MAX) },
        group: held.group.clone().or(is_fifo.then(|| "taskvisor".to_owned())),
        once: is_fifo.then(|| once(settlement.job.as_str(), held.attempt)),
        notes: vec![(JOB, settlement.job.to_string())],
    };
    if !held.sent {
        shared.send(queue, &outgoing).await?;
        shared.has_sent(&settlement.job, settlement.fence);
    }
    Ok(())
}

/// Sends the message to the dead-letter queue before it deletes it, so that it cannot be lost in between.
async fn bury(
    shared: &Arc<Shared>,
    settlement: &Settlement,
    held: &Held,
    failure: &Failure,
) -> Result<(), Fault> {
    let queue = shared.queue_of(&held.source);
    // What an earlier supervisor took is not here any more: it comes again, and ends then.
    let Some(body) = &held.body else { return queue.hide(&held.handle, Duration::ZERO).await.map(drop) };
    let error = format!("{}: {}", failure.group, failure.message);
    let dead = Dead {
        id: settlement.job.as_str(),
        body,
        group: held.group.as_deref(),
        error: &error,
        class: None,
        attempt: held.attempt,
    };
    if !held.sent {
        shared.bury(&held.source, dead).await?;
        shared.has_sent(&settlement.job, settlement.fence);
    }
    queue.delete(&held.handle).await.map(drop)
}

/// The job goes on in another queue: as a message there, with its id.
async fn go_on(shared: &Shared, settlement: &Settlement, held: &Held, next: &Next) -> Result<(), Fault> {
    let body = held.next_body.as_ref().or(held.body.as_ref());
    let Some(body) = body else { return Err(Fault::Other("its message is not known here".into())) };
    send(shared, settlement, held, (&shared.client.place.name(next.queue.as_str()), body, next.delay)).await
}
