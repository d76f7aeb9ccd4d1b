//! The jobs of a simulation: when each arrives, and how long it runs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use model::{QUEUE_PRIORITY, QueueName};

/// Limit of the jobs of a simulation.
pub(crate) const JOBS_MAX: usize = 10_000_000;

/// A queue of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Name of the queue.
    pub name: QueueName,
    /// Priority from 1 to 100.
    pub priority: u8,
    /// How many jobs it gives in a row once a lottery has drawn it; None = as usual with the broker.
    pub turn: Option<usize>,
}

/// A job of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedJob {
    /// When it arrives, from the beginning on.
    pub arrival: Duration,
    /// The index of its queue.
    pub queue: u32,
    /// How long it runs.
    pub run_time: Duration,
}

/// Queues and their jobs, in the order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    queues: Vec<Queue>,
    jobs: Vec<SimulatedJob>,
}

/// Why a workload cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct WrongWorkload {
    /// The line, counted from 1, if it is known.
    pub line: Option<usize>,
    /// What is wrong with it, and what to do.
    pub message: String,
}

impl fmt::Display for WrongWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl WrongWorkload {
    pub(super) fn at(line: usize, message: impl Into<String>) -> Self {
        WrongWorkload { line: Some(line), message: message.into() }
    }

    pub(super) fn whole(message: impl Into<String>) -> Self {
        WrongWorkload { line: None, message: message.into() }
    }
}

impl Workload {
    /// Makes a workload of jobs in any order, with queues by index.
    pub(super) fn new(queues: Vec<Queue>, mut jobs: Vec<SimulatedJob>) -> Self {
        // A stable sort: of jobs that arrive at the same time the first one given comes first.
        jobs.sort_by_key(|job| job.arrival);
        Workload { queues, jobs }
    }

    /// The queues of the workload.
    pub fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// The jobs, in the order of arrival.
    pub fn jobs(&self) -> &[SimulatedJob] {
        &self.jobs
    }

    /// Sets other priorities of queues, from 1 to 100; fails for an unknown queue.
    pub fn set_priorities(&mut self, priorities: &BTreeMap<QueueName, u8>) -> Result<(), WrongWorkload> {
        for (name, priority) in priorities {
            let found = self.queues.iter_mut().find(|queue| queue.name == *name);
            let Some(queue) = found else {
                let names: Vec<&str> = self.queues.iter().map(|queue| queue.name.as_str()).collect();
                let message = format!("it has no queue '{name}'; there are: {}", names.join(", "));
                return Err(WrongWorkload::whole(message));
            };
            queue.priority = *priority;
        }
        Ok(())
    }
}

/// Finds the index of a queue by its name, and adds a new queue.
#[derive(Debug, Default)]
pub(super) struct Queues {
    found: BTreeMap<String, u32>,
    pub(super) all: Vec<Queue>,
}

impl Queues {
    pub(super) fn index(&mut self, name: &str) -> u32 {
        if let Some(index) = self.found.get(name) {
            return *index;
        }
        let index = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.found.insert(name.to_owned(), index);
        self.all.push(Queue { name: name.into(), priority: QUEUE_PRIORITY, turn: None });
        index
    }
}
