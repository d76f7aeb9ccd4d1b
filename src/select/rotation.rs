//! The order of queues from one fetch to the next.

use crate::model::{Order, QueueName, Take};

/// The queues of a pool, and where among them the next fetch begins.
#[derive(Clone, Debug)]
pub struct Rotation {
    order: Order,
    queues: Vec<QueueName>,
    /// Whose turn it is, in a round.
    first: usize,
}

impl Rotation {
    /// Begins with the first of the queues.
    pub fn new(order: Order, queues: Vec<QueueName>) -> Self {
        Rotation { order, queues, first: 0 }
    }

    /// The queues in the order the next fetch goes through them, and how. `below` draws a number below another one.
    pub fn next(&self, mut below: impl FnMut(usize) -> usize) -> (Vec<QueueName>, Take) {
        let mut queues = self.queues.clone();
        match self.order {
            Order::Ordered => (queues, Take::InOrder),
            Order::RoundRobin => {
                queues.rotate_left(self.first);
                (queues, Take::InTurn)
            }
            Order::Shuffled => {
                for end in (1..queues.len()).rev() {
                    queues.swap(end, below(end + 1));
                }
                (queues, Take::InTurn)
            }
        }
    }

    /// The last job of a fetch came from this queue: the round goes on behind it.
    pub fn went_to(&mut self, queue: &QueueName) {
        let count = self.queues.len();
        let round = (0..count).map(|step| (self.first + step) % count);
        if let Some(at) = round.into_iter().find(|at| self.queues[*at] == *queue) {
            self.first = (at + 1) % count;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::select::Turns;

    /// Fetches batches of these sizes, over and over, until nothing is left.
    fn fetch_all(order: Order, sizes: &[(&str, usize)], batches: &[usize]) -> Vec<String> {
        let mut left: Vec<(QueueName, usize)> =
            sizes.iter().map(|(name, jobs)| ((*name).into(), *jobs)).collect();
        let mut rotation = Rotation::new(order, left.iter().map(|(name, _)| name.clone()).collect());
        let (mut all, mut seed) = (Vec::new(), 1);
        for batch in batches.iter().cycle() {
            let (queues, take) = rotation.next(|below| {
                seed = seed * 5 + 3;
                (seed / 7) % below
            });
            let taken = fetch(take, queues, *batch, &mut left);
            let Some(last) = taken.last() else { return all };
            rotation.went_to(last);
            all.extend(taken.iter().map(QueueName::to_string));
            seed %= 1_000_003;
        }
        all
    }

    fn fetch(
        take: Take,
        queues: Vec<QueueName>,
        most: usize,
        left: &mut [(QueueName, usize)],
    ) -> Vec<QueueName> {
        let mut turns = Turns::new(take, queues);
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(queue) = turns.queue()
        {
            match left.iter_mut().find(|(name, jobs)| name == queue && *jobs > 0) {
                Some((name, jobs)) => {
                    *jobs -= 1;
                    taken.push(name.clone());
                    turns.gave();
                }
                None => turns.had_none(),
            }
        }
        taken
    }

    const CBA: [(&str, usize); 3] = [("C", 3), ("B", 2), ("A", 5)];

    #[test]
    fn ordered_empties_one_queue_after_the_other() {
        for batches in [&[1][..], &[8], &[2, 1, 4]] {
            assert_eq!(fetch_all(Order::Ordered, &CBA, batches).concat(), "CCCBBAAAAA", "{batches:?}");
        }
    }

    #[test]
    fn round_robin_takes_one_from_each_in_turn_whatever_the_size_of_the_fetches() {
        for batches in [&[1][..], &[8], &[2, 1, 4], &[3, 5], &[100]] {
            assert_eq!(fetch_all(Order::RoundRobin, &CBA, batches).concat(), "CBACBACAAA", "{batches:?}");
        }
    }

    #[test]
    fn shuffled_begins_with_each_queue_sometimes() {
        let jobs = fetch_all(Order::Shuffled, &[("C", 300), ("B", 300), ("A", 300)], &[1]);
        for queue in ["A", "B", "C"] {
            let early = jobs.iter().take(300).filter(|name| *name == queue).count();
            assert!((50..150).contains(&early), "{queue} {early} times of 300");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_queue_with_jobs_is_passed_over(
            sizes in proptest::collection::vec(0usize..20, 1..8),
            batches in proptest::collection::vec(1usize..12, 1..6),
        ) {
            let names: Vec<String> = (0..sizes.len()).map(|number| format!("q{number}")).collect();
            let queues: Vec<(&str, usize)> = names.iter().map(String::as_str).zip(sizes.iter().copied()).collect();
            for order in [Order::Ordered, Order::RoundRobin, Order::Shuffled] {
                prop_assert_eq!(fetch_all(order, &queues, &batches).len(), sizes.iter().sum::<usize>());
            }
            // Fair: of two queues that both have jobs left, none is ever more than one ahead.
            let mut given = vec![0; sizes.len()];
            for name in fetch_all(Order::RoundRobin, &queues, &batches) {
                given[name[1..].parse::<usize>().unwrap()] += 1;
                let open = (0..sizes.len()).filter(|queue| given[*queue] < sizes[*queue]);
                let least = open.map(|queue| given[queue]).min();
                prop_assert!(least.is_none_or(|least| given.iter().all(|taken| *taken <= least + 1)));
            }
        }
    }
}
