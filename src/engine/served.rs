//! Which queues are served: by the pools here and, with a shared broker, by those of other supervisors.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

use super::request::Request;
use super::takers::{Takers, Wanted};
use api::Queued;
use broker::{Broker, Error};
use model::verb::ShowFleet;
use model::{Class, Fleet, Member, NewJob, Payload, PutNote, QueueCounts, QueueName};

/// How long to wait for the presence of the other supervisors. A broker that takes longer hangs.
const PATIENCE: Duration = Duration::from_millis(500);

/// Marks the queues from which no pool takes jobs. `own` are the queues of the pools here; None = not known, marks
/// none.
pub(super) async fn mark(
    broker: &Broker,
    queues: &mut BTreeMap<QueueName, QueueCounts>,
    own: Option<&BTreeSet<QueueName>>,
) {
    let unserved = unserved(broker, queues.keys().cloned().collect(), own).await;
    for (name, counts) in queues {
        counts.unserved = unserved.contains(name);
    }
}

/// Those of `queues` from which no pool takes jobs, here or in another living supervisor. Empty if that cannot be
/// known: better no warning than a wrong one.
pub(super) async fn unserved(
    broker: &Broker,
    mut queues: BTreeSet<QueueName>,
    own: Option<&BTreeSet<QueueName>>,
) -> BTreeSet<QueueName> {
    let Some(own) = own else { return BTreeSet::new() };
    queues.retain(|queue| !own.contains(queue));
    if queues.is_empty() || !broker.card().shared {
        return queues;
    }
    match fleet(broker).await {
        Some(fleet) => queues.retain(|queue| !fleet.supervisors.iter().any(|member| member.takes(queue))),
        None => queues.clear(),
    }
    queues
}

/// The supervisors that share the broker; None if it does not say in time.
async fn fleet(broker: &Broker) -> Option<Fleet> {
    let asked = broker.tell(ShowFleet { jobs: false }, "");
    tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()
}

/// Limit of the notes of a put, and of the classes that are looked up for it.
const NOTES: usize = 100;

/// Puts jobs, and notes meanwhile what will keep them from running.
pub(super) async fn put(
    broker: &Broker,
    requests: &Sender<Request>,
    jobs: Vec<NewJob>,
) -> Result<Queued, Error> {
    let queues: BTreeSet<QueueName> = jobs.iter().map(|job| job.queue.clone()).collect();
    let mut wanted = Wanted::new();
    // Programs need no worker that knows their class.
    for job in jobs.iter().filter(|job| matches!(job.payload, Payload::Data(_))) {
        if wanted.len() >= NOTES {
            break;
        }
        wanted.insert((job.queue.clone(), job.class.clone()));
    }
    let (ids, (unserved, notes)) = tokio::join!(broker.put(jobs), notes(broker, requests, queues, wanted));
    Ok(Queued { ids: ids?, unserved: unserved.into_iter().collect(), notes })
}

/// The queues that no pool takes, and all notes. None while the supervisor ends.
async fn notes(
    broker: &Broker,
    requests: &Sender<Request>,
    queues: BTreeSet<QueueName>,
    wanted: Wanted,
) -> (BTreeSet<QueueName>, Vec<PutNote>) {
    let (sender, answer) = oneshot::channel();
    if requests.send(Request::Takers(wanted, sender)).await.is_err() {
        return Default::default();
    }
    let Ok(Takers { queues: own, mut unknown }) = answer.await else { return Default::default() };
    let unserved = unserved(broker, queues, Some(&own)).await;
    if !unknown.is_empty() && broker.card().shared {
        // A worker of another supervisor may know the class.
        let fleet = fleet(broker).await;
        let takers = |queue: &QueueName| {
            fleet.as_ref().map(|fleet| fleet.supervisors.iter().filter(|one| one.takes(queue)).count())
        };
        let is_told = |queue: &QueueName, class: &Class| {
            fleet.as_ref().is_some_and(|all| Member::known_instead(&all.supervisors, queue, class).is_some())
        };
        // One of those that take from the queue is this supervisor.
        unknown.retain(|(queue, class, _)| {
            takers(queue).is_some_and(|takers| takers <= 1) || is_told(queue, class)
        });
    }
    let of_queues = unserved.iter().map(|queue| PutNote::no_pool(queue, &own));
    let of_classes = unknown.iter().map(|(queue, class, known)| PutNote::unknown(queue, class, known));
    let notes = of_queues.chain(of_classes).take(NOTES).collect();
    (unserved, notes)
}
