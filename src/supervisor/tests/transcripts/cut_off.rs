//! Jobs whose leases end while the broker does not answer.

use std::time::Duration;

use model::{CutOff, Settings};

use super::script::check;
use super::{coroutine, fork, prefork};

fn carrying_on(mut settings: Settings) -> Settings {
    settings.pools[0].when_cut_off = CutOff::CarryOn;
    settings
}

#[test]
fn carry_on_job_runs_past_its_lease_and_nothing_is_fetched_until_it_is_confirmed() {
    check(
        carrying_on(prefork(2)),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched a
         20.3 renew_failed a
         59 fetch_failed
         61 renew_failed a
         68 renewed a
         70 done 1.1 a",
        "0 > spawn 1.1
         0 > spawn 2.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > fetch 2.1
         20.2 > renew a
         20.4 > renew a
         61.23 > renew a
         68 > fetch 2.1
         70 > settle a complete",
    );
}

#[test]
fn carry_on_job_that_lost_its_lease_is_killed_when_the_broker_reports_it() {
    check(
        carrying_on(fork(1)),
        "0.1 ready 1.1
         0.2 fetched a
         90 revoked a renew_refused
         90.4 exited 1.1 15",
        "0 > spawn 1.1
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         20.2 > renew a
         90 > kill 1.1 (renew_refused)
         90.4 > drop a (renew_refused)
         90.4 > spawn 1.2
         90.4 > follow 1.2",
    );
}

#[test]
fn carry_on_job_that_ends_meanwhile_is_settled_when_the_broker_is_back() {
    check(
        carrying_on(fork(1)),
        "0.1 ready 1.1
         0.2 fetched a
         75 done 1.1 a
         75.1 exited 1.1 0
         75.2 settle_failed a
         75.25 ready 1.2
         76 settled a",
        "0 > spawn 1.1
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         20.2 > renew a
         75.1 > spawn 1.2
         75.1 > follow 1.2
         75.1 > settle a complete
         75.25 > settle a complete
         75.25 > fetch 1.2",
    );
}

#[test]
fn carry_on_job_that_has_not_begun_goes_back_before_its_lease_ends() {
    check(
        carrying_on(coroutine(1)),
        "0.1 ready 1.1
         0.2 fetched a b
         1 exited 1.1 11
         1.5 ready 1.2
         49 woken",
        "0 > spawn 1.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 a
         0.2 > assign 1.1 b
         1 > spawn 1.2
         1.5 > assign 1.2 a
         20.2 > renew a b
         48.2 > settle b released after 0",
    );
}

#[test]
fn reload_to_carry_on_removes_the_fence_of_running_workers() {
    let mut story = super::script::Story::new(prefork(1));
    for event in ["ready 1.1", "fetched a"] {
        story.tell(event);
    }
    assert!(story.transcript.contains("kill_at 1.1 58"), "{}", story.transcript);
    story.transcript.clear();
    story.supervisor.handle(story.now, taskvisor_supervisor::Event::Reload(carrying_on(prefork(1))));
    story.pass_time_until(super::script::seconds("100"));
    story.write();
    assert!(story.transcript.contains("kill_at 1.1 never"), "{}", story.transcript);
    assert!(!story.transcript.contains("term"), "{}", story.transcript);
}

#[test]
fn stopped_supervisor_asks_whose_its_jobs_are_before_it_gives_them_up() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         150 stopped / woken
         150.1 renewed a
         151 done 1.1 a",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         150 > kill_at 1.1 155
         150 > renew a
         150.1 > kill_at 1.1 208.1
         151 > fetch 1.1
         151 > settle a complete",
    );
}

#[test]
fn stopped_supervisor_that_gets_no_answer_ends_its_jobs_three_seconds_later() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         150 stopped / woken
         153.1 exited 1.1 15",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         150 > kill_at 1.1 155
         150 > renew a
         153 > term 1.1 (self_fenced)
         153.1 > spawn 1.2
         153.1 > settle a released after 0, stopped",
    );
}

/// Who has been stopped alone must not let the job outlive its lease; a keeper that was stopped as well does it so, too.
#[test]
fn supervisor_that_wakes_before_a_lease_ends_has_the_job_dead_by_then() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         58.7 stopped / woken
         59.2 exited 1.1 killed",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         58.7 > kill_at 1.1 59.2
         58.7 > renew a
         59.2 > spawn 1.2
         59.2 > settle a released after 0, stopped",
    );
}

/// The answer may be to a renewal from before the stop.
#[test]
fn fence_that_was_put_off_is_that_of_the_lease_again_when_the_broker_has_answered() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         150 stopped / woken
         150.5 renewed a 3
         151.5 exited 1.1 killed",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         150 > kill_at 1.1 155
         150 > renew a
         150.5 > kill_at 1.1 151.5
         151.5 > renew a
         151.5 > spawn 1.2
         151.5 > settle a released after 0, stopped",
    );
}

#[test]
fn supervisor_that_is_stopped_again_before_the_answer_waits_for_it_as_long_again() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         150 stopped / woken
         160 stopped / woken
         160.1 renewed a
         161 done 1.1 a",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         150 > kill_at 1.1 155
         150 > renew a
         160 > kill_at 1.1 165
         160.1 > kill_at 1.1 218.1
         161 > fetch 1.1
         161 > settle a complete",
    );
}

/// Somebody else may have the job by then.
#[test]
fn supervisor_that_is_late_at_each_wake_up_gives_its_jobs_up_in_the_end() {
    let mut story = super::script::Story::new(prefork(1));
    for event in ["ready 1.1", "fetched a"] {
        story.tell(event);
    }
    story.now = super::script::seconds("150");
    story.supervisor.handle_all(story.now, []);
    let given_up = (0..60).any(|_| {
        story.now = story.supervisor.poll_timeout().unwrap() + Duration::from_secs(2);
        story.supervisor.handle_all(story.now, []);
        story.write();
        story.transcript.contains("self_fenced")
    });
    assert!(given_up, "{}", story.transcript);
}

/// It was in time: the job is not to blame for it.
#[test]
fn job_that_the_keeper_killed_while_the_supervisor_was_stopped_waits_again_unspent() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         150 stopped / woken
         150.1 exited 1.1 killed",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         150 > kill_at 1.1 155
         150 > renew a
         150.1 > spawn 1.2
         150.1 > kill_at 1.2 204.35
         150.1 > follow 1.2
         150.1 > settle a released after 0, stopped",
    );
}

#[test]
fn program_that_has_ended_while_the_supervisor_was_stopped_is_complete() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         150 stopped / woken / done 1.1 a / exited 1.1 0",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         150 > kill_at 1.1 155
         150 > renew a
         150 > spawn 1.2
         150 > kill_at 1.2 204.25
         150 > follow 1.2
         150 > settle a complete",
    );
}

#[test]
fn time_in_which_the_supervisor_was_stopped_counts_towards_no_limit() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a limit=30
         10.2 woken
         100 stopped / renewed a
         119 woken
         121 exited 1.1 15",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         100 > kill_at 1.1 158
         120 > term 1.1 (time limit)
         120 > renew a
         121 > spawn 1.2
         121 > settle a failed (time limit)",
    );
}

#[test]
fn job_has_its_grace_at_a_stop_in_which_the_supervisor_did_not_run() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         5 stop drain
         40 stopped / renewed a / woken
         50 done 1.1 a / settled a
         51 exited 1.1 0",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         40 > kill_at 1.1 98
         50 > term 1.1 (stop)
         50 > settle a complete
         51 > exit",
    );
}

#[test]
fn job_that_waits_to_run_alone_does_not_begin_while_its_lease_is_in_doubt() {
    check(
        coroutine(1),
        "0.1 ready 1.1
         0.2 fetched a b
         1 exited 1.1 11
         90 stopped / ready 1.2
         91 renewed a",
        "0 > spawn 1.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 a
         0.2 > assign 1.1 b
         0.2 > kill_at 1.1 58.2
         1 > spawn 1.2
         90 > renew a b
         91 > assign 1.2 a
         91 > kill_at 1.2 149",
    );
}

#[test]
fn job_given_just_before_the_keepers_fence_of_an_earlier_one_pays_nothing_for_its_kill() {
    check(
        coroutine(1),
        "0.1 ready 1.1
         0.2 fetched a
         57.9 done 1.1 a
         58 woken
         58.1 fetched b
         58.3 exited 1.1 killed",
        "0 > spawn 1.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         20.2 > renew a
         48.2 > cancel 1.1 a (self_fenced)
         57.9 > settle a released after 0, stopped
         58 > fetch 1.1 1.1 1.1
         58.1 > assign 1.1 b
         58.1 > kill_at 1.1 116.1
         58.3 > cancel 1.1 b (self_fenced)
         58.3 > spawn 1.2
         58.3 > settle b released after 0, stopped",
    );
}

/// A stop gives no more time to a job that somebody else may already run.
#[test]
fn stop_in_the_grace_of_a_job_that_has_moved_does_not_put_off_its_end() {
    check(
        coroutine(1),
        "0.1 ready 1.1
         0.2 fetched a b
         5 revoked a moved
         5.5 stop terminate
         6.1 exited 1.1 killed",
        "0 > spawn 1.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 a
         0.2 > assign 1.1 b
         0.2 > kill_at 1.1 58.2
         5 > cancel 1.1 a (moved)
         5.5 > term 1.1 (stop)
         6 > kill 1.1 (stop)
         6.1 > drop a (moved)
         6.1 > settle b released after 0, stopped",
    );
}
