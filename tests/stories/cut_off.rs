//! Jobs whose leases end while the broker does not answer.

use taskvisor::model::{CutOff, Settings};

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
fn carry_on_job_that_has_not_begun_is_dropped_before_its_lease_ends() {
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
         48.2 > drop b (self_fenced)",
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
    story.supervisor.handle(story.now, taskvisor::supervisor::Event::Reload(carrying_on(prefork(1))));
    story.pass_time_until(super::script::seconds("100"));
    story.write();
    assert!(story.transcript.contains("kill_at 1.1 never"), "{}", story.transcript);
    assert!(!story.transcript.contains("term"), "{}", story.transcript);
}
