//! How a pool fetches: for the workers that have room (and, where jobs are very short, will have room in a moment), and
//! only when jobs may be waiting.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::Pool;
use crate::restart::Random;
use crate::unsettled::Unsettled;
use crate::{Command, classes};
use model::{Class, Fetched, Instant, Job, QueueName, Verdict, Waiting, WorkerId};

impl Pool {
    /// Handles the answer to a fetch. Gives the workers for which the fetch was; None if none was under way.
    pub(crate) fn fetched(&mut self, jobs: &[Fetched]) -> Option<Vec<WorkerId>> {
        let is_known = |fetched: &Fetched| classes::knows(&self.settings, &fetched.job);
        let in_vain = !jobs.is_empty() && !jobs.iter().any(is_known);
        let (asked, may_wait) = self.intake.answered(jobs, in_vain)?;
        if may_wait {
            self.expect_more();
        }
        Some(asked)
    }

    /// Fetches as many jobs as the workers have room for, and some ahead.
    pub(crate) fn fetch(
        &mut self,
        now: Instant,
        random: &mut Random,
        unsettled: &mut Unsettled,
        orders: &mut VecDeque<Command>,
    ) {
        if !self.intake.may_ask() || self.intake.at() > now {
            return;
        }
        let mut workers = self.room();
        // Jobs that still run in the worn out worker take up places of its heir.
        workers.truncate(workers.len().saturating_sub(self.intake.beside));
        workers.extend(self.ahead_for());
        if workers.is_empty() {
            return;
        }
        unsettled.tell_again(now, orders);
        orders.push_back(self.intake.ask(now, (self.number, &self.settings), workers, random));
    }

    /// The fetch under way got no answer.
    pub(crate) fn fetch_failed(&mut self, now: Instant, random: &mut Random) {
        self.intake.failed(now, random);
    }

    /// The broker has counted the queues.
    pub(crate) fn counted(&mut self, now: Instant, counts: &BTreeMap<QueueName, Waiting>) {
        self.intake.counted(now, counts);
    }

    /// Stops fetching while `held_up`, or while the worn out worker that the pool replaces still runs as many jobs as
    /// the pool has places.
    pub(crate) fn hold_up(&mut self, held_up: bool) {
        let beside = self.intake.beside;
        self.intake.held_up = held_up || beside > 0 && self.room().len() <= beside;
    }

    /// The verdict on a job whose class no worker here knows.
    pub(crate) fn refuse_unknown(&mut self, job: &Job, random: &mut Random) -> Option<Verdict> {
        let is_known = classes::knows(&self.settings, job);
        (!is_known).then(|| self.unknown.refuse(job, random))
    }

    /// The classes of jobs that no worker here knew.
    pub(crate) fn unknown_classes(&self) -> impl Iterator<Item = Class> {
        self.unknown.counts().into_keys()
    }

    /// Whether a fetch is under way.
    pub(crate) fn is_fetching(&self) -> bool {
        self.intake.asked.is_some()
    }

    /// Whether no fetch is under way, and no job is kept ahead.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.is_fetching() && self.ahead.is_empty()
    }

    /// Whether a person has paused the pool.
    pub(crate) fn is_paused(&self) -> bool {
        self.intake.paused
    }

    /// Whether the next fetch may find jobs.
    pub(crate) fn may_find_jobs(&self) -> bool {
        self.intake.maybe_waiting
    }

    /// Time since the broker last answered a fetch.
    pub(crate) fn silent_for(&self, now: Instant) -> Option<Duration> {
        self.intake.silent_for(now)
    }

    /// When to fetch; None while no worker has room, or a fetch is under way.
    pub(super) fn fetch_at(&self) -> Option<Instant> {
        let wants = self.intake.may_ask() && (self.has_room() || !self.ahead_for().is_empty());
        wants.then(|| self.intake.at())
    }
}
