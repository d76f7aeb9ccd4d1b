use proptest::prelude::*;

use super::*;
use model::Random;

/// Chooses with exactly these draws; also returns which queues were checked.
fn with(order: Order, priorities: &[u8], work: &[usize], draws: &[(usize, usize)]) -> (usize, Vec<usize>) {
    let queues: Vec<Known> = priorities.iter().copied().map(Known::new).collect();
    let (mut draws, mut looked) = (draws.iter(), Vec::new());
    let look = |at: usize| {
        looked.push(at);
        work.contains(&at)
    };
    let chosen = choose(order, &queues, look, |below| {
        let (tickets, drawn) = draws.next().expect("one draw more than kale's");
        assert_eq!(below, *tickets, "drawn among");
        *drawn
    });
    assert_eq!(draws.next(), None, "kale draws more often");
    (chosen.unwrap(), looked)
}

/// The five queues of kale's own benchmark.
const KALE: [u8; 5] = [100, 75, 75, 70, 1];

#[test]
fn a_lottery_walks_the_queues_with_the_number_that_was_drawn() {
    let edges = [(0, 0), (99, 0), (100, 1), (174, 1), (175, 2), (249, 2), (250, 3), (319, 3), (320, 4)];
    for (drawn, queue) in edges {
        assert_eq!(with(Order::Lottery, &KALE, &[], &[(321, drawn)]), (queue, vec![]), "{drawn}");
    }
}

#[test]
fn random_order_draws_one_queue_without_checking_any() {
    assert_eq!(with(Order::Random, &KALE, &[0], &[(5, 4)]), (4, vec![]));
}

#[test]
fn highest_priority_first_takes_the_first_queue_with_work() {
    assert_eq!(with(Order::HighestPriorityFirst, &KALE, &[3, 4], &[]), (3, vec![0, 1, 2, 3]));
    assert_eq!(with(Order::HighestPriorityFirst, &KALE, &[], &[]), (0, vec![0, 1, 2, 3, 4]));
}

#[test]
fn highest_priority_lottery_draws_only_when_no_queue_has_work() {
    assert_eq!(with(Order::HighestPriorityLottery, &KALE, &[1], &[]), (1, vec![0, 1]));
    assert_eq!(with(Order::HighestPriorityLottery, &KALE, &[], &[(321, 320)]), (4, vec![0, 1, 2, 3, 4]));
}

#[test]
fn lottery_lottery_draws_ten_times_and_once_more() {
    assert_eq!(with(Order::LotteryLottery, &KALE, &[4], &[(321, 7), (321, 320)]), (4, vec![0, 4]));
    let in_vain = [[(321, 7); 10].as_slice(), &[(321, 100)]].concat();
    assert_eq!(with(Order::LotteryLottery, &KALE, &[4], &in_vain), (1, vec![0; 10]));
}

#[test]
fn reduced_lottery_skips_empty_queues_and_finally_draws_among_all() {
    let draws = [(321, 99), (221, 75), (146, 75)];
    assert_eq!(with(Order::ReducedLottery, &KALE, &[3], &draws), (3, vec![0, 2, 3]));
    let draws = [(321, 320), (320, 319), (250, 0), (150, 74), (75, 74), (321, 175)];
    assert_eq!(with(Order::ReducedLottery, &KALE, &[], &draws), (2, vec![4, 3, 0, 1, 2]));
}

#[test]
fn priority_out_of_range_has_no_ticket() {
    assert_eq!(with(Order::Lottery, &[101, 3, 0], &[], &[(3, 2)]), (1, vec![]));
    let queues = [Known::new(0)];
    assert_eq!(choose(Order::ReducedLottery, &queues, |_| false, |_| 0), None);
    assert_eq!(ranked(Order::ReducedLottery, &queues, |_| 0), [0]);
}

#[test]
fn strict_priority_asks_the_highest_first_even_if_empty() {
    let queues = [9, 5, 1].map(|priority| Known { empty: true, waiting: Some(0), ..Known::new(priority) });
    assert_eq!(ranked(Order::StrictPriority, &queues, |_| 0), [0, 1, 2]);
}

#[test]
fn aging_weighs_the_age_of_the_oldest_job_by_the_priority_of_its_queue() {
    let aged = |priority: u8, seconds: u64| {
        let age = Some(Duration::from_secs(seconds));
        Known { waiting: Some(1), age, ..Known::new(priority) }
    };
    let chosen = |queues: &[Known]| choose(Order::PriorityAging, queues, |_| true, |_| 0);
    assert_eq!(chosen(&[aged(100, 1), aged(10, 9), aged(1, 99)]), Some(0));
    assert_eq!(chosen(&[aged(100, 1), aged(10, 11), aged(1, 109)]), Some(1));
    assert_eq!(chosen(&[aged(100, 1), aged(10, 11), aged(1, 111)]), Some(2));
    assert_eq!(chosen(&[aged(5, 20), aged(5, 20)]), Some(0), "of equals the first");
    assert_eq!(chosen(&[Known { empty: true, ..aged(5, 20) }, aged(1, 1)]), Some(1));
}

fn queues() -> impl Strategy<Value = Vec<Known>> {
    let queue = (1..=100u8, proptest::option::of(0..5u64), proptest::option::of(0..90u64), any::<bool>());
    let known = queue.prop_map(|(priority, waiting, age, empty)| Known {
        priority,
        waiting,
        age: age.map(Duration::from_secs),
        empty,
    });
    let sorted = |mut queues: Vec<Known>| {
        queues.sort_by_key(|queue| std::cmp::Reverse(queue.priority));
        queues
    };
    proptest::collection::vec(known, 1..8).prop_map(sorted)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn lottery_shares_follow_the_tickets(queues in queues(), seed: u64) {
        const DRAWN: usize = 20_000;
        let (mut random, mut shares) = (Random(seed), vec![0usize; queues.len()]);
        for _ in 0..DRAWN {
            shares[choose(Order::Lottery, &queues, |_| true, |count| random.below(count)).unwrap()] += 1;
        }
        let all: usize = queues.iter().map(Known::tickets).sum();
        for (queue, share) in queues.iter().zip(shares) {
            let expected = DRAWN as f64 * queue.tickets() as f64 / all as f64;
            // Seven standard deviations.
            prop_assert!((share as f64 - expected).abs() <= 7.0 * expected.sqrt() + 1.0, "{share} of {expected}");
        }
    }

    #[test]
    fn reduced_lottery_distributes_the_share_of_empty_queues(queues in queues(), seed: u64) {
        const DRAWN: usize = 20_000;
        let has_work = |at: usize| queues[at].may_have_work();
        let all: usize = (0..queues.len()).filter(|at| has_work(*at)).map(|at| queues[at].tickets()).sum();
        prop_assume!(all > 0);
        let (mut random, mut shares) = (Random(seed), vec![0usize; queues.len()]);
        for _ in 0..DRAWN {
            let chosen = choose(Order::ReducedLottery, &queues, has_work, |count| random.below(count)).unwrap();
            prop_assert!(has_work(chosen));
            shares[chosen] += 1;
        }
        for (at, share) in shares.into_iter().enumerate().filter(|(at, _)| has_work(*at)) {
            let expected = DRAWN as f64 * queues[at].tickets() as f64 / all as f64;
            prop_assert!((share as f64 - expected).abs() <= 7.0 * expected.sqrt() + 1.0, "{share} of {expected}");
        }
    }

    #[test]
    fn every_order_ranks_each_queue_once(queues in queues(), seed: u64) {
        for order in Order::ALL {
            let mut random = Random(seed);
            let mut ranked = ranked(order, &queues, |count| random.below(count));
            let chosen = choose(order, &queues, |at| queues[at].may_have_work(), |count| Random(seed).below(count));
            prop_assert!(chosen.is_some_and(|at| at < queues.len()));
            ranked.sort_unstable();
            prop_assert_eq!(ranked, (0..queues.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn no_queue_starves_by_chance_or_aging(priorities in proptest::collection::vec(1..=100u8, 2..6), seed: u64) {
        // Every queue always has work; in each round the age of all queues except the chosen one grows.
        let all: usize = priorities.iter().map(|priority| usize::from(*priority)).sum();
        for order in [Order::Random, Order::Lottery, Order::LotteryLottery, Order::ReducedLottery, Order::PriorityAging] {
            let fresh = |priority: &u8| Known { age: Some(Duration::ZERO), ..Known::new(*priority) };
            let mut queues: Vec<Known> = priorities.iter().map(fresh).collect();
            let (mut random, mut waits) = (Random(seed), vec![0usize; queues.len()]);
            for _ in 0..20 * all {
                let chosen = choose(order, &queues, |_| true, |count| random.below(count)).unwrap();
                for (at, queue) in queues.iter_mut().enumerate() {
                    let age = if at == chosen { Duration::ZERO } else { queue.age.unwrap() + Duration::from_secs(1) };
                    (queue.age, waits[at]) = (Some(age), age.as_secs() as usize);
                    // A queue with a share of one in `all` is missed for 20 * `all` rounds with probability e^-20.
                    prop_assert!(waits[at] < 20 * all, "{order:?}: queue {at} of {priorities:?}");
                    if order == Order::PriorityAging {
                        let highest = usize::from(priorities.iter().copied().max().unwrap());
                        let bound = priorities.len() * (highest.div_ceil(usize::from(queue.priority)) + 1);
                        prop_assert!(waits[at] <= bound, "{} rounds of {priorities:?}", waits[at]);
                    }
                }
            }
        }
    }
}
