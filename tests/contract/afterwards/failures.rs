//! Failure groups, and bulk verbs.

use super::*;

contract!(
    failures_are_counted_by_their_groups [Clock],
    failure_group_counts_drop_when_a_job_leaves_its_state [Retry, Queues, Holds],
    jobs_of_a_failure_group_are_listed_in_pages [Holds],
    bulk_retry_selects_jobs_by_filter [Clock, Retry, Queues],
    bulk_verb_works_in_batches [Retry],
    bulk_verb_passes_no_job_over_while_others_change_the_same_list [ShowWaiting],
    bulk_retry_takes_no_job_twice_that_fails_again [Retry],
    bulk_limit_takes_the_oldest_jobs_first [Retry],
    bulk_dry_run_changes_nothing [Retry],
    bulk_discard_accepts_only_ended_states [ShowWaiting],
    bulk_discard_removes_jobs_completely [ShowWaiting, AnyBytes],
);

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
    let since = Failed { since: Some(newest("c").await), ..Failed::default() };
    let counts =
        |all: [(&str, u64, u64); 3]| all.map(|(group, failed, held)| (group.to_owned(), failed, held));
    assert_eq!(groups_of(&scene, since).await, counts([("killed", 0, 2), ("", 1, 0), ("exit 1", 1, 0)]));
    let of = |class: &str| Failed { class: Some(class.into()), queue: Some("q".into()), since: None };
    assert_eq!(groups_of(&scene, of("nobody's")).await, []);
    let all = groups_of(&scene, of(scene.record(&"a".into()).await.class.as_str())).await;
    assert_eq!(all, counts([("killed", 1, 2), ("exit 1", 2, 0), ("", 1, 0)]));
}

async fn failure_group_counts_drop_when_a_job_leaves_its_state(scene: Scene) {
    failed(&scene, "a", "exit 1").await;
    scene.retry("a".into()).await.unwrap();
    assert_eq!(groups(&scene).await, []);
    let elsewhere = NewJob { queue: "p".into(), ..job("b") };
    ended(&scene, elsewhere, Verdict::Hold { failure: failure() }).await;
    assert_eq!(groups(&scene).await.len(), 1);
    scene.cancel("b".into()).await.unwrap();
    assert_eq!(groups(&scene).await, []);
    // A job canceled while it ran has not failed, whatever its outcome; nor has one that will be retried.
    let taken = scene.take().await.unwrap();
    scene.cancel("a".into()).await.unwrap();
    scene.say(&taken, Verdict::Fail { failure: failure() }).await;
    ended(&scene, job("c"), retry_after(Duration::ZERO)).await;
    assert_eq!(groups(&scene).await, []);
    for _ in 0..3 {
        assert_eq!(scene.take().await.unwrap().job.id.as_str(), "c");
        scene.recover("me".into(), vec![]).await.unwrap();
    }
    assert_eq!(groups(&scene).await[0].group, "interrupted");
}

async fn jobs_of_a_failure_group_are_listed_in_pages(scene: Scene) {
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

async fn bulk_retry_selects_jobs_by_filter(scene: Scene) {
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
        assert_eq!(answer, Swept { count: 1, jobs: vec![id.into()], ..Swept::default() });
        let record = scene.record(&id.into()).await;
        assert_eq!((record.state, record.failure, record.attempt), (JobState::Waiting, None, 0), "{id}");
        let last = record.history.last().unwrap();
        assert!(matches!(&last.what, Happened::Retried { by, .. } if by == "uid 7"), "{last:?}");
    }
    assert_eq!(swept(&scene, all).await, 0);
    assert_eq!(scene.take().await.unwrap().job.id.as_str(), "class");
}

async fn bulk_verb_works_in_batches(scene: Scene) {
    const MANY: u64 = 1_234;
    scene.put_all((0..MANY).map(|n| job(&n.to_string())).collect()).await.unwrap();
    fail_all(&scene).await;
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

/// Runs all waiting jobs, which fail.
async fn fail_all(scene: &Scene) {
    while let Some(taken) = scene.fetch(request(&["q"], 500)).await.ok().filter(|taken| !taken.is_empty()) {
        let fail = |one: &Fetched| settlement(&one.lease, Verdict::Fail { failure: failure() });
        scene.settle(taken.iter().map(fail).collect()).await.unwrap();
    }
}

async fn bulk_retry_takes_no_job_twice_that_fails_again(scene: Scene) {
    const MANY: u64 = 1_200;
    scene.put_all((0..MANY).map(|n| job(&n.to_string())).collect()).await.unwrap();
    fail_all(&scene).await;
    let (mut asked, mut count) = (bulk(Act::Retry, JobState::Failed), 0);
    while count <= MANY {
        let answer: Swept = scene.tell(asked.clone(), "uid 7").await.unwrap();
        count += answer.count;
        scene.clock.forward(Duration::from_secs(1));
        fail_all(&scene).await;
        asked.after = answer.next;
        if answer.next.is_none() {
            break;
        }
    }
    assert_eq!(count, MANY);
}

/// Of every two jobs one matches.
async fn bulk_verb_passes_no_job_over_while_others_change_the_same_list(scene: Scene) {
    const MANY: usize = 1_200;
    let one = |n: usize| NewJob { class: ["mine", "other"][n % 2].into(), ..job(&n.to_string()) };
    scene.put_all((0..MANY).map(one).collect()).await.unwrap();
    for n in 0..MANY {
        scene.cancel(n.to_string().as_str().into()).await.unwrap();
    }
    let asked = Bulk { class: Some("mine".into()), ..bulk(Act::Discard, JobState::Canceled) };
    let first: Swept = scene.tell(asked.clone(), "").await.unwrap();
    // Those that stay and were looked at are no landmarks.
    let is_mine = |one: &usize| one.is_multiple_of(2);
    for n in (0..MANY).filter(|one| !is_mine(one)) {
        scene.tell(model::verb::Discard { job: n.to_string().as_str().into() }, "me").await.unwrap();
    }
    let rest = swept(&scene, Bulk { after: first.next, ..asked }).await;
    assert_eq!(first.count + rest, (MANY / 2) as u64);
}

async fn bulk_limit_takes_the_oldest_jobs_first(scene: Scene) {
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

async fn bulk_dry_run_changes_nothing(scene: Scene) {
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

async fn bulk_discard_accepts_only_ended_states(scene: Scene) {
    scene.put(job("a")).await;
    for state in JobState::ALL.into_iter().filter(|state| !state.has_ended()) {
        let refused = scene.tell(bulk(Act::Discard, state), "").await.unwrap_err();
        assert!(matches!(&refused, Error::Refused(why) if why.contains(state.as_str())), "{refused}");
    }
    assert_eq!(waiting(&scene).await, ["a"]);
}

async fn bulk_discard_removes_jobs_completely(mut scene: Scene) {
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
