//! Ends of jobs in SQS. A copy (for the next attempt, the next queue or the dead letters) is sent before the message is
//! deleted: in between it exists twice, and it is never lost.

use std::sync::Arc;
use std::time::Duration;

use super::fault::Fault;
use super::held::Held;
use super::shared::{Copy, Shared};
use broker::Settling;
use model::{Failure, JobState, Settlement, Verdict};

/// What a verdict does to a message.
struct End {
    /// The state of the job then.
    state: JobState,
    /// What to send first.
    copy: Option<Copy>,
    /// How long the message is invisible before it comes again; None = it is deleted.
    hidden: Option<Duration>,
}

/// Applies a verdict. The ledger records it before the message can be taken for another delivery.
pub(super) async fn settle(shared: &Arc<Shared>, settlement: Settlement) -> Settling {
    let (job, fence) = (settlement.job.clone(), settlement.fence);
    let ends = |held: &mut Held| {
        held.is_ending = true;
        held.clone()
    };
    let Some(held) = shared.held.with(&job, fence, ends) else { return Settling::NotOurs };
    let settlement = possible(settlement, &held);
    let end = end(shared, &settlement, &held);
    let (state, is_deleted, settlement) = match carry_out(shared, &settlement, &held, &end).await {
        Ok(()) => (end.state, end.hidden.is_none(), settlement),
        // The message is gone, as it was to be.
        Err(Fault::NoQueue) if end.hidden.is_none() => (end.state, true, settlement),
        Err(Fault::NoQueue) => (JobState::Failed, true, Settlement { verdict: gone(&held), ..settlement }),
        Err(Fault::NotOurs) => {
            shared.let_go(&job, fence, false);
            return Settling::NotOurs;
        }
        Err(fault) => {
            return Settling::Failed(held.source.queue.error("settle a message of", &fault));
        }
    };
    let settled = Settling::Settled(state);
    if end.hidden.is_some() {
        shared.ledger.settle(vec![settlement], std::slice::from_ref(&settled)).await;
    }
    shared.let_go(&job, fence, is_deleted);
    settled
}

/// Changes a verdict that needs the message, if it is not here to be copied: it comes again, and ends then.
fn possible(settlement: Settlement, held: &Held) -> Settlement {
    let is_copied = matches!(
        settlement.verdict,
        Verdict::Complete { next: Some(_), .. } | Verdict::Fail { .. } | Verdict::Hold { .. }
    );
    match is_copied && held.message.is_none() {
        true => {
            let verdict = Verdict::Release { after: Duration::ZERO, counts: None };
            Settlement { verdict, ..settlement }
        }
        false => settlement,
    }
}

/// The verdict on a job whose message was deleted with its queue.
pub(super) fn gone(held: &Held) -> Verdict {
    let message = format!(
        "its queue '{}' was deleted in SQS while it ran, and its message with the queue: put it again if it is still wanted",
        held.source.name
    );
    Verdict::Fail { failure: Failure { group: "queue deleted".into(), message, trace: None } }
}

fn end(shared: &Shared, settlement: &Settlement, held: &Held) -> End {
    let deleted = |state, copy| End { state, copy, hidden: None };
    let next_to = |queue: &_, delay| {
        let body = held.next_body.as_deref().or(held.message.as_ref().map(|message| &*message.body))?;
        Some(shared.next_message(queue, settlement, held, body, delay))
    };
    let dead = |failure: &Failure| {
        let message = held.message.as_ref()?;
        let error = format!("{}: {}", failure.group, failure.message);
        shared.dead_letter(&held.source.name, message, &error, held.attempt)
    };
    match &settlement.verdict {
        Verdict::Complete { next: None, .. } => deleted(JobState::Complete, None),
        Verdict::Complete { next: Some(next), .. } => {
            deleted(JobState::Complete, next_to(&next.queue, next.delay))
        }
        Verdict::Canceled => deleted(JobState::Canceled, None),
        Verdict::Fail { failure } => deleted(JobState::Failed, dead(failure)),
        Verdict::Hold { failure } => deleted(JobState::Held, dead(failure)),
        Verdict::Retry { after, .. } | Verdict::Release { after, .. } => {
            let state = if after.is_zero() { JobState::Waiting } else { JobState::Delayed };
            match held.next_body {
                None => End { state, copy: None, hidden: Some(*after) },
                Some(_) => deleted(state, next_to(&held.source.name, *after)),
            }
        }
    }
}

async fn carry_out(shared: &Shared, settlement: &Settlement, held: &Held, end: &End) -> Result<(), Fault> {
    // Not a second time, if only the deletion failed before.
    if let Some(copy) = end.copy.as_ref().filter(|_| !held.is_copied) {
        shared.send(&held.source, copy).await?;
        shared.held.with(&settlement.job, settlement.fence, |held| held.is_copied = true);
    }
    let queue = &held.source.queue;
    let done = match end.hidden {
        Some(time) => {
            let time = time.min(held.room(shared.now()));
            queue.hide(&held.handle, time, held.hidden_until).await
        }
        None => {
            note_end(shared, settlement, held, end.state).await;
            queue.delete(&held.handle).await
        }
    };
    match done {
        // It is visible by itself, or comes before its time.
        Err(Fault::Visible) => Ok(()),
        done => done.map(drop).map_err(|fault| shared.fault(fault, held)),
    }
}

/// Records an end before the message is deleted, once: if the deletion fails, and the message comes again, it is deleted
/// and does not run.
async fn note_end(shared: &Shared, settlement: &Settlement, held: &Held, state: JobState) {
    if held.is_noted {
        return;
    }
    // Under its own id the record of the job says it.
    let is_said = matches!(state, JobState::Complete | JobState::Canceled);
    let is_next = matches!(settlement.verdict, Verdict::Complete { next: Some(_), .. });
    let message = held.message.as_ref().filter(|message| is_next || !is_said || message.job != message.id);
    shared.ledger.end(settlement.clone(), message.map(|message| message.id.clone())).await;
    shared.held.with(&settlement.job, settlement.fence, |held| held.is_noted = true);
}
