//! The turns of the queues in one fetch.

use std::collections::VecDeque;

use model::Take;

/// Says which queue to take the next job from, until all are empty. A broker asks, tries, and tells what came of it:
/// ```
/// use model::Take;
/// use taskvisor_select::Turns;
/// let mut left = [("c", 3), ("b", 2), ("a", 5)];
/// let mut turns = Turns::new(Take::InTurn, 0..left.len());
/// let mut taken = Vec::new();
/// while taken.len() < 8 && let Some(&queue) = turns.queue() {
///     match left[queue] {
///         (_, 0) => turns.had_none(),
///         (name, jobs) => {
///             left[queue].1 = jobs - 1;
///             taken.push(name);
///             turns.gave();
///         }
///     }
/// }
/// assert_eq!(taken, ["c", "b", "a", "c", "b", "a", "c", "a"]);
/// ```
#[derive(Clone, Debug)]
pub struct Turns<Q> {
    take: Take,
    /// Queues that may have a job, the next one first.
    open: VecDeque<Q>,
}

impl<Q> Turns<Q> {
    /// Begins with the first of the queues.
    pub fn new(take: Take, queues: impl IntoIterator<Item = Q>) -> Self {
        Turns { take, open: queues.into_iter().collect() }
    }

    /// The queue to try next; None when all are empty.
    pub fn queue(&self) -> Option<&Q> {
        self.open.front()
    }

    /// The queue gave a job.
    pub fn gave(&mut self) {
        match self.take {
            Take::InOrder => {}
            Take::InTurn => {
                if let Some(queue) = self.open.pop_front() {
                    self.open.push_back(queue);
                }
            }
        }
    }

    /// The queue had no job.
    pub fn had_none(&mut self) {
        self.open.pop_front();
    }
}
