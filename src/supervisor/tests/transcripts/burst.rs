//! Bursts: `start --burst` ends when no job is left that can run here.

use std::time::Duration;

use model::{Change, Settings};

use super::script::{Story, check};
use super::{fork, prefork};

#[test]
fn burst_ends_when_all_jobs_are_done() {
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
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         1 > spawn 1.2
         1 > kill_at 1.2 55.25
         1 > follow 1.2
         1 > settle a complete
         1.1 > fetch 1.2
         1.2 > ask whether idle
         1.7 > ask whether idle
         1.8 > term 1.2 (stop)
         1.9 > exit",
    );
}

#[test]
fn burst_ends_with_an_error_when_no_job_can_be_begun() {
    let mut story = Story::new(Settings { burst: true, ..fork(1) });
    for life in 1..=5 {
        assert_eq!(story.supervisor.stopping(), None, "life {life}");
        for event in [
            format!("ready 1.{life}"),
            format!("fetched a#{life}"),
            format!("cannot_begin 1.{life} a#{life}"),
        ] {
            story.tell(&event);
        }
        story.tell(&format!("exited 1.{life} 126"));
        story.tell(&format!("settled a#{life}"));
        story.now = story.now + Duration::from_secs(60);
        story.supervisor.handle_all(story.now, []);
        story.write();
    }
    assert!(story.supervisor.stopping().is_some());
}

#[test]
fn burst_ends_with_an_error_when_no_worker_boots() {
    let mut settings = fork(1);
    settings.burst = true;
    check(
        settings,
        "0.1 exited 1.1 1
         0.3 exited 1.2 1
         0.6 exited 1.3 1
         1.1 exited 1.4 1
         2.1 exited 1.5 1",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.2 > spawn 1.2
         0.2 > kill_at 1.2 54.45
         0.2 > follow 1.2
         0.51 > spawn 1.3
         0.51 > kill_at 1.3 54.76
         0.51 > follow 1.3
         1.06 > spawn 1.4
         1.06 > kill_at 1.4 55.31
         1.06 > follow 1.4
         1.9 > spawn 1.5
         1.9 > kill_at 1.5 56.15
         1.9 > follow 1.5
         2.1 > give up Undone(\"pool default: 5 workers died within 30 s before they were ready\")
         2.1 > exit",
    );
}

#[test]
fn burst_ends_with_an_error_when_the_broker_does_not_answer() {
    let mut settings = fork(1);
    settings.burst = true;
    check(
        settings,
        "0.1 ready 1.1
         0.2 fetch_failed
         15 fetch_failed
         30.1 fetch_failed
         30.3 fetch_failed
         30.4 exited 1.1 15",
        "0 > spawn 1.1
         0 > kill_at 1.1 54.25
         0 > follow 1.1
         0.1 > fetch 1.1
         0.3 > fetch 1.1
         1.1 > kill_at 1.1 never
         15.21 > fetch 1.1
         30.3 > give up NoBroker(\"the broker has not answered a fetch for 30 s\")
         30.3 > term 1.1 (stop)
         30.4 > exit",
    );
}

#[test]
fn burst_does_not_wait_for_jobs_of_unknown_classes() {
    let mut settings = prefork(1);
    settings.burst = true;
    check(
        settings,
        "0.1 knows known
         0.1 ready 1.1
         0.2 fetched a
         0.3 settled a
         0.4 fetched
         0.5 fetched
         0.9 idle_but 1 of classes that no worker knows
         1 exited 1.1 15",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > fetch 1.1 only known
         0.2 > settle a released after 1.01, unknown
         0.4 > fetch 1.1
         0.5 > ask whether idle but mail
         0.9 > give up Undone(\"1 of classes that no worker knows\")
         0.9 > term 1.1 (stop)
         1 > exit",
    );
}

#[test]
fn supervisor_stops_after_the_set_number_of_jobs_though_more_wait() {
    let mut settings = fork(2);
    settings.end_after = Some(2);
    check(
        settings,
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched a
         0.3 fetched b
         1 done 1.1 a / exited 1.1 0
         1.1 settled a / ready 1.2
         1.2 fetched c
         2 done 1.2 c / exited 1.2 0
         2.1 settled c
         3 done 2.1 b / exited 2.1 0
         3.1 settled b",
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
         1 > spawn 1.2
         1 > kill_at 1.2 55.25
         1 > follow 1.2
         1 > settle a complete
         1.1 > fetch 1.2
         1.2 > assign 1.2 c
         2 > settle c complete
         3 > settle b complete
         3.1 > exit",
    );
}

#[test]
fn burst_ends_though_the_only_worker_was_exchanged() {
    check(
        Settings { burst: true, ..prefork(1) },
        "0.1 ready 1.1
         0.2 fetched a
         0.3 outgrown 1.1
         0.4 ready 1:1.2
         1 done 1.1 a
         1.1 settled a
         1.2 exited 1.1 0
         1.3 fetched:1
         1.4 idle
         1.5 exited 1:1.2 15",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         0.3 > equip 1 default spec=0 workers=1
         0.3 > spawn 1:1.2
         1 > term 1.1 (recycled: memory)
         1 > fetch 1:1.2
         1 > settle a complete
         1.3 > ask whether idle
         1.4 > term 1:1.2 (stop)
         1.5 > exit",
    );
}

#[test]
fn burst_ends_with_an_error_when_a_pool_was_left_paused() {
    let left = ("default".to_owned(), "pool default is paused by uid 7".to_owned());
    let settings = Settings {
        burst: true,
        changes: vec![("default".into(), Change::Pause)],
        left_paused: [left].into(),
        ..prefork(1)
    };
    check(
        settings.clone(),
        "1 woken",
        "0 > give up Undone(\"pool default is paused by uid 7\")
         0 > exit",
    );
    // Others run their jobs first.
    let mut other = settings.pools[0].clone();
    other.name = "other".into();
    let pools = [settings.pools.clone(), vec![other]].concat();
    check(
        Settings { pools, ..settings },
        "0.1 ready 1.1
         0.1 ready 1:1.1
         0.2 fetched:1 a
         1 done 1:1.1 a
         1.1 settled a
         1.2 fetched:1
         1.3 idle
         1.4 exited 1.1 15 / exited 1:1.1 15",
        "0 > spawn 1.1
         0 > spawn 1:1.1
         0.1 > fetch 1:1.1
         0.2 > assign 1:1.1 a
         0.2 > kill_at 1:1.1 58.2
         1 > fetch 1:1.1
         1 > settle a complete
         1.2 > ask whether idle
         1.3 > give up Undone(\"pool default is paused by uid 7\")
         1.3 > term 1.1 (stop)
         1.3 > term 1:1.1 (stop)
         1.4 > exit",
    );
}

#[test]
fn burst_waits_for_who_pauses_a_pool_meanwhile() {
    check(
        Settings { burst: true, ..prefork(1) },
        "0.1 pause / ready 1.1
         100 resume",
        "0 > spawn 1.1
         100 > fetch 1.1",
    );
}
