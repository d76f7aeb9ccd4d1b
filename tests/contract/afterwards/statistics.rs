//! Waits, runs and failures of jobs, by day.

use super::*;

contract!(
    waits_and_runs_are_counted_by_day [Clock, Queues, ShowWaiting],
    wait_statistics_begin_when_the_job_becomes_runnable [Clock, Retry],
    run_statistics_use_the_duration_reported_by_the_supervisor [Clock],
    failures_are_counted_by_day [Clock, Retry, Queues],
    statistics_survive_a_restart [Clock, Queues, Writes],
    statistics_expire_after_ninety_days [Clock, Queues, Writes],
    classes_are_counted_by_day [Clock, LongDelays],
    classes_beyond_the_maximum_are_counted_together [Statistics],
    class_statistics_survive_a_restart_and_expire_after_ninety_days [Clock, Writes],
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

async fn wait_statistics_begin_when_the_job_becomes_runnable(scene: Scene) {
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
    scene.clock.forward(LEASE);
    assert!(scene.take().await.is_none());
    scene.clock.forward(seconds(30));
    // The lease ran out half a minute before, but the store has not looked since it ended.
    scene.take().await.unwrap();
    let expected = BTreeMap::from([(0, 1), (3, 1), (5, 1), (7, 1), (9, 1)]);
    assert_eq!(stats(&scene).await.wait.histogram, expected);
}

/// A job whose coroutine worker died keeps its lease while it waits to run alone; that time is not part of its run.
async fn run_statistics_use_the_duration_reported_by_the_supervisor(scene: Scene) {
    scene.put(job("a")).await;
    let taken = scene.take().await.unwrap();
    scene.clock.forward(Duration::from_secs(50));
    let forensics = Some(Forensics { ran: Duration::from_millis(2_500), ..Forensics::default() });
    let ended = Settlement { forensics, ..settlement(&taken.lease, complete()) };
    scene.settle(vec![ended]).await.unwrap();
    let today = stats(&scene).await;
    assert_eq!((today.run.count, today.run.mean), (1, 2.5));
    assert_eq!(today.run.histogram, BTreeMap::from([(2, 1)]));
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
    // The job failed the day before: the count of that day drops by one.
    let one = Bulk { limit: Some(1), ..bulk(Act::Discard, JobState::Failed) };
    assert_eq!(swept(&scene, one).await, 1);
    assert_eq!(tally().await, (0, 0, 0));
    let before = scene.tell(Stats { queue: "q".into(), day: Some(first) }, "").await.unwrap();
    assert_eq!((before.failures, before.failed), (3, 1));
}

async fn statistics_survive_a_restart(mut scene: Scene) {
    for n in 0..10 {
        ended(&scene, job(&n.to_string()), complete()).await;
        if n % 3 == 0 {
            // The next commit writes the statistics gathered so far.
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
    // A ledger learns of a job when it is taken, and writes the gathered statistics then.
    let x = scene.take().await.unwrap();
    assert_eq!(other.tell(asked.clone(), "").await.unwrap().run.count, 10);
    // Two processes gather statistics at the same time.
    scene.put(job("y")).await;
    let taken = other.fetch(request(&["q"], 1)).await.unwrap();
    other.settle(vec![settlement(&taken[0].lease, complete())]).await.unwrap();
    scene.settle(vec![settlement(&x.lease, complete())]).await.unwrap();
    drop(other);
    scene.reopen();
    let all = stats(&scene).await;
    assert_eq!((all.run.count, all.run.histogram), (12, BTreeMap::from([(0, 12)])));
}

async fn statistics_expire_after_ninety_days(scene: Scene) {
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

/// Forensics of an attempt in a process of its own, or in a `shared` one that had run other jobs.
fn took(ran: u64, cpu: u64, max_rss: u64, shared: bool) -> Forensics {
    let millis = Duration::from_millis;
    let usage = Usage { user: millis(cpu), system: millis(1), max_rss };
    let status = ExitStatus::Code(0);
    let exit = Exit { status, usage, left_behind: 0, oom: false, oom_at_bound: false, proof: Duration::ZERO };
    Forensics { ran: millis(ran), exit: Some(exit), shared, ..Forensics::default() }
}

/// Runs a job of this class with this verdict and these forensics.
async fn ran(scene: &Scene, class: &str, verdict: Verdict, forensics: Forensics) {
    let id = scene.put(NewJob { id: None, class: class.into(), ..job("") }).await;
    let taken = scene.take().await.unwrap();
    assert_eq!(taken.job.id, id);
    let ended = Settlement { forensics: Some(forensics), ..settlement(&taken.lease, verdict) };
    scene.settle(vec![ended]).await.unwrap();
}

async fn classes_are_counted_by_day(scene: Scene) {
    ran(&scene, "mail", complete(), took(2_000, 499, 5_000, false)).await;
    ran(&scene, "mail", complete(), took(500, 99, 9_000, false)).await;
    ran(&scene, "mail", Verdict::Fail { failure: failure() }, took(1_500, 9_999, 99_999, true)).await;
    ran(&scene, "mail", retry_after(DAY * 9), took(1_000, 0, 1, false)).await;
    let back = Verdict::Release { after: DAY * 9, counts: None };
    ran(&scene, "mail", back, took(9_000, 0, 1, false)).await;
    ran(
        &scene,
        "held",
        Verdict::Hold { failure: failure() },
        Forensics { exit: None, cpu: Some(Duration::from_millis(40)), ..took(250, 0, 0, false) },
    )
    .await;
    let all = scene.tell(ClassStats::default(), "").await.unwrap();
    let day = stats(&scene).await.day;
    let mail = ClassDay {
        day,
        class: Some("mail".into()),
        complete: 2,
        retries: 1,
        failed: 1,
        held: 0,
        ran: 5.0,
        longest: 2.0,
        measured: 3,
        cpu: 0.601,
        peak_rss: 9_000,
    };
    let held = ClassDay {
        day,
        class: Some("held".into()),
        complete: 0,
        retries: 0,
        failed: 0,
        held: 1,
        ran: 0.25,
        longest: 0.25,
        measured: 1,
        cpu: 0.04,
        peak_rss: 0,
    };
    assert_eq!(all, [held.clone(), mail.clone()]);
    scene.clock.forward(DAY);
    ran(&scene, "mail", complete(), took(100, 0, 1, false)).await;
    let of_mail = ClassStats { class: Some("mail".into()), days: Some(7), ..ClassStats::default() };
    let days = scene.tell(of_mail.clone(), "").await.unwrap();
    assert_eq!((days.len(), days[0].day, days[0].complete), (2, Day(day.0 + 1), 1));
    assert_eq!(days[1], mail);
    let then = ClassStats { day: Some(day), ..ClassStats::default() };
    assert_eq!(scene.tell(then, "").await.unwrap(), [held, mail]);
    let none = ClassStats { class: Some("none".into()), ..of_mail };
    assert_eq!(scene.tell(none, "").await.unwrap(), []);
}

/// Users choose class names, so their number has no bound.
async fn classes_beyond_the_maximum_are_counted_together(scene: Scene) {
    for n in 0..ClassSums::CLASSES_MAX + 3 {
        ran(&scene, &format!("class {n:03}"), complete(), took(1_000, 0, 1, false)).await;
    }
    ran(&scene, "class 000", complete(), took(3_000, 0, 1, false)).await;
    let all = scene.tell(ClassStats::default(), "").await.unwrap();
    assert_eq!(all.len(), ClassSums::CLASSES_MAX + 1);
    assert_eq!((all[0].complete, all[0].ran), (2, 4.0));
    let rest = all.last().unwrap();
    assert_eq!((rest.class.as_ref(), rest.complete, rest.ran), (None, 3, 3.0));
}

async fn class_statistics_survive_a_restart_and_expire_after_ninety_days(mut scene: Scene) {
    ran(&scene, "mail", complete(), took(1_000, 0, 1, false)).await;
    // The next commit writes the statistics gathered so far.
    scene.clock.forward(Duration::from_secs(2));
    ran(&scene, "mail", complete(), took(2_000, 0, 1, false)).await;
    scene.reopen();
    let day = stats(&scene).await.day;
    let then = async || {
        let then = scene.tell(ClassStats { day: Some(day), ..ClassStats::default() }, "").await.unwrap();
        then.first().map(|class| (class.complete, class.ran))
    };
    assert_eq!(then().await, Some((2, 3.0)));
    scene.clock.forward(DAY * 90);
    assert_eq!(then().await, Some((2, 3.0)));
    scene.clock.forward(DAY);
    assert_eq!(then().await, None);
}
