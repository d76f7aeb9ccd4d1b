//! The row of a fact: what each teller needs to tell it. A sentence becomes text only when somebody wants it.

use std::fmt::{self, Display};
use std::time::Duration;

use tracing::Level;

use crate::flood::Kind;
use model::{Counters, Health, JobId, PoolCounters, QueueName, What, WorkerName, format_duration};

/// The words and figures of one fact. A teller passes over a fact whose row has nothing for it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Row<'a> {
    /// The level of its line in the log.
    pub(crate) level: Option<Level>,
    /// Under what its lines are counted, if they may come by the thousand.
    pub(crate) flood: Option<Kind>,
    /// Where `why` keeps it.
    pub(crate) ring: Option<Ring>,
    /// The kind of its event for subscribers, and the text beside it.
    pub(crate) event: Option<What>,
    pub(crate) detail: Option<&'a dyn Display>,
    /// The health before it and from then on.
    pub(crate) health: Option<(Health, Health)>,
    /// What it counts for metrics: in the whole, and for its pool.
    pub(crate) count: Option<fn(&mut Counters)>,
    pub(crate) pool_count: Option<&'a dyn Fn(&mut PoolCounters)>,
    /// The subject of the fact, and the author of the order.
    pub(crate) worker: Option<&'a WorkerName>,
    pub(crate) job: Option<&'a JobId>,
    pub(crate) pool: Option<&'a str>,
    pub(crate) queue: Option<&'a QueueName>,
    pub(crate) by: Option<&'a str>,
    /// The sentence that says it.
    pub(crate) text: Option<fmt::Arguments<'a>>,
}

/// A ring of `why`: that of facts which come with every job must not push out the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ring {
    Often,
    Seldom,
}

/// How a sentence calls what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voice {
    /// `a worker`: its name stands in a field beside the sentence.
    Plain,
    /// `worker mail.1#7`: the sentence stands alone.
    Named,
}

/// A worker or a job in a sentence.
pub(super) struct Noun<'a> {
    what: &'static str,
    name: Option<&'a dyn Display>,
}

impl Display for Noun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => write!(f, "{} {name}", self.what),
            None => write!(f, "a {}", self.what),
        }
    }
}

impl Voice {
    pub(super) fn noun<'a>(self, what: &'static str, name: &'a dyn Display) -> Noun<'a> {
        Noun { what, name: (self == Voice::Named).then_some(name) }
    }
}

impl<'a> Row<'a> {
    /// A row with this sentence, which the log has at this level.
    pub(super) fn says(self, level: Level, text: fmt::Arguments<'a>) -> Row<'a> {
        Row { level: Some(level), text: Some(text), ..self }
    }

    /// The same for a sentence of `why` alone.
    pub(super) fn explains(self, text: fmt::Arguments<'a>) -> Row<'a> {
        Row { text: Some(text), ..self }
    }

    pub(super) fn flood(self, kind: Kind) -> Row<'a> {
        Row { flood: Some(kind), ..self }
    }

    pub(super) fn often(self) -> Row<'a> {
        Row { ring: Some(Ring::Often), ..self }
    }

    pub(super) fn seldom(self) -> Row<'a> {
        Row { ring: Some(Ring::Seldom), ..self }
    }

    pub(super) fn event(self, what: What) -> Row<'a> {
        Row { event: Some(what), ..self }
    }

    pub(super) fn detail(self, text: &'a dyn Display) -> Row<'a> {
        Row { detail: Some(text), ..self }
    }

    pub(super) fn count(self, count: fn(&mut Counters)) -> Row<'a> {
        Row { count: Some(count), ..self }
    }

    pub(super) fn pool_count(self, count: &'a dyn Fn(&mut PoolCounters)) -> Row<'a> {
        Row { pool_count: Some(count), ..self }
    }

    /// The sentence as text.
    pub(crate) fn sentence(&self) -> String {
        self.text.map(|text| text.to_string()).unwrap_or_default()
    }

    /// The name of the pool that it is about, also as that of its worker.
    pub(crate) fn pool_name(&self) -> Option<&'a str> {
        self.pool.or_else(|| self.worker.map(|worker| &*worker.slot.pool))
    }
}

/// `at once`, or `in 5s`.
pub(super) struct Again(pub(super) Duration);

impl Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Duration::ZERO => f.write_str("at once"),
            after => write!(f, "in {}", format_duration(after)),
        }
    }
}
