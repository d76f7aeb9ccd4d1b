use super::*;

const LEASE: Duration = Duration::from_secs(60);

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// A plan for a pool with ready workers, and queues of these names in its order.
fn plan(names: &[&str], is_ordered: bool, ready: usize) -> PollPlan {
    let mut plan = PollPlan::default();
    let queues = names.iter().map(|name| QueueName::from(*name)).collect();
    let demand = plan.demand(&"default".into());
    (demand.queues, demand.is_ordered, demand.ready, demand.lease) = (queues, is_ordered, ready, LEASE);
    plan
}

/// The receives that begin at a moment, as `short NAME` or `long NAME`; these are open then.
fn begun(plan: &mut PollPlan, millis: u64, here: &[(&str, usize)]) -> String {
    let here = |queue: &QueueName| {
        here.iter().find(|(name, _)| *name == queue.as_str()).map_or(0, |(_, count)| *count)
    };
    let queues = plan.demand(&"default".into()).queues.clone();
    let mut all = Vec::new();
    for queue in queues {
        if let Some(receive) = plan.next(&queue, at(millis), here) {
            plan.began(&queue, &receive, at(millis));
            all.push(format!("{} {queue}", if receive.is_long { "long" } else { "short" }));
        }
    }
    all.join(", ")
}

#[test]
fn queue_is_asked_while_those_behind_it_wait_for_its_answer() {
    let mut plan = plan(&["a", "b", "c"], true, 4);
    assert_eq!(begun(&mut plan, 0, &[]), "short a");
    assert_eq!(begun(&mut plan, 5, &[]), "", "b waits for the answer of a");
    assert!(plan.awaits(&"a".into(), at(5)));
    plan.answered(&"a".into(), 0, at(10));
    assert_eq!(begun(&mut plan, 10, &[]), "long a, short b", "a has none: its long poll is a bell");
    plan.answered(&"b".into(), MOST, at(20));
    assert_eq!(begun(&mut plan, 20, &[("b", 4)]), "", "there is one for each worker");
    assert_eq!(begun(&mut plan, 30, &[]), "long b", "c is not received from while b may have more");
    plan.is_late(&"b".into());
    assert_eq!(begun(&mut plan, 300, &[]), "long c", "b has not answered: it is a bell; c is the last");
    assert_eq!(begun(&mut plan, 301, &[]), "", "all have their bells");
}

#[test]
fn queue_ahead_that_rings_comes_first_again() {
    let mut plan = plan(&["a", "b"], true, 2);
    begun(&mut plan, 0, &[]);
    plan.answered(&"a".into(), 0, at(1));
    assert_eq!(begun(&mut plan, 1, &[]), "long a, long b");
    plan.answered(&"b".into(), 2, at(2));
    plan.answered(&"a".into(), MOST, at(3));
    assert_eq!(begun(&mut plan, 3, &[("a", 2)]), "", "a has jobs for all workers");
    assert_eq!(begun(&mut plan, 9, &[]), "long a", "and is received from again before b is");
}

#[test]
fn queue_that_gave_less_than_it_might_is_asked_without_a_wait() {
    let mut plan = plan(&["a", "b"], true, 4);
    begun(&mut plan, 0, &[]);
    plan.answered(&"a".into(), 1, at(1));
    assert_eq!(begun(&mut plan, 2, &[]), "short a", "it is probably empty, and b waits for the answer");
    plan.answered(&"a".into(), 0, at(3));
    assert_eq!(begun(&mut plan, 3, &[]), "long a, long b");
}

#[test]
fn empty_answer_is_out_of_date_after_a_second_without_a_bell() {
    let mut plan = plan(&["a", "b"], true, 1);
    begun(&mut plan, 0, &[]);
    plan.answered(&"a".into(), 0, at(1));
    plan.demand(&"default".into()).ready = 0;
    assert_eq!(begun(&mut plan, 1, &[]), "", "no worker waits");
    assert!(!plan.awaits(&"a".into(), at(1000)));
    plan.demand(&"default".into()).ready = 1;
    assert!(plan.awaits(&"a".into(), at(1001)));
    assert_eq!(begun(&mut plan, 1001, &[("b", 3)]), "short a");
}

#[test]
fn failing_or_blocked_queue_holds_up_no_other_one() {
    let mut plan = plan(&["a", "b"], true, 1);
    begun(&mut plan, 0, &[]);
    plan.failed(&"a".into());
    assert_eq!(begun(&mut plan, 9000, &[]), "long a, long b");
    plan.answered(&"a".into(), 1, at(9001));
    plan.answered(&"b".into(), 0, at(9001));
    plan.blocked(&"a".into(), true);
    assert_eq!(begun(&mut plan, 9002, &[("a", 1)]), "long b", "no worker can take the message of a");
    assert!(!plan.awaits(&"a".into(), at(9002)));
}

#[test]
fn queues_in_turn_are_all_received_from() {
    let mut plan = plan(&["a", "b"], false, 2);
    assert_eq!(begun(&mut plan, 0, &[]), "long a, long b");
    plan.answered(&"a".into(), 2, at(1));
    assert_eq!(begun(&mut plan, 1, &[]), "long a");
}

#[test]
fn one_queue_has_a_long_poll_for_as_many_messages_as_all_pools_take() {
    let mut plan = plan(&["a"], true, 2);
    let mut other = plan.demand(&"default".into()).clone();
    (other.ready, other.lease) = (3, LEASE * 2);
    *plan.demand(&"other".into()) = other;
    let receive = plan.next(&"a".into(), at(0), |_| 0);
    let expected = Receive { most: 5, lease: LEASE * 2, is_long: true, is_awaited: false };
    assert_eq!(receive, Some(expected));
    plan.nobody_took(&"a".into());
    assert_eq!(plan.next(&"a".into(), at(0), |_| 0), None, "until a pool asks again");
}
