//! Jobs over their limits.

use super::script::check;
use super::{coroutine, fork, prefork};

#[test]
fn job_over_its_memory_or_process_limit_is_killed_at_once() {
    for (what, name) in [("memory", "memory limit"), ("processes", "process limit")] {
        check(
            prefork(1),
            &format!(
                "0.1 ready 1.1
                 0.2 fetched a retries=1
                 3 exceeded 1.1 a {what}
                 3.1 exited 1.1 killed"
            ),
            &format!(
                "0 > spawn 1.1
                 0.1 > fetch 1.1
                 0.2 > assign 1.1 a
                 0.2 > kill_at 1.1 58.2
                 3 > kill 1.1 ({name})
                 3.1 > spawn 1.2
                 3.1 > settle a retry after 1.01 ({name})"
            ),
        );
    }
}

#[test]
fn job_over_its_cpu_or_output_limit_gets_its_grace() {
    for (what, name) in [("cpu", "cpu limit"), ("output", "output limit")] {
        check(
            fork(1),
            &format!(
                "0.1 ready 1.1
                 0.2 fetched a
                 3 exceeded 1.1 a {what}
                 4 exceeded 1.1 a {what}
                 13.1 exited 1.1 killed"
            ),
            &format!(
                "0 > spawn 1.1
                 0 > kill_at 1.1 54.25
                 0 > follow 1.1
                 0.1 > fetch 1.1
                 0.2 > assign 1.1 a
                 3 > term 1.1 ({name})
                 13 > kill 1.1 ({name})
                 13.1 > spawn 1.2
                 13.1 > kill_at 1.2 67.35
                 13.1 > follow 1.2
                 13.1 > settle a failed ({name})"
            ),
        );
    }
}

#[test]
fn job_over_its_memory_limit_during_its_grace_is_killed_for_the_first_reason() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a limit=5
         6 exceeded 1.1 a memory
         6.1 exited 1.1 killed",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         5.2 > term 1.1 (time limit)
         6 > kill 1.1 (time limit)
         6.1 > spawn 1.2
         6.1 > kill_at 1.2 60.35
         6.1 > follow 1.2
         6.1 > settle a failed (time limit)",
    );
}

#[test]
fn jobs_of_a_worker_over_its_memory_limit_rerun_alone_to_find_the_hog() {
    check(
        coroutine(1),
        "0.1 ready 1.1
         0.2 fetched a b
         3 exceeded 1.1 a memory
         3.1 exited 1.1 killed
         4 ready 1.2
         5 done 1.2 a
         6 exceeded 1.2 b memory
         6.1 exited 1.2 killed",
        "0 > spawn 1.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 a
         0.2 > assign 1.1 b
         0.2 > kill_at 1.1 58.2
         3 > kill 1.1 (memory limit)
         3.1 > spawn 1.2
         4 > assign 1.2 a
         4 > kill_at 1.2 58.2
         5 > assign 1.2 b
         5 > settle a complete
         6 > kill 1.2 (memory limit)
         6.1 > spawn 1.3
         6.1 > settle b failed (memory limit)",
    );
}

#[test]
fn coroutine_job_over_its_output_limit_is_canceled_alone() {
    check(
        coroutine(1),
        "0.1 ready 1.1
         0.2 fetched a b
         3 exceeded 1.1 a output
         4 done 1.1 a
         5 done 1.1 b",
        "0 > spawn 1.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 a
         0.2 > assign 1.1 b
         0.2 > kill_at 1.1 58.2
         3 > cancel 1.1 a (output limit)
         4 > settle a failed (output limit)
         5 > settle b complete",
    );
}

#[test]
fn a_late_report_of_an_ended_job_affects_no_other() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         3 done 1.1 a
         3 fetched b
         3.1 exceeded 1.1 a memory / exceeded 1.9 b memory
         4 done 1.1 b",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         3 > fetch 1.1
         3 > settle a complete
         3 > assign 1.1 b
         4 > fetch 1.1
         4 > settle b complete",
    );
}

#[test]
fn canceled_job_stays_canceled_though_it_exceeds_a_limit() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         3 revoked a canceled
         3.5 exceeded 1.1 a cpu
         4 exited 1.1 15",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         3 > term 1.1 (canceled)
         4 > spawn 1.2
         4 > kill_at 1.2 58.25
         4 > follow 1.2
         4 > settle a canceled",
    );
}

#[test]
fn oom_kill_counts_as_the_memory_limit_only_at_the_bound_of_the_job() {
    for (how, memory, end) in [
        ("oom-at-bound", Some(9), "(memory limit)"),
        ("oom", Some(9), "(oom), crash +1"),
        ("oom-at-bound", None, "(oom), crash +1"),
    ] {
        let mut settings = fork(1);
        settings.pools[0].limits.memory = memory;
        check(
            settings,
            &format!(
                "0.1 ready 1.1
                 0.2 fetched a
                 3 exited 1.1 {how}"
            ),
            &format!(
                "0 > spawn 1.1
                 0 > kill_at 1.1 54.25
                 0 > follow 1.1
                 0.1 > fetch 1.1
                 0.2 > assign 1.1 a
                 3 > spawn 1.2
                 3 > kill_at 1.2 57.25
                 3 > follow 1.2
                 3 > settle a failed {end}"
            ),
        );
    }
}

#[test]
fn time_for_which_a_process_is_stopped_counts_towards_no_limit() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a limit=5
         4 stands 1.1 3
         5 stands 1.1
         9 exited 1.1 killed",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         8.2 > term 1.1 (time limit)
         9 > spawn 1.2
         9 > settle a failed (time limit)",
    );
}

#[test]
fn time_in_which_this_process_and_that_of_a_job_were_stopped_counts_once() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a limit=30
         40 stopped / stands 1.1 39
         40.1 stands 1.1
         40.2 renewed a
         70 exited 1.1 killed",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         40 > renew a
         40.2 > kill_at 1.1 98.2
         60.2 > renew a
         69.8 > term 1.1 (time limit)
         70 > spawn 1.2
         70 > settle a failed (time limit)",
    );
}

#[test]
fn process_that_is_stopped_for_too_long_is_killed_and_its_job_waits_again_the_third_time_held() {
    for (crashes, verdict) in [(0, "released after 0"), (2, "held (stopped)")] {
        check(
            prefork(1),
            &format!(
                "0.1 ready 1.1
                 0.2 fetched a limit=5 crashes={crashes}
                 4 stands 1.1 59
                 5 stands 1.1 2
                 5.1 exited 1.1 killed"
            ),
            &format!(
                "0 > spawn 1.1
                 0.1 > fetch 1.1
                 0.2 > assign 1.1 a
                 0.2 > kill_at 1.1 58.2
                 5 > kill 1.1 (stopped)
                 5.1 > spawn 1.2
                 5.1 > settle a {verdict}, crash +1"
            ),
        );
    }
}

#[test]
fn jobs_of_a_worker_that_is_stopped_for_too_long_run_again_each_alone() {
    check(
        coroutine(1),
        "0.1 ready 1.1
         0.2 fetched a limit=5 b
         4 stands 1.1 61
         4.1 exited 1.1 killed
         4.3 ready 1.2",
        "0 > spawn 1.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 a
         0.2 > assign 1.1 b
         0.2 > kill_at 1.1 58.2
         4 > kill 1.1 (stopped)
         4.1 > spawn 1.2
         4.3 > assign 1.2 a
         4.3 > kill_at 1.2 58.2",
    );
}
