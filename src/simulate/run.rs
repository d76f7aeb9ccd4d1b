//! A run: one supervisor with its workers, which takes jobs as in production. One fetch is under way at a time, for all
//! free workers, through the queues in the order of its selection. What a fetch gets is the matter of a [`Supply`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::nanos;
use super::report::{Latency, Report};
use super::sqs::{OnSqs, Sqs};
use super::supply::{Asked, Number, Store, Supply};
use super::workload::Workload;
use model::{Instant, Order, QueueName, Random};
use select::{Selection, terms};

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
    /// Amazon SQS, if that is the broker; None = one that knows at each fetch what waits in every queue.
    pub sqs: Option<Sqs>,
    /// Seed of the random draws.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Plan { workers: 1, order: Order::Ordered, latency: Duration::from_millis(1), sqs: None, seed: 1 }
    }
}

/// Runs all jobs of the workload to their end.
pub fn simulate(workload: &Workload, plan: &Plan) -> Report {
    let mut run = Run::new(workload, plan);
    while run.turn() {}
    run.report()
}

/// State of a run; times are in nanoseconds.
struct Run<'a> {
    workload: &'a Workload,
    plan: &'a Plan,
    names: Vec<QueueName>,
    /// The jobs of each queue: when they arrive, and how long they run.
    jobs: Vec<Vec<(u64, u64)>>,
    /// How many jobs of each queue have arrived.
    come: Vec<usize>,
    supply: Box<dyn Supply>,
    waits: Vec<Vec<u64>>,
    now: u64,
    /// Index of the next job to arrive.
    next: usize,
    /// How many jobs have not ended.
    left: usize,
    free: usize,
    /// The ends of the running jobs.
    ends: BinaryHeap<Reverse<(u64, Number)>>,
    selection: Selection,
    random: Random,
    /// The fetch under way: when it is answered, and for how many workers it is.
    fetch: Option<(u64, usize)>,
    maybe_waiting: bool,
    counted_at: Option<u64>,
    busy: u128,
}

impl<'a> Run<'a> {
    fn new(workload: &'a Workload, plan: &'a Plan) -> Self {
        let queues = workload.queues();
        let names: Vec<QueueName> = queues.iter().map(|queue| queue.name.clone()).collect();
        let mut jobs: Vec<Vec<(u64, u64)>> = vec![Vec::new(); queues.len()];
        for job in workload.jobs() {
            jobs[job.queue as usize].push((nanos(job.arrival), nanos(job.run_time)));
        }
        let by_priority = queues.iter().map(|queue| (queue.name.clone(), queue.priority));
        let selection = Selection::new(plan.order, by_priority);
        let (supply, turn): (Box<dyn Supply>, usize) = match plan.sqs {
            None => (Box::new(Store::new(names.len())), 1),
            // A drawn queue gives as many jobs as one call brings, as in a pool on SQS.
            Some(sqs) => (Box::new(OnSqs::new(sqs, &names)), terms::MOST),
        };
        let turn_of =
            |name: &QueueName| queues.iter().find(|queue| queue.name == *name).and_then(|queue| queue.turn);
        let selection = selection.with_turns(|name| turn_of(name).unwrap_or(turn));
        Run {
            workload,
            plan,
            waits: jobs.iter().map(|jobs| Vec::with_capacity(jobs.len())).collect(),
            come: vec![0; names.len()],
            names,
            jobs,
            supply,
            now: 0,
            next: 0,
            left: workload.jobs().len(),
            free: usize::from(plan.workers.max(1)),
            ends: BinaryHeap::new(),
            selection,
            random: Random(plan.seed),
            fetch: None,
            maybe_waiting: true,
            counted_at: None,
            busy: 0,
        }
    }

    /// Goes to the next moment at which anything happens; false when all jobs have ended.
    fn turn(&mut self) -> bool {
        self.ask();
        let arrival = self.workload.jobs().get(self.next).map(|job| nanos(job.arrival));
        let end = self.ends.peek().map(|Reverse((at, _))| *at);
        let answer = self.fetch.map(|(at, _)| at);
        let soonest = [arrival, end, answer, self.supply.due()].into_iter().flatten().min();
        let Some(now) = soonest.filter(|_| self.left > 0) else { return false };
        self.now = now;
        // Before the answer: jobs that come and workers that are free at this moment belong to it.
        self.arrive();
        self.end();
        if self.supply.happen(now) {
            self.woken();
        }
        if answer.is_some_and(|at| at <= now) {
            self.answer();
        }
        self.count();
        true
    }

    fn woken(&mut self) {
        self.maybe_waiting = true;
        self.selection.woken();
    }

    fn arrive(&mut self) {
        while let Some(job) = self.workload.jobs().get(self.next).filter(|job| nanos(job.arrival) <= self.now)
        {
            let place = job.queue as usize;
            let number = (place, self.come[place]);
            self.come[place] += 1;
            self.next += 1;
            if self.supply.come(self.now, number) {
                self.woken();
            }
        }
    }

    fn end(&mut self) {
        while let Some(Reverse((_, job))) = self.ends.peek().filter(|Reverse((at, _))| *at <= self.now) {
            let (_, ran) = self.jobs[job.0][job.1];
            self.supply.ended(self.now, *job, ran);
            self.ends.pop();
            self.free += 1;
            self.left -= 1;
        }
    }

    /// Fetches for all free workers, if jobs may be waiting.
    fn ask(&mut self) {
        if self.fetch.is_some() || !self.maybe_waiting || self.free == 0 {
            return;
        }
        self.maybe_waiting = false;
        let random = &mut self.random;
        let (names, take) = self.selection.next(Instant(self.now), |count| random.below(count));
        let place = |name: &QueueName| self.names.iter().position(|known| known == name);
        let places = names.iter().filter_map(place).collect();
        self.supply.ask(self.now, Asked { places, names, take, most: self.free });
        self.fetch = Some((self.now.saturating_add(nanos(self.plan.latency)), self.free));
    }

    /// The fetch has its answer, and the jobs start.
    fn answer(&mut self) {
        let Some((_, most)) = self.fetch.take() else { return };
        let taken = self.supply.answer();
        for (place, number) in &taken {
            let (arrival, run_time) = self.jobs[*place][*number];
            self.waits[*place].push(self.now - arrival);
            self.ends.push(Reverse((self.now.saturating_add(run_time), (*place, *number))));
            self.busy += u128::from(run_time);
        }
        self.free -= taken.len();
        let full = taken.len() >= most;
        self.selection.answered(taken.iter().map(|(place, _)| &self.names[*place]), full);
        if self.maybe_waiting {
            // The answer says nothing of jobs that came since the fetch was sent.
            self.selection.woken();
        }
        self.maybe_waiting |= full;
    }

    fn count(&mut self) {
        let due = self.counted_at.is_none_or(|at| at + nanos(COUNTS) <= self.now);
        if due {
            self.counted_at = Some(self.now);
            let counts: Vec<_> =
                (0..self.names.len()).map(|place| self.supply.waiting(self.now, place)).collect();
            let names = &self.names;
            self.selection.counted(Instant(self.now), |queue| {
                let place = names.iter().position(|name| name == queue);
                place.map(|place| counts[place]).unwrap_or_default()
            });
        }
    }

    fn report(self) -> Report {
        let queues = self.workload.queues().iter().zip(&self.waits);
        let queues: Vec<Latency> = queues
            .map(|(queue, waits)| Latency::of(queue.name.as_str(), Some(queue.priority), waits.clone()))
            .collect();
        // A queue without jobs has no latency that could be the worst.
        let worst = queues.iter().filter(|queue| queue.jobs > 0).max_by_key(|queue| queue.p95);
        let worst = worst.map_or_else(String::new, |queue| queue.name.clone());
        let all = Latency::of("all", None, self.waits.concat());
        let worked = self.now as f64 * f64::from(self.plan.workers.max(1));
        let price = self.plan.sqs.map_or(0.0, |sqs| sqs.per_million);
        Report {
            selector: self.plan.order.as_str(),
            workers: self.plan.workers.max(1),
            queues,
            worst,
            length: Duration::from_nanos(self.now),
            utilisation: if worked > 0.0 { self.busy as f64 / worked } else { 0.0 },
            calls: self.supply.calls().map(|calls| calls.priced(all.jobs, price)),
            all,
        }
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
