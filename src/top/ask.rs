//! What the screen asks of the outside, and what it is told.

use std::collections::BTreeMap;

use super::order::Order;
use super::thing::{Tab, Thing};
use model::verb::FailureGroup;
use model::{
    Fleet, JobId, JobRecord, Millis, PublishedEvent, QueueCounts, QueueName, RecurringRecord, Status,
};

/// What the screen asks. Each is answered, later or never.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// The whole, and the list of a tab: answered by [`News::Seen`] or [`News::Unseen`].
    Look(Want),
    /// A page about a thing: answered by [`News::Page`].
    Page(Thing, Kind),
    /// The output of a job, as it comes, instead of that of the job before: [`News::Output`].
    Follow(JobId),
    /// No more output.
    Unfollow,
    /// Carries it out: answered by [`News::Done`].
    Do(Order),
    /// No more events until asked again, or events from now on: [`News::Happened`].
    Events(bool),
}

/// Which list is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// That of this tab.
    pub tab: Tab,
    /// Of jobs those that this search finds, in the words of `job list --search`.
    pub search: Option<String>,
}

/// The kinds of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What it is.
    Page,
    /// Why it is as it is.
    Why,
    /// What it prints.
    Output,
}

/// What the screen is told.
#[derive(Debug)]
pub enum News {
    /// The answer to a look.
    Seen(Box<Seen>),
    /// What was looked for cannot be reached, and why.
    Unseen(String),
    /// The text of a page.
    Page {
        /// Of which thing.
        of: Thing,
        /// Which kind of page.
        kind: Kind,
        /// The page itself.
        text: String,
    },
    /// More output of a job; or why there is none.
    Output(JobId, String),
    /// What became of an order, in a line.
    Done(Result<String, String>),
    /// What has just happened.
    Happened(Vec<PublishedEvent>),
}

/// The whole at a moment.
#[derive(Debug)]
pub struct Seen {
    /// When that was.
    pub at: Millis,
    /// Where it was seen: the broker, if no supervisor runs.
    pub place: String,
    /// The supervisor's own picture, if one runs.
    pub status: Option<Status>,
    /// For which share of the last 10 s processes waited for CPU, memory and disk, in percent, if it is this host's.
    pub pressure: Option<[f32; 3]>,
    /// How long 95 of 100 jobs had waited at most that began in a step of ten seconds, in seconds, the latest step last;
    /// None = not asked for this time.
    pub waits: Option<Vec<Option<f64>>>,
    /// The tab that was asked for.
    pub tab: Tab,
    /// The list of that tab, or why there is none.
    pub list: Result<List, String>,
}

/// The list of a tab.
#[derive(Clone, Debug, PartialEq)]
pub enum List {
    /// It is in the status, or in the events.
    None,
    /// That of queues.
    Queues(BTreeMap<QueueName, QueueCounts>),
    /// Jobs, newest first.
    Jobs(Vec<JobRecord>),
    /// That of failures.
    Failures(Vec<FailureGroup>),
    /// That of recurring jobs.
    Recurring(Vec<RecurringRecord>),
    /// That of supervisors.
    Fleet(Fleet),
}
