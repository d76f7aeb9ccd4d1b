//! Whether a burst is done: looks for jobs in the queues that could run here.

use std::sync::Arc;

use tokio::sync::mpsc::Sender;

use super::calls::COUNTING;
use broker::{Broker, Error};
use model::{Class, Filter, JobState, QueueCounts, QueueName};
use supervisor::Event;

/// Sends `Idle` only when no job is left in the queues that could run here.
pub(super) async fn ask_idle(
    broker: Arc<Broker>,
    events: Sender<Event>,
    queues: Vec<QueueName>,
    unknown: Vec<Class>,
) {
    let left = left(&broker, &queues, &unknown).await;
    broker.complaints().note(COUNTING, &left, clock::now());
    if let Ok(Some(left)) = left {
        let words = Some(left.in_words()).filter(|words| !words.is_empty());
        events.send(Event::Idle(words)).await.ok();
    }
}

/// Jobs that cannot run here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    /// Number of jobs whose class no worker knows; `class` is the first of those classes.
    unknown: u64,
    class: Option<Class>,
    /// Number of jobs that wait for others that are not complete.
    depends: u64,
}

impl Left {
    fn in_words(&self) -> String {
        let Left { unknown, class, depends } = self;
        let class = class.as_ref().map_or_else(String::new, |class| format!(", such as '{class}'"));
        let unknown = (*unknown > 0).then(|| format!("{unknown} of classes that no worker knows{class}"));
        let depends = (*depends > 0).then(|| format!("{depends} that depend on jobs which are not complete"));
        let left: Vec<String> = unknown.into_iter().chain(depends).collect();
        if left.is_empty() { String::new() } else { format!("jobs that wait: {}", left.join(", ")) }
    }
}

/// The jobs that are left; None while one of them could run here.
async fn left(broker: &Broker, queues: &[QueueName], unknown: &[Class]) -> Result<Option<Left>, Error> {
    let counts = broker.counts().await?;
    let of = |state: JobState| -> u64 {
        let counted = queues.iter().filter_map(|queue| counts.get(queue));
        // Jobs in a paused queue wait for a person.
        let open = counted.filter(|counts| is_open(counts));
        open.filter_map(|counts| counts.jobs.get(&state)).sum()
    };
    // A job that runs elsewhere counts, too: it may fail and come back to wait.
    if of(JobState::Waiting) + of(JobState::Running) + of(JobState::Canceling) > 0 {
        return Ok(None);
    }
    let mut left = Left { depends: of(JobState::Depends), ..Left::default() };
    if of(JobState::Delayed) > 0 {
        let open = queues.iter().filter(|queue| counts.get(*queue).is_some_and(is_open));
        for queue in open {
            if !only_unknown(broker, queue, unknown, &mut left).await? {
                return Ok(None);
            }
        }
    }
    Ok(Some(left))
}

fn is_open(counts: &QueueCounts) -> bool {
    // What runs in a paused queue already goes on, and a burst waits for it.
    counts.paused.is_none() || counts.jobs.contains_key(&JobState::Running)
}

/// Whether all delayed jobs of a queue were released because no worker knew them.
async fn only_unknown(
    broker: &Broker,
    queue: &QueueName,
    unknown: &[Class],
    left: &mut Left,
) -> Result<bool, Error> {
    let filter = Filter { states: vec![JobState::Delayed], queue: Some(queue.clone()), ..Filter::default() };
    let mut at = None;
    loop {
        let page = broker.page(&filter, at).await?;
        for job in page.jobs {
            if job.unknown == 0 || !unknown.contains(&job.class) {
                return Ok(false);
            }
            left.unknown += 1;
            left.class.get_or_insert(job.class);
        }
        at = page.next;
        if at.is_none() {
            return Ok(true);
        }
    }
}
