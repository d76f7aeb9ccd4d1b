//! Where the jobs of a run wait, and how a fetch gets them. Times are nanoseconds from the beginning.

use std::collections::VecDeque;

use super::calls::Calls;
use model::{QueueName, Take, Waiting};
use select::Turns;

/// A job: the place of its queue in the workload, and its number among the jobs of that queue.
pub(super) type Number = (usize, usize);

/// What a fetch asks for.
pub(super) struct Asked {
    /// Queues in the order in which they give, by their places in the workload.
    pub places: Vec<usize>,
    /// The names of the same queues.
    pub names: Vec<QueueName>,
    pub take: Take,
    /// How many jobs it takes at most.
    pub most: usize,
}

/// A broker in virtual time.
pub(super) trait Supply {
    /// A job has come. True if the supervisor learns of it at once.
    fn come(&mut self, now: u64, job: Number) -> bool;

    /// A fetch has been sent.
    fn ask(&mut self, now: u64, asked: Asked);

    /// The jobs that the fetch brings, at the moment of its answer.
    fn answer(&mut self) -> Vec<Number>;

    /// The time of its next event without a call.
    fn due(&self) -> Option<u64>;

    /// Does what is due. True if the supervisor learns that jobs may have come.
    fn happen(&mut self, now: u64) -> bool;

    /// A job has ended that has run for this time.
    fn ended(&mut self, now: u64, job: Number, ran: u64);

    /// Counts the waiting jobs of a queue.
    fn waiting(&mut self, now: u64, place: usize) -> Waiting;

    /// The calls so far, if it bills by the call.
    fn calls(&self) -> Option<Calls>;
}

/// The embedded store, or another broker that knows at each fetch what waits in every queue.
pub(super) struct Store {
    /// The jobs that wait in each queue, with the times of their arrivals.
    lanes: Vec<VecDeque<(u64, Number)>>,
    asked: Option<Asked>,
}

impl Store {
    pub(super) fn new(queues: usize) -> Store {
        Store { lanes: vec![VecDeque::new(); queues], asked: None }
    }
}

impl Supply for Store {
    fn come(&mut self, now: u64, job: Number) -> bool {
        self.lanes[job.0].push_back((now, job));
        true
    }

    fn ask(&mut self, _now: u64, asked: Asked) {
        self.asked = Some(asked);
    }

    fn answer(&mut self) -> Vec<Number> {
        let Some(Asked { places, take, most, .. }) = self.asked.take() else { return Vec::new() };
        let (mut turns, mut taken) = (Turns::new(take, places), Vec::with_capacity(most));
        while taken.len() < most
            && let Some(&place) = turns.queue()
        {
            match self.lanes[place].pop_front() {
                Some((_, job)) => {
                    taken.push(job);
                    turns.gave();
                }
                None => turns.had_none(),
            }
        }
        taken
    }

    fn due(&self) -> Option<u64> {
        None
    }

    fn happen(&mut self, _now: u64) -> bool {
        false
    }

    fn ended(&mut self, _now: u64, _job: Number, _ran: u64) {}

    fn waiting(&mut self, now: u64, place: usize) -> Waiting {
        let lane = &self.lanes[place];
        let age = lane.front().map(|(came, _)| std::time::Duration::from_nanos(now - came));
        Waiting { jobs: lane.len() as u64, age }
    }

    fn calls(&self) -> Option<Calls> {
        None
    }
}
