//! The ledger's note that a long receive may be open, for a start after a kill: SQS goes on to give messages to it, and
//! hides them.

use std::time::Duration;

use super::client::Message;
use super::shared::Shared;
use super::source_queue::SourceQueue;
use common::lock;
use ledger::OpenReceive;
use model::{Instant, Millis};
use select::terms::WAIT;

/// One note covers all receives that begin within this time: a busy queue would write two for each receive otherwise.
const COVERS: Duration = Duration::from_secs(10);
/// How long a note stays after an answer if no receive follows.
pub(super) const LINGERS: Duration = Duration::from_secs(1);

/// A long receive is about to begin.
pub(super) async fn begins(shared: &Shared, source: &SourceQueue, lease: Duration) {
    let now = shared.now();
    let covers = |(since, noted): (Instant, Duration)| now.since(since) < COVERS && noted == lease;
    if lock(&source.noted).is_some_and(covers) {
        return;
    }
    let until = Millis(clock::wall().0 + millis(WAIT + COVERS));
    if shared.ledger.receives(&source.name, Some(OpenReceive { until, lease })).await {
        *lock(&source.noted) = Some((now, lease));
    }
}

/// No receive is open.
pub(super) async fn ends(shared: &Shared, source: &SourceQueue) {
    let noted = lock(&source.noted).take();
    if noted.is_some() {
        shared.ledger.receives(&source.name, None).await;
    }
}

/// The receive has no answer, and SQS may go on to give messages to it: the note stays until the next one.
pub(super) fn stays(shared: &Shared, source: &SourceQueue, lease: Duration) {
    *lock(&source.noted) = None;
    is_unheard(shared, source, OpenReceive { until: Millis(clock::wall().0 + millis(WAIT)), lease });
}

/// What SQS gives to this receive nobody here begins. It comes again, at once or behind others.
fn is_unheard(shared: &Shared, source: &SourceQueue, OpenReceive { until, lease }: OpenReceive) {
    let left = u64::try_from(until.0 - clock::wall().0).map_or(Duration::ZERO, Duration::from_millis);
    *lock(&source.unheard) = Some((until, shared.now() + left + 2 * lease));
}

/// Notes which deliveries went to a receive without an answer: the one before that of a message that it may have had,
/// unless the ledger knows more of it. They were no attempts.
pub(super) async fn forgives(shared: &Shared, source: &SourceQueue, messages: &[Message]) {
    let unheard = *lock(&source.unheard);
    let Some((until, _)) = unheard.filter(|(_, over)| *over > shared.now()) else { return };
    let before = messages
        .iter()
        .filter(|message| message.received > 1 && message.sent.is_none_or(|sent| sent.0 <= until.0))
        .map(|message| (message.job.as_str().into(), message.received - 1));
    let before: Vec<_> = before.collect();
    if !before.is_empty() {
        shared.ledger.gave_back(before).await;
    }
}

/// Says that a receive of an earlier supervisor may still be open, or its messages hidden, if the ledger knows of one.
pub(super) async fn said_left_open(shared: &Shared, source: &SourceQueue) {
    let Some(OpenReceive { until, lease }) = shared.ledger.open_receive(&source.name).await else { return };
    is_unheard(shared, source, OpenReceive { until, lease });
    let over = Millis(until.0 + millis(lease));
    if over.0 <= clock::wall().0 {
        return;
    }
    let (queue, time) = (&source.queue.name, |at: Millis| {
        jiff::Timestamp::from_millisecond(at.0).unwrap_or_default().strftime("%H:%M:%S UTC").to_string()
    });
    let said = format!(
        "the last supervisor left a receive from the SQS queue '{queue}' without a known answer: messages that SQS gives to \
         it, until {} at the latest, are hidden until {} at the latest",
        time(until),
        time(over)
    );
    tracing::warn!(queue, "{said}");
    *lock(&source.left_open) = Some((said, over));
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
