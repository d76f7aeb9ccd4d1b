//! The history of a job: attempts, renewals, and edits with their author.

use std::time::Duration;

use crate::support::*;
use broker::EventBus;
use model::verb::Cancel;
use model::*;

contract! {
    job_that_completes_in_its_first_attempt_has_no_history [PutBy],
    history_has_attempts_that_did_not_complete [Clock],
    history_has_unspent_releases_that_are_counted [Fences],
    history_has_retries_and_cancels_with_their_author [Retry],
    reason_of_a_cancel_is_kept_and_published [Order, ShowWaiting],
    history_has_attempts_that_were_never_settled [Clock, Expires],
    history_keeps_the_latest_hundred_attempts [Order, Fences],
    renewals_are_counted_for_each_lease [Clock],
}

/// The history of the job `a`: its attempts, and the other entries.
async fn history(scene: &Scene) -> (Vec<Attempt>, Vec<Happened>) {
    let (mut attempts, mut acts) = (Vec::new(), Vec::new());
    for entry in scene.record(&"a".into()).await.history {
        match entry.what {
            Happened::Attempt(attempt) => attempts.push(*attempt),
            act => acts.push(act),
        }
    }
    (attempts, acts)
}

async fn job_that_completes_in_its_first_attempt_has_no_history(scene: Scene) {
    scene.put(NewJob { by: Some("uid 5".into()), ..job("a") }).await;
    let a = scene.take().await.unwrap();
    assert_eq!(scene.record(&"a".into()).await.expires_at.map(|at| at.0 > 0), Some(true));
    scene.say(&a, complete()).await;
    let record = scene.record(&"a".into()).await;
    assert_eq!((record.history, record.expires_at, record.put_by), (vec![], None, Some("uid 5".into())));
}

async fn history_has_attempts_that_did_not_complete(scene: Scene) {
    scene.put(job("a")).await;
    let first = scene.take().await.unwrap();
    scene.clock.forward(Duration::from_secs(20));
    scene.renew(vec![first.lease.clone()], LEASE).await.unwrap();
    let left = Forensics { stderr_tail: "no\n".repeat(5000), ran: LEASE, ..Forensics::default() };
    let verdict = retry_after(Duration::from_secs(5));
    let crash =
        Settlement { crashed: true, forensics: Some(left.clone()), ..settlement(&first.lease, verdict) };
    scene.settle(vec![crash]).await.unwrap();
    scene.clock.forward(Duration::from_secs(5));
    let second = scene.take().await.unwrap();
    scene.say(&second, complete()).await;
    let (attempts, acts) = history(&scene).await;
    let [one] = &attempts[..] else { panic!("{attempts:?}") };
    assert_eq!((one.attempt, one.fence, one.state), (1, first.lease.fence, JobState::Delayed));
    let name = WorkerName::new("default", worker(1));
    assert_eq!((one.instance.clone(), one.worker.clone()), (Some("me".into()), Some(name)));
    let begun = one.started_at.unwrap().0;
    assert_eq!((one.renewals, one.renewed_at), (1, Some(Millis(begun + 20_000))));
    assert_eq!(one.due_at, Some(Millis(begun + 25_000)));
    assert_eq!((one.crashed, one.counts, &one.failure), (true, None, &Some(failure())));
    let kept = one.forensics.as_ref().unwrap();
    assert!(kept.ran == LEASE && kept.at.is_some() && left.stderr_tail.ends_with(&kept.stderr_tail));
    assert!(kept.stderr_tail.starts_with("no\n") && kept.stderr_tail.len() < 3000);
    assert_eq!(acts, []);
}

async fn history_has_unspent_releases_that_are_counted(scene: Scene) {
    scene.put(job("a")).await;
    for counts in [None, Some(Count::Interrupted), None, Some(Count::UnknownClass)] {
        let a = scene.take().await.unwrap();
        scene.say(&a, Verdict::Release { after: Duration::ZERO, counts }).await;
    }
    let counted: Vec<_> = history(&scene).await.0.iter().map(|one| (one.counts, one.fence)).collect();
    assert_eq!(counted, [(Some(Count::Interrupted), Fence(2)), (Some(Count::UnknownClass), Fence(4))]);
}

async fn history_has_retries_and_cancels_with_their_author(mut scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    let left = Forensics { stderr_tail: "fine".into(), ..Forensics::default() };
    let settled = Settlement { forensics: Some(left), ..settlement(&a.lease, complete()) };
    scene.settle(vec![settled]).await.unwrap();
    scene.retry("a".into()).await.unwrap();
    scene.cancel("a".into()).await.unwrap();
    scene.cancel("a".into()).await.unwrap();
    scene.reopen();
    let (attempts, acts) = history(&scene).await;
    assert_eq!((attempts.len(), attempts[0].state), (1, JobState::Complete));
    assert_eq!(attempts[0].forensics.as_ref().unwrap().stderr_tail, "fine");
    let by = "uid 7".to_owned();
    let retried = Happened::Retried { by: by.clone(), from: JobState::Complete };
    assert_eq!(acts, [retried, Happened::Canceled { by, reason: None }]);
}

async fn reason_of_a_cancel_is_kept_and_published(scene: Scene) {
    let room = EventBus::default();
    scene.publish(room.clone());
    let mut news = room.listen();
    scene.hear().await;
    scene.put_all(vec![job("a"), job("b")]).await.unwrap();
    assert_eq!(scene.take().await.unwrap().job.id, "a".into());
    let cancel = |reason: &str| Cancel {
        jobs: vec!["a".into(), "b".into()],
        dependents: false,
        reason: Some(reason.into()),
    };
    let long = scene.tell(cancel(&"x".repeat(1001)), "uid 7").await.unwrap_err().to_string();
    assert!(long.contains("a reason of 1001 bytes is too long"), "{long}");
    scene.tell(cancel("the wrong text"), "uid 7").await.unwrap();
    scene.recover("me".into(), vec![]).await.unwrap();
    for id in ["a", "b"] {
        let history = scene.record(&id.into()).await.history;
        let canceled = Happened::Canceled { by: "uid 7".into(), reason: Some("the wrong text".into()) };
        assert!(history.iter().any(|entry| entry.what == canceled), "{id}: {history:?}");
    }
    let mut told = Vec::new();
    while told.len() < 2 {
        let news = news.recv().await.unwrap();
        told.extend(news.why.as_ref().map(|why| format!("{} {why}", news.what.as_str())));
    }
    assert_eq!(told, ["canceling the wrong text", "canceled the wrong text"]);
}

async fn history_has_attempts_that_were_never_settled(scene: Scene) {
    scene.put(job("a")).await;
    scene.take().await.unwrap();
    scene.run_out().await;
    scene.take().await.unwrap();
    scene.recover("me".into(), vec![]).await.unwrap();
    let attempts = history(&scene).await.0;
    let seen: Vec<_> = attempts.iter().map(|one| (one.counts, one.fence, one.state)).collect();
    let (run_out, dead) = (Some(scene.run_out_counts()), Some(Count::Interrupted));
    assert_eq!(seen, [(run_out, Fence(1), JobState::Waiting), (dead, Fence(2), JobState::Waiting)]);
}

async fn history_keeps_the_latest_hundred_attempts(scene: Scene) {
    scene.put_all(vec![job("a"), job("b")]).await.unwrap();
    let both = scene.fetch(request(&["q"], 2)).await.unwrap();
    scene.say(&both[1], Verdict::Fail { failure: failure() }).await;
    scene.say(&both[0], retry_after(Duration::ZERO)).await;
    for _ in 0..119 {
        let a = scene.take().await.unwrap();
        scene.say(&a, retry_after(Duration::ZERO)).await;
    }
    let fences: Vec<u64> = history(&scene).await.0.iter().map(|one| one.fence.0).collect();
    assert_eq!(fences, (21..=120).collect::<Vec<_>>());
    assert_eq!(scene.record(&"b".into()).await.history.len(), 1);
}

async fn renewals_are_counted_for_each_lease(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    for _ in 0..2 {
        scene.renew(vec![a.lease.clone()], LEASE).await.unwrap();
    }
    let record = scene.record(&"a".into()).await;
    assert_eq!((record.renewals, record.renewed_at), (2, record.started_at));
    scene.say(&a, release()).await;
    scene.take().await.unwrap();
    let record = scene.record(&"a".into()).await;
    assert_eq!((record.renewals, record.renewed_at), (0, None));
}
