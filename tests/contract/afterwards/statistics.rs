//! How long jobs waited and ran, and how many failed, by day.

use super::*;

contract!(
    waits_and_runs_are_counted_by_day,
    a_wait_begins_when_the_job_could_run,
    failures_are_counted_by_day,
    statistics_outlive_the_process,
    statistics_go_after_ninety_days,
);

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
