//! What becomes of jobs after their end, over each broker: failure groups, many at a time, statistics, expiry; then the verbs
//! of the real binary.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, clippy::too_many_lines)]

#[path = "support/sandbox.rs"]
mod sandbox;
#[macro_use]
#[path = "support/store.rs"]
mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use sandbox::{Sandbox, Setting};
use support::*;
use taskvisor::broker::{Broker, Error, Verbs};
use taskvisor::model::verb::{
    Act, Bulk, Failed, FailureGroup, Forget, QueueDay, SetOption, Stats, Swept, Times,
};
use taskvisor::model::*;

contract!(
    failures_are_counted_by_their_groups,
    a_group_is_left_with_the_state,
    the_jobs_of_a_group_are_listed_by_pages,
    many_jobs_are_retried_by_what_they_are,
    many_jobs_are_taken_stretch_by_stretch,
    a_limit_takes_those_first_that_were_put_first,
    a_rehearsal_changes_nothing,
    only_what_has_ended_is_swept,
    discarded_jobs_are_gone,
    waits_and_runs_are_counted_by_day,
    a_wait_begins_when_the_job_could_run,
    failures_are_counted_by_day,
    statistics_outlive_the_process,
    a_queue_without_jobs_is_forgotten,
    a_queue_that_is_of_use_is_not_forgotten,
    a_queue_is_forgotten_with_its_ended_jobs_or_loses_none,
    ended_jobs_go_when_they_are_old,
    too_many_complete_jobs_go_the_oldest_first,
    what_is_kept_for_ever_stays,
    a_million_would_go_a_few_at_a_time,
    statistics_go_after_ninety_days,
    counters_agree_with_the_jobs_after_each_step,
);

fn wrong(group: &str, message: &str) -> Failure {
    Failure { group: group.into(), message: message.into(), trace: None }
}

/// Puts a job and has it end by this verdict.
async fn ended(scene: &Scene, new: NewJob, verdict: Verdict) {
    let queue = new.queue.clone();
    let id = scene.put(new).await;
    let taken = scene.take_from(queue.as_str()).await.unwrap();
    assert_eq!(taken.job.id, id);
    scene.say(&taken, verdict).await;
}

async fn failed(scene: &Scene, id: &str, group: &str) {
    ended(scene, job(id), Verdict::Fail { failure: wrong(group, id) }).await;
}

async fn groups(scene: &Scene) -> Vec<FailureGroup> {
    scene.tell(Failed {}, "").await.unwrap()
}

fn bulk(act: Act, state: JobState) -> Bulk {
    Bulk {
        act,
        state,
        group: None,
        class: None,
        queue: None,
        since: None,
        limit: None,
        dry_run: false,
        after: None,
    }
}

/// How many it was done with, asking until there are no more.
async fn swept(scene: &Scene, mut asked: Bulk) -> u64 {
    let mut count = 0;
    loop {
        let answer: Swept = scene.tell(asked.clone(), "uid 7").await.unwrap();
        count += answer.count;
        asked.after = answer.next;
        if answer.next.is_none() {
            return count;
        }
    }
}

async fn waiting(scene: &Scene) -> Vec<String> {
    let filter = Filter { states: vec![JobState::Waiting], limit: 9_999, ..Filter::default() };
    scene.list(filter).await.unwrap().iter().rev().map(|job| job.id.to_string()).collect()
}

async fn failures_are_counted_by_their_groups(scene: Scene) {
    assert_eq!(groups(&scene).await, []);
    failed(&scene, "a", "exit 1").await;
    failed(&scene, "b", "killed").await;
    scene.clock.forward(Duration::from_secs(5));
    failed(&scene, "c", "exit 1").await;
    ended(&scene, job("d"), Verdict::Hold { failure: wrong("killed", "d") }).await;
    ended(&scene, job("e"), Verdict::Hold { failure: wrong("killed", "e") }).await;
    ended(&scene, job("f"), Verdict::Fail { failure: wrong("", "no name") }).await;
    let newest = async |id: &str| scene.record(&id.into()).await.ended_at.unwrap();
    let group = |group: &str, failed, held, newest, job: &str, message: &str| FailureGroup {
        group: group.into(),
        failed,
        held,
        newest,
        job: job.into(),
        message: message.into(),
    };
    let expected = [
        group("killed", 1, 2, newest("e").await, "e", "e"),
        group("exit 1", 2, 0, newest("c").await, "c", "c"),
        group("", 1, 0, newest("f").await, "f", "no name"),
    ];
    assert_eq!(groups(&scene).await, expected);
}

async fn a_group_is_left_with_the_state(scene: Scene) {
    failed(&scene, "a", "exit 1").await;
    scene.retry("a".into()).await.unwrap();
    assert_eq!(groups(&scene).await, []);
    let elsewhere = NewJob { queue: "p".into(), ..job("b") };
    ended(&scene, elsewhere, Verdict::Hold { failure: failure() }).await;
    assert_eq!(groups(&scene).await.len(), 1);
    scene.cancel("b".into()).await.unwrap();
    assert_eq!(groups(&scene).await, []);
    // A job canceled while it ran has not failed, whatever its last words were; nor has one that will be tried again.
    let taken = scene.take().await.unwrap();
    scene.cancel("a".into()).await.unwrap();
    scene.say(&taken, Verdict::Fail { failure: failure() }).await;
    ended(&scene, job("c"), retry_after(Duration::ZERO)).await;
    assert_eq!(groups(&scene).await, []);
    for _ in 0..5 {
        assert_eq!(scene.take().await.unwrap().job.id.as_str(), "c");
        scene.recover("me".into(), vec![]).await.unwrap();
    }
    assert_eq!(groups(&scene).await[0].group, "interrupted");
}

async fn the_jobs_of_a_group_are_listed_by_pages(scene: Scene) {
    for n in 0..5 {
        failed(&scene, &format!("a{n}"), "exit 1").await;
        failed(&scene, &format!("b{n}"), "exit 2").await;
    }
    ended(&scene, job("h"), Verdict::Hold { failure: failure() }).await;
    let mut filter = Filter { group: Some("exit 1".into()), limit: 4, ..Filter::default() };
    let ids = async |filter: &Filter| -> Vec<String> {
        scene.list(filter.clone()).await.unwrap().iter().map(|job| job.id.to_string()).collect()
    };
    assert_eq!(ids(&filter).await, ["h", "a4", "a3", "a2"]);
    filter.after = Some("a2".into());
    assert_eq!(ids(&filter).await, ["a1", "a0"]);
    let held = Filter { states: vec![JobState::Held], after: None, ..filter.clone() };
    assert_eq!(ids(&held).await, ["h"]);
    assert!(ids(&Filter { states: vec![JobState::Waiting], ..held.clone() }).await.is_empty());
    assert!(ids(&Filter { group: Some("exit".into()), ..filter }).await.is_empty());
}

async fn many_jobs_are_retried_by_what_they_are(scene: Scene) {
    let fail = |group: &str| Verdict::Fail { failure: wrong(group, "") };
    ended(&scene, NewJob { class: "mail".into(), ..job("class") }, fail("x")).await;
    ended(&scene, NewJob { queue: "p".into(), ..job("queue") }, fail("x")).await;
    ended(&scene, job("group"), fail("y")).await;
    ended(&scene, job("held"), Verdict::Hold { failure: wrong("x", "") }).await;
    scene.clock.forward(Duration::from_secs(10));
    ended(&scene, job("late"), fail("x")).await;
    let since = scene.record(&"late".into()).await.ended_at;
    let all = bulk(Act::Retry, JobState::Failed);
    let cases = [
        (Bulk { class: Some("mail".into()), ..all.clone() }, "class"),
        (Bulk { queue: Some("p".into()), ..all.clone() }, "queue"),
        (Bulk { group: Some("y".into()), ..all.clone() }, "group"),
        (Bulk { group: Some("x".into()), state: JobState::Held, ..all.clone() }, "held"),
        (Bulk { since, ..all.clone() }, "late"),
    ];
    for (asked, id) in cases {
        let none = Bulk { class: Some("none".into()), ..asked.clone() };
        assert_eq!(swept(&scene, none).await, 0);
        let answer: Swept = scene.tell(asked, "uid 7").await.unwrap();
        assert_eq!(answer, Swept { count: 1, needed: 0, jobs: vec![id.into()], next: None });
        let record = scene.record(&id.into()).await;
        assert_eq!((record.state, record.failure, record.attempt), (JobState::Waiting, None, 0), "{id}");
        let last = record.history.last().unwrap();
        assert!(matches!(&last.what, Happened::Retried { by, .. } if by == "uid 7"), "{last:?}");
    }
    assert_eq!(swept(&scene, all).await, 0);
    assert_eq!(scene.take().await.unwrap().job.id.as_str(), "class");
}

async fn many_jobs_are_taken_stretch_by_stretch(scene: Scene) {
    const MANY: u64 = 1_234;
    scene.enqueue((0..MANY).map(|n| job(&n.to_string())).collect()).await.unwrap();
    while let Some(taken) = scene.fetch(request(&["q"], 500)).await.ok().filter(|taken| !taken.is_empty()) {
        let fail = |one: &Fetched| settlement(&one.lease, Verdict::Fail { failure: failure() });
        scene.settle(taken.iter().map(fail).collect()).await.unwrap();
    }
    let all = bulk(Act::Retry, JobState::Failed);
    assert_eq!(groups(&scene).await[0].failed, MANY);
    let first: Swept = scene.tell(all.clone(), "").await.unwrap();
    assert!(first.count < MANY && first.next.is_some(), "{first:?}");
    assert_eq!(first.count + swept(&scene, Bulk { after: first.next, ..all.clone() }).await, MANY);
    assert_eq!(waiting(&scene).await.len() as u64, MANY);
    for n in 0..MANY {
        scene.cancel(n.to_string().as_str().into()).await.unwrap();
    }
    assert_eq!(swept(&scene, bulk(Act::Discard, JobState::Canceled)).await, MANY);
    assert_eq!(scene.counts().await.unwrap()[&"q".into()].jobs, BTreeMap::new());
}

async fn a_limit_takes_those_first_that_were_put_first(scene: Scene) {
    for id in ["a", "b", "c", "d"] {
        failed(&scene, id, "exit 1").await;
    }
    let two = Bulk { limit: Some(2), ..bulk(Act::Retry, JobState::Failed) };
    assert_eq!(swept(&scene, two.clone()).await, 2);
    assert_eq!(waiting(&scene).await, ["a", "b"]);
    assert_eq!(swept(&scene, Bulk { limit: Some(0), ..two.clone() }).await, 0);
    assert_eq!(swept(&scene, Bulk { group: Some("exit 1".into()), ..two }).await, 2);
    assert_eq!(waiting(&scene).await, ["a", "b", "c", "d"]);
}

async fn a_rehearsal_changes_nothing(scene: Scene) {
    for n in 0..20 {
        failed(&scene, &n.to_string(), "exit 1").await;
    }
    for act in [Act::Retry, Act::Discard] {
        let asked = Bulk { dry_run: true, ..bulk(act, JobState::Failed) };
        let answer: Swept = scene.tell(asked, "").await.unwrap();
        assert_eq!((answer.count, answer.jobs.len(), answer.jobs[0].as_str()), (20, 10, "0"));
    }
    assert_eq!(groups(&scene).await[0].failed, 20);
}

async fn only_what_has_ended_is_swept(scene: Scene) {
    scene.put(job("a")).await;
    for state in JobState::ALL.into_iter().filter(|state| !state.has_ended()) {
        let refused = scene.tell(bulk(Act::Discard, state), "").await.unwrap_err();
        assert!(matches!(&refused, Error::Refused(why) if why.contains(state.as_str())), "{refused}");
    }
    assert_eq!(waiting(&scene).await, ["a"]);
}

async fn discarded_jobs_are_gone(mut scene: Scene) {
    let large = NewJob { payload: Payload::Data(Bytes(vec![7; 5_000])), ..job("large") };
    ended(&scene, large, Verdict::Fail { failure: failure() }).await;
    ended(&scene, job("held"), Verdict::Hold { failure: failure() }).await;
    ended(&scene, job("done"), complete()).await;
    scene.put(job("canceled")).await;
    scene.cancel("canceled".into()).await.unwrap();
    for state in [JobState::Failed, JobState::Held, JobState::Complete, JobState::Canceled] {
        assert_eq!(swept(&scene, bulk(Act::Discard, state)).await, 1, "{state}");
    }
    assert_eq!(scene.get("large".into()).await, Ok(None));
    assert_eq!(scene.list(Filter::default()).await, Ok(vec![]));
    assert_eq!(groups(&scene).await, []);
    scene.put(job("large")).await;
    assert_eq!(scene.record(&"large".into()).await.history, []);
    if let Place::File(directory) = &scene.place {
        scene.store = None;
        let conn = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
        let left = |table: &str| -> u64 {
            conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
        };
        assert_eq!(["job", "body", "history"].map(left), [1, 0, 0]);
    }
}

/// Of today. The counts of the queues say the same.
async fn stats(scene: &Scene) -> QueueDay {
    let day = scene.tell(Stats { queue: "q".into(), day: None }, "").await.unwrap();
    let today = scene.counts().await.unwrap()[&"q".into()].today;
    let sum = |times: &Times| Sum { count: times.count, seconds: times.mean * times.count as f64 };
    let QueueDay { retries, failures, failed, .. } = day;
    assert_eq!(today, Today { wait: sum(&day.wait), run: sum(&day.run), retries, failures, failed });
    day
}

async fn waits_and_runs_are_counted_by_day(scene: Scene) {
    let seconds = Duration::from_secs;
    for (wait, run) in [(2, 70), (4, 130), (6, 3_700)] {
        scene.put(job(&wait.to_string())).await;
        scene.clock.forward(seconds(wait));
        let taken = scene.take().await.unwrap();
        scene.renew(vec![taken.lease.clone()], seconds(9_999)).await.unwrap();
        scene.clock.forward(seconds(run));
        scene.say(&taken, complete()).await;
    }
    let today = stats(&scene).await;
    assert_eq!((today.wait.count, today.wait.mean, today.wait.std), (3, 4.0, 2.0));
    assert_eq!(today.wait.histogram, BTreeMap::from([(2, 1), (4, 1), (6, 1)]));
    assert_eq!((today.run.count, today.run.mean), (3, 1_300.0));
    assert_eq!(today.run.histogram, BTreeMap::from([(60, 1), (120, 1), (3_600, 1)]));
    assert_eq!((today.retries, today.failures, today.failed), (0, 0, 0));
    scene.clock.forward(seconds(86_400));
    let tomorrow = stats(&scene).await;
    assert_eq!((tomorrow.day, tomorrow.wait.count), (Day(today.day.0 + 1), 0));
    let again = scene.tell(Stats { queue: "q".into(), day: Some(today.day) }, "").await.unwrap();
    assert_eq!(again, today);
    let none = scene.tell(Stats { queue: "none".into(), day: None }, "").await;
    assert_eq!(none, Err(Error::NoQueue("none".into())));
}

async fn a_wait_begins_when_the_job_could_run(scene: Scene) {
    let seconds = Duration::from_secs;
    scene.put(NewJob { delay: seconds(10), ..job("a") }).await;
    scene.clock.forward(seconds(13));
    let taken = scene.take().await.unwrap();
    scene.say(&taken, retry_after(seconds(20))).await;
    scene.clock.forward(seconds(25));
    let taken = scene.take().await.unwrap();
    scene.say(&taken, release()).await;
    scene.clock.forward(seconds(7));
    let taken = scene.take().await.unwrap();
    scene.say(&taken, Verdict::Fail { failure: failure() }).await;
    scene.clock.forward(seconds(100));
    scene.retry("a".into()).await.unwrap();
    scene.clock.forward(seconds(9));
    scene.take().await.unwrap();
    scene.clock.forward(LEASE + seconds(30));
    // The lease ran out half a minute before, but nobody looked.
    scene.take().await.unwrap();
    let expected = BTreeMap::from([(0, 1), (3, 1), (5, 1), (7, 1), (9, 1)]);
    assert_eq!(stats(&scene).await.wait.histogram, expected);
}

async fn failures_are_counted_by_day(scene: Scene) {
    let tally = async || {
        let today = stats(&scene).await;
        (today.retries, today.failures, today.failed)
    };
    ended(&scene, job("a"), retry_after(Duration::from_secs(9_999))).await;
    ended(&scene, job("b"), Verdict::Release { after: Duration::from_secs(9_999), counts: None }).await;
    assert_eq!(tally().await, (1, 0, 0));
    for id in ["c", "d", "e"] {
        failed(&scene, id, "exit 1").await;
    }
    ended(&scene, job("h"), Verdict::Hold { failure: failure() }).await;
    assert_eq!(tally().await, (1, 3, 3));
    scene.retry("c".into()).await.unwrap();
    assert_eq!(tally().await, (1, 3, 2));
    let first = stats(&scene).await.day;
    scene.clock.forward(Duration::from_secs(86_400));
    // It failed on the day before: that day has one fewer that still is.
    let one = Bulk { limit: Some(1), ..bulk(Act::Discard, JobState::Failed) };
    assert_eq!(swept(&scene, one).await, 1);
    assert_eq!(tally().await, (0, 0, 0));
    let before = scene.tell(Stats { queue: "q".into(), day: Some(first) }, "").await.unwrap();
    assert_eq!((before.failures, before.failed), (3, 1));
}

async fn statistics_outlive_the_process(mut scene: Scene) {
    for n in 0..10 {
        ended(&scene, job(&n.to_string()), complete()).await;
        if n % 3 == 0 {
            // The next commit writes what was gathered.
            scene.clock.forward(Duration::from_secs(2));
        }
        if n == 5 {
            scene.reopen();
        }
        assert_eq!(stats(&scene).await.run.count, n + 1);
    }
    let Some(other) = scene.second() else { return };
    let asked = Stats { queue: "q".into(), day: None };
    scene.clock.forward(Duration::from_secs(2));
    scene.put(job("x")).await;
    assert_eq!(other.tell(asked.clone(), "").await.unwrap().run.count, 10);
    // Two processes gather beside each other.
    let taken = other.fetch(request(&["q"], 1)).await.unwrap();
    other.settle(vec![settlement(&taken[0].lease, complete())]).await.unwrap();
    ended(&scene, job("y"), complete()).await;
    drop(other);
    scene.reopen();
    let all = stats(&scene).await;
    assert_eq!((all.run.count, all.run.histogram), (12, BTreeMap::from([(0, 12)])));
}

async fn forget(scene: &Scene, queue: &str) -> Result<(), Error> {
    scene.tell(Forget { queue: queue.into(), discard: false, after: None }, "").await.map(drop)
}

async fn a_queue_without_jobs_is_forgotten(mut scene: Scene) {
    ended(&scene, job("a"), complete()).await;
    swept(&scene, bulk(Act::Discard, JobState::Complete)).await;
    forget(&scene, "q").await.unwrap();
    assert_eq!(scene.counts().await.unwrap(), BTreeMap::new());
    assert_eq!(forget(&scene, "q").await, Err(Error::NoQueue("q".into())));
    scene.reopen();
    // Another of its name begins anew.
    scene.put(job("b")).await;
    assert_eq!(stats(&scene).await.run.count, 0);
    assert_eq!(scene.take().await.unwrap().job.id.as_str(), "b");
}

async fn a_queue_is_forgotten_with_its_ended_jobs_or_loses_none(scene: Scene) {
    let ask = |after| scene.tell(Forget { queue: "q".into(), discard: true, after }, "");
    let why = async || match ask(None).await {
        Err(Error::InUse(_, why)) => why,
        other => panic!("{other:?}"),
    };
    scene.enqueue((0..1100).map(|n| job(&format!("j{n}"))).collect()).await.unwrap();
    scene.put(NewJob { queue: "p".into(), depends: vec!["j7".into()], ..job("dependent") }).await;
    for n in (0..1100).filter(|n| *n != 7) {
        scene.cancel(format!("j{n}").into()).await.unwrap();
    }
    assert!(why().await.starts_with("it has jobs (1 waiting);"));
    let j7 = scene.take().await.unwrap();
    scene.pause("q".into(), "me".into(), None).await.unwrap();
    scene.say(&j7, Verdict::Fail { failure: wrong("x", "y") }).await;
    assert!(why().await.starts_with("it is paused"));
    scene.resume("q".into()).await.unwrap();
    assert_eq!(
        scene.list(Filter { limit: 0, ..Filter::default() }).await.unwrap().len(),
        1101,
        "none is lost"
    );
    let first = ask(None).await.unwrap();
    assert_eq!((first.count, first.needed), (499, 1));
    let second = ask(first.next).await.unwrap();
    assert_eq!((second.count, second.needed), (500, 0));
    assert!(matches!(ask(second.next).await, Err(Error::InUse(_, why)) if why.contains("(1 failed)")));
    scene.cancel("dependent".into()).await.unwrap();
    let mut next = ask(None).await.unwrap().next;
    while next.is_some() {
        next = ask(next).await.unwrap().next;
    }
    assert_eq!(scene.counts().await.unwrap().into_keys().collect::<Vec<_>>(), ["p".into()]);
}

async fn a_queue_that_is_of_use_is_not_forgotten(scene: Scene) {
    failed(&scene, "a", "exit 1").await;
    scene.enqueue(vec![job("b"), job("c"), NewJob { queue: "p".into(), ..job("d") }]).await.unwrap();
    let refusal = async |queue: &str| match forget(&scene, queue).await {
        Err(Error::InUse(_, why)) => why,
        other => panic!("{other:?}"),
    };
    let why = refusal("q").await;
    assert!(why.contains("(2 waiting, 1 failed)"), "{why}");
    scene.cancel("d".into()).await.unwrap();
    assert!(refusal("p").await.contains("(1 canceled)"));
    swept(&scene, bulk(Act::Discard, JobState::Canceled)).await;
    scene.pause("p".into(), "me".into(), None).await.unwrap();
    assert!(refusal("p").await.contains("it is paused"));
    scene.resume("p".into()).await.unwrap();
    forget(&scene, "p").await.unwrap();
    assert_eq!(scene.counts().await.unwrap().len(), 1);
}

#[tokio::test]
async fn who_waits_for_a_job_that_another_process_removes_is_told() {
    let scene = Scene::file();
    let other = scene.second().unwrap();
    let id = scene.put(job("a")).await;
    let taken = other.fetch(request(&["q"], 1)).await.unwrap();
    let wait = scene.ended(id.clone());
    let remove = async {
        // So that the wait comes first.
        tokio::task::yield_now().await;
        other.settle(vec![settlement(&taken[0].lease, complete())]).await.unwrap();
        other.tell(bulk(Act::Discard, JobState::Complete), "").await.unwrap();
    };
    let (told, ()) = tokio::join!(wait, remove);
    assert!([Ok(JobState::Complete), Err(Error::NoJob(id))].contains(&told), "{told:?}");
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Lets the store look at what it keeps, for as long as that takes.
async fn look(scene: &Scene) {
    scene.clock.forward(Duration::from_secs(61));
    for _ in 0..50 {
        scene.fetch(request(&["none"], 1)).await.unwrap();
        scene.clock.forward(Duration::from_millis(20));
    }
}

async fn left(scene: &Scene) -> Vec<String> {
    let all = scene.list(Filter { limit: 9_999, ..Filter::default() }).await.unwrap();
    all.iter().rev().map(|job| job.id.to_string()).collect()
}

async fn set(scene: &Scene, name: &str, value: &str) {
    scene.tell(SetOption { name: name.into(), value: value.into(), queue: None }, "me").await.unwrap();
}

async fn ended_jobs_go_when_they_are_old(scene: Scene) {
    scene.put(NewJob { queue: "p".into(), ..job("late") }).await;
    scene.put(NewJob { queue: "p".into(), ..job("waits") }).await;
    ended(&scene, job("complete"), complete()).await;
    failed(&scene, "failed", "exit 1").await;
    ended(&scene, job("held"), Verdict::Hold { failure: failure() }).await;
    scene.put(job("canceled")).await;
    scene.cancel("canceled".into()).await.unwrap();
    scene.clock.forward(DAY * 7 - Duration::from_secs(300));
    look(&scene).await;
    assert_eq!(left(&scene).await, ["late", "waits", "complete", "failed", "held", "canceled"]);
    let taken = scene.take_from("p").await.unwrap();
    scene.say(&taken, complete()).await;
    scene.clock.forward(Duration::from_secs(300));
    look(&scene).await;
    // What was put long ago and has ended of late is not old.
    assert_eq!(left(&scene).await, ["late", "waits", "failed", "held"]);
    scene.clock.forward(DAY * 8);
    look(&scene).await;
    assert_eq!(left(&scene).await, ["waits", "failed", "held"]);
    scene.clock.forward(DAY * 16);
    look(&scene).await;
    assert_eq!(left(&scene).await, ["waits", "held"]);
    assert_eq!(scene.record(&"held".into()).await.failure, Some(failure()));
    assert_eq!(groups(&scene).await.len(), 1);
}

async fn too_many_complete_jobs_go_the_oldest_first(scene: Scene) {
    set(&scene, "keep_complete_count", "3").await;
    scene.put(NewJob { queue: "p".into(), ..job("waits") }).await;
    for n in 0..6 {
        ended(&scene, job(&n.to_string()), complete()).await;
    }
    failed(&scene, "failed", "exit 1").await;
    look(&scene).await;
    assert_eq!(left(&scene).await, ["waits", "3", "4", "5", "failed"]);
    ended(&scene, job("6"), complete()).await;
    look(&scene).await;
    assert_eq!(left(&scene).await, ["waits", "4", "5", "failed", "6"]);
    // It was passed by, and is found again once the others cannot make up for it.
    let taken = scene.take_from("p").await.unwrap();
    scene.say(&taken, complete()).await;
    set(&scene, "keep_complete_count", "1").await;
    look(&scene).await;
    scene.clock.forward(Duration::from_secs(600));
    look(&scene).await;
    assert_eq!(left(&scene).await.len(), 2);
}

async fn what_is_kept_for_ever_stays(scene: Scene) {
    for (name, value) in [("keep_complete", "0s"), ("keep_failed", "0s"), ("keep_complete_count", "0")] {
        set(&scene, name, value).await;
    }
    ended(&scene, job("a"), complete()).await;
    failed(&scene, "b", "exit 1").await;
    scene.clock.forward(DAY * 9_999);
    look(&scene).await;
    assert_eq!(left(&scene).await, ["a", "b"]);
}

async fn a_million_would_go_a_few_at_a_time(scene: Scene) {
    const MANY: usize = 1_100;
    scene.enqueue((0..MANY).map(|n| job(&n.to_string())).collect()).await.unwrap();
    for n in 0..MANY {
        scene.cancel(n.to_string().as_str().into()).await.unwrap();
    }
    scene.clock.forward(DAY * 8);
    let mut before = MANY;
    while before > 0 {
        scene.clock.forward(Duration::from_millis(20));
        scene.fetch(request(&["none"], 1)).await.unwrap();
        let now = left(&scene).await.len();
        assert!(now < before && before - now <= 200, "{now} of {before} are left");
        before = now;
    }
}

#[tokio::test]
async fn what_somebody_needs_stays() {
    let mut scene = Scene::file();
    let Place::File(directory) = &scene.place else { panic!("no file") };
    let path = directory.path().join("store.db");
    for id in ["needed", "followed", "latest", "free"] {
        failed(&scene, id, "exit 1").await;
    }
    scene.put(job("child")).await;
    scene.store = None;
    let conn = rusqlite::Connection::open(path).unwrap();
    conn.execute_batch(
        "INSERT INTO dependency SELECT c.id, n.id FROM job c, job n WHERE c.jid = 'child' AND n.jid = 'needed';
         INSERT INTO tracked SELECT id, 0 FROM job WHERE jid = 'followed';
         INSERT INTO recurring (id, name, queue, spec, put_at, put_by, by_wall, latest)
         SELECT 7, 'nightly', queue, '{}', 0, '', 0, id FROM job WHERE jid = 'latest';
         UPDATE job SET recurring = 7 WHERE jid = 'latest';
         UPDATE job SET state = 8 WHERE jid = 'child';
         UPDATE queue SET waiting = 0, depends = 1",
    )
    .unwrap();
    scene.store = scene.second();
    scene.clock.forward(DAY * 31);
    look(&scene).await;
    assert_eq!(left(&scene).await, ["needed", "followed", "latest", "child"]);
    let answer: Swept = scene.tell(bulk(Act::Discard, JobState::Failed), "").await.unwrap();
    assert_eq!((answer.count, answer.needed), (2, 1));
    assert_eq!(left(&scene).await, ["needed", "child"]);
    let gone = |table: &str| -> u64 {
        conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!((gone("tracked"), gone("dependency"), gone("recurring WHERE latest IS NOT NULL")), (0, 1, 0));
    // A job that was canceled waits for nothing.
    scene.cancel("child".into()).await.unwrap();
    assert_eq!(swept(&scene, bulk(Act::Discard, JobState::Failed)).await, 1);
    swept(&scene, bulk(Act::Discard, JobState::Canceled)).await;
    let why = forget(&scene, "q").await.unwrap_err().to_string();
    assert_eq!(why, "queue 'q' cannot be forgotten: recurring jobs are put into it: nightly");
}

async fn statistics_go_after_ninety_days(scene: Scene) {
    ended(&scene, job("a"), complete()).await;
    let day = stats(&scene).await.day;
    let then = async || {
        look(&scene).await;
        scene.tell(Stats { queue: "q".into(), day: Some(day) }, "").await.unwrap().run.count
    };
    assert_eq!(then().await, 1);
    scene.clock.forward(DAY * 90);
    assert_eq!(then().await, 1);
    scene.clock.forward(DAY);
    assert_eq!(then().await, 0);
}

/// A generator by Marsaglia, for runs that can be replayed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

async fn counters_agree_with_the_jobs_after_each_step(scene: Scene) {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed);
    let mut random = Random(seed);
    let mut leases: Vec<Lease> = Vec::new();
    for step in 0..500 {
        let id = JobId::from(random.below(step + 1).to_string().as_str());
        let queue = ["q", "p"][random.below(2) as usize];
        match random.below(10) {
            0..3 => {
                let delay = Duration::from_secs(random.below(2) * 5);
                scene.put(NewJob { queue: queue.into(), delay, ..job(&step.to_string()) }).await;
            }
            3 | 4 => {
                let taken = scene.fetch(request(&["p", "q"], 2)).await.unwrap();
                leases.extend(taken.into_iter().map(|taken| taken.lease));
            }
            5 | 6 if !leases.is_empty() => {
                let lease = leases.swap_remove(random.below(leases.len() as u64) as usize);
                let verdict = match random.below(6) {
                    0 => complete(),
                    1 => retry_after(Duration::from_secs(2)),
                    2 => Verdict::Hold { failure: failure() },
                    3 => release(),
                    _ => Verdict::Fail { failure: failure() },
                };
                scene.settle(vec![settlement(&lease, verdict)]).await.unwrap();
            }
            7 => drop(scene.cancel(id).await),
            8 => {
                let state = [JobState::Complete, JobState::Failed, JobState::Held, JobState::Canceled];
                let act = if random.below(3) == 0 { Act::Discard } else { Act::Retry };
                let asked = bulk(act, state[random.below(4) as usize]);
                swept(&scene, Bulk { limit: Some(random.below(4)), queue: Some(queue.into()), ..asked })
                    .await;
            }
            _ if random.below(30) == 0 => {
                scene.clock.forward(DAY * 8);
                look(&scene).await;
            }
            _ => {
                scene.clock.forward(Duration::from_secs(random.below(20)));
                // What is due by now moves on before anything is counted.
                scene.fetch(request(&["none"], 1)).await.unwrap();
            }
        }
        counted(&scene, &format!("seed {seed}, step {step}")).await;
    }
}

/// Holds the counters, the groups and the tally against the jobs themselves.
async fn counted(scene: &Scene, at: &str) {
    let jobs = scene.list(Filter { limit: 9_999, ..Filter::default() }).await.unwrap();
    let mut queues: BTreeMap<QueueName, BTreeMap<JobState, u64>> = BTreeMap::new();
    let mut went_wrong = 0;
    let mut failed: BTreeMap<(QueueName, Day), u64> = BTreeMap::new();
    for job in &jobs {
        *queues.entry(job.queue.clone()).or_default().entry(job.state).or_default() += 1;
        went_wrong += u64::from(matches!(job.state, JobState::Failed | JobState::Held));
        if job.state == JobState::Failed {
            let day = Day::of(job.ended_at.unwrap());
            *failed.entry((job.queue.clone(), day)).or_default() += 1;
        }
    }
    let mut counts = scene.counts().await.unwrap();
    for ((queue, day), count) in failed {
        let told = scene.tell(Stats { queue, day: Some(day) }, "").await.unwrap();
        assert_eq!(told.failed, count, "{at}, {day}");
    }
    counts.retain(|_, counts| !counts.jobs.is_empty());
    let counts: BTreeMap<_, _> = counts.into_iter().map(|(name, counts)| (name, counts.jobs)).collect();
    assert_eq!(counts, queues, "{at}");
    let grouped: u64 = groups(scene).await.iter().map(|group| group.failed + group.held).sum();
    assert_eq!(grouped, went_wrong, "{at}");
}

/// What it wrote to stderr, and its code.
fn refusal(sandbox: &Sandbox, args: &[&str]) -> (i32, String) {
    let output = sandbox.run(args);
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn what_went_wrong_is_found_and_put_right_by_the_binary() {
    let sandbox = Sandbox::new(Setting::Plain);
    for code in [3, 3, 4] {
        sandbox.put(&["sh", "-c", &format!("echo 'no {code}' >&2; [ -e right ] || exit {code}")]);
    }
    let ids: Vec<String> = sandbox.json(&["job", "list", "--json", "-n", "1"])["id"]
        .as_str()
        .map(Into::into)
        .into_iter()
        .collect();
    sandbox.ok(&["start", "-w", "2", "--burst"]);
    let check = |sandbox: &Sandbox| {
        let groups = sandbox.ok(&["failed"]);
        let rows: Vec<Vec<&str>> = groups.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0][..4], ["GROUP", "FAILED", "HELD", "NEWEST"]);
        assert_eq!((rows[1][..4].join(" ").as_str(), rows.len()), ("exit 3 2 0", 3), "{groups}");
        assert!(groups.contains("no 4"), "{groups}");
        let one = sandbox.json(&["failed", "exit 4", "--json"]);
        assert_eq!((one["id"].as_str(), one["state"].as_str()), (Some(ids[0].as_str()), Some("failed")));
        let (code, why) = refusal(sandbox, &["failed", "exit 9"]);
        assert!(code == 7 && why.contains("'exit 9'"), "{why}");
        let dry =
            sandbox.ok(&["job", "retry", "--failed", "--since", "1h", "--group", "exit 4", "--dry-run"]);
        assert_eq!(dry, format!("1 job would be retried\n  {}\n", ids[0]));
        assert_eq!(sandbox.ok(&["job", "retry", "--held"]), "0 jobs retried\n");
        let swept = sandbox.json(&["job", "discard", "--failed", "--class", "none", "--json"]);
        assert_eq!(swept.to_string(), r#"{"count":0,"dry_run":false,"jobs":[],"needed":0}"#);
        for (args, why) in [
            (&["job", "retry"][..], "required"),
            (&["job", "discard"], "required"),
            (&["job", "retry", "--group", "x"], "required"),
            (&["job", "retry", "j", "--failed"], "cannot be used with"),
            (&["job", "discard", "--failed", "--since", "soon"], "give a duration like 2h"),
            (&["queue", "stats", "default", "--day", "2026-02-31"], "is no day"),
        ] {
            let (code, said) = refusal(sandbox, args);
            assert!(code == 2 && said.contains(why), "{args:?}: {said}");
        }
        let (code, why) = refusal(sandbox, &["queue", "forget", "default"]);
        assert!(
            code == 1 && why.contains("queue 'default' cannot be forgotten: it has jobs (3 failed)"),
            "{why}"
        );
        assert_eq!(refusal(sandbox, &["queue", "forget", "none"]).0, 7);
        assert_eq!(refusal(sandbox, &["queue", "stats", "none"]).0, 7);
        let before = sandbox.json(&["queue", "stats", "default", "--day", "2026-01-31", "--json"]);
        assert_eq!((before["day"].as_str(), &before["failures"]), (Some("2026-01-31"), &0.into()));
        let older = sandbox.ok(&["failed", "exit 3", "--after", &ids[0], "-n", "1"]);
        assert_eq!(older.lines().count(), 2, "{older}");
        let stats = sandbox.json(&["queue", "stats", "default", "--json"]);
        assert_eq!(
            (&stats["failures"], &stats["failed"], &stats["wait"]["count"]),
            (&3.into(), &3.into(), &3.into())
        );
    };
    check(&sandbox);
    let mut running = sandbox.start(&["-w", "2"]);
    check(&sandbox);
    std::fs::write(sandbox.work("right"), "").unwrap();
    assert_eq!(sandbox.ok(&["job", "retry", "--failed", "--group", "exit 3"]), "2 jobs retried\n");
    sandbox::wait_until("they are complete", || {
        sandbox.ok(&["job", "list", "--state", "complete"]).lines().count() == 3
    });
    let page = sandbox.ok(&["queue", "stats", "default"]);
    assert!(page.contains("2 complete, 3 failed, 1 of them still, 0 attempts tried again"), "{page}");
    assert_eq!(sandbox.ok(&["job", "discard", "--failed"]), "1 job discarded\n");
    assert_eq!(refusal(&sandbox, &["job", "show", &ids[0]]).0, 7);
    let forgotten = sandbox.json(&["queue", "forget", "default", "--discard", "--json"]);
    assert_eq!(forgotten["forgotten"], true);
    assert_eq!(sandbox.ok(&["queue", "list"]), "");
    sandbox.ok(&["stop"]);
    running.wait();
}

#[test]
fn a_supervisor_removes_what_has_been_kept_for_long_enough() {
    let sandbox = Sandbox::new(Setting::Plain);
    sandbox.ok(&["option", "set", "keep_complete_count", "2"]);
    sandbox.ok(&["option", "set", "keep_failed", "1ms"]);
    let mut running = sandbox.start(&["-w", "2"]);
    let ids: Vec<String> = (0..5).map(|_| sandbox.put(&["true"])).collect();
    sandbox.put(&["false"]);
    let runs = sandbox.put(&["sleep", "1000"]);
    let list = || -> Vec<String> {
        let list = sandbox.ok(&["job", "list", "--json"]);
        list.lines().map(|line| serde_json::from_str::<JobRecord>(line).unwrap().id.to_string()).collect()
    };
    sandbox::wait_until("two complete jobs and the one that runs are left", || list().len() == 3);
    assert_eq!(list(), [runs.as_str(), &ids[4], &ids[3]]);
    sandbox.ok(&["stop", "--now"]);
    running.wait();
    assert!(sandbox.ok(&["job", "list"]).contains(&runs));
}

#[test]
fn a_queue_that_cannot_be_forgotten_loses_no_job() {
    let sandbox = Sandbox::new(Setting::Plain);
    sandbox.ok(&["put", "--jid", "over", "--", "true"]);
    sandbox.ok(&["job", "cancel", "over"]);
    sandbox.ok(&["put", "--jid", "waits", "--", "true"]);
    let refused = sandbox.run(&["queue", "forget", "default", "--discard"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert_eq!(sandbox.job("over")["state"], "canceled");
    sandbox.ok(&["job", "cancel", "waits"]);
    sandbox.ok(&["queue", "forget", "default", "--discard"]);
    assert_eq!(sandbox.ok(&["queue", "list", "--json"]).trim(), "{}");
}
