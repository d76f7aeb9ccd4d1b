//! What a pool knows of its queues, and when it asks them for jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Command;
use super::restart::{Backoff, Random};
use crate::model::{Class, ClassFilter, Fetched, Instant, PoolSettings, QueueName, Waiting, WorkerId};
use crate::select::Selection;

/// A wake-up that got lost costs no more than this.
const NET: Duration = Duration::from_secs(60);

/// What a pool knows of its queues.
#[derive(Debug)]
pub(super) struct Intake {
    /// The workers the fetch under way is for; None = none is.
    pub(super) asked: Option<Vec<WorkerId>>,
    /// Whether that one is for jobs of known classes alone.
    asks_for_known: bool,
    /// Whether the next one is: the latest brought only jobs that no worker knows, and others may wait behind them.
    known_next: bool,
    /// Whether asking is worth it: cleared by asking, set by a wake-up (also one during the fetch) and by a full answer.
    pub(super) maybe_waiting: bool,
    /// Since when no fetch was answered, if the last one was not.
    silent_since: Option<Instant>,
    /// When to ask, if it is worth it.
    due: Instant,
    /// When to ask even if it is not.
    net: Instant,
    backoff: Backoff,
    selection: Selection,
    /// Whether it takes none for now.
    pub(super) paused: bool,
    /// Whether the broker is first to say of jobs that run here whose they are: asked for more, it could give us one that
    /// we have.
    pub(super) held_up: bool,
}

impl Intake {
    pub(super) fn new(now: Instant, pool: &PoolSettings) -> Self {
        let selection = Selection::new(pool.order, pool.queues_by_priority());
        let (due, net, backoff) = (now, now + NET, Backoff::BROKER);
        Intake {
            asked: None,
            asks_for_known: false,
            known_next: false,
            maybe_waiting: true,
            silent_since: None,
            due,
            net,
            backoff,
            selection,
            paused: false,
            held_up: false,
        }
    }

    /// Other queues, or the same in another order.
    pub(super) fn turn_to(&mut self, now: Instant, pool: &PoolSettings) {
        self.selection = Selection::new(pool.order, pool.queues_by_priority());
        self.maybe_waiting = true;
        self.due = self.due.min(now);
    }

    /// The answer, with as many jobs as asked for or fewer: gives the workers it was asked for, and whether more may be
    /// waiting. `in_vain`: no worker knows one of these jobs. None if nothing was asked.
    pub(super) fn answered(&mut self, jobs: &[Fetched], in_vain: bool) -> Option<(Vec<WorkerId>, bool)> {
        let asked = self.asked.take()?;
        self.backoff.succeeded();
        self.silent_since = None;
        self.selection.answered(jobs.iter().map(|fetched| &fetched.job.queue), jobs.len() >= asked.len());
        if self.maybe_waiting {
            // Of jobs that came meanwhile the answer says nothing.
            self.selection.woken();
        }
        self.known_next = in_vain && !self.asks_for_known;
        let may_wait = jobs.len() >= asked.len() || self.asks_for_known;
        Some((asked, may_wait))
    }

    /// Notes that the fetch got no answer, and backs off.
    pub(super) fn failed(&mut self, now: Instant, random: &mut Random) {
        if self.asked.take().is_some() {
            self.maybe_waiting = true;
            self.silent_since.get_or_insert(now);
            self.due = now + random.jitter(self.backoff.failed(), 20);
        }
    }

    /// How long the broker has answered no fetch.
    pub(super) fn silent_for(&self, now: Instant) -> Option<Duration> {
        self.silent_since.map(|since| now.since(since))
    }

    /// Jobs may have come.
    pub(super) fn woken(&mut self) {
        self.maybe_waiting = true;
        self.selection.woken();
    }

    /// The queues were counted.
    pub(super) fn counted(&mut self, now: Instant, counts: &BTreeMap<QueueName, Waiting>) {
        let waiting = |queue: &QueueName| counts.get(queue).copied().unwrap_or_default();
        self.selection.counted(now, waiting);
    }

    /// Which classes the next fetch is for. Thousands of jobs that no worker knows hold up the others by one fetch each:
    /// every second one passes them by.
    fn next_filter(&mut self, pool: &PoolSettings) -> ClassFilter {
        let filter = &pool.filter;
        let known = pool.knows.iter().flat_map(|classes| classes.keys());
        let only: Vec<Class> = match std::mem::take(&mut self.known_next) {
            true => known
                .filter(|class| filter.matches(class) && !class.as_str().ends_with('*'))
                .cloned()
                .collect(),
            false => Vec::new(),
        };
        self.asks_for_known = !only.is_empty();
        if only.is_empty() { filter.clone() } else { ClassFilter { only, except: Vec::new() } }
    }

    /// The order to fetch a job for each of these workers.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        (number, pool): (u16, &PoolSettings),
        workers: Vec<WorkerId>,
        random: &mut Random,
    ) -> Command {
        let filter = self.next_filter(pool);
        self.asked = Some(workers.clone());
        self.maybe_waiting = false;
        self.net = now + NET;
        let (queues, take) = self.selection.next(now, |count| random.below(count));
        Command::Fetch { pool: number, queues, take, filter, workers }
    }

    /// Whether it takes jobs now, and no answer is under way.
    pub(super) fn may_ask(&self) -> bool {
        self.asked.is_none() && !self.paused && !self.held_up
    }

    /// When to ask.
    pub(super) fn at(&self) -> Instant {
        if self.maybe_waiting { self.due } else { self.net }
    }
}
