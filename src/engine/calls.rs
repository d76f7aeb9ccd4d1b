//! Calls to the broker: each is a task of its own and ends in an event or an answer.

use std::iter::repeat_with;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use super::renewing::Renewing;
use broker::{Broker, Complaints, Error, Fetch, Renewal, Settling};
use model::{
    Fence, JobId, JobState, Lease, Progress, QueueCounts, QueueName, QueueSet, Revocation, Settlement,
};
use supervisor::Event;

/// Fetches jobs, in batches as large as the broker takes, until one is not full.
pub(super) async fn fetch(
    broker: Arc<Broker>,
    events: Sender<Event>,
    wrong: Complaints,
    pool: u16,
    mut request: Fetch,
) {
    let queues: Vec<&str> = request.queues.iter().map(QueueName::as_str).collect();
    let what = format!("failed to fetch from {}", queues.join(","));
    let (mut fetched, mut has_failed) = (Vec::new(), false);
    let queues = QueueSet::Only(request.queues.iter().cloned().collect());
    for workers in batches(&broker, std::mem::take(&mut request.workers)) {
        let asked = workers.len();
        match broker.fetch(Fetch { workers, ..request.clone() }).await {
            Ok(jobs) => {
                wrong.well(&what, clock::now());
                let is_full = jobs.len() >= asked;
                fetched.extend(jobs);
                // The next workers would get nothing either.
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
    // Jobs that came before a failure run; `Woken` makes the pool fetch the rest again.
    let answers = match (has_failed, fetched.is_empty()) {
        (true, true) => vec![Event::FetchFailed(pool)],
        (true, false) => vec![Event::Fetched(pool, fetched), Event::Woken(queues)],
        (false, _) => vec![Event::Fetched(pool, fetched)],
    };
    for event in answers {
        events.send(event).await.ok();
    }
}

/// Extends leases by this time, in batches as large as the broker takes.
pub(super) async fn renew(
    broker: Arc<Broker>,
    events: Sender<Event>,
    renewing: Renewing,
    leases: Vec<Lease>,
    by: Duration,
) {
    for leases in batches(&broker, leases) {
        let asked: Vec<(JobId, Fence)> =
            leases.iter().map(|lease| (lease.job.clone(), lease.fence)).collect();
        let answers: Vec<Event> = match broker.renew(leases, by).await {
            Ok(renewals) => {
                // A lease without an answer is renewed again while it lasts.
                let unanswered = || Renewal::Failed(no_answer());
                let renewals = renewals.into_iter().chain(repeat_with(unanswered));
                let renewals = asked.into_iter().zip(renewals);
                renewals
                    .inspect(|((job, _), renewal)| renewing.answered(job, fault(renewal), clock::now()))
                    .flat_map(renewed)
                    .collect()
            }
            Err(error) => {
                let failed = |(job, fence): (JobId, Fence)| {
                    renewing.answered(&job, Some(&error), clock::now());
                    Event::RenewFailed(job, fence)
                };
                asked.into_iter().map(failed).collect()
            }
        };
        for event in answers {
            events.send(event).await.ok();
        }
    }
}

/// What is wrong where a broker answers for fewer jobs than it was asked about.
fn no_answer() -> Error {
    Error::Failed("no answer".into())
}

/// Why a renewal failed, if it did.
fn fault(renewal: &Renewal) -> Option<&Error> {
    match renewal {
        Renewal::Failed(error) => Some(error),
        Renewal::Renewed(_) | Renewal::Canceling(_) | Renewal::Lost(_) => None,
    }
}

/// What failed, for complaints about counting and settling.
pub(super) const COUNTING: &str = "failed to count the jobs of queues";
pub(super) const SETTLING: &str = "failed to settle";

pub(super) async fn settle(
    broker: Arc<Broker>,
    events: Sender<Event>,
    wrong: Complaints,
    settlements: Vec<Settlement>,
) {
    for settlements in batches(&broker, settlements) {
        let asked: Vec<(JobId, Fence)> = settlements.iter().map(|one| (one.job.clone(), one.fence)).collect();
        let answers = broker.settle(settlements).await;
        // Perhaps it was done. Each verdict can be sent again, as only one counts under its fence.
        let answers = answers.unwrap_or_else(|error| vec![Settling::Failed(error); asked.len()]);
        // A settlement without an answer failed, and is sent again.
        let unanswered = || Settling::Failed(no_answer());
        let answers = answers.into_iter().chain(repeat_with(unanswered));
        for ((job, fence), answer) in asked.into_iter().zip(answers) {
            match &answer {
                Settling::Failed(error) => wrong.wrong_for(SETTLING, job.as_str(), error, clock::now()),
                Settling::Settled(_) | Settling::Aside | Settling::NotOurs => {
                    wrong.well_for(SETTLING, job.as_str(), clock::now())
                }
            }
            events.send(settled(job, fence, &answer)).await.ok();
        }
    }
}

fn settled(job: JobId, fence: Fence, answer: &Settling) -> Event {
    match answer {
        Settling::Settled(became) => Event::Settled { job, fence, became: Some(*became) },
        Settling::Aside | Settling::NotOurs => Event::Settled { job, fence, became: None },
        Settling::Failed(_) => Event::SettleFailed(job, fence),
    }
}

/// Splits a list into batches as large as the broker takes.
fn batches<T>(broker: &Broker, all: Vec<T>) -> impl Iterator<Item = Vec<T>> + use<T> {
    let (most, mut rest) = (broker.card().batch.max(1), all.into_iter());
    std::iter::from_fn(move || {
        let batch: Vec<T> = rest.by_ref().take(most).collect();
        (!batch.is_empty()).then_some(batch)
    })
}

fn renewed(((job, fence), renewal): ((JobId, Fence), Renewal)) -> Vec<Event> {
    match renewal {
        Renewal::Renewed(lease) => vec![Event::Renewed(lease)],
        // The lease goes on: the job has it until its processes are proven dead.
        Renewal::Canceling(lease) => {
            vec![Event::Renewed(lease), Event::Revoked { job, fence, why: Revocation::Canceled }]
        }
        Renewal::Lost(why) => vec![Event::Revoked { job, fence, why }],
        Renewal::Failed(_) => vec![Event::RenewFailed(job, fence)],
    }
}

pub(super) async fn progress(broker: &Broker, notes: Vec<(JobId, Fence, Progress)>) {
    let noted = broker.progress(notes).await;
    broker.complaints().note("failed to note the progress of jobs", &noted, clock::now());
}

pub(super) async fn ask_waiting(
    broker: Arc<Broker>,
    events: Sender<Event>,
    pool: u16,
    queues: Vec<QueueName>,
) {
    let waits =
        // A paused queue hands out no jobs.
        |counts: &QueueCounts| counts.paused.is_none() && counts.jobs.contains_key(&JobState::Waiting);
    let counts = broker.counts().await;
    broker.complaints().note(COUNTING, &counts, clock::now());
    let waiting = match counts {
        Ok(counts) => queues.iter().filter_map(|queue| counts.get(queue)).any(waits),
        // More workers would not help a broker that does not answer.
        Err(_) => false,
    };
    events.send(Event::Waiting(pool, waiting)).await.ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{ClassFilter, Failure, NewJob, Payload, SlotId, Take, Verdict, WorkerId};
    use sqlite::Sqlite;

    /// Settles and returns the supervisor's events.
    async fn told(broker: &Arc<Broker>, settlements: Vec<Settlement>) -> Vec<Event> {
        let (events, mut told) = tokio::sync::mpsc::channel(9);
        settle(broker.clone(), events, Complaints::default(), settlements).await;
        let mut all = Vec::new();
        while let Some(event) = told.recv().await {
            all.push(event);
        }
        all
    }

    #[tokio::test]
    async fn supervisor_gets_the_answer_to_each_verdict() {
        let broker: Arc<Broker> = Arc::new(Sqlite::memory().unwrap().into());
        let put = |id: &str| {
            let put = NewJob::new("q".into(), "c".into(), Payload::Data("1".into()));
            NewJob { id: Some(id.into()), ..put }
        };
        broker.put(vec![put("a"), put("b"), put("c")]).await.unwrap();
        let worker = |index| WorkerId { slot: SlotId { pool: 0, index }, generation: 1 };
        let request = Fetch {
            pool: "default".into(),
            instance: "me".into(),
            queues: vec!["q".into()],
            take: Take::InOrder,
            filter: ClassFilter::default(),
            workers: vec![worker(1), worker(2), worker(3)],
            lease: Duration::from_secs(60),
        };
        let fetched = broker.fetch(request).await.unwrap();
        broker.cancel("b".into(), "uid 1".into()).await.unwrap();
        let failure = Failure { group: "exit 1".into(), message: "it returned 1".into(), trace: None };
        let retry = || Verdict::Retry { after: Duration::ZERO, failure: failure.clone() };
        let settlement = |at: usize, fence: u64| {
            let Lease { job, fence: Fence(ours), .. } = fetched[at].lease.clone();
            Settlement { job, fence: Fence(ours + fence), verdict: retry(), crashed: false, forensics: None }
        };
        let events = told(&broker, vec![settlement(0, 0), settlement(1, 0), settlement(2, 7)]).await;
        let became = [Some(JobState::Waiting), Some(JobState::Canceled), None];
        let fences = [0, 0, 7].into_iter().enumerate().map(|(at, more)| settlement(at, more));
        let expected: Vec<Event> = fences
            .zip(became)
            .map(|(settlement, became)| Event::Settled {
                job: settlement.job,
                fence: settlement.fence,
                became,
            })
            .collect();
        assert_eq!(events, expected);
    }

    #[test]
    fn batches_have_the_size_of_the_broker_and_lose_no_entry() {
        let broker = Broker::from(Sqlite::memory().unwrap());
        let most = broker.card().batch;
        let sizes: Vec<usize> =
            batches(&broker, (0..2 * most + 1).collect()).map(|batch: Vec<usize>| batch.len()).collect();
        assert_eq!(sizes, [most, most, 1]);
        assert_eq!(batches(&broker, Vec::<usize>::new()).count(), 0);
    }
}
