//! The order of queues from one fetch to the next, and what fetches and counts show about them.

use super::choose::{Known, ranked};
use model::{Instant, Order, QueueName, Take, Waiting};

/// The queues of a pool with what is known of them, and where the next fetch begins.
#[derive(Clone, Debug)]
pub struct Selection {
    order: Order,
    /// The queues as given, or by priority, the highest first, if the order uses priorities.
    queues: Vec<QueueName>,
    known: Vec<Known>,
    /// When the queues were counted last.
    counted_at: Instant,
    /// The queue whose turn it is, in a round.
    first: usize,
    /// The order in which the latest fetch took from the queues.
    asked: Vec<usize>,
    /// The number of jobs that are taken from each queue, once it is drawn, before the lottery draws again.
    turns: Vec<usize>,
    /// The queue that was drawn, and how many more jobs it gives.
    drawn: Option<(usize, usize)>,
}

impl Selection {
    /// Begins with the first of the queues; each comes with its priority, from 1 to 100.
    pub fn new(order: Order, queues: impl IntoIterator<Item = (QueueName, u8)>) -> Self {
        let mut queues: Vec<(QueueName, u8)> = queues.into_iter().collect();
        if order.uses_priorities() {
            // A stable sort: queues of one priority keep the order in which they were given.
            queues.sort_by_key(|(_, priority)| std::cmp::Reverse(*priority));
        }
        let (queues, known): (Vec<_>, Vec<_>) =
            queues.into_iter().map(|(name, priority)| (name, Known::new(priority))).unzip();
        let (counted_at, asked, turns) = (Instant(0), Vec::new(), vec![1; queues.len()]);
        Selection { order, queues, known, counted_at, first: 0, asked, turns, drawn: None }
    }

    /// The same, in which a queue that is drawn gives `turn(queue)` jobs in a row, unless it has fewer: as in kale, whose
    /// processes stay at a queue for several batches.
    pub fn with_turns(self, turn: impl FnMut(&QueueName) -> usize) -> Self {
        Selection { turns: self.queues.iter().map(turn).collect(), ..self }
    }

    /// The order in which the next fetch takes from the queues, and how. `below` draws a number below its argument.
    pub fn next(&mut self, now: Instant, mut below: impl FnMut(usize) -> usize) -> (Vec<QueueName>, Take) {
        let count = self.queues.len();
        let mut asked: Vec<usize> = (0..count).collect();
        let take = match self.order {
            Order::Ordered | Order::StrictPriority => Take::InOrder,
            Order::RoundRobin => {
                asked.rotate_left(self.first);
                Take::InTurn
            }
            Order::Shuffled => {
                (1..count).rev().for_each(|end| asked.swap(end, below(end + 1)));
                Take::InTurn
            }
            Order::Random
            | Order::Lottery
            | Order::HighestPriorityFirst
            | Order::HighestPriorityLottery
            | Order::LotteryLottery
            | Order::ReducedLottery
            | Order::PriorityAging => {
                asked = ranked(self.order, &self.known_at(now), below);
                self.keep_turn(&mut asked);
                Take::InOrder
            }
        };
        let queues = asked.iter().map(|at| self.queues[*at].clone()).collect();
        self.asked = asked;
        (queues, take)
    }

    /// Puts the queue whose turn it is first. If there is none, the first one begins a turn.
    fn keep_turn(&mut self, asked: &mut Vec<usize>) {
        if !self.order.draws() {
            return;
        }
        match self.drawn.filter(|(_, left)| *left > 0) {
            Some((drawn, _)) => {
                asked.retain(|at| *at != drawn);
                asked.insert(0, drawn);
            }
            None => self.drawn = asked.first().map(|at| (*at, self.turns[*at])).filter(|(_, turn)| *turn > 1),
        }
    }

    /// A job came from a queue: if another one was drawn, that has none, and this one takes over its turn.
    fn count_turn(&mut self, at: usize) {
        let left = match self.drawn {
            Some((drawn, left)) if drawn == at => left,
            Some(_) | None => self.turns[at],
        };
        self.drawn = Some((at, left.saturating_sub(1)));
    }

    /// What is known of the queues at a moment, in the order in which they are stored here.
    pub fn known_at(&self, now: Instant) -> Vec<Known> {
        let since = now.since(self.counted_at);
        let older = |known: &Known| Known { age: known.age.map(|age| age + since), ..*known };
        self.known.iter().map(older).collect()
    }

    /// A fetch brought jobs from these queues, in this order; `full` if it brought as many as asked for. When taken in
    /// order, each queue before the last one in the answer had no more jobs.
    pub fn answered<'a>(&mut self, jobs: impl IntoIterator<Item = &'a QueueName>, full: bool) {
        let mut last = None;
        for queue in jobs {
            if let Some(at) = self.place(queue) {
                let known = &mut self.known[at];
                // A count that has run down to 0 is forgotten: 0 would say that the queue is empty, which
                // nobody has seen.
                known.waiting =
                    known.waiting.map(|waiting| waiting.saturating_sub(1)).filter(|left| *left > 0);
                known.empty = false;
                last = Some(at);
                self.count_turn(at);
            }
        }
        if let Some(at) = last {
            self.first = (at + 1) % self.queues.len();
        }
        let looked = match (full, self.order) {
            // Fewer than asked for: all queues were looked at, and have no more.
            (false, _) => self.asked.len(),
            // Taken in turn, a full answer shows of no queue that it is empty.
            (true, Order::RoundRobin | Order::Shuffled) => 0,
            (true, _) => self.asked.iter().position(|at| Some(*at) == last).unwrap_or(0),
        };
        // Its age is kept: a broker may give nothing while it waits for an answer, and have more a moment later.
        for at in self.asked.drain(..looked) {
            self.known[at].empty = true;
        }
    }

    /// Jobs may have come.
    pub fn woken(&mut self) {
        for known in &mut self.known {
            known.empty = false;
            // A 0 may be out of date now; any other count still says that there are jobs.
            known.waiting = known.waiting.filter(|waiting| *waiting > 0);
        }
    }

    /// The broker has counted the queues.
    pub fn counted(&mut self, now: Instant, counts: impl Fn(&QueueName) -> Waiting) {
        self.counted_at = now;
        for (queue, known) in self.queues.iter().zip(&mut self.known) {
            let Waiting { jobs, age } = counts(queue);
            *known = Known { waiting: Some(jobs), age, empty: jobs == 0, ..*known };
        }
        // A queue that has run empty gives its turn back.
        self.drawn = self.drawn.filter(|(at, _)| !self.known[*at].empty);
    }

    /// The index of a queue; if it is given twice, that of the one whose turn comes next.
    fn place(&self, queue: &QueueName) -> Option<usize> {
        let count = self.queues.len();
        (0..count).map(|step| (self.first + step) % count).find(|at| self.queues[*at] == *queue)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::Turns;
    use model::Random;

    /// Fetches batches of these sizes in turn until no job is left.
    fn fetch_all(order: Order, sizes: &[(&str, usize)], batches: &[usize]) -> Vec<String> {
        let mut left: Vec<(QueueName, usize)> =
            sizes.iter().map(|(name, jobs)| ((*name).into(), *jobs)).collect();
        let mut selection = Selection::new(order, left.iter().map(|(name, _)| (name.clone(), 5)));
        let (mut all, mut random) = (Vec::new(), Random(1));
        for batch in batches.iter().cycle() {
            let (queues, take) = selection.next(Instant(0), |below| random.below(below));
            let taken = fetch(take, queues, *batch, &mut left);
            if taken.is_empty() {
                return all;
            }
            selection.answered(&taken, taken.len() >= *batch);
            all.extend(taken.iter().map(QueueName::to_string));
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
    fn round_robin_takes_one_job_from_each_queue_for_any_fetch_size() {
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

    #[test]
    fn empty_queue_comes_last_until_jobs_may_have_arrived() {
        let queues = [("low", 1), ("high", 90), ("mid", 50)].map(|(name, priority)| (name.into(), priority));
        let mut selection = Selection::new(Order::HighestPriorityFirst, queues);
        let next = |selection: &mut Selection| {
            let (queues, _) = selection.next(Instant(0), |_| 0);
            queues.iter().map(QueueName::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(next(&mut selection), "high mid low");
        // The fetch got all jobs it asked for, so it tells nothing about the last queue.
        selection.answered(&["mid".into(), "mid".into()], true);
        assert_eq!(next(&mut selection), "mid low high");
        selection.answered(&["mid".into()], false);
        assert_eq!(next(&mut selection), "high mid low");
        selection.answered(&[], false);
        selection.woken();
        next(&mut selection);
        selection.answered(&["low".into()], true);
        let waiting = |queue: &QueueName| Waiting { jobs: u64::from(queue.as_str() == "mid"), age: None };
        selection.counted(Instant(0), waiting);
        assert_eq!(next(&mut selection), "mid high low");
    }

    #[test]
    fn drawn_queue_keeps_its_turn_and_passes_it_on_when_it_has_no_more() {
        let queues = [("high", 100), ("mid", 40), ("low", 5)].map(|(name, priority)| (name.into(), priority));
        let mut selection = Selection::new(Order::Lottery, queues).with_turns(|_| 3);
        let next = |selection: &mut Selection, draw: usize| {
            selection.next(Instant(0), |below| draw.min(below - 1)).0[0].to_string()
        };
        assert_eq!(next(&mut selection, 144), "low");
        selection.answered(&["low".into(), "low".into()], true);
        assert_eq!(next(&mut selection, 0), "low", "it has given two of three");
        selection.answered(&[], false);
        assert_eq!(next(&mut selection, 0), "low", "its job may be on the way");
        selection.answered(&["low".into()], true);
        assert_eq!(next(&mut selection, 100), "mid");
        selection.answered(&["high".into()], true);
        assert_eq!(next(&mut selection, 144), "high", "the other had none");
        selection.answered(&["high".into(), "high".into()], true);
        assert_eq!(next(&mut selection, 144), "low");
        selection
            .counted(Instant(0), |queue| Waiting { jobs: u64::from(queue.as_str() != "low"), age: None });
        assert_eq!(next(&mut selection, 0), "high", "a queue that has run empty has no turn");
    }

    #[test]
    fn turns_leave_the_shares_of_a_lottery_as_they_are() {
        let names: [QueueName; 3] = ["high".into(), "mid".into(), "low".into()];
        let queues = names.clone().into_iter().zip([100, 40, 5]);
        let mut selection = Selection::new(Order::ReducedLottery, queues).with_turns(|_| 10);
        let (mut random, mut shares) = (Random(1), [0usize; 3]);
        for _ in 0..145_000 {
            let first = selection.next(Instant(0), |below| random.below(below)).0.remove(0);
            shares[names.iter().position(|name| *name == first).unwrap()] += 1;
            selection.answered(&[first], true);
        }
        for (share, expected) in shares.into_iter().zip([100_000, 40_000, 5_000]) {
            assert!(share.abs_diff(expected) < 4_000, "{shares:?}");
        }
    }

    #[test]
    fn share_of_a_queue_is_its_tickets_times_its_turn() {
        let names: [QueueName; 2] = ["long".into(), "short".into()];
        let turns = |queue: &QueueName| if queue.as_str() == "long" { 30 } else { 5 };
        let queues = names.clone().into_iter().zip([10, 20]);
        let mut selection = Selection::new(Order::Lottery, queues).with_turns(turns);
        let (mut random, mut shares) = (Random(1), [0usize; 2]);
        for _ in 0..40_000 {
            let first = selection.next(Instant(0), |below| random.below(below)).0.remove(0);
            shares[names.iter().position(|name| *name == first).unwrap()] += 1;
            selection.answered(&[first], true);
        }
        assert!(shares[0].abs_diff(30_000) < 1_500, "10 x 30 against 20 x 5: {shares:?}");
    }

    #[test]
    fn ages_grow_between_counts() {
        let queues = [("new", 30), ("old", 3)].map(|(name, priority)| (name.into(), priority));
        let mut selection = Selection::new(Order::PriorityAging, queues);
        let age = |queue: &QueueName| Some(Duration::from_secs(if queue.as_str() == "old" { 12 } else { 1 }));
        selection.counted(Instant::from_millis(0), |queue| Waiting { jobs: 1, age: age(queue) });
        let ages: Vec<_> =
            selection.known_at(Instant::from_millis(3000)).iter().map(|known| known.age).collect();
        assert_eq!(ages, [Some(Duration::from_secs(4)), Some(Duration::from_secs(15))]);
        assert_eq!(selection.next(Instant::from_millis(0), |_| 0).0[0].as_str(), "old");
        assert_eq!(selection.next(Instant::from_millis(3000), |_| 0).0[0].as_str(), "new");
    }

    proptest! {
        #[test]
        fn no_job_is_lost_and_no_queue_with_jobs_is_skipped(
            sizes in proptest::collection::vec(0usize..20, 1..8),
            batches in proptest::collection::vec(1usize..12, 1..6),
        ) {
            let names: Vec<String> = (0..sizes.len()).map(|number| format!("q{number}")).collect();
            let queues: Vec<(&str, usize)> = names.iter().map(String::as_str).zip(sizes.iter().copied()).collect();
            for order in Order::ALL {
                prop_assert_eq!(fetch_all(order, &queues, &batches).len(), sizes.iter().sum::<usize>());
            }
            // Fair: of two queues with jobs left, neither is ever more than one job ahead.
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
