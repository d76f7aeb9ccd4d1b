//! Calls to the broker, each a task of its own that ends in an event or an answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use super::outside::Outside;
use crate::broker::{Broker, Complaints, Fetch, Renewal, Verbs};
use crate::clock;
use crate::model::{Fence, JobId, JobState, Lease, QueueCounts, QueueName};
use crate::supervisor::Event;

/// What went wrong with calls of this process, until it goes well again.
pub(super) type Wrong = Arc<Complaints>;

impl Outside {
    pub(super) fn fetch(&self, pool: u16, request: Fetch) {
        let (broker, events, wrong) = (self.broker.clone(), self.events.clone(), self.wrong.clone());
        tokio::spawn(fetch(broker, events, wrong, pool, request));
    }

    pub(super) fn renew(&self, leases: Vec<Lease>) {
        let (broker, events, wrong) = (self.broker.clone(), self.events.clone(), self.wrong.clone());
        tokio::spawn(renew(broker, events, wrong, leases, self.lease));
    }
}

async fn fetch(broker: Arc<dyn Broker>, events: Sender<Event>, wrong: Wrong, pool: u16, request: Fetch) {
    let queues: Vec<&str> = request.queues.iter().map(QueueName::as_str).collect();
    let what = format!("failed to fetch from {}", queues.join(","));
    let event = match broker.fetch(request).await {
        Ok(fetched) => {
            wrong.well(&what, clock::now());
            Event::Fetched(pool, fetched)
        }
        Err(error) => {
            wrong.wrong(&what, &error, clock::now());
            Event::FetchFailed(pool)
        }
    };
    events.send(event).await.ok();
}

async fn renew(
    broker: Arc<dyn Broker>,
    events: Sender<Event>,
    wrong: Wrong,
    leases: Vec<Lease>,
    by: Duration,
) {
    const WHAT: &str = "failed to renew";
    let asked: Vec<(JobId, Fence)> = leases.iter().map(|lease| (lease.job.clone(), lease.fence)).collect();
    let answers: Vec<Event> = match broker.renew(leases, by).await {
        Ok(renewals) => {
            wrong.well(WHAT, clock::now());
            asked.into_iter().zip(renewals).map(renewed).collect()
        }
        Err(error) => {
            wrong.wrong(WHAT, &error, clock::now());
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
