//! Workers whose processes do not die: their jobs keep their leases until the death is proven.

use model::{Instant, Settings, SlotId, Unproven, WorkerId};

use super::script::{check, fetched};
use super::{coroutine, fork, prefork};

/// Settings with a slot in which a life of an earlier supervisor, with a job, is still alive.
fn inherited(pool: u16, index: u16, mut settings: Settings) -> Settings {
    let worker = WorkerId { slot: SlotId { pool, index }, generation: 7 };
    let jobs = fetched(Instant::from_millis(0), &["a"]);
    settings.unproven.push(Unproven { worker, cause: "in state D".into(), jobs });
    Settings { first_generation: 9, ..settings }
}

#[test]
fn job_is_renewed_until_its_slow_orphans_are_dead_and_then_completes() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         2 stuck 1.1
         20.3 renewed a
         40.4 renewed a
         60.5 renewed a
         61 done 1.1 a / exited 1.1 0",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         20.2 > renew a
         40.3 > renew a
         60.4 > renew a
         61 > spawn 1.2
         61 > kill_at 1.2 115.25
         61 > follow 1.2
         61 > settle a complete",
    );
}

#[test]
fn limits_and_cancel_no_longer_apply_once_the_program_has_ended() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a limit=5
         2 stuck 1.1
         7 exceeded 1.1 a memory
         8 revoked a canceled
         9 done 1.1 a / exited 1.1 0",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         9 > spawn 1.2
         9 > kill_at 1.2 63.25
         9 > follow 1.2
         9 > settle a complete",
    );
}

#[test]
fn job_that_lost_its_lease_while_unproven_is_not_settled() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         2 stuck 1.1
         30 revoked a lock_lost
         31 done 1.1 a / exited 1.1 0",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         20.2 > renew a
         31 > drop a (lock_lost)
         31 > spawn 1.2
         31 > kill_at 1.2 85.25
         31 > follow 1.2",
    );
}

#[test]
fn canceled_job_is_renewed_until_it_is_dead() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 revoked a canceled
         12 stuck 1.1
         20.3 renewed a / revoked a canceled
         41 exited 1.1 9",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         1 > term 1.1 (canceled)
         11 > kill 1.1 (canceled)
         20.2 > renew a
         40.3 > renew a
         41 > spawn 1.2
         41 > kill_at 1.2 95.25
         41 > follow 1.2
         41 > settle a canceled",
    );
}

#[test]
fn job_canceled_after_its_worker_died_with_others_does_not_run_again() {
    check(
        coroutine(1),
        "0.1 ready 1.1
         0.2 fetched a b
         1 stuck 1.1
         2 revoked a canceled
         3 exited 1.1 11
         4 ready 1.2",
        "0 > spawn 1.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 a
         0.2 > assign 1.1 b
         0.2 > kill_at 1.1 58.2
         3 > spawn 1.2
         3 > settle a canceled
         4 > assign 1.2 b
         4 > kill_at 1.2 58.2",
    );
}

#[test]
fn inherited_live_worker_keeps_its_slot_and_its_job() {
    check(
        inherited(0, 1, fork(2)),
        "0.1 ready 2.9
         0.2 fetched a#2
         20.3 renewed a
         30 exited 1.7 9",
        "0 > spawn 2.9
         0 > kill_at 2.9 54.25
         0 > follow 2.9
         0.1 > fetch 2.9
         0.2 > fetch 2.9
         0.2 > settle a#2 released after 1
         1.1 > kill_at 2.9 never
         20 > renew a
         30 > spawn 1.8
         30 > settle a released after 0, interrupted",
    );
}

#[test]
fn inherited_finished_job_completes_when_its_orphans_are_dead() {
    check(
        inherited(0, 1, prefork(1)),
        "5 done 1.7 a / exited 1.7 0",
        "5 > settle a complete
         5 > spawn 1.8",
    );
}

#[test]
fn inherited_worker_of_a_removed_slot_is_kept_until_it_dies() {
    for (pool, index) in [(0, 5), (3, 5), (3, 1)] {
        let mut story = super::script::Story::new(inherited(pool, index, prefork(1)));
        story.pass_time_until(super::script::seconds("21"));
        assert!(story.transcript.contains("> renew a"), "{pool}:{index}\n{}", story.transcript);
        let worker = WorkerId { slot: SlotId { pool, index }, generation: 7 };
        let exit = super::script::exit("9");
        story
            .supervisor
            .handle(story.now, taskvisor_supervisor::Event::Exited { worker, exit, followed: false });
        story.write();
        assert!(story.transcript.contains("settle a released"), "{pool}:{index}\n{}", story.transcript);
        let pools = story.supervisor.status(story.now);
        assert_eq!(pools[0].slots.len(), 1, "{pools:?}");
    }
}

#[test]
fn stop_reports_an_inherited_worker_that_it_cannot_end() {
    check(
        inherited(0, 1, prefork(1)),
        "1 stop kill
         40 woken",
        "20 > renew a
         31 > left alive 1.7 a
         31 > exit",
    );
}

#[test]
fn job_that_cannot_be_begun_is_released_unspent_and_its_slot_waits_longer_each_time() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a
         0.3 cannot_begin 1.1 a / exited 1.1 126
         0.5 ready 1.2
         0.6 fetched a#2
         0.7 cannot_begin 1.2 a#2 / exited 1.2 126
         1 ready 1.3",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.3 > term 1.1 (a job could not be begun)
         0.3 > settle a released after 1
         0.4 > spawn 1.2
         0.4 > kill_at 1.2 54.65
         0.4 > follow 1.2
         0.5 > fetch 1.2
         0.6 > assign 1.2 a
         0.7 > term 1.2 (a job could not be begun)
         0.7 > settle a#2 released after 1
         0.91 > spawn 1.3
         0.91 > kill_at 1.3 55.16
         0.91 > follow 1.3
         1 > fetch 1.3",
    );
}

#[test]
fn job_that_its_worker_never_read_is_released_unspent_and_the_worker_backs_off() {
    check(
        prefork(1),
        "1 ready 1.1
         1.2 fetched a
         1.3 not_begun 1.1 a / exited 1.1 0
         1.6 ready 1.2
         1.7 fetched a#2
         1.8 done 1.2 a#2
         1.9 fetched b
         2 not_begun 1.2 b / exited 1.2 0",
        "0 > spawn 1.1
         1 > fetch 1.1
         1.2 > assign 1.1 a
         1.2 > kill_at 1.1 59.2
         1.3 > fetch 1.1
         1.3 > settle a released after 0
         1.4 > spawn 1.2
         1.7 > assign 1.2 a
         1.7 > kill_at 1.2 59.7
         1.8 > fetch 1.2
         1.8 > settle a#2 complete
         1.9 > assign 1.2 b
         2 > fetch 1.2
         2 > settle b released after 0
         2 > spawn 1.3",
    );
}
