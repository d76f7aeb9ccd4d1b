//! Stories: a script of events goes in, a transcript of commands comes out. Read them as the supervisor's specification.
//!
//! A line of a script is a time in seconds and an event, or several events at that time joined by ` / `. Between the lines
//! time passes: the supervisor is woken whenever it asked to be. `fetched a` brings job `a` with fence 1 under a lease of 60 s;
//! `a#2` has fence 2, and words behind a job say what it brings: `a limit=5 retries=2 attempt=2 crashes=1`.

#![expect(clippy::unwrap_used, reason = "what is missing here is a mistake in the test")]

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use taskvisor::model::{
    Bytes, Class, ClassSettings, Count, Exit, ExitStatus, Failure, Fence, Fetched, Instant, Job, JobId,
    Lease, Order, Outcome, Payload, PoolSettings, QueueName, Retry, Revocation, Settings, Signal, SlotId,
    Stop, Usage, Verdict, WorkerId,
};
use taskvisor::supervisor::{Command, Event, Supervisor};

// ---- a job's life

#[test]
fn a_job_runs_and_is_settled_when_its_worker_is_proven_dead() {
    check(
        fork(1),
        "0.1 spawned 1.1 / ready 1.1
         0.2 fetched a
         3 done 1.1 a
         3.1 exited 1.1 0
         3.2 settled a",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         3.1 > spawn 1.2
         3.1 > settle a complete",
    );
}

#[test]
fn a_prefork_worker_settles_at_once_and_takes_the_next_job_before_that_is_durable() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         3 done 1.1 a
         3.1 fetched b
         3.2 settled a",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         3 > kill_at 1.1 never
         3 > fetch 1.1
         3 > settle a complete
         3.1 > assign 1.1 b
         3.1 > kill_at 1.1 51.1",
    );
}

#[test]
fn a_worker_that_has_run_all_its_jobs_is_recycled() {
    let mut settings = prefork(1);
    settings.pools[0].jobs_per_life = Some(2);
    check(
        settings,
        "0.1 ready 1.1
         0.2 fetched a
         1 done 1.1 a / settled a
         1.1 fetched b
         2 done 1.1 b / settled b
         2.2 exited 1.1 0",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         1 > kill_at 1.1 never
         1 > fetch 1.1
         1 > settle a complete
         1.1 > assign 1.1 b
         1.1 > kill_at 1.1 49.1
         2 > term 1.1 (spent)
         2 > kill_at 1.1 never
         2 > settle b complete
         2.2 > spawn 1.2",
    );
}

#[test]
fn a_failed_job_waits_longer_each_time_and_fails_when_its_tries_are_used_up() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a retries=2 attempt=1
         1 failed 1.1 a / settled a / fetched a#2 retries=2 attempt=2
         2 failed 1.1 a#2 / settled a#2 / fetched a#3 retries=2 attempt=3
         3 failed 1.1 a#3 / settled a#3",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         1 > kill_at 1.1 never
         1 > fetch 1.1
         1 > settle a retry after 1.01 (exit 1)
         1 > assign 1.1 a
         1 > kill_at 1.1 49
         2 > kill_at 1.1 never
         2 > fetch 1.1
         2 > settle a#2 retry after 2.07 (exit 1)
         2 > assign 1.1 a
         2 > kill_at 1.1 50
         3 > kill_at 1.1 never
         3 > fetch 1.1
         3 > settle a#3 failed (exit 1)",
    );
}

#[test]
fn a_worker_that_does_not_leave_after_its_last_word_is_killed() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 done 1.1 a
         15 exited 1.1 killed",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         11 > kill 1.1 (spent)
         15 > spawn 1.2
         15 > settle a complete",
    );
}

// ---- death

#[test]
fn a_crash_spends_the_attempt() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a retries=1
         3 exited 1.1 11",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         3 > spawn 1.2
         3 > settle a retry after 1.01 (crashed), crash +1",
    );
}

#[test]
fn a_third_crash_holds_the_job_for_a_person() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a retries=9 crashes=2 attempt=3
         3 exited 1.1 11",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         3 > spawn 1.2
         3 > settle a held (crashed), crash +1",
    );
}

#[test]
fn when_a_worker_with_several_jobs_dies_each_is_tried_again_alone_and_only_a_death_alone_counts() {
    check(
        coroutine(1),
        "0.1 ready 1.1
         0.2 fetched a b
         12 exited 1.1 11
         13 woken / ready 1.2
         15 exited 1.2 11
         16 ready 1.3
         17 done 1.3 b",
        "0 > spawn 1.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 a
         0.2 > assign 1.1 b
         0.2 > kill_at 1.1 48.2
         12 > spawn 1.2
         13 > assign 1.2 a
         13 > kill_at 1.2 48.2
         15 > settle a failed (crashed), crash +1
         15.1 > spawn 1.3
         16 > assign 1.3 b
         16 > kill_at 1.3 48.2
         17 > kill_at 1.3 never
         17 > fetch 1.3 1.3 1.3
         17 > settle b complete",
    );
}

#[test]
fn a_job_that_a_worker_has_died_of_waits_until_its_place_is_empty_and_nothing_else_gets_there() {
    check(
        coroutine(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched b c d
         0.3 fetched e / woken
         0.4 fetched k crashes=1 retries=5 attempt=2
         1 woken
         5 done 2.1 e
         6 exited 2.1 11
         7 done 1.1 b",
        "0 > spawn 1.1
         0 > spawn 2.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 b
         0.2 > assign 1.1 c
         0.2 > assign 1.1 d
         0.2 > kill_at 1.1 48.2
         0.2 > fetch 2.1 2.1 2.1
         0.3 > assign 2.1 e
         0.3 > kill_at 2.1 48.3
         0.3 > fetch 2.1 2.1
         5 > assign 2.1 k
         5 > kill_at 2.1 48.4
         5 > settle e complete
         6 > spawn 2.2
         6 > settle k retry after 2.02 (crashed), crash +1
         7 > fetch 1.1
         7 > settle b complete",
    );
}

#[test]
fn jobs_that_wait_to_run_alone_keep_their_lease_and_end_as_others_do() {
    check(
        coroutine(1),
        "0.1 ready 1.1
         0.2 fetched a b c
         12 exited 1.1 11
         12.1 revoked a canceled / revoked b lock_lost
         21 renewed c
         22 stop drain
         23 settled a / settled c",
        "0 > spawn 1.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 a
         0.2 > assign 1.1 b
         0.2 > assign 1.1 c
         0.2 > kill_at 1.1 48.2
         12 > spawn 1.2
         12.1 > settle a canceled
         12.1 > drop b (lock_lost)
         20.2 > renew c
         22 > term 1.2 (stop)
         22 > settle c released after 0",
    );
}

#[test]
fn where_no_worker_comes_up_jobs_that_wait_for_it_are_given_back() {
    check(
        coroutine(1),
        "0.1 ready 1.1
         0.2 fetched a b
         12 exited 1.1 11
         13 exited 1.2 1",
        "0 > spawn 1.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 a
         0.2 > assign 1.1 b
         0.2 > kill_at 1.1 48.2
         12 > spawn 1.2
         13 > settle a released after 0
         13 > settle b released after 0",
    );
}

// ---- faults

#[test]
fn a_worker_that_breaks_the_protocol_is_killed_once_and_its_job_crashed() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a retries=1
         1 faulty 1.1 / faulty 1.1
         1.1 done 1.1 a / faulty 1.1
         1.2 exited 1.1 killed / faulty 1.1
         2 ready 1.2",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         1 > kill 1.1 (fault)
         1.2 > settle a retry after 1.01 (fault), crash +1
         1.31 > spawn 1.2
         2 > fetch 1.2",
    );
}

#[test]
fn a_worker_that_breaks_the_protocol_before_it_is_ready_has_died_early_of_that() {
    let mut story = Story::new(fork(1));
    for event in ["faulty 1.1", "exited 1.1 killed"] {
        story.tell(event);
    }
    assert_eq!(story.transcript, "0 > spawn 1.1\n0 > kill 1.1 (fault)\n");
    let slot = &story.supervisor.status(story.now)[0].slots[0];
    assert_eq!((slot.restarts, slot.why.as_deref()), (1, Some("unknown frame 'dome'")));
}

#[test]
fn a_fault_in_company_blames_nobody() {
    check(
        coroutine(1),
        "0.1 ready 1.1
         0.2 fetched a b
         1 faulty 1.1
         1.2 exited 1.1 killed
         2 ready 1.2
         3 done 1.2 a",
        "0 > spawn 1.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 a
         0.2 > assign 1.1 b
         0.2 > kill_at 1.1 48.2
         1 > kill 1.1 (fault)
         1.3 > spawn 1.2
         2 > assign 1.2 a
         2 > kill_at 1.2 48.2
         3 > assign 1.2 b
         3 > settle a complete",
    );
}

// ---- templates

#[test]
fn a_template_is_made_first_and_forks_the_others() {
    check(
        template(2),
        "0.5 ready 0.1
         0.6 ready 1.1 / spawn_failed 2.1
         0.7 fetched a
         2 done 1.1 a / exited 1.1 0",
        "0 > spawn 0.1
         0.5 > fork 1.1 from 0.1
         0.5 > fork 2.1 from 0.1
         0.6 > fetch 1.1
         0.7 > assign 1.1 a
         0.7 > kill_at 1.1 48.7
         0.7 > fork 2.2 from 0.1
         2 > fork 1.2 from 0.1
         2 > settle a complete",
    );
}

#[test]
fn a_template_that_dies_is_replaced_and_hurts_no_child() {
    check(
        template(2),
        "0.5 ready 0.1
         0.6 ready 1.1
         0.7 fetched a
         20 exited 0.1 11 / spawn_failed 2.1
         21 done 1.1 a / exited 1.1 0
         22 ready 0.2",
        "0 > spawn 0.1
         0.5 > fork 1.1 from 0.1
         0.5 > fork 2.1 from 0.1
         0.6 > fetch 1.1
         0.7 > assign 1.1 a
         0.7 > kill_at 1.1 48.7
         20 > spawn 0.2
         20.7 > renew a
         21 > settle a complete
         22 > fork 2.2 from 0.2
         22 > fork 1.2 from 0.2",
    );
}

#[test]
fn a_template_that_forks_nothing_within_the_boot_timeout_is_killed_and_replaced() {
    check(
        template(1),
        "0.5 ready 0.1
         30.6 spawn_failed 1.1
         30.7 exited 0.1 9
         31 ready 0.2",
        "0 > spawn 0.1
         0.5 > fork 1.1 from 0.1
         30.5 > kill 1.1 (boot timeout)
         30.6 > kill 0.1 (fault)
         30.7 > spawn 0.2
         31 > fork 1.2 from 0.2",
    );
}

#[test]
fn while_no_template_comes_up_that_alone_is_tried() {
    let mut story = Story::new(template(3));
    for life in 1..=6 {
        story.pass_time_until(Instant::from_millis(life * 3000));
        story.tell(&format!("exited 0.{life} 1"));
    }
    let others = story.transcript.lines().filter(|line| !line.contains("> spawn 0."));
    assert_eq!(others.count(), 0, "{}", story.transcript);
    let status = &story.supervisor.status(story.now)[0];
    assert!(status.probing.is_some() && status.slots.len() == 3, "{status:?}");
    assert_eq!(status.template.as_ref().unwrap().why.as_deref(), Some("exit 1"));
}

#[test]
fn a_template_ends_at_once_in_a_drain_and_its_children_when_their_jobs_have() {
    check(
        template(1),
        "0.5 ready 0.1
         0.6 ready 1.1
         0.7 fetched a
         1 stop drain
         1.1 exited 0.1 0
         9 done 1.1 a / exited 1.1 0
         9.1 settled a",
        "0 > spawn 0.1
         0.5 > fork 1.1 from 0.1
         0.6 > fetch 1.1
         0.7 > assign 1.1 a
         0.7 > kill_at 1.1 48.7
         1 > term 0.1 (stop)
         9 > settle a complete
         9.1 > exit",
    );
}

#[test]
fn a_death_never_touches_another_slot() {
    check(
        fork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched a b
         1 exited 1.1 11
         2 done 2.1 b / exited 2.1 0",
        "0 > spawn 1.1
         0 > spawn 2.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > assign 2.1 b
         0.2 > kill_at 1.1 48.2
         0.2 > kill_at 2.1 48.2
         1 > spawn 1.2
         1 > settle a failed (crashed), crash +1
         2 > spawn 2.2
         2 > settle b complete",
    );
}

#[test]
fn early_deaths_are_answered_with_a_growing_wait() {
    check(
        fork(1),
        "0.1 ready 1.1 / exited 1.1 1
         1 ready 1.2 / exited 1.2 1
         2 ready 1.3 / exited 1.3 1
         3 ready 1.4
         14 exited 1.4 1
         15 exited 1.5 1",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > spawn 1.2
         1.21 > spawn 1.3
         2.46 > spawn 1.4
         14 > spawn 1.5",
    );
}

#[test]
fn a_pool_that_cannot_boot_tries_with_one_slot_until_one_is_ready() {
    check(
        fork(3),
        "0.1 exited 1.1 1 / exited 2.1 1 / exited 3.1 1
         0.3 exited 1.2 1 / exited 2.2 1 / exited 3.2 1
         9 exited 1.3 1
         20 ready 1.4",
        "0 > spawn 1.1
         0 > spawn 2.1
         0 > spawn 3.1
         0.2 > spawn 1.2
         0.21 > spawn 2.2
         0.21 > spawn 3.2
         0.5 > spawn 1.3
         9.45 > spawn 1.4
         20 > spawn 3.3
         20 > spawn 2.3
         20 > fetch 1.4",
    );
}

#[test]
fn a_worker_that_is_not_ready_in_time_is_killed() {
    check(
        fork(1),
        "0.1 spawned 1.1
         30.5 exited 1.1 killed
         31 ready 1.1 / ready 1.2",
        "0 > spawn 1.1
         30 > kill 1.1 (boot timeout)
         30.6 > spawn 1.2
         31 > fetch 1.2",
    );
}

#[test]
fn a_failed_spawn_is_tried_again() {
    check(
        fork(1),
        "0.01 spawn_failed 1.1
         0.2 spawn_failed 1.2
         0.5 ready 1.3",
        "0 > spawn 1.1
         0.11 > spawn 1.2
         0.41 > spawn 1.3
         0.5 > fetch 1.3",
    );
}

// ---- the right to run

#[test]
fn a_canceled_job_is_settled_as_canceled_when_it_is_proven_dead() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         5 revoked a canceled / revoked a canceled
         15.1 exited 1.1 killed / settled a",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         5 > term 1.1 (canceled)
         15 > kill 1.1 (canceled)
         15.1 > spawn 1.2
         15.1 > settle a canceled",
    );
}

#[test]
fn a_job_that_is_not_ours_any_more_is_ended_and_nothing_is_settled() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         5 revoked a lock_lost
         5.1 done 1.1 a
         5.2 exited 1.1 0",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         5 > term 1.1 (lock_lost)
         5.2 > drop a (lock_lost)
         5.2 > spawn 1.2",
    );
}

#[test]
fn a_lease_is_renewed_at_a_third_and_the_fence_moves_with_it() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         20.3 renewed a
         41 renew_failed a
         42 renewed a
         50 done 1.1 a",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         20.2 > renew a
         20.3 > kill_at 1.1 68.3
         40.3 > renew a
         41.1 > renew a
         42 > kill_at 1.1 90
         50 > kill_at 1.1 never
         50 > fetch 1.1
         50 > settle a complete",
    );
}

#[test]
fn a_job_whose_lease_cannot_be_renewed_is_ended_before_it_runs_out() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         48.9 exited 1.1 15",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         20.2 > renew a
         48.2 > term 1.1 (self_fenced)
         48.9 > drop a (self_fenced)
         48.9 > spawn 1.2",
    );
}

#[test]
fn one_job_of_many_is_canceled_alone() {
    check(
        coroutine(1),
        "0.1 ready 1.1
         0.2 fetched a b
         5 revoked a canceled
         6 done 1.1 a / settled a
         7 done 1.1 b",
        "0 > spawn 1.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 a
         0.2 > assign 1.1 b
         0.2 > kill_at 1.1 48.2
         5 > cancel 1.1 a (canceled)
         6 > settle a canceled
         7 > kill_at 1.1 never
         7 > settle b complete",
    );
}

#[test]
fn a_job_that_ignores_its_cancel_takes_the_worker_with_it_but_not_its_neighbours() {
    check(
        coroutine(1),
        "0.1 ready 1.1
         0.2 fetched a b
         5 revoked a moved
         15.1 exited 1.1 killed",
        "0 > spawn 1.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 a
         0.2 > assign 1.1 b
         0.2 > kill_at 1.1 48.2
         5 > cancel 1.1 a (moved)
         15 > kill 1.1 (moved)
         15.1 > drop a (moved)
         15.1 > spawn 1.2
         15.1 > settle b released after 0",
    );
}

#[test]
fn a_right_lost_while_the_job_is_on_its_way_to_us_is_lost() {
    check(
        fork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 revoked a canceled / revoked b lock_lost
         0.3 fetched a b",
        "0 > spawn 1.1
         0 > spawn 2.1
         0.1 > fetch 1.1
         0.3 > drop b (lock_lost)
         0.3 > fetch 1.1 2.1
         0.3 > settle a canceled",
    );
}

#[test]
fn a_job_that_runs_too_long_is_ended_and_its_late_word_is_not_heard() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a limit=5 retries=1
         6 done 1.1 a
         15.4 exited 1.1 killed",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         5.2 > term 1.1 (time limit)
         15.2 > kill 1.1 (time limit)
         15.4 > spawn 1.2
         15.4 > settle a retry after 1.01 (time limit)",
    );
}

// ---- fetching

#[test]
fn a_job_fetched_for_a_dead_worker_goes_to_another_or_back() {
    check(
        fork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched
         1 woken
         1.1 exited 1.1 1
         1.15 fetched a b",
        "0 > spawn 1.1
         0 > spawn 2.1
         0.1 > fetch 1.1
         1 > fetch 1.1 2.1
         1.15 > assign 2.1 a
         1.15 > kill_at 2.1 49.15
         1.15 > settle b released after 0",
    );
}

#[test]
fn nothing_is_asked_while_nothing_can_be_waiting_and_a_wake_up_during_a_fetch_is_not_lost() {
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
         0.1 > fetch 1.1
         1 > fetch 1.1
         1.2 > fetch 1.1
         61.2 > fetch 1.1
         70.1 > fetch 1.1
         71.21 > fetch 1.1",
    );
}

#[test]
fn a_job_that_comes_back_while_its_lost_attempt_is_dying_does_not_run_twice() {
    check(
        fork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched a
         1 revoked a lock_lost / woken
         1.1 fetched a#2",
        "0 > spawn 1.1
         0 > spawn 2.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         0.2 > fetch 2.1
         1 > term 1.1 (lock_lost)
         1.1 > fetch 2.1
         1.1 > settle a#2 released after 10",
    );
}

#[test]
fn the_words_of_a_former_life_change_nothing() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 done 1.1 a / exited 1.1 0
         1.1 ready 1.1 / exited 1.1 1 / done 1.1 a / stuck 1.1 / spawn_failed 1.1
         1.2 ready 1.2 / ready 1.2",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         1 > spawn 1.2
         1 > settle a complete
         1.2 > fetch 1.2",
    );
}

#[test]
fn a_verdict_is_told_until_it_is_heard() {
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
         0.2 > kill_at 1.1 48.2
         1 > kill_at 1.1 never
         1 > fetch 1.1
         1 > settle a complete
         1.1 > settle a complete
         2.21 > settle a complete",
    );
}

#[test]
fn a_round_goes_on_behind_the_queue_of_the_last_job() {
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
         0.2 > kill_at 1.1 48.2
         0.3 > fetch 2.1 from B A C
         0.4 > assign 2.1 a
         0.4 > kill_at 2.1 48.4
         0.5 > kill_at 1.1 never
         0.5 > fetch 1.1 from C B A
         0.5 > settle c complete",
    );
}

// ---- classes

#[test]
fn a_job_of_a_class_that_no_worker_knows_is_given_back_for_longer_each_time_and_then_held() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 knows mail / fetched a class=odd
         0.3 settled a / woken / fetched a#2 class=odd unknown=3
         0.4 settled a#2 / woken / fetched a#3 class=odd unknown=10
         0.5 settled a#3 / woken / knows mail odd / fetched b class=odd",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > fetch 1.1
         0.2 > settle a released after 1.01, unknown
         0.3 > fetch 1.1
         0.3 > settle a#2 released after 8.28, unknown
         0.4 > fetch 1.1
         0.4 > settle a#3 held (unknown class)
         0.5 > assign 1.1 b
         0.5 > kill_at 1.1 48.5",
    );
}

#[test]
fn the_settings_of_a_class_win_over_those_of_the_pool_and_those_of_the_job_over_both() {
    let mut settings = prefork(3);
    settings.pools[0].time_limit = Some(Duration::from_secs(9));
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
         0.2 > kill_at 1.1 48.2
         0.2 > fetch 2.1 3.1
         0.3 > assign 2.1 b
         0.3 > assign 3.1 c
         0.3 > kill_at 2.1 48.3
         0.3 > kill_at 3.1 48.3
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
fn status_names_the_classes_that_no_worker_knows_until_one_does() {
    let mut story = Story::new(prefork(1));
    for event in ["knows mail", "ready 1.1", "fetched a class=odd", "woken", "fetched b class=odd"] {
        story.tell(event);
    }
    let unknown = |story: &Story| story.supervisor.status(story.now)[0].unknown.clone();
    assert_eq!(unknown(&story).into_iter().collect::<Vec<_>>(), [(Class::from("odd"), 2)]);
    story.tell("knows odd");
    assert!(unknown(&story).is_empty());
}

// ---- more and fewer workers

#[test]
fn a_pool_grows_while_jobs_wait_and_all_are_at_work() {
    let mut settings = prefork(3);
    settings.pools[0].min_workers = Some(1);
    check(
        settings,
        "0.1 ready 1.1
         0.2 fetched a
         1.3 waiting yes
         1.5 ready 2.1
         1.6 fetched b
         2.5 waiting no
         3 woken
         3.5 waiting no
         3.9 done 1.1 a
         6 woken / fetched",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         1.1 > ask whether jobs wait
         1.3 > spawn 2.1
         1.5 > fetch 2.1
         1.6 > assign 2.1 b
         1.6 > kill_at 2.1 49.6
         2.3 > ask whether jobs wait
         3 > ask whether jobs wait
         3.9 > kill_at 1.1 never
         3.9 > settle a complete
         6 > fetch 1.1",
    );
}

#[test]
fn a_worker_with_nothing_to_do_for_a_minute_ends_unless_it_is_one_of_the_fewest() {
    let mut settings = prefork(2);
    settings.pools[0].min_workers = Some(1);
    let mut story = Story::new(settings);
    for (at, event) in [
        (100, "ready 1.1"),
        (200, "fetched a"),
        (1300, "waiting yes"),
        (1400, "ready 2.1"),
        (1500, "fetched"),
        (3000, "done 1.1 a"),
        (62000, "exited 2.1 0"),
    ] {
        story.pass_time_until(Instant::from_millis(at));
        story.tell(event);
    }
    assert!(story.transcript.contains("\n61.4 > term 2.1 (idle)\n"), "{}", story.transcript);
    story.pass_time_until(Instant::from_millis(200_000));
    assert!(!story.transcript.contains("spawn 2.2"), "{}", story.transcript);
    let slots = &story.supervisor.status(story.now)[0].slots;
    assert_eq!(slots.iter().map(|slot| (slot.slot.index, slot.restarts)).collect::<Vec<_>>(), [(1, 0)]);
}

// ---- the end

#[test]
fn a_drain_lets_jobs_end_by_themselves() {
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
         0 > spawn 2.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         0.2 > fetch 2.1
         1 > term 2.1 (stop)
         9 > settle a complete
         9.1 > exit",
    );
}

#[test]
fn a_drain_past_the_deadline_gives_jobs_back_unspent() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 stop drain
         26.1 exited 1.1 killed / settled a",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         16 > term 1.1 (stop)
         20.2 > renew a
         26 > kill 1.1 (stop)
         26.1 > settle a released after 0, interrupted
         26.1 > exit",
    );
}

#[test]
fn each_stage_of_a_stop_goes_further_and_none_goes_back() {
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
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         2 > term 1.1 (stop)
         4 > kill 1.1 (stop)
         4.1 > settle a released after 0, interrupted
         4.2 > exit",
    );
}

#[test]
fn a_terminate_gives_jobs_their_grace_and_takes_the_word_of_those_that_complete() {
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
         0 > spawn 2.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         0.2 > fetch 2.1
         0.3 > assign 2.1 b
         0.3 > kill_at 2.1 48.3
         1 > term 1.1 (stop)
         1 > term 2.1 (stop)
         2.1 > settle a complete
         2.1 > settle b released after 0, interrupted
         2.2 > exit",
    );
}

#[test]
fn what_arrives_after_a_stop_is_given_back_and_what_starts_is_ended() {
    check(
        fork(2),
        "0.1 ready 1.1
         0.2 stop drain
         0.3 fetched a / ready 2.1
         0.4 exited 1.1 15 / exited 2.1 15
         0.5 settled a",
        "0 > spawn 1.1
         0 > spawn 2.1
         0.1 > fetch 1.1
         0.2 > term 1.1 (stop)
         0.2 > term 2.1 (stop)
         0.3 > settle a released after 0
         0.5 > exit",
    );
}

#[test]
fn a_worker_that_cannot_be_killed_does_not_hold_up_the_end_for_ever() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 stop kill
         4 stuck 1.1
         40 woken",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         1 > kill 1.1 (stop)
         20.2 > renew a
         31 > exit",
    );
}

#[test]
fn a_burst_ends_when_all_is_done() {
    let mut settings = fork(1);
    settings.burst = true;
    check(
        settings,
        "0.1 ready 1.1
         0.2 fetched a
         1 done 1.1 a / exited 1.1 0
         1.1 settled a / ready 1.2
         1.2 fetched
         1.8 idle
         1.9 exited 1.2 15",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 48.2
         1 > spawn 1.2
         1 > settle a complete
         1.1 > fetch 1.2
         1.2 > ask whether idle
         1.7 > ask whether idle
         1.8 > term 1.2 (stop)
         1.9 > exit",
    );
}

// ---- the one check

fn fork(workers: u16) -> Settings {
    let pool = PoolSettings { workers, ..PoolSettings::default() };
    Settings { pools: vec![pool], ..Settings::default() }
}

fn prefork(workers: u16) -> Settings {
    let mut settings = fork(workers);
    settings.pools[0].jobs_per_life = None;
    settings
}

fn coroutine(workers: u16) -> Settings {
    let mut settings = prefork(workers);
    settings.pools[0].jobs_at_once = 3;
    settings
}

fn template(workers: u16) -> Settings {
    let mut settings = fork(workers);
    settings.pools[0].template = true;
    settings
}

#[track_caller]
fn check(settings: Settings, script: &str, expected: &str) {
    let mut story = Story::new(settings);
    for line in script.lines() {
        let (time, events) = line.trim().split_once(' ').unwrap();
        story.pass_time_until(seconds(time));
        for event in events.split(" / ") {
            story.tell(event);
        }
    }
    let lines: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let actual: Vec<&str> = story.transcript.lines().collect();
    assert!(
        lines == actual,
        "\n--- the transcript is\n{}--- and not\n{}",
        story.transcript,
        lines.join("\n")
    );
}

struct Story {
    supervisor: Supervisor,
    now: Instant,
    transcript: String,
}

impl Story {
    fn new(settings: Settings) -> Self {
        let now = Instant::from_millis(0);
        let supervisor = Supervisor::new(settings, now);
        let mut story = Story { supervisor, now, transcript: String::new() };
        story.write();
        story
    }

    fn pass_time_until(&mut self, until: Instant) {
        while let Some(due) = self.supervisor.poll_timeout().filter(|due| *due <= until) {
            assert!(due > self.now, "spins at {:?}", self.now);
            self.now = due;
            self.supervisor.handle_timeout(due);
            self.write();
        }
        self.now = until;
    }

    fn tell(&mut self, words: &str) {
        let event = event(self.now, words);
        self.supervisor.handle(self.now, event);
        self.write();
    }

    fn write(&mut self) {
        while let Some(command) = self.supervisor.next_command() {
            let time = short(self.now.since(Instant::from_millis(0)));
            writeln!(self.transcript, "{time} > {}", command_text(&command)).unwrap();
        }
    }
}

fn short(time: Duration) -> String {
    let text = format!("{:.2}", time.as_secs_f64());
    text.trim_end_matches('0').trim_end_matches('.').into()
}

fn seconds(text: &str) -> Instant {
    Instant(0) + Duration::from_secs_f64(text.parse().unwrap())
}

fn event(now: Instant, words: &str) -> Event {
    let words: Vec<&str> = words.split_whitespace().collect();
    let worker = || worker(words[1]);
    let lease = |at: usize| key(words[at]);
    let outcome = |outcome| Event::Finished(worker(), key(words[2]).0, key(words[2]).1, outcome);
    match words[0] {
        "spawned" => Event::Spawned(worker()),
        "spawn_failed" => Event::SpawnFailed(worker(), "no memory".into()),
        "ready" => Event::Ready(worker()),
        "exited" => Event::Exited(worker(), exit(words[2])),
        "stuck" => Event::Stuck(worker(), "in state D".into()),
        "done" => outcome(Outcome::Complete { result: None }),
        "failed" => outcome(Outcome::Failed(Failure {
            group: "exit 1".into(),
            message: "it returned 1".into(),
            trace: None,
        })),
        "fetched" => Event::Fetched(0, fetched(now, &words[1..])),
        "fetch_failed" => Event::FetchFailed(0),
        "renewed" => {
            let (job, fence) = lease(1);
            Event::Renewed(Lease { job, fence, expires_at: now + Duration::from_secs(60) })
        }
        "renew_failed" => Event::RenewFailed(lease(1).0, lease(1).1),
        "revoked" => Event::Revoked(lease(1).0, lease(1).1, revocation(words[2])),
        "settled" => Event::Settled(lease(1).0, lease(1).1),
        "settle_failed" => Event::SettleFailed(lease(1).0, lease(1).1),
        "faulty" => Event::Faulty(worker(), "unknown frame 'dome'".into()),
        "knows" => Event::Knows(0, Arc::new(words[1..].iter().map(|word| class(word)).collect())),
        "waiting" => Event::Waiting(0, words[1] == "yes"),
        "woken" => Event::Woken,
        "idle" => Event::Idle,
        "stop" => Event::Stop(stop(words[1])),
        other => panic!("no event is called '{other}'"),
    }
}

/// A class is written as `mail` or `mail:limit=5,retries=2`.
fn class(text: &str) -> (Class, ClassSettings) {
    let (name, settings) = text.split_once(':').unwrap_or((text, ""));
    let number = |name| settings.split(',').find_map(|word| word.strip_prefix(name)?.parse::<u32>().ok());
    let time_limit = number("limit=").map(|limit| Duration::from_secs(limit.into()));
    (name.into(), ClassSettings { time_limit, retries: number("retries="), ..ClassSettings::default() })
}

/// Workers are written as 1.2: the slot and the life in it.
fn worker(text: &str) -> WorkerId {
    let (index, generation) = text.split_once('.').unwrap();
    let slot = SlotId { pool: 0, index: index.parse().unwrap() };
    WorkerId { slot, generation: generation.parse().unwrap() }
}

fn key(text: &str) -> (JobId, Fence) {
    let (job, fence) = text.split_once('#').unwrap_or((text, "1"));
    (JobId::from(job), Fence(fence.parse().unwrap()))
}

fn exit(text: &str) -> Exit {
    let status = match text {
        "killed" => ExitStatus::Signal { signal: 9, core: false },
        "11" | "15" => ExitStatus::Signal { signal: text.parse().unwrap(), core: false },
        code => ExitStatus::Code(code.parse().unwrap()),
    };
    Exit { status, usage: Usage::default(), left_behind: 0, oom: false, proof: Duration::ZERO }
}

fn revocation(text: &str) -> Revocation {
    let all = [Revocation::LockLost, Revocation::Canceled, Revocation::Moved, Revocation::RenewRefused];
    all.into_iter().find(|why| why.as_str() == text).unwrap()
}

fn stop(text: &str) -> Stop {
    match text {
        "drain" => Stop::Drain,
        "terminate" => Stop::Terminate,
        "kill" => Stop::Kill,
        other => panic!("no stage is called '{other}'"),
    }
}

fn fetched(now: Instant, words: &[&str]) -> Vec<Fetched> {
    let mut jobs: Vec<(Job, Fence)> = Vec::new();
    for word in words {
        let Some((name, value)) = word.split_once('=') else {
            let (id, fence) = key(word);
            jobs.push((job(id), fence));
            continue;
        };
        let (job, _) = jobs.last_mut().unwrap();
        match name {
            "class" => job.class = value.into(),
            "queue" => job.queue = value.into(),
            "limit" => job.time_limit = Some(Duration::from_secs(value.parse().unwrap())),
            "retries" => job.retry = Some(Retry { retries: value.parse().unwrap(), ..Retry::CLASS }),
            "attempt" => job.attempt = value.parse().unwrap(),
            "crashes" => job.crashes = value.parse().unwrap(),
            "unknown" => job.unknown = value.parse().unwrap(),
            other => panic!("a job has no '{other}'"),
        }
    }
    let expires_at = now + Duration::from_secs(60);
    let fetched = |(job, fence): (Job, Fence)| {
        let lease = Lease { job: job.id.clone(), fence, expires_at };
        Fetched { job: Arc::new(job), lease }
    };
    jobs.into_iter().map(fetched).collect()
}

fn job(id: JobId) -> Job {
    Job {
        id,
        queue: QueueName::from("default"),
        class: Class::from("mail"),
        payload: Payload::Data(Bytes::from("{}")),
        priority: 0,
        tags: Vec::new(),
        attempt: 1,
        crashes: 0,
        interrupted: 0,
        unknown: 0,
        retry: None,
        time_limit: None,
    }
}

fn command_text(command: &Command) -> String {
    let id = |worker: &WorkerId| worker.to_string();
    match command {
        Command::Spawn(worker) => format!("spawn {worker}"),
        Command::Fork(worker, template) => format!("fork {worker} from {template}"),
        Command::AskWaiting(..) => "ask whether jobs wait".into(),
        Command::Assign(worker, job, ..) => format!("assign {worker} {}", job.id),
        Command::Cancel(worker, job, why) => format!("cancel {worker} {job} ({why})"),
        Command::Signal(worker, Signal::Term, why) => format!("term {worker} ({why})"),
        Command::Signal(worker, Signal::Kill, why) => format!("kill {worker} ({why})"),
        Command::KillAt(worker, Some(at)) => format!("kill_at {worker} {}", short(at.since(Instant(0)))),
        Command::KillAt(worker, None) => format!("kill_at {worker} never"),
        Command::Fetch { workers, queues, .. } => {
            let queues = queues.iter().map(QueueName::to_string).collect::<Vec<_>>().join(" ");
            let from = if queues == "default" { String::new() } else { format!(" from {queues}") };
            format!("fetch {}{from}", workers.iter().map(id).collect::<Vec<_>>().join(" "))
        }
        Command::Renew(leases) => {
            let leases = leases.iter().map(|lease| name(&lease.job, lease.fence));
            format!("renew {}", leases.collect::<Vec<_>>().join(" "))
        }
        Command::Settle(settlement) => {
            let job = name(&settlement.job, settlement.fence);
            let crashed = if settlement.crashed { ", crash +1" } else { "" };
            format!("settle {job} {}{crashed}", verdict_text(&settlement.verdict))
        }
        Command::AskIdle(_) => "ask whether idle".into(),
        Command::Dropped(job, fence, why) => format!("drop {} ({why})", name(job, *fence)),
        Command::Exit => "exit".into(),
    }
}

fn name(job: &JobId, fence: Fence) -> String {
    if fence == Fence(1) { job.to_string() } else { format!("{job}#{fence}") }
}

fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Complete { .. } => "complete".into(),
        Verdict::Retry { after, failure } => format!("retry after {} ({})", short(*after), failure.group),
        Verdict::Fail { failure } => format!("failed ({})", failure.group),
        Verdict::Release { after, counts: Some(Count::Interrupted) } => {
            format!("released after {}, interrupted", short(*after))
        }
        Verdict::Release { after, counts: Some(Count::UnknownClass) } => {
            format!("released after {}, unknown", short(*after))
        }
        Verdict::Release { after, counts: None } => format!("released after {}", short(*after)),
        Verdict::Hold { failure } => format!("held ({})", failure.group),
        Verdict::Canceled => "canceled".into(),
    }
}
