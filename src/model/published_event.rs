//! Events for subscribers.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{At, MaybeSeconds};
use super::list::words;
use super::{Class, Health, JobId, JobState, Millis, QueueName, WorkerName};

/// Something that has just happened to a job, to a worker or to the whole, or that somebody has ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedEvent {
    /// Its number since the supervisor started, in the order of things; one that is missing was lost, or passed over by a
    /// filter.
    pub n: u64,
    /// When it happened.
    #[serde(flatten, with = "At::<Millis>")]
    pub at: Millis,
    /// The kind of the event.
    #[serde(rename = "kind")]
    pub what: What,
    /// The job it happened to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// The queue of the job, or the queue that an order was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// The class of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// The tags of the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The state of the job after the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// To which pool. Of an order about pools: none = to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// By whose order, e.g. `uid 1000`, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The verdict on the whole that holds now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// The verdict before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Health>,
    /// To which worker, or by which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerName>,
    /// Why, or what has changed, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How many were lost, if that is known. Of the end: how many ends of jobs the broker has not confirmed. Of the events
    /// of many jobs in a pause: how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl PublishedEvent {
    /// An event without details, not numbered yet.
    pub fn new(what: What, at: Millis) -> PublishedEvent {
        PublishedEvent {
            n: 0,
            at,
            what,
            job: None,
            queue: None,
            class: None,
            tags: Vec::new(),
            state: None,
            pool: None,
            by: None,
            health: None,
            before: None,
            worker: None,
            why: None,
            count: None,
        }
    }

    /// Whether it stands for events of many jobs.
    pub fn is_of_many(&self) -> bool {
        self.count.is_some() && !matches!(self.what, What::Lost | What::Ended)
    }
}

word_enum! {
    /// The kinds of news.
    pub enum What {
        /// A job came in.
        Put => "put",
        /// A supervisor took it.
        Fetched => "fetched",
        /// The job is complete.
        Complete => "complete",
        /// It is done here, and goes on in another queue.
        Advanced => "advanced",
        /// All that it needs is complete: it may run.
        Released => "released",
        /// The job has failed, and has no tries left.
        Failed => "failed",
        /// The job is held for a person.
        Held => "held",
        /// An attempt is over, and it waits again.
        Again => "again",
        /// A running job is being canceled.
        Canceling => "canceling",
        /// The job is canceled, and its processes are dead.
        Canceled => "canceled",
        /// An ended job was put back to waiting.
        Retried => "retried",
        /// Its priority, tags, needs or tracking were changed.
        Edited => "edited",
        /// It is forgotten, by a person or after its time.
        Removed => "removed",
        /// Its lease ran out, or its supervisor died: it waits again.
        LockLost => "lock_lost",
        /// A worker's process was made.
        Started => "started",
        /// A worker takes jobs.
        Ready => "ready",
        /// A worker was asked to end, with TERM.
        Asked => "asked",
        /// A worker was killed.
        Killed => "killed",
        /// A worker has ended.
        Exited => "exited",
        /// Fetching from a queue was stopped, or a pool takes no more jobs.
        Paused => "paused",
        /// The pause is over.
        Resumed => "resumed",
        /// A pool has another number of places.
        Scaled => "scaled",
        /// A pool gets new workers.
        Recycled => "recycled",
        /// Settings were taken in.
        Reloaded => "reloaded",
        /// Settings were not taken in: nothing has changed.
        ReloadRefused => "reload_refused",
        /// An option of the store was changed.
        Option => "option",
        /// The supervisor was ordered to stop, or to stop faster.
        Stopping => "stopping",
        /// The verdict on the whole is another one.
        Health => "health",
        /// Events are lost: the subscriber was too slow, or the connection that they come by broke.
        Lost => "lost",
        /// The supervisor was stopped: this is the last event.
        Ended => "ended",
    }
}

impl What {
    /// The event for the state in which an attempt left the job.
    pub fn of_end(state: JobState) -> What {
        match state {
            JobState::Complete => What::Complete,
            JobState::Failed => What::Failed,
            JobState::Held => What::Held,
            JobState::Canceled => What::Canceled,
            JobState::Canceling => What::Canceling,
            JobState::Waiting | JobState::Delayed | JobState::Depends | JobState::Running => What::Again,
        }
    }
}

impl std::str::FromStr for What {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = What::ALL.into_iter().find(|what| what.as_str() == text);
        found.ok_or_else(|| {
            let kinds = What::ALL.map(What::as_str).join(", ");
            format!("no kind of event is called '{text}'; there are {kinds}")
        })
    }
}

/// A filter of events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interest {
    /// Only these kinds, separated by commas; none = all.
    #[serde(default, rename = "kind", with = "words", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "String")]
    pub kinds: Vec<What>,
    /// Only jobs of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// Only this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Only jobs with this tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// At most one message in this many seconds (10 at most); of more than 40 events of jobs in it each kind and queue has
    /// one, with their `count` and without a job.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeSeconds")]
    pub pause: Option<Duration>,
}

impl Interest {
    /// Whether a subscriber wants this event. Lost events and the end of the stream are always wanted.
    pub fn takes(&self, news: &PublishedEvent) -> bool {
        let is = |wanted: bool, same: bool| !wanted || same;
        // These are about the stream itself, so every subscriber gets them.
        matches!(news.what, What::Lost | What::Ended)
            || (is(!self.kinds.is_empty(), self.kinds.contains(&news.what))
                && is(self.queue.is_some(), self.queue == news.queue)
                && is(self.job.is_some(), self.job == news.job)
                && self.tag.as_ref().is_none_or(|tag| news.tags.contains(tag)))
    }
}
