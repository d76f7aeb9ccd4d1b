//! One life of a slot: what it was made for, what it has done, and when it is worn out.

use crate::wear::{Wear, Wears};
use crate::why::Why;
use model::{Instant, Signal, WorkerId};

/// What is known of one life. It is forgotten when the life ends.
#[derive(Debug)]
pub(super) struct Life {
    /// When the life was ordered.
    pub(super) born: Instant,
    /// The template that was asked to fork this life.
    pub(super) template: Option<WorkerId>,
    /// Whether the life ever took jobs.
    pub(super) ready: bool,
    /// Whether a fork of this template has run a job.
    pub(super) forked_well: bool,
    /// Why the life takes no more jobs and ends after those that it has.
    pub(super) leaving: Option<Why>,
    /// The next life is not made before this moment, however this one ends.
    pub(super) next_after: Option<Instant>,
    /// When the life has run for long enough.
    pub(super) wears: Wears,
    /// Whether the life has outgrown the size at which its pool recycles it.
    pub(super) outgrown: bool,
    /// How it broke the protocol.
    pub(super) fault: Option<String>,
    /// Why a job could not be begun in this life. No other would fare better, so the life ends.
    pub(super) unfit: Option<String>,
    /// Jobs handed to this life.
    pub(super) taken: u64,
    /// The self-fence: when the keeper kills this life without an order.
    pub(super) armed: Option<Instant>,
    /// After a pause of this process, or an order that came close to `armed`: until when a reported SIGKILL of this life
    /// counts as the keeper's.
    pub(super) fell_by: Option<Instant>,
    /// The signals sent to this life.
    pub(super) signals: Vec<(Instant, Signal, Why)>,
}

/// How a life ended.
pub(crate) enum End {
    /// By our own signal, after its last job, or with it.
    Planned,
    /// By itself, after it did what it was made for.
    Good(String),
    /// By itself, too early.
    Early(String),
}

impl Life {
    /// A life that was ordered at `born`.
    pub(super) fn new(born: Instant) -> Self {
        Life {
            born,
            template: None,
            ready: false,
            forked_well: false,
            leaving: None,
            next_after: None,
            wears: Wears::default(),
            outgrown: false,
            fault: None,
            unfit: None,
            taken: 0,
            armed: None,
            fell_by: None,
            signals: Vec::new(),
        }
    }

    /// How many more jobs wear the life out; None if it is already worn out or no number is set.
    pub(super) fn until_worn(&self) -> Option<u64> {
        self.wears.0.jobs.map(|most| most.saturating_sub(self.taken)).filter(|left| *left > 0)
    }

    /// Why the life is worn out, if it is. `idle_since`: since when it has had no jobs, if it has none.
    pub(super) fn wear(&self, now: Instant, idle_since: Option<Instant>) -> Option<Wear> {
        let age = self.worn_at(idle_since).filter(|(at, _)| *at <= now).map(|(_, wear)| wear);
        self.worn_by_use().or(age)
    }

    /// Why the life is worn out whatever its age, if it is.
    pub(super) fn worn_by_use(&self) -> Option<Wear> {
        let Wears(rules) = self.wears;
        let jobs = rules.jobs.filter(|most| self.taken >= *most).map(|_| Wear::Jobs);
        self.outgrown.then_some(Wear::Memory).or(jobs)
    }

    /// When and why the life will be worn out by the passing of time alone.
    pub(super) fn worn_at(&self, idle_since: Option<Instant>) -> Option<(Instant, Wear)> {
        let Wears(rules) = self.wears;
        let age = rules.age.map(|age| (self.born + age, Wear::Age));
        let idle = rules.idle.zip(idle_since).map(|(idle, since)| (since + idle, Wear::Idle));
        age.into_iter().chain(idle).min_by_key(|(at, _)| *at)
    }
}
