//! Workers: deaths, faults, templates, growth.

use model::Instant;

use super::script::{Story, check};
use super::{coroutine, fork, prefork, template};

// ---- death

#[test]
fn a_crash_spends_the_attempt() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a retries=1
         3 exited 1.1 11",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         3 > spawn 1.2
         3 > kill_at 1.2 57.25
         3 > follow 1.2
         3 > settle a retry after 1.01 (crashed), crash +1",
    );
}

#[test]
fn third_crash_holds_the_job() {
    check(
        fork(1),
        "0.1 ready 1.1
         0.2 fetched a retries=9 crashes=2 attempt=3
         3 exited 1.1 11",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         3 > spawn 1.2
         3 > kill_at 1.2 57.25
         3 > follow 1.2
         3 > settle a held (crashed), crash +1",
    );
}

#[test]
fn fork_worker_that_ends_with_its_job_is_replaced_at_once_and_counts_no_restart() {
    for (settings, restarts) in [(fork(1), 0), (prefork(1), 1)] {
        let mut story = Story::new(settings);
        for events in
            [["ready 1.1", "fetched a", "exited 1.1 11"], ["ready 1.2", "fetched b", "exited 1.2 11"]]
        {
            events.iter().for_each(|event| story.tell(event));
        }
        let slot = &story.supervisor.status(story.now)[0].slots[0];
        assert_eq!(slot.restarts, 2 * restarts);
        assert_eq!(slot.why.as_deref(), (restarts > 0).then_some("signal 11"));
        let counted: u64 = story.supervisor.tallies().values().map(|tally| tally.restarts).sum();
        assert_eq!(counted, 2 * u64::from(restarts));
        assert!(story.transcript.contains("0 > spawn 1.3"), "{}", story.transcript);
    }
}

#[test]
fn worker_death_does_not_touch_other_slots() {
    check(
        fork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched a / fetched b
         1 exited 1.1 11
         2 done 2.1 b / exited 2.1 0",
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
         1 > spawn 1.2
         1 > kill_at 1.2 55.25
         1 > follow 1.2
         1 > settle a failed (crashed), crash +1
         2 > spawn 2.2
         2 > kill_at 2.2 56.25
         2 > follow 2.2
         2 > settle b complete",
    );
}

#[test]
fn early_deaths_are_followed_by_growing_backoff() {
    check(
        fork(1),
        "0.1 ready 1.1 / exited 1.1 1
         1 ready 1.2 / exited 1.2 1
         2 ready 1.3 / exited 1.3 1
         3 ready 1.4
         14 exited 1.4 1
         15 exited 1.5 1",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > spawn 1.2
         1.21 > spawn 1.3
         2.46 > spawn 1.4
         14 > spawn 1.5",
    );
}

#[test]
fn pool_that_cannot_boot_probes_with_one_slot_until_one_is_ready() {
    check(
        fork(3),
        "0.1 exited 1.1 1 / exited 2.1 1 / exited 3.1 1
         0.3 exited 1.2 1 / exited 2.2 1 / exited 3.2 1
         9 exited 1.3 1
         20 ready 1.4",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0 > spawn 2.1
         0 > kill_at 2.1 54.25
         0 > follow 2.1
         0 > spawn 3.1
         0 > kill_at 3.1 54.25
         0 > follow 3.1
         0.2 > spawn 1.2
         0.2 > kill_at 1.2 54.45
         0.2 > follow 1.2
         0.21 > spawn 2.2
         0.21 > kill_at 2.2 54.46
         0.21 > follow 2.2
         0.21 > spawn 3.2
         0.21 > kill_at 3.2 54.46
         0.21 > follow 3.2
         0.5 > spawn 1.3
         0.5 > kill_at 1.3 54.75
         0.5 > follow 1.3
         9.45 > spawn 1.4
         9.45 > kill_at 1.4 63.7
         9.45 > follow 1.4
         20 > spawn 3.3
         20 > kill_at 3.3 74.25
         20 > follow 3.3
         20 > spawn 2.3
         20 > kill_at 2.3 74.25
         20 > follow 2.3
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
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         30 > kill 1.1 (boot timeout)
         30.6 > spawn 1.2
         30.6 > kill_at 1.2 84.85
         30.6 > follow 1.2
         31 > fetch 1.2",
    );
}

#[test]
fn failed_spawn_is_retried() {
    check(
        fork(1),
        "0.01 spawn_failed 1.1
         0.2 spawn_failed 1.2
         0.5 ready 1.3",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.11 > spawn 1.2
         0.11 > kill_at 1.2 54.36
         0.11 > follow 1.2
         0.41 > spawn 1.3
         0.41 > kill_at 1.3 54.66
         0.41 > follow 1.3
         0.5 > fetch 1.3",
    );
}

// ---- faults

#[test]
fn worker_that_breaks_the_protocol_is_killed_once_and_its_job_crashes() {
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
         0.2 > kill_at 1.1 58.2
         1 > kill 1.1 (fault)
         1.2 > spawn 1.2
         1.2 > settle a retry after 1.01 (the worker broke the protocol: unknown frame 'dome'), crash +1
         2 > fetch 1.2",
    );
}

#[test]
fn protocol_fault_before_ready_counts_as_an_early_death() {
    let mut story = Story::new(fork(1));
    for event in ["faulty 1.1", "exited 1.1 killed"] {
        story.tell(event);
    }
    assert_eq!(
        story.transcript,
        "0 > spawn 1.1\n0 > kill_at 1.1 54.25\n0 > follow 1.1\n0 > kill 1.1 (fault)\n"
    );
    let slot = &story.supervisor.status(story.now)[0].slots[0];
    assert_eq!((slot.restarts, slot.why.as_deref()), (1, Some("unknown frame 'dome'")));
}

#[test]
fn protocol_fault_of_a_coroutine_worker_is_charged_to_no_job() {
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
         0.2 > kill_at 1.1 58.2
         1 > kill 1.1 (fault)
         1.2 > spawn 1.2
         2 > assign 1.2 a
         2 > kill_at 1.2 58.2
         3 > assign 1.2 b
         3 > settle a complete",
    );
}

// ---- templates

#[test]
fn template_boots_first_and_forks_the_workers() {
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
         0.7 > kill_at 1.1 58.7
         0.7 > fork 2.2 from 0.1
         2 > fork 1.2 from 0.1
         2 > settle a complete",
    );
}

#[test]
fn dead_template_is_replaced_and_its_children_live_on() {
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
         0.7 > kill_at 1.1 58.7
         20 > spawn 0.2
         20.7 > renew a
         21 > settle a complete
         22 > fork 2.2 from 0.2
         22 > fork 1.2 from 0.2",
    );
}

#[test]
fn a_template_that_does_not_fork_in_time_is_replaced() {
    check(
        template(1),
        "0.5 ready 0.1
         30.6 spawn_failed 1.1
         30.7 exited 0.1 killed
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
fn pool_whose_template_cannot_boot_spawns_only_templates() {
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
fn drain_ends_a_template_at_once_and_its_children_after_their_jobs() {
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
         0.7 > kill_at 1.1 58.7
         1 > term 0.1 (stop)
         9 > settle a complete
         9.1 > exit",
    );
}

// ---- many workers

/// The number of lives begun.
fn begun(story: &Story) -> usize {
    story.transcript.matches("> spawn").count()
}

#[test]
fn large_pool_boots_64_workers_and_the_rest_after_the_first_is_ready() {
    let mut story = Story::new(prefork(1000));
    assert_eq!(begun(&story), 64);
    story.pass_time_until(Instant::from_millis(20_000));
    assert_eq!(begun(&story), 64, "the others wait until one of these is ready");
    story.tell("ready 7.1");
    assert_eq!(begun(&story), 1000);
}

#[test]
fn large_pool_whose_first_64_workers_die_probes_with_one() {
    let mut story = Story::new(prefork(1000));
    for slot in 1..=64 {
        story.tell(&format!("exited {slot}.1 1"));
    }
    assert_eq!(begun(&story), 64);
    assert!(story.supervisor.status(story.now)[0].probing.is_some());
    story.pass_time_until(Instant::from_millis(20_000));
    assert_eq!(begun(&story), 65, "one is on its way, and no other");
}

#[test]
fn large_pool_that_dies_at_once_restarts_64_workers_first() {
    let mut story = Story::new(prefork(200));
    for slot in 1..=200 {
        story.tell(&format!("ready {slot}.1"));
    }
    for slot in 1..=200 {
        story.tell(&format!("exited {slot}.1 1"));
    }
    story.pass_time_until(Instant::from_millis(1_000));
    assert_eq!(begun(&story), 200 + 64);
    story.tell("ready 9.2");
    assert_eq!(begun(&story), 200 + 200);
}

// ---- more and fewer workers

#[test]
fn pool_grows_while_jobs_wait_and_all_workers_are_busy() {
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
         0.2 > kill_at 1.1 58.2
         1.1 > ask whether jobs wait
         1.3 > spawn 2.1
         1.5 > fetch 2.1
         1.6 > assign 2.1 b
         1.6 > kill_at 2.1 59.6
         2.3 > ask whether jobs wait
         3 > ask whether jobs wait
         3.9 > settle a complete
         4.9 > kill_at 1.1 never
         6 > fetch 1.1",
    );
}

#[test]
fn worker_idle_for_a_minute_ends_unless_the_pool_is_at_its_minimum() {
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

#[test]
fn job_whose_worker_somebody_else_ends_is_given_back_unspent_and_held_the_third_time() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 exited 1.1 15
         1.1 settled a
         1.2 ready 1.2
         1.3 fetched a#2 crashes=2
         2 exited 1.2 15",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         1 > spawn 1.2
         1 > settle a released after 0, crash +1
         1.2 > fetch 1.2
         1.3 > assign 1.2 a
         1.3 > kill_at 1.2 59.3
         2 > spawn 1.3
         2 > settle a#2 held (interrupted), crash +1",
    );
}
