//! Work done ahead: jobs that are fetched before a worker has room, and lives that the keeper makes by itself.

use super::script::check;
use super::{fork, prefork};

// ---- jobs

#[test]
fn very_short_jobs_are_fetched_ahead() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         0.201 done 1.1 a / settled a
         0.202 fetched b c d
         0.203 done 1.1 b
         0.204 done 1.1 c
         0.205 done 1.1 d",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         0.2 > fetch 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1
         0.2 > settle a complete
         0.2 > assign 1.1 b
         0.2 > assign 1.1 c
         0.2 > settle b complete
         0.2 > assign 1.1 d
         0.2 > settle c complete
         0.2 > settle d complete",
    );
}

#[test]
fn jobs_fetched_ahead_are_released_when_a_job_becomes_long() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         0.201 done 1.1 a / settled a
         0.202 fetched b c d
         0.21 revoked c canceled
         0.5 done 1.1 b",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         0.2 > fetch 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1
         0.2 > settle a complete
         0.2 > assign 1.1 b
         0.21 > settle c canceled
         0.25 > settle d released after 0
         0.5 > settle b complete",
    );
}

#[test]
fn jobs_fetched_ahead_are_not_released_while_a_fetch_may_bring_later_ones() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         0.201 done 1.1 a / settled a
         0.202 fetched b c d
         0.203 woken
         0.3 fetched e
         0.5 done 1.1 b",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         0.2 > fetch 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1
         0.2 > settle a complete
         0.2 > assign 1.1 b
         0.2 > fetch 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1
         0.3 > settle c released after 0
         0.3 > settle d released after 0
         0.3 > settle e released after 0
         0.5 > settle b complete",
    );
}

#[test]
fn job_fetched_ahead_does_not_begin_after_a_pause_in_which_its_lease_may_have_ended() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         0.201 done 1.1 a / settled a
         0.202 fetched b c
         0.203 woken
         100 stopped / done 1.1 b
         100.1 fetched",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         0.2 > fetch 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1
         0.2 > settle a complete
         0.2 > assign 1.1 b
         0.2 > fetch 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1
         100 > settle b complete
         100 > settle c released after 0
         100.1 > fetch 1.1",
    );
}

#[test]
fn long_jobs_are_not_fetched_ahead() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         0.21 done 1.1 a / settled a",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         0.21 > fetch 1.1
         0.21 > settle a complete",
    );
}

#[test]
fn job_fetched_ahead_waits_for_the_next_life_of_its_slot() {
    check(
        fork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched a / fetched b
         0.201 done 1.1 a / exited 1.1 0 / settled a
         0.202 ready 1.2 / fetched c d e
         0.203 ready 1.3
         0.204 done 2.1 b / exited 2.1 0 / settled b
         0.205 ready 2.2",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0 > spawn 2.1
         0 > kill_at 2.1 54.25
         0 > follow 2.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > fetch 2.1
         0.2 > assign 2.1 b
         0.2 > fetch 1.2 2.2 1.3 2.3 1.4 2.4 1.5 2.5 1.6 2.6 1.7 2.7 1.8 2.8 1.9 2.9 1.10 2.10 1.11 2.11 1.12 2.12 1.13 2.13
         0.2 > spawn 1.2
         0.2 > settle a complete
         0.2 > assign 1.2 c
         0.2 > kill_at 1.2 58.2
         0.2 > spawn 2.2
         0.2 > kill_at 2.2 54.45
         0.2 > follow 2.2
         0.2 > settle b complete
         0.2 > assign 2.2 d",
    );
}

// ---- lives

#[test]
fn follower_gets_no_spawn_order_and_no_new_fence() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         3 done 1.1 a / exited 1.1 0 followed
         3.1 ready 1.2
         3.2 fetched b
         5 done 1.2 b / exited 1.2 0",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         3 > settle a complete
         3.1 > fetch 1.2
         3.2 > assign 1.2 b
         5 > spawn 1.3
         5 > kill_at 1.3 59.25
         5 > follow 1.3
         5 > settle b complete",
    );
}

#[test]
fn unneeded_follower_is_terminated_and_the_next_spawn_waits_for_its_backoff() {
    check(
        fork(1),
        "0.1 exited 1.1 1 followed
         0.2 exited 1.2 15
         1 ready 1.3
         1.5 fetched a / scale 0
         3 done 1.3 a / exited 1.3 0 followed
         3.1 exited 1.4 15",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > term 1.2 (backoff)
         0.2 > spawn 1.3
         0.2 > kill_at 1.3 54.45
         0.2 > follow 1.3
         1 > fetch 1.3
         1.5 > assign 1.3 a
         3 > term 1.4 (scaled down)
         3 > settle a complete",
    );
}
