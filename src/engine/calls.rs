//! Calls to the broker, each a task of its own that ends in an event or an answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tracing::warn;

use crate::broker::{Broker, Fetch, Renewal, Verbs};
use crate::model::{Fence, JobId, JobState, Lease, QueueCounts, QueueName};
use crate::supervisor::Event;

pub(super) async fn fetch(broker: Arc<dyn Broker>, events: Sender<Event>, pool: u16, request: Fetch) {
    let queues = request.queues.clone();
    let event = match broker.fetch(request).await {
        Ok(fetched) => Event::Fetched(pool, fetched),
        Err(error) => {
            let queues: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
            warn!(queue = queues.join(","), %error, "failed to fetch");
            Event::FetchFailed(pool)
        }
    };
    events.send(event).await.ok();
}

pub(super) async fn renew(broker: Arc<dyn Broker>, events: Sender<Event>, leases: Vec<Lease>, by: Duration) {
    let asked: Vec<(JobId, Fence)> = leases.iter().map(|lease| (lease.job.clone(), lease.fence)).collect();
    let answers: Vec<Event> = match broker.renew(leases, by).await {
        Ok(renewals) => asked.into_iter().zip(renewals).map(renewed).collect(),
        Err(error) => {
            warn!(%error, "failed to renew");
            asked.into_iter().map(|(job, fence)| Event::RenewFailed(job, fence)).collect()
        }
    };
    for event in answers {
        events.send(event).await.ok();
    }
}

fn renewed(((job, fence), renewal): ((JobId, Fence), Renewal)) -> Event {
    match renewal {
        Renewal::Renewed(lease) => Event::Renewed(lease),
        Renewal::Lost(why) => Event::Revoked(job, fence, why),
    }
}

/// Answers only when nothing is left to do there.
pub(super) async fn ask_idle(broker: Arc<dyn Broker>, events: Sender<Event>, queues: Vec<QueueName>) {
    let Ok(counts) = broker.counts().await else { return };
    // What waits in a paused queue waits for a person.
    let open: u64 = queues
        .iter()
        .filter_map(|queue| counts.get(queue))
        .filter(|counts| counts.paused.is_none() || counts.jobs.contains_key(&JobState::Running))
        .flat_map(|counts| &counts.jobs)
        .filter(|(state, _)| !JobState::has_ended(**state))
        .map(|(_, count)| count)
        .sum();
    if open == 0 {
        events.send(Event::Idle).await.ok();
    }
}

pub(super) async fn ask_waiting(
    broker: Arc<dyn Broker>,
    events: Sender<Event>,
    pool: u16,
    queues: Vec<QueueName>,
) {
    let waits =
        |counts: &QueueCounts| counts.paused.is_none() && counts.jobs.contains_key(&JobState::Waiting);
    let waiting = match broker.counts().await {
        Ok(counts) => queues.iter().filter_map(|queue| counts.get(queue)).any(waits),
        Err(_) => false,
    };
    events.send(Event::Waiting(pool, waiting)).await.ok();
}
