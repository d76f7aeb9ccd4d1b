//! Fetches, classes and the stages of a stop.

use std::time::Duration;

use model::{Class, Order};

use super::script::{Story, check};
use super::{fork, prefork};

// ---- fetching

#[test]
fn job_wakes_the_pools_that_take_from_its_queue_alone() {
    let mut settings = prefork(1);
    settings.pools[0].queues = vec!["mail".into(), "both".into()];
    settings.pools.push(settings.pools[0].clone());
    settings.pools[1].queues = vec!["both".into(), "web".into()];
    check(
        settings,
        "0.1 ready 1.1 / ready 1:1.1
         0.2 fetched / fetched:1
         1 woken mail
         1.1 fetched
         2 woken other web
         2.1 fetched:1
         3 woken both
         3.1 woken web
         3.2 fetched / fetched:1
         4 woken other",
        "0 > spawn 1.1
         0 > spawn 1:1.1
         0.1 > fetch 1.1 from mail both
         0.1 > fetch 1:1.1 from both web
         1 > fetch 1.1 from mail both
         2 > fetch 1:1.1 from both web
         3 > fetch 1.1 from mail both
         3 > fetch 1:1.1 from both web
         3.2 > fetch 1:1.1 from both web",
    );
}

#[test]
fn job_fetched_for_a_dead_worker_is_released() {
    check(
        fork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched
         1 woken
         1.1 exited 1.1 1
         1.15 fetched a b",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0 > spawn 2.1
         0 > kill_at 2.1 54.25
         0 > follow 2.1
         0.1 > fetch 1.1
         1 > fetch 1.1 2.1
         1.1 > kill_at 1.1 never
         1.1 > kill_at 2.1 never
         1.15 > assign 2.1 b
         1.15 > kill_at 2.1 59.15
         1.15 > settle a released after 0",
    );
}

#[test]
fn idle_pool_fetches_only_after_a_wake_up_and_loses_none_during_a_fetch() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched
         1 woken
         1.1 woken
         1.2 fetched
         1.3 fetched
         70 fetch_failed
         71 fetch_failed
         72 fetched",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         1 > fetch 1.1
         1.1 > kill_at 1.1 never
         1.2 > fetch 1.1
         61.2 > fetch 1.1
         70.1 > fetch 1.1
         71.21 > fetch 1.1",
    );
}

#[test]
fn refetched_job_does_not_run_while_its_lost_attempt_is_dying() {
    check(
        fork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched a
         1 revoked a lock_lost / woken
         1.1 fetched a#2",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0 > spawn 2.1
         0 > kill_at 2.1 54.25
         0 > follow 2.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > fetch 2.1
         1 > kill 1.1 (lock_lost)
         1.1 > kill_at 2.1 never
         1.1 > fetch 2.1
         1.1 > settle a#2 released after 1",
    );
}

#[test]
fn events_of_an_earlier_life_are_ignored() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 done 1.1 a / exited 1.1 0
         1.1 ready 1.1 / exited 1.1 1 / done 1.1 a / stuck 1.1 / spawn_failed 1.1
         1.2 ready 1.2 / ready 1.2",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         1 > spawn 1.2
         1 > kill_at 1.2 55.25
         1 > follow 1.2
         1 > settle a complete
         1.2 > fetch 1.2",
    );
}

#[test]
fn a_verdict_is_sent_until_it_is_confirmed() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 done 1.1 a / settle_failed a / settle_failed a
         2 settle_failed a
         3 settled a / settled a / settle_failed a",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         1 > fetch 1.1
         1 > settle a complete
         1.1 > settle a complete
         2 > kill_at 1.1 never
         2.21 > settle a complete",
    );
}

#[test]
fn round_robin_continues_after_the_queue_of_the_last_job() {
    let mut settings = prefork(2);
    settings.pools[0].queues = vec!["C".into(), "B".into(), "A".into()];
    settings.pools[0].order = Order::RoundRobin;
    check(
        settings,
        "0.1 ready 1.1
         0.2 fetched c queue=C
         0.3 ready 2.1
         0.4 fetched a queue=A
         0.5 done 1.1 c",
        "0 > spawn 1.1
         0 > spawn 2.1
         0.1 > fetch 1.1 from C B A
         0.2 > assign 1.1 c
         0.2 > kill_at 1.1 58.2
         0.3 > fetch 2.1 from B A C
         0.4 > assign 2.1 a
         0.4 > kill_at 2.1 58.4
         0.5 > fetch 1.1 from C B A
         0.5 > settle c complete",
    );
}

#[test]
fn empty_queue_is_asked_last_until_it_is_counted_or_gets_jobs() {
    let mut settings = prefork(2);
    settings.pools[0].queues = vec!["A".into(), "B".into()];
    settings.pools[0].queue_priorities = [("B".into(), 9)].into();
    settings.pools[0].order = Order::HighestPriorityFirst;
    check(
        settings,
        "0.1 ready 1.1
         0.2 fetched a queue=A
         0.3 ready 2.1
         0.4 fetched b queue=A
         0.5 counted A=0 B=7 / done 1.1 a",
        "0 > spawn 1.1
         0 > spawn 2.1
         0.1 > fetch 1.1 from B A
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         0.3 > fetch 2.1 from A B
         0.4 > assign 2.1 b
         0.4 > kill_at 2.1 58.4
         0.5 > fetch 1.1 from B A
         0.5 > settle a complete",
    );
}

// ---- classes

#[test]
fn job_of_an_unknown_class_is_released_with_growing_delays_and_then_held() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 knows mail / fetched a class=odd
         0.3 settled a / woken / fetched a#2 class=odd unknown=3
         0.4 settled a#2 / woken / fetched a#3 class=odd unknown=10
         0.5 settled a#3 / woken / knows mail odd / fetched b class=odd",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > fetch 1.1 only mail
         0.2 > settle a released after 1.01, unknown
         0.3 > fetch 1.1
         0.3 > settle a#2 released after 8.28, unknown
         0.4 > fetch 1.1 only mail
         0.4 > settle a#3 held (unknown class)
         0.5 > assign 1.1 b
         0.5 > kill_at 1.1 58.5",
    );
}

#[test]
fn jobs_of_unknown_classes_block_no_other_job_and_are_fetched_again() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 knows mail / fetched a class=odd
         0.3 fetched b class=mail
         0.4 done 1.1 b
         0.5 fetched c class=odd
         0.6 fetched",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > fetch 1.1 only mail
         0.2 > settle a released after 1.01, unknown
         0.3 > assign 1.1 b
         0.3 > kill_at 1.1 58.3
         0.4 > fetch 1.1
         0.4 > settle b complete
         0.5 > fetch 1.1 only mail
         0.5 > settle c released after 1.04, unknown
         0.6 > fetch 1.1",
    );
}

#[test]
fn class_settings_override_the_pools_and_job_settings_override_both() {
    let mut settings = prefork(3);
    settings.pools[0].limits.time = Some(Duration::from_secs(9));
    check(
        settings,
        "0.1 ready 1.1 / ready 2.1 / ready 3.1
         0.15 knows mail:limit=5,retries=2 plain
         0.2 fetched a
         0.3 fetched b limit=7 retries=0 c class=plain
         6 exited 1.1 15
         8 exited 2.1 15
         10 exited 3.1 15",
        "0 > spawn 1.1
         0 > spawn 2.1
         0 > spawn 3.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         0.2 > fetch 2.1 3.1
         0.3 > assign 2.1 b
         0.3 > assign 3.1 c
         0.3 > kill_at 2.1 58.3
         0.3 > kill_at 3.1 58.3
         5.2 > term 1.1 (time limit)
         6 > spawn 1.2
         6 > settle a retry after 1.01 (time limit)
         7.3 > term 2.1 (time limit)
         8 > spawn 2.2
         8 > settle b failed (time limit)
         9.3 > term 3.1 (time limit)
         10 > spawn 3.2
         10 > settle c failed (time limit)",
    );
}

#[test]
fn status_lists_unknown_classes_until_a_worker_knows_them() {
    let mut story = Story::new(prefork(1));
    for event in ["knows mail", "ready 1.1", "fetched a class=odd", "woken", "fetched b class=odd"] {
        story.tell(event);
    }
    let unknown = |story: &Story| story.supervisor.status(story.now)[0].unknown.clone();
    assert_eq!(unknown(&story).into_iter().collect::<Vec<_>>(), [(Class::from("odd"), 2)]);
    story.tell("knows odd");
    assert!(unknown(&story).is_empty());
}

// ---- the end

#[test]
fn drain_lets_running_jobs_complete() {
    check(
        fork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched a
         0.3 fetched
         1 stop drain / stop drain
         1.1 exited 2.1 15
         9 done 1.1 a / exited 1.1 0
         9.1 settled a",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0 > spawn 2.1
         0 > kill_at 2.1 54.25
         0 > follow 2.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > fetch 2.1
         1 > term 2.1 (stop)
         9 > settle a complete
         9.1 > exit",
    );
}

#[test]
fn drain_past_the_deadline_releases_jobs_unspent() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 stop drain
         26.1 exited 1.1 killed / settled a",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         16 > term 1.1 (stop)
         20.2 > renew a
         26 > kill 1.1 (stop)
         26.1 > settle a released after 0, stopped
         26.1 > exit",
    );
}

#[test]
fn sigterm_to_all_processes_stops_and_spends_no_attempt() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 stop drain / exited 1.1 15
         1.1 settled a",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         1 > settle a released after 0, stopped
         1.1 > exit",
    );
}

#[test]
fn program_that_catches_the_sigterm_of_a_stop_spends_no_attempt() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 stop drain / failed 1.1 a / exited 1.1 143
         1.1 settled a",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         1 > settle a released after 0, stopped
         1.1 > exit",
    );
}

#[test]
fn stop_stages_only_escalate() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 stop drain
         2 stop terminate
         3 stop drain
         4 stop kill
         4.1 exited 1.1 killed
         4.2 settled a / stop kill",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         2 > term 1.1 (stop)
         4 > kill 1.1 (stop)
         4.1 > settle a released after 0, stopped
         4.2 > exit",
    );
}

#[test]
fn terminate_gives_jobs_their_grace_and_accepts_their_outcome() {
    check(
        fork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched a
         0.3 fetched b
         1 stop terminate
         2 done 1.1 a / failed 2.1 b
         2.1 exited 1.1 0 / exited 2.1 1
         2.2 settled a / settled b",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0 > spawn 2.1
         0 > kill_at 2.1 54.25
         0 > follow 2.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > fetch 2.1
         0.3 > assign 2.1 b
         1 > term 1.1 (stop)
         1 > term 2.1 (stop)
         2.1 > settle a complete
         2.1 > settle b released after 0, stopped
         2.2 > exit",
    );
}

#[test]
fn stop_releases_a_job_fetched_late_and_ends_a_worker_started_late() {
    check(
        fork(2),
        "0.1 ready 1.1
         0.2 stop drain
         0.3 fetched a / ready 2.1
         0.4 exited 1.1 15 / exited 2.1 15
         0.5 settled a",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0 > spawn 2.1
         0 > kill_at 2.1 54.25
         0 > follow 2.1
         0.1 > fetch 1.1
         0.2 > term 1.1 (stop)
         0.2 > term 2.1 (stop)
         0.3 > settle a released after 0
         0.5 > exit",
    );
}

#[test]
fn unkillable_worker_delays_the_exit_only_until_a_deadline() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 stop kill
         4 stuck 1.1
         40 woken",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         1 > kill 1.1 (stop)
         20.2 > renew a
         31 > left alive 1.1 a
         31 > exit",
    );
}
