//! Suspects: jobs during which the supervisor has died more than once. Each runs alone on its host.

use super::script::check;
use super::{coroutine, fork, prefork};

#[test]
fn suspect_begins_when_all_other_jobs_have_ended_and_runs_alone() {
    check(
        fork(3),
        "0.1 ready 1.1 / ready 2.1 / ready 3.1
         0.2 fetched a
         0.3 fetched s interrupted=2 b
         0.4 settled b
         5 done 1.1 a / exited 1.1 0
         5.1 ready 1.2
         6 settled a
         8 woken
         9 done 2.1 s / exited 2.1 0",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0 > spawn 2.1
         0 > kill_at 2.1 54.25
         0 > follow 2.1
         0 > spawn 3.1
         0 > kill_at 3.1 54.25
         0 > follow 3.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > fetch 2.1 3.1
         0.3 > settle b released after 0
         1.1 > kill_at 3.1 never
         1.3 > kill_at 2.1 never
         5 > spawn 1.2
         5 > kill_at 1.2 59.25
         5 > follow 1.2
         5 > settle a complete
         6 > assign 2.1 s
         6 > kill_at 2.1 58.3
         6.1 > kill_at 1.2 never
         9 > spawn 2.2
         9 > kill_at 2.2 63.25
         9 > follow 2.2
         9 > fetch 1.2 3.1
         9 > settle s complete",
    );
}

#[test]
fn suspect_is_released_when_its_worker_dies_before_it_begins() {
    check(
        prefork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched a
         0.3 fetched s interrupted=2
         2 exited 2.1 11
         2.1 settled s
         2.5 ready 2.2",
        "0 > spawn 1.1
         0 > spawn 2.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         0.2 > fetch 2.1
         2 > settle s released after 0
         2.1 > spawn 2.2
         2.5 > fetch 2.2",
    );
}

#[test]
fn unkillable_process_does_not_keep_a_suspect_from_running() {
    check(
        prefork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched a
         0.3 stuck 1.1
         0.4 fetched s interrupted=4",
        "0 > spawn 1.1
         0 > spawn 2.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         0.2 > fetch 2.1
         0.4 > assign 2.1 s
         0.4 > kill_at 2.1 58.4",
    );
}

#[test]
fn suspect_waits_for_others_and_blocks_them_for_five_minutes_at_most() {
    let mut settings = fork(3);
    settings.lease = std::time::Duration::from_secs(2000);
    check(
        settings,
        "0.1 ready 1.1 / ready 2.1 / ready 3.1
         0.2 fetched a
         0.3 fetched s interrupted=2
         2 renewed a 2000 / renewed s 2000
         602 fetched t interrupted=2
         602.1 settled t
         603 fetched b",
        "0 > spawn 1.1
         0 > kill_at 1.1 1873
         0 > follow 1.1
         0 > spawn 2.1
         0 > kill_at 2.1 1873
         0 > follow 2.1
         0 > spawn 3.1
         0 > kill_at 3.1 1873
         0 > follow 3.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         0.2 > fetch 2.1 3.1
         1.1 > kill_at 3.1 never
         1.2 > renew a
         1.3 > kill_at 2.1 never
         1.3 > renew s
         2 > kill_at 1.1 2000
         300.3 > assign 2.1 s
         300.3 > kill_at 2.1 2000
         600.3 > fetch 3.1
         602 > fetch 3.1
         602 > settle t released after 60
         603 > assign 3.1 b
         603 > kill_at 3.1 661",
    );
}

#[test]
fn job_that_waits_to_run_alone_does_not_begin_beside_a_suspect() {
    let mut settings = coroutine(2);
    settings.lease = std::time::Duration::from_secs(2000);
    check(
        settings,
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched b c d
         0.3 fetched e / woken
         0.4 fetched k crashes=1 retries=5 attempt=2
         1 done 1.1 b / done 1.1 c / done 1.1 d
         1.1 settled b / settled c / settled d / woken
         1.2 fetched s interrupted=2
         2 renewed e 2000 / renewed k 2000 / renewed s 2000
         310 done 2.1 e
         311 settled e
         602 woken",
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
         1 > settle b complete
         1 > settle c complete
         1 > settle d complete
         1.1 > fetch 1.1 1.1 1.1
         1.3 > renew e
         1.4 > renew k
         2 > kill_at 2.1 2000
         2.2 > kill_at 1.1 never
         301.2 > assign 1.1 s
         301.2 > kill_at 1.1 2000
         310 > settle e complete
         311 > kill_at 2.1 never
         601.2 > assign 2.1 k
         601.2 > kill_at 2.1 2000",
    );
}
