//! Jobs from fetch to verdict.

use std::time::Duration;

use model::Settings;

use super::script::check;
use super::{coroutine, fork, prefork};

// ---- a job's life

#[test]
fn fork_job_is_settled_when_its_worker_is_proven_dead() {
    check(
        fork(1),
        "0.1 spawned 1.1 / ready 1.1
         0.2 fetched a
         3 done 1.1 a
         3.1 exited 1.1 0
         3.2 settled a",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         3.1 > spawn 1.2
         3.1 > kill_at 1.2 57.35
         3.1 > follow 1.2
         3.1 > settle a complete",
    );
}

#[test]
fn prefork_job_is_settled_at_once_and_the_next_fetch_does_not_wait_for_it() {
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
         0.2 > kill_at 1.1 58.2
         3 > fetch 1.1
         3 > settle a complete
         3.1 > assign 1.1 b",
    );
}

#[test]
fn prefork_worker_is_recycled_after_its_jobs_per_life() {
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
         0.2 > kill_at 1.1 58.2
         1 > fetch 1.1
         1 > settle a complete
         1.1 > assign 1.1 b
         2 > term 1.1 (spent)
         2 > settle b complete
         2.2 > spawn 1.2",
    );
}

#[test]
fn failed_job_is_retried_with_backoff_until_its_retries_are_used_up() {
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
         0.2 > kill_at 1.1 58.2
         1 > fetch 1.1
         1 > settle a retry after 1.01 (exit 1)
         1 > assign 1.1 a
         2 > fetch 1.1
         2 > settle a#2 retry after 2.07 (exit 1)
         2 > assign 1.1 a
         3 > fetch 1.1
         3 > settle a#3 failed (exit 1)",
    );
}

#[test]
fn fork_worker_that_does_not_exit_after_done_is_killed() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 done 1.1 a
         15 exited 1.1 killed",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         11 > kill 1.1 (spent)
         15 > spawn 1.2
         15 > kill_at 1.2 69.25
         15 > follow 1.2
         15 > settle a complete",
    );
}

// ---- leases and cancel

#[test]
fn canceled_job_is_settled_when_it_is_proven_dead() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         5 revoked a canceled / revoked a canceled
         15.1 exited 1.1 killed / settled a",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         5 > term 1.1 (canceled)
         15 > kill 1.1 (canceled)
         15.1 > spawn 1.2
         15.1 > kill_at 1.2 69.35
         15.1 > follow 1.2
         15.1 > settle a canceled",
    );
}

#[test]
fn job_with_a_lost_lease_is_killed_and_not_settled() {
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
         0.2 > kill_at 1.1 58.2
         5 > kill 1.1 (lock_lost)
         5.2 > drop a (lock_lost)
         5.2 > spawn 1.2",
    );
}

#[test]
fn job_with_a_lost_lease_gets_the_lost_grace_of_its_pool() {
    let mut settings = fork(1);
    settings.pools[0].lost_grace = Duration::from_secs(2);
    check(
        settings,
        "0.1 ready 1.1
         0.2 fetched a
         5 revoked a moved
         7.1 exited 1.1 killed",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         5 > term 1.1 (moved)
         7 > kill 1.1 (moved)
         7.1 > drop a (moved)
         7.1 > spawn 1.2
         7.1 > kill_at 1.2 61.35
         7.1 > follow 1.2",
    );
}

#[test]
fn canceled_job_that_loses_its_lease_is_killed_without_further_grace() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         5 revoked a canceled
         6 revoked a lock_lost
         6.1 exited 1.1 killed",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         5 > term 1.1 (canceled)
         6 > kill 1.1 (canceled)
         6.1 > drop a (lock_lost)
         6.1 > spawn 1.2
         6.1 > kill_at 1.2 60.35
         6.1 > follow 1.2",
    );
}

#[test]
fn self_fenced_job_is_killed_at_once_when_its_lease_is_lost() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         50 revoked a lock_lost
         50.1 exited 1.1 killed",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         20.2 > renew a
         48.2 > term 1.1 (self_fenced)
         50 > kill 1.1 (self_fenced)
         50.1 > drop a (lock_lost)
         50.1 > spawn 1.2
         50.1 > kill_at 1.2 104.35
         50.1 > follow 1.2",
    );
}

#[test]
fn lease_is_renewed_after_a_third_and_the_fence_moves_with_it() {
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
         0.2 > kill_at 1.1 58.2
         20.2 > renew a
         38.1 > kill_at 1.1 78.3
         40.3 > renew a
         41.1 > renew a
         50 > fetch 1.1
         50 > settle a complete",
    );
}

#[test]
fn job_is_ended_before_a_lease_that_cannot_be_renewed_runs_out() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         48.9 exited 1.1 15",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         20.2 > renew a
         48.2 > term 1.1 (self_fenced)
         48.9 > spawn 1.2
         48.9 > kill_at 1.2 103.15
         48.9 > follow 1.2
         48.9 > settle a released after 0, stopped",
    );
}

#[test]
fn stop_reports_verdicts_that_the_broker_did_not_confirm() {
    check(
        Settings { stop_deadline: Duration::from_secs(1), ..prefork(2) },
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched a / fetched b
         1 done 1.1 a / settle_failed a
         1.2 stop drain / exited 1.1 0
         1.3 done 2.1 b / settled b / exited 2.1 0
         8 woken",
        "0 > spawn 1.1
         0 > spawn 2.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         0.2 > fetch 2.1
         0.2 > assign 2.1 b
         0.2 > kill_at 2.1 58.2
         1 > fetch 1.1
         1 > settle a complete
         1.1 > settle a complete
         1.2 > term 1.1 (stop)
         1.2 > term 2.1 (stop)
         1.3 > settle b complete
         7.2 > untold a complete
         7.2 > exit",
    );
}

#[test]
fn cancel_ends_one_of_several_coroutine_jobs_alone() {
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
         0.2 > kill_at 1.1 58.2
         5 > cancel 1.1 a (canceled)
         6 > settle a canceled
         7 > settle b complete",
    );
}

#[test]
fn coroutine_job_that_ignores_its_cancel_ends_the_worker_and_neighbours_rerun() {
    check(
        coroutine(1),
        "0.1 ready 1.1
         0.2 fetched a b
         5 revoked a moved
         6.1 exited 1.1 killed
         16 ready 1.2
         17 done 1.2 b",
        "0 > spawn 1.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 a
         0.2 > assign 1.1 b
         0.2 > kill_at 1.1 58.2
         5 > cancel 1.1 a (moved)
         6 > kill 1.1 (moved)
         6.1 > drop a (moved)
         6.1 > spawn 1.2
         16 > assign 1.2 b
         16 > kill_at 1.2 58.2
         17 > settle b complete",
    );
}

#[test]
fn job_revoked_during_its_fetch_is_not_run() {
    check(
        fork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 revoked a canceled / revoked b lock_lost
         0.3 fetched a b",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0 > spawn 2.1
         0 > kill_at 2.1 54.25
         0 > follow 2.1
         0.1 > fetch 1.1
         0.3 > drop b (lock_lost)
         0.3 > fetch 1.1 2.1
         0.3 > settle a canceled",
    );
}

#[test]
fn job_over_its_time_limit_is_ended_and_its_late_done_is_ignored() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a limit=5 retries=1
         6 done 1.1 a
         15.4 exited 1.1 killed",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         5.2 > term 1.1 (time limit)
         15.2 > kill 1.1 (time limit)
         15.4 > spawn 1.2
         15.4 > kill_at 1.2 69.65
         15.4 > follow 1.2
         15.4 > settle a retry after 1.01 (time limit)",
    );
}

// ---- suspects

#[test]
fn jobs_of_a_dead_coroutine_worker_rerun_alone_and_only_a_crash_alone_counts() {
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
         0.2 > kill_at 1.1 58.2
         12 > spawn 1.2
         13 > assign 1.2 a
         13 > kill_at 1.2 58.2
         15 > spawn 1.3
         15 > settle a failed (crashed), crash +1
         16 > assign 1.3 b
         16 > kill_at 1.3 58.2
         17 > fetch 1.3 1.3 1.3
         17 > settle b complete",
    );
}

#[test]
fn crashed_job_waits_for_an_empty_worker_and_runs_there_alone() {
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
         0.2 > kill_at 1.1 58.2
         0.2 > fetch 2.1 2.1 2.1
         0.3 > assign 2.1 e
         0.3 > kill_at 2.1 58.3
         0.3 > fetch 2.1 2.1
         5 > assign 2.1 k
         5 > settle e complete
         6 > spawn 2.2
         6 > settle k retry after 2.02 (crashed), crash +1
         7 > fetch 1.1
         7 > settle b complete",
    );
}

#[test]
fn jobs_that_wait_to_run_alone_keep_their_lease_and_can_be_canceled_or_released() {
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
         0.2 > kill_at 1.1 58.2
         12 > spawn 1.2
         12.1 > settle a canceled
         12.1 > drop b (lock_lost)
         20.2 > renew c
         22 > term 1.2 (stop)
         22 > settle c released after 0",
    );
}

#[test]
fn jobs_that_wait_to_run_alone_are_released_when_no_worker_boots() {
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
         0.2 > kill_at 1.1 58.2
         12 > spawn 1.2
         13 > settle a released after 0
         13 > settle b released after 0",
    );
}
