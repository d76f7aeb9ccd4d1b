//! Stages: jobs that advance to another queue.

use std::iter;
use std::time::Duration;

use crate::support::*;
use model::verb::SetData;
use model::*;

contract!(
    job_advances_as_if_put_into_the_other_queue [Prioritize, Queues],
    data_set_in_a_stage_is_kept_in_the_next_stage [SetData, Queues],
    long_results_are_kept_only_of_the_last_stage [Queues, Stages],
    dependents_wait_for_the_last_stage [Clock, Depend, Order, Queues],
    job_that_cannot_advance_is_held_with_the_reason [Retry, Depend, Order],
    canceled_job_does_not_advance,
    job_may_advance_into_its_own_queue [Stages],
);

fn next(queue: &str) -> Next {
    Next { queue: queue.into(), delay: Duration::ZERO, depends: vec![] }
}

fn advance(next: Next) -> Verdict {
    Verdict::Complete { result: Some("{\"bytes\": 5}".into()), next: Some(next) }
}

async fn states(scene: &Scene, queue: &str) -> Vec<(JobState, u64)> {
    scene.counts().await.unwrap().remove(&queue.into()).unwrap_or_default().jobs.into_iter().collect()
}

async fn job_advances_as_if_put_into_the_other_queue(mut scene: Scene) {
    scene.put(NewJob { tags: vec!["x".into()], priority: 3, ..job("a") }).await;
    let first = scene.take().await.unwrap();
    scene.say(&first, retry_after(Duration::ZERO)).await;
    // The other queue has no job of its class yet.
    let filter = ClassFilter { only: vec!["work".into()], except: vec![] };
    scene.put(NewJob { queue: "r".into(), class: "other".into(), ..job("o") }).await;
    let ask = |queue| scene.fetch(broker::Fetch { filter: filter.clone(), ..request(&[queue], 1) });
    assert!(ask("r").await.unwrap().is_empty());
    let second = scene.take().await.unwrap();
    let forensics = Forensics { stderr_tail: "first stage\n".into(), ..Forensics::default() };
    let said = Settlement { forensics: Some(forensics), ..settlement(&second.lease, advance(next("r"))) };
    scene.settle(vec![said]).await.unwrap();
    assert_eq!(scene.say(&second, complete()).await, broker::Settling::NotOurs);
    assert_eq!(states(&scene, "q").await, []);
    assert_eq!(states(&scene, "r").await, [(JobState::Waiting, 2)]);
    let record = scene.record(&"a".into()).await;
    assert_eq!((record.queue.as_str(), record.state, record.attempt), ("r", JobState::Waiting, 0));
    assert_eq!((record.result, record.failure, record.forensics), (None, None, None));
    let [_, Entry { what: Happened::Attempt(last), .. }, Entry { what: advanced, .. }] = &record.history[..]
    else {
        panic!("{:?}", record.history)
    };
    assert_eq!((last.state, last.attempt), (JobState::Complete, 2));
    assert_eq!(last.forensics.as_ref().unwrap().stderr_tail, "first stage\n");
    let (from, to, result) = ("q".into(), "r".into(), Some("{\"bytes\": 5}".into()));
    assert_eq!(*advanced, Happened::Advanced { from, to, result, result_bytes: None });
    let third = ask("r").await.unwrap().remove(0);
    assert_eq!((third.job.attempt, third.job.priority, &third.job.tags[..]), (1, 3, &["x".to_owned()][..]));
    scene.reopen();
    scene.say(&third, complete()).await;
    assert_eq!(states(&scene, "r").await, [(JobState::Waiting, 1), (JobState::Complete, 1)]);
}

async fn data_set_in_a_stage_is_kept_in_the_next_stage(scene: Scene) {
    scene.put(job("a")).await;
    let first = scene.take().await.unwrap();
    let Lease { job, fence, .. } = first.lease.clone();
    scene.tell(SetData { job, fence, data: "[1.0]".into() }, "worker 1.1").await.unwrap();
    scene.say(&first, advance(next("r"))).await;
    let second = scene.take_from("r").await.unwrap();
    assert_eq!(second.job.payload, Payload::Data("[1.0]".into()));
}

async fn long_results_are_kept_only_of_the_last_stage(scene: Scene) {
    let id = scene.put(job("a")).await;
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    for stage in ["r", "q", "r"] {
        let taken = scene.take_from(if stage == "r" { "q" } else { "r" }).await.unwrap();
        scene.say(&taken, Verdict::Complete { result: Some(long.clone()), next: Some(next(stage)) }).await;
    }
    let record = scene.record(&id).await;
    let bytes: Vec<Option<usize>> = (record.history.iter())
        .filter_map(|entry| match &entry.what {
            Happened::Advanced { result_bytes, .. } => Some(*result_bytes),
            _ => None,
        })
        .collect();
    assert_eq!(bytes, [Some(long.len()); 3]);
    assert!(serde_json::to_string(&record).unwrap().len() < 10_000);
    let taken = scene.take_from("r").await.unwrap();
    scene.say(&taken, Verdict::Complete { result: Some(long.clone()), next: None }).await;
    assert_eq!(scene.record(&id).await.result, Some(long), "the job's own is whole");
}

async fn dependents_wait_for_the_last_stage(scene: Scene) {
    scene.put_all(vec![job("a"), job("c")]).await.unwrap();
    scene.put(NewJob { depends: vec!["a".into()], queue: "after".into(), ..job("b") }).await;
    let a = scene.take().await.unwrap();
    let later = Next { delay: Duration::from_secs(5), depends: vec!["c".into()], ..next("r") };
    scene.say(&a, advance(later)).await;
    assert_eq!(scene.state(&"a".into()).await, JobState::Depends);
    let c = scene.take().await.unwrap();
    scene.say(&c, complete()).await;
    assert_eq!(scene.state(&"a".into()).await, JobState::Delayed);
    assert!(scene.take_from("after").await.is_none());
    scene.clock.forward(Duration::from_secs(5));
    let a = scene.take_from("r").await.unwrap();
    scene.say(&a, complete()).await;
    assert_eq!(scene.take_from("after").await.unwrap().job.id.as_str(), "b");
}

async fn job_that_cannot_advance_is_held_with_the_reason(scene: Scene) {
    for (depends, queue, why) in [
        ("x", "r", "a job cannot depend on 'x': no job has that id"),
        ("b", "r", "jobs cannot wait for each other in a circle: 'a' needs 'b' needs 'a'"),
        (
            "j",
            "r",
            "'a' needs 'j' needs 'i' needs 'h' needs 'g' needs 'f' needs 'e' needs 'd' and so on, 10 jobs in all",
        ),
        ("b", "", "a queue's name cannot be empty"),
    ] {
        let scene = scene.afresh();
        let needs = |(id, need): (char, char)| NewJob {
            depends: vec![need.to_string().into()],
            ..job(&id.to_string())
        };
        let chain = ('b'..='j').zip('a'..='i').map(needs);
        scene.put_all(iter::once(job("a")).chain(chain).collect()).await.unwrap();
        let a = scene.take().await.unwrap();
        scene.say(&a, advance(Next { depends: vec![depends.into()], ..next(queue) })).await;
        let a = scene.record(&"a".into()).await;
        assert_eq!((a.state, a.queue.as_str()), (JobState::Held, "q"));
        let said = a.failure.unwrap();
        assert_eq!((said.group.as_str(), said.message.ends_with(why)), ("advance", true), "{said:?}");
        scene.retry("a".into()).await.unwrap();
        assert!(scene.take().await.is_some());
    }
}

async fn canceled_job_does_not_advance(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.cancel("a".into()).await.unwrap();
    scene.say(&a, advance(next("r"))).await;
    let a = scene.record(&"a".into()).await;
    assert_eq!((a.state, a.queue.as_str()), (scene.stopped(), "q"));
    assert_eq!(states(&scene, "q").await, [(scene.stopped(), 1)]);
}

async fn job_may_advance_into_its_own_queue(scene: Scene) {
    scene.put(job("a")).await;
    for _ in 0..3 {
        let a = scene.take().await.unwrap();
        assert_eq!(a.job.attempt, 1);
        scene.say(&a, advance(next("q"))).await;
        assert_eq!(states(&scene, "q").await, [(JobState::Waiting, 1)]);
    }
    assert_eq!(scene.record(&"a".into()).await.history.len(), 6);
}
