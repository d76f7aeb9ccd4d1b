//! Chooses a queue. Six of these orders are kale's, and follow its arithmetic draw by draw.

use std::time::Duration;

use model::{Order, QUEUE_PRIORITY, QUEUE_PRIORITY_MAX};

/// How often a lottery is drawn again while it draws a queue without work.
const DRAWS: usize = 10;

/// What is known of a queue without asking the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Priority from 1 to 100; a higher one comes first, and has more tickets in a lottery.
    pub priority: u8,
    /// How many jobs waited at the last count; None = never counted, or there may be more since.
    pub waiting: Option<u64>,
    /// How long its oldest job has waited; None = not known, or there is none.
    pub age: Option<Duration>,
    /// Whether the last fetch from it found nothing.
    pub empty: bool,
}

impl Known {
    /// A queue of which nothing is known yet.
    pub fn new(priority: u8) -> Self {
        Known { priority, waiting: None, age: None, empty: false }
    }

    /// Whether it may have a job. True for a queue of which nothing is known.
    pub fn may_have_work(&self) -> bool {
        !self.empty && self.waiting != Some(0)
    }

    /// Its tickets in a lottery.
    fn tickets(&self) -> usize {
        match self.priority {
            1..=QUEUE_PRIORITY_MAX => usize::from(self.priority),
            _ => 0,
        }
    }

    /// The urgency: grows while its oldest job waits, faster with a higher priority.
    fn urgency(&self) -> u128 {
        // A queue that is empty by now waits no longer, whatever its last count said.
        let age = self.age.filter(|_| self.may_have_work()).unwrap_or_default();
        age.as_nanos() * u128::from(self.priority)
    }
}

impl Default for Known {
    fn default() -> Self {
        Known::new(QUEUE_PRIORITY)
    }
}

/// The index of the queue to take from; None without queues. The queues are in the order of their priority, the highest
/// first. `has_work` says whether it is worth taking from a queue, and `below` draws a number below its argument.
///
/// [`Order::RoundRobin`] and [`Order::Shuffled`] take the first: their callers keep the turns.
/// ```
/// use model::Order;
/// use taskvisor_select::{Known, choose};
/// let queues = [100, 75, 1].map(Known::new);
/// // The lottery draws 99 of 176 tickets, and finds the first queue empty; then 75 of the 76 that are left.
/// let mut draws = [99, 75].into_iter();
/// let chosen = choose(Order::ReducedLottery, &queues, |at| at != 0, |_| draws.next().unwrap());
/// assert_eq!(chosen, Some(2));
/// ```
pub fn choose(
    order: Order,
    queues: &[Known],
    mut has_work: impl FnMut(usize) -> bool,
    mut below: impl FnMut(usize) -> usize,
) -> Option<usize> {
    let all = || 0..queues.len();
    let first_with_work = |has_work: &mut dyn FnMut(usize) -> bool| all().find(|at| has_work(*at));
    let below: &mut dyn FnMut(usize) -> usize = &mut below;
    match order {
        Order::Ordered | Order::RoundRobin | Order::Shuffled | Order::StrictPriority => all().next(),
        Order::Random => (!queues.is_empty()).then(|| below(queues.len())),
        Order::Lottery => lottery(queues, all(), below),
        Order::HighestPriorityFirst => first_with_work(&mut has_work).or(all().next()),
        Order::HighestPriorityLottery => {
            first_with_work(&mut has_work).or_else(|| lottery(queues, all(), below))
        }
        Order::LotteryLottery => {
            for _ in 0..DRAWS {
                let drawn = lottery(queues, all(), below)?;
                if has_work(drawn) {
                    return Some(drawn);
                }
            }
            // No queue has work as far as is known, which may be out of date: one is taken all the same.
            lottery(queues, all(), below)
        }
        Order::ReducedLottery => {
            let mut left: Vec<usize> = all().collect();
            while let Some(drawn) = lottery(queues, left.iter().copied(), below) {
                if has_work(drawn) {
                    return Some(drawn);
                }
                left.retain(|at| *at != drawn);
            }
            lottery(queues, all(), below)
        }
        // Of equal ones the first.
        Order::PriorityAging => all().rev().max_by_key(|at| queues[*at].urgency()),
    }
}

/// The queues, each once, in the order in which they would be chosen if the earlier ones were left out.
pub(super) fn ranked(order: Order, queues: &[Known], mut below: impl FnMut(usize) -> usize) -> Vec<usize> {
    let mut left: Vec<usize> = (0..queues.len()).collect();
    let mut known = queues.to_vec();
    let mut ranked = Vec::with_capacity(left.len());
    while let Some(at) = choose(order, &known, |at| known[at].may_have_work(), &mut below) {
        known.remove(at);
        ranked.push(left.remove(at));
    }
    // Queues without a ticket come last.
    ranked.extend(left);
    ranked
}

/// Draws one ticket of all that these queues have; None if they have none.
fn lottery(
    queues: &[Known],
    among: impl Iterator<Item = usize> + Clone,
    below: &mut dyn FnMut(usize) -> usize,
) -> Option<usize> {
    let tickets = among.clone().map(|at| queues[at].tickets()).sum();
    if tickets == 0 {
        return None;
    }
    let mut number = below(tickets);
    among.into_iter().find(|at| {
        let own = queues[*at].tickets();
        let is_it = number < own;
        number = number.saturating_sub(own);
        is_it
    })
}

#[cfg(test)]
#[path = "choose_tests.rs"]
mod tests;
