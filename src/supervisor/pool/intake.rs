//! What a pool knows of its queues, and when it fetches from them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Command;
use crate::restart::{Backoff, Random};
use model::{Class, ClassFilter, Fetched, Instant, PoolSettings, QueueName, Waiting, WorkerId};
use select::Selection;

/// A pool fetches at least this often, so that a lost wake-up delays its jobs by no more.
const NET: Duration = Duration::from_secs(60);

/// What a pool knows of its queues.
#[derive(Debug)]
pub(crate) struct Intake {
    /// The workers for which the fetch under way is; None = no fetch is under way.
    pub(super) asked: Option<Vec<WorkerId>>,
    /// Whether the fetch under way is for jobs of known classes alone.
    asks_for_known: bool,
    /// Whether the next fetch is for known classes alone: the last one brought only jobs that no worker knows, and
    /// others may wait behind them.
    known_next: bool,
    /// Whether jobs may be waiting: cleared by a fetch, set by a wake-up (also one during the fetch) and by a full
    /// answer.
    pub(super) maybe_waiting: bool,
    /// Since when the broker has answered no fetch; None if it answered the last one.
    silent_since: Option<Instant>,
    /// When to fetch, if jobs may be waiting.
    due: Instant,
    /// When to fetch in any case.
    net: Instant,
    backoff: Backoff,
    selection: Selection,
    /// Whether a person has paused the pool.
    pub(super) paused: bool,
    /// Whether to wait: until the broker has answered who holds the leases of jobs that run here, as a fetch could bring
    /// one of them again, or until a place is free.
    pub(super) held_up: bool,
    /// How many jobs still run in the worn out worker that this pool replaces.
    pub(super) beside: usize,
}

impl Intake {
    pub(crate) fn new(now: Instant, pool: &PoolSettings) -> Self {
        let selection =
            Selection::new(pool.order, pool.queues_by_priority()).with_turns(|queue| pool.turn_of(queue));
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
            beside: 0,
        }
    }

    /// Takes from other queues, or from the same in another order.
    pub(crate) fn turn_to(&mut self, now: Instant, pool: &PoolSettings) {
        self.selection =
            Selection::new(pool.order, pool.queues_by_priority()).with_turns(|queue| pool.turn_of(queue));
        self.maybe_waiting = true;
        self.due = self.due.min(now);
    }

    /// Handles the answer to a fetch. Gives the workers for which it was and whether more jobs may be waiting; None if
    /// no fetch was under way. `in_vain`: no worker knows any of these jobs.
    pub(crate) fn answered(&mut self, jobs: &[Fetched], in_vain: bool) -> Option<(Vec<WorkerId>, bool)> {
        let asked = self.asked.take()?;
        self.backoff.succeeded();
        self.silent_since = None;
        self.selection.answered(jobs.iter().map(|fetched| &fetched.job.queue), jobs.len() >= asked.len());
        if self.maybe_waiting {
            // The answer says nothing of jobs that came since the fetch was sent.
            self.selection.woken();
        }
        self.known_next = in_vain && !self.asks_for_known;
        // A fetch for known classes alone says nothing about the jobs of the others.
        let may_wait = jobs.len() >= asked.len() || self.asks_for_known;
        Some((asked, may_wait))
    }

    /// Notes that the fetch got no answer, and backs off.
    pub(crate) fn failed(&mut self, now: Instant, random: &mut Random) {
        if self.asked.take().is_some() {
            // `ask` has cleared this, but the fetch has found nothing out.
            self.maybe_waiting = true;
            self.silent_since.get_or_insert(now);
            self.due = now + random.jitter(self.backoff.failed(), 20);
        }
    }

    /// Time since the broker last answered a fetch.
    pub(crate) fn silent_for(&self, now: Instant) -> Option<Duration> {
        self.silent_since.map(|since| now.since(since))
    }

    /// Jobs may have come.
    pub(crate) fn woken(&mut self) {
        self.maybe_waiting = true;
        self.selection.woken();
    }

    /// The broker has counted the queues.
    pub(crate) fn counted(&mut self, now: Instant, counts: &BTreeMap<QueueName, Waiting>) {
        let waiting = |queue: &QueueName| counts.get(queue).copied().unwrap_or_default();
        self.selection.counted(now, waiting);
    }

    /// The classes of the next fetch. Thousands of jobs that no worker knows cost the others only every second fetch:
    /// in between the fetch leaves them out.
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

    /// The command that fetches a job for each of these workers.
    pub(crate) fn ask(
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

    /// Whether the pool may fetch: it is not paused or held up, and no fetch is under way.
    pub(crate) fn may_ask(&self) -> bool {
        self.asked.is_none() && !self.paused && !self.held_up
    }

    /// When to fetch next.
    pub(crate) fn at(&self) -> Instant {
        if self.maybe_waiting { self.due } else { self.net }
    }
}
