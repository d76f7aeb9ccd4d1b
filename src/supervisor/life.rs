//! One life of a slot: what it was made for, what it has done, and when it is worn out.

use super::wear::{Wear, Wears};
use super::why::Why;
use crate::model::{Instant, Signal, WorkerId};

/// What is known of one life; forgotten with it.
#[derive(Debug)]
pub(super) struct Life {
    /// When it was ordered.
    pub(super) born: Instant,
    /// The template that was asked to fork it.
    pub(super) template: Option<WorkerId>,
    /// Whether it has ever taken jobs.
    pub(super) ready: bool,
    /// Since when it has had none, while it has none.
    pub(super) idle_since: Instant,
    /// Why it takes no more jobs and ends after those that it has.
    pub(super) leaving: Option<Why>,
    /// The next one is not made before this, however it ends.
    pub(super) next_after: Option<Instant>,
    /// When it has run for long enough.
    pub(super) wears: Wears,
    /// Whether it has grown beyond what its pool exchanges it at.
    pub(super) outgrown: bool,
    /// How it broke the protocol.
    pub(super) fault: Option<String>,
    /// Jobs given to it.
    pub(super) taken: u64,
    /// Jobs it brought to an end.
    pub(super) finished: u64,
    /// When the keeper will kill it by itself.
    pub(super) armed: Option<Instant>,
    /// The signals it was sent.
    pub(super) signals: Vec<(Instant, Signal, Why)>,
    /// Why it does not die.
    pub(super) stuck: Option<String>,
}

impl Life {
    /// One that was ordered at `born`.
    pub(super) fn new(born: Instant) -> Self {
        Life {
            born,
            template: None,
            ready: false,
            idle_since: born,
            leaving: None,
            next_after: None,
            wears: Wears::default(),
            outgrown: false,
            fault: None,
            taken: 0,
            finished: 0,
            armed: None,
            signals: Vec::new(),
            stuck: None,
        }
    }

    /// How many more jobs wear it out, if it is not worn out and has yet to be exchanged.
    pub(super) fn until_worn(&self) -> Option<u64> {
        self.wears.0.jobs.map(|most| most.saturating_sub(self.taken)).filter(|left| *left > 0)
    }

    /// Why it is worn out, if it is.
    pub(super) fn wear(&self, now: Instant, idle: bool) -> Option<Wear> {
        let Wears(rules) = self.wears;
        let age = self.worn_at(idle).filter(|(at, _)| *at <= now).map(|(_, wear)| wear);
        let jobs = rules.jobs.filter(|most| self.taken >= *most).map(|_| Wear::Jobs);
        self.outgrown.then_some(Wear::Memory).or(jobs).or(age)
    }

    /// When it will be worn out if nothing happens.
    pub(super) fn worn_at(&self, idle: bool) -> Option<(Instant, Wear)> {
        let Wears(rules) = self.wears;
        let age = rules.age.map(|age| (self.born + age, Wear::Age));
        let idle = rules.idle.filter(|_| idle).map(|idle| (self.idle_since + idle, Wear::Idle));
        age.into_iter().chain(idle).min_by_key(|(at, _)| *at)
    }
}
