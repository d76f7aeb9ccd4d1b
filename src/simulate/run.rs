//! A run: one supervisor with its workers, which takes jobs as in production. One fetch is under way at a time, for all
//! free workers, through the queues in the order of its selection.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::calls::{Meter, Prices};
use super::report::{Latency, Report};
use super::workload::Workload;
use crate::model::{Instant, Order, QueueName, Random, Waiting};
use crate::select::{Selection, Turns};

/// Time between two counts of the queues while anything happens, as in the supervisor.
const COUNTS: Duration = Duration::from_secs(5);

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of workers in the fleet.
    pub workers: u16,
    /// How to choose among the queues.
    pub order: Order,
    /// Time from the start of a fetch to the start of its jobs.
    pub latency: Duration,
    /// The broker's prices for calls.
    pub prices: Prices,
    /// Seed of the random draws.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            workers: 1,
            order: Order::Ordered,
            latency: Duration::from_millis(1),
            prices: Prices::default(),
            seed: 1,
        }
    }
}

/// Runs all jobs of the workload to their end.
pub fn simulate(workload: &Workload, plan: &Plan) -> Report {
    let mut run = Run::new(workload, plan);
    while run.turn() {}
    run.report()
}

/// A queue with its jobs: those before `taken` have been taken, those before `come` have arrived.
struct Lane {
    jobs: Vec<(u64, u64)>,
    taken: usize,
    come: usize,
}

impl Lane {
    fn waiting(&self, now: u64) -> Waiting {
        let age = (self.taken < self.come).then(|| Duration::from_nanos(now - self.jobs[self.taken].0));
        Waiting { jobs: (self.come - self.taken) as u64, age }
    }
}

/// State of a run; times are in nanoseconds.
struct Run<'a> {
    workload: &'a Workload,
    plan: &'a Plan,
    names: Vec<QueueName>,
    lanes: Vec<Lane>,
    waits: Vec<Vec<u64>>,
    now: u64,
    /// Index of the next job to arrive.
    next: usize,
    free: usize,
    /// The ends of the running jobs.
    ends: BinaryHeap<Reverse<u64>>,
    selection: Selection,
    random: Random,
    /// The fetch under way: when it is answered, and for how many workers it is.
    fetch: Option<(u64, usize)>,
    maybe_waiting: bool,
    counted_at: Option<u64>,
    busy: u128,
    idle: u64,
    meter: Meter,
}

impl<'a> Run<'a> {
    fn new(workload: &'a Workload, plan: &'a Plan) -> Self {
        let queues = workload.queues();
        let mut lanes: Vec<Lane> =
            queues.iter().map(|_| Lane { jobs: Vec::new(), taken: 0, come: 0 }).collect();
        for job in workload.jobs() {
            lanes[job.queue as usize].jobs.push((nanos(job.arrival), nanos(job.run_time)));
        }
        let by_priority = queues.iter().map(|queue| (queue.name.clone(), queue.priority));
        Run {
            workload,
            plan,
            names: queues.iter().map(|queue| queue.name.clone()).collect(),
            waits: lanes.iter().map(|lane| Vec::with_capacity(lane.jobs.len())).collect(),
            lanes,
            now: 0,
            next: 0,
            free: usize::from(plan.workers.max(1)),
            ends: BinaryHeap::new(),
            selection: Selection::new(plan.order, by_priority),
            random: Random(plan.seed),
            fetch: None,
            maybe_waiting: false,
            counted_at: None,
            busy: 0,
            idle: 0,
            meter: Meter::new(plan.prices),
        }
    }

    /// Goes to the next moment at which anything happens; false when nothing happens any more.
    fn turn(&mut self) -> bool {
        let arrival = self.workload.jobs().get(self.next).map(|job| nanos(job.arrival));
        let end = self.ends.peek().map(|Reverse(at)| *at);
        let answer = self.fetch.map(|(at, _)| at);
        let Some(now) = [arrival, end, answer].into_iter().flatten().min() else { return false };
        if self.free > 0 {
            self.idle += now - self.now;
        }
        self.now = now;
        self.arrive();
        self.end();
        if answer.is_some_and(|at| at <= now) {
            self.answer();
        }
        self.count();
        self.ask();
        true
    }

    fn arrive(&mut self) {
        let jobs = &self.workload.jobs()[self.next..];
        let mut come = 0;
        while let Some(job) = jobs.get(come).filter(|job| nanos(job.arrival) <= self.now) {
            self.lanes[job.queue as usize].come += 1;
            come += 1;
        }
        if come > 0 {
            self.next += come;
            self.maybe_waiting = true;
            self.selection.woken();
        }
    }

    fn end(&mut self) {
        while self.ends.peek().is_some_and(|Reverse(at)| *at <= self.now) {
            self.ends.pop();
            self.free += 1;
            self.meter.ended(Duration::from_nanos(self.now));
        }
    }

    /// The fetch takes its jobs, and they start.
    fn answer(&mut self) {
        let Some((_, most)) = self.fetch.take() else { return };
        let random = &mut self.random;
        let (queues, take) = self.selection.next(Instant(self.now), |count| random.below(count));
        let place = |name: &QueueName| self.names.iter().position(|known| known == name);
        let mut turns = Turns::new(take, queues.iter().filter_map(place));
        let (mut taken, mut by_queue) = (Vec::with_capacity(most), vec![0; self.lanes.len()]);
        while taken.len() < most
            && let Some(&queue) = turns.queue()
        {
            let lane = &mut self.lanes[queue];
            if lane.taken == lane.come {
                turns.had_none();
                continue;
            }
            let (arrival, run_time) = lane.jobs[lane.taken];
            lane.taken += 1;
            self.waits[queue].push(self.now - arrival);
            self.ends.push(Reverse(self.now.saturating_add(run_time)));
            self.busy += u128::from(run_time);
            taken.push(queue);
            by_queue[queue] += 1;
            turns.gave();
        }
        self.free -= taken.len();
        by_queue.into_iter().for_each(|jobs| self.meter.received(jobs));
        let full = taken.len() >= most;
        self.maybe_waiting |= full;
        self.selection.answered(taken.iter().map(|queue| &self.names[*queue]), full);
    }

    fn count(&mut self) {
        let due = self.counted_at.is_none_or(|at| at + nanos(COUNTS) <= self.now);
        if due {
            self.counted_at = Some(self.now);
            let (lanes, names, now) = (&self.lanes, &self.names, self.now);
            self.selection.counted(Instant(now), |queue| {
                let place = names.iter().position(|name| name == queue);
                place.map_or_else(Waiting::default, |at| lanes[at].waiting(now))
            });
        }
    }

    fn ask(&mut self) {
        if self.fetch.is_none() && self.maybe_waiting && self.free > 0 {
            self.fetch = Some((self.now + nanos(self.plan.latency), self.free));
            self.maybe_waiting = false;
        }
    }

    fn report(self) -> Report {
        let queues = self.workload.queues().iter().zip(&self.waits);
        let queues: Vec<Latency> = queues
            .map(|(queue, waits)| Latency::of(queue.name.as_str(), Some(queue.priority), waits.clone()))
            .collect();
        let worst = queues.iter().filter(|queue| queue.jobs > 0).max_by_key(|queue| queue.p95);
        let worst = worst.map_or_else(String::new, |queue| queue.name.clone());
        let all = Latency::of("all", None, self.waits.concat());
        let worked = self.now as f64 * f64::from(self.plan.workers.max(1));
        let idle = Duration::from_nanos(self.idle);
        let calls = self.meter.total(idle, self.names.len(), all.jobs);
        Report {
            selector: self.plan.order.as_str(),
            workers: self.plan.workers.max(1),
            queues,
            all,
            worst,
            length: Duration::from_nanos(self.now),
            utilisation: if worked > 0.0 { self.busy as f64 / worked } else { 0.0 },
            calls,
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
