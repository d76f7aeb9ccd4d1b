//! Calls to the broker, each a task of its own that ends in an event or an answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use super::outside::Outside;
use crate::broker::{Broker, Complaints, Fetch, Renewal, Verbs};
use crate::clock;
use crate::model::{Fence, JobId, JobState, Lease, QueueCounts, QueueName, Settlement};
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

/// Asks again at once while the broker gives all that was asked for.
async fn fetch(broker: Arc<dyn Broker>, events: Sender<Event>, wrong: Wrong, pool: u16, mut request: Fetch) {
    let queues: Vec<&str> = request.queues.iter().map(QueueName::as_str).collect();
    let what = format!("failed to fetch from {}", queues.join(","));
    let (mut fetched, mut has_failed) = (Vec::new(), false);
    for workers in batches(&*broker, std::mem::take(&mut request.workers)) {
        let asked = workers.len();
        match broker.fetch(Fetch { workers, ..request.clone() }).await {
            Ok(jobs) => {
                wrong.well(&what, clock::now());
                let is_full = jobs.len() >= asked;
                fetched.extend(jobs);
                if !is_full {
                    break;
                }
            }
            Err(error) => {
                wrong.wrong(&what, &error, clock::now());
                has_failed = true;
                break;
            }
        }
    }
    // What came before a failure is run, and the rest asked for again.
    let answers = match (has_failed, fetched.is_empty()) {
        (true, true) => vec![Event::FetchFailed(pool)],
        (true, false) => vec![Event::Fetched(pool, fetched), Event::Woken],
        (false, _) => vec![Event::Fetched(pool, fetched)],
    };
    for event in answers {
        events.send(event).await.ok();
    }
}

async fn renew(
    broker: Arc<dyn Broker>,
    events: Sender<Event>,
    wrong: Wrong,
    leases: Vec<Lease>,
    by: Duration,
) {
    const WHAT: &str = "failed to renew";
    for leases in batches(&*broker, leases) {
        let asked: Vec<(JobId, Fence)> =
            leases.iter().map(|lease| (lease.job.clone(), lease.fence)).collect();
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
}

/// The settling of jobs, as it is complained of.
pub(super) const SETTLING: &str = "failed to settle";

pub(super) async fn settle(
    broker: Arc<dyn Broker>,
    events: Sender<Event>,
    wrong: Wrong,
    settlements: Vec<Settlement>,
) {
    for settlements in batches(&*broker, settlements) {
        let asked: Vec<(JobId, Fence)> = settlements.iter().map(|one| (one.job.clone(), one.fence)).collect();
        let result = broker.settle(settlements).await;
        match &result {
            Ok(_) => wrong.well(SETTLING, clock::now()),
            Err(error) => wrong.wrong(SETTLING, error, clock::now()),
        }
        for (job, fence) in asked {
            let event = match &result {
                Ok(_) => Event::Settled(job, fence),
                Err(_) => Event::SettleFailed(job, fence),
            };
            events.send(event).await.ok();
        }
    }
}

/// As many at a time as the broker takes.
fn batches<T>(broker: &dyn Broker, all: Vec<T>) -> impl Iterator<Item = Vec<T>> + use<T> {
    let (most, mut rest) = (broker.capabilities().batch.max(1), all.into_iter());
    std::iter::from_fn(move || {
        let batch: Vec<T> = rest.by_ref().take(most).collect();
        (!batch.is_empty()).then_some(batch)
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Sqlite;

    #[test]
    fn no_more_go_out_at_a_time_than_the_broker_takes_and_none_is_left() {
        let broker = Sqlite::memory().unwrap();
        let most = broker.capabilities().batch;
        let sizes: Vec<usize> =
            batches(&broker, (0..2 * most + 1).collect()).map(|batch: Vec<usize>| batch.len()).collect();
        assert_eq!(sizes, [most, most, 1]);
        assert_eq!(batches(&broker, Vec::<usize>::new()).count(), 0);
    }
}
