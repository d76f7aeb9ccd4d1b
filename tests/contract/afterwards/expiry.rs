//! Expiry of ended jobs by age and count, and `queue forget`.

use super::*;

contract!(
    empty_queue_can_be_forgotten [Retry, Forget],
    queue_with_jobs_or_a_pause_cannot_be_forgotten [Pause, Queues],
    forget_with_discard_removes_all_ended_jobs_or_none [Pause, Forget, Depend, ShowWaiting, Queues],
    ended_jobs_expire_by_age [Clock, Queues, ShowWaiting],
    complete_jobs_over_the_count_expire_oldest_first [Clock, Queues, Options],
    keep_0_disables_expiry [Clock, Options],
    expiry_removes_at_most_200_jobs_at_a_time [Clock, ShowWaiting, Queues],
);

async fn empty_queue_can_be_forgotten(mut scene: Scene) {
    ended(&scene, job("a"), complete()).await;
    swept(&scene, bulk(Act::Discard, JobState::Complete)).await;
    forget(&scene, "q").await.unwrap();
    assert_eq!(scene.counts().await.unwrap(), BTreeMap::new());
    assert_eq!(forget(&scene, "q").await, Err(Error::NoQueue("q".into())));
    scene.reopen();
    // A new queue of the same name starts with empty statistics.
    scene.put(job("b")).await;
    assert_eq!(stats(&scene).await.run.count, 0);
    assert_eq!(scene.take().await.unwrap().job.id.as_str(), "b");
}

async fn forget_with_discard_removes_all_ended_jobs_or_none(scene: Scene) {
    let ask = |after| scene.tell(Forget { queue: "q".into(), discard: true, after }, "");
    let why = async || match ask(None).await {
        Err(Error::InUse(_, why)) => why,
        other => panic!("{other:?}"),
    };
    scene.put_all((0..1100).map(|n| job(&format!("j{n}"))).collect()).await.unwrap();
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

async fn queue_with_jobs_or_a_pause_cannot_be_forgotten(scene: Scene) {
    failed(&scene, "a", "exit 1").await;
    scene.put_all(vec![job("b"), job("c"), NewJob { queue: "p".into(), ..job("d") }]).await.unwrap();
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
async fn wait_for_a_job_ends_when_another_process_removes_it() {
    let scene = Scene::file();
    let other = scene.second().unwrap();
    let id = scene.put(job("a")).await;
    let taken = other.fetch(request(&["q"], 1)).await.unwrap();
    let wait = scene.ended(id.clone());
    let remove = async {
        // The wait begins first.
        tokio::task::yield_now().await;
        other.settle(vec![settlement(&taken[0].lease, complete())]).await.unwrap();
        other.tell(bulk(Act::Discard, JobState::Complete), "").await.unwrap();
    };
    let (told, ()) = tokio::join!(wait, remove);
    assert!([Ok(JobState::Complete), Err(Error::NoJob(id))].contains(&told), "{told:?}");
}

async fn ended_jobs_expire_by_age(scene: Scene) {
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
    // Age counts from the end of the job, not from its put.
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

async fn complete_jobs_over_the_count_expire_oldest_first(scene: Scene) {
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
    // Expiry passed this job while it waited; it returns to it once too few later jobs can be removed.
    let taken = scene.take_from("p").await.unwrap();
    scene.say(&taken, complete()).await;
    set(&scene, "keep_complete_count", "1").await;
    look(&scene).await;
    scene.clock.forward(Duration::from_secs(600));
    look(&scene).await;
    assert_eq!(left(&scene).await.len(), 2);
}

async fn keep_0_disables_expiry(scene: Scene) {
    for (name, value) in [("keep_complete", "0s"), ("keep_failed", "0s"), ("keep_complete_count", "0")] {
        set(&scene, name, value).await;
    }
    ended(&scene, job("a"), complete()).await;
    failed(&scene, "b", "exit 1").await;
    scene.clock.forward(DAY * 9_999);
    look(&scene).await;
    assert_eq!(left(&scene).await, ["a", "b"]);
}

async fn expiry_removes_at_most_200_jobs_at_a_time(scene: Scene) {
    const MANY: usize = 1_100;
    scene.put_all((0..MANY).map(|n| job(&n.to_string())).collect()).await.unwrap();
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

/// A store in which many jobs end all the time would grow by all that end in the minute between two walks.
#[tokio::test]
async fn expiry_does_not_wait_for_its_minute_while_many_jobs_end() {
    let scene = Scene::file();
    set(&scene, "keep_complete_count", "3").await;
    look(&scene).await;
    scene.put_all((0..5_000).map(|n| job(&n.to_string())).collect()).await.unwrap();
    let taken = scene.fetch(request(&["q"], 5_000)).await.unwrap();
    let settle = taken.iter().map(|one| settlement(&one.lease, complete()));
    scene.settle(settle.collect()).await.unwrap();
    for _ in 0..100 {
        scene.clock.forward(Duration::from_millis(20));
        scene.fetch(request(&["none"], 1)).await.unwrap();
    }
    assert_eq!(left(&scene).await, ["4997", "4998", "4999"]);
}

#[tokio::test]
async fn expiry_keeps_needed_tracked_and_latest_recurring_jobs() {
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
    // A canceled job needs no other job.
    scene.cancel("child".into()).await.unwrap();
    assert_eq!(swept(&scene, bulk(Act::Discard, JobState::Failed)).await, 1);
    swept(&scene, bulk(Act::Discard, JobState::Canceled)).await;
    let why = forget(&scene, "q").await.unwrap_err().to_string();
    assert_eq!(why, "queue 'q' cannot be forgotten: recurring jobs are put into it: nightly");
}
