//! The events that a store publishes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::*;
use broker::{Broker, EventBus};
use model::verb::{Act, Bulk, DependOff, DependOn, Discard, Prioritize, Tag, Track, Untrack};
use model::*;
use sqlite::{Options, Sqlite, World};

contract!(
    events_are_published_in_order [Clock, Retry, ShowWaiting, Order, Queues],
    every_change_of_a_job_is_published [Retry, Depend, Order, Queues],
    edits_are_published_with_the_tags_of_the_job [Prioritize, Depend, ShowWaiting],
);

async fn events_are_published_in_order(scene: Scene) {
    let room = EventBus::default();
    scene.publish(room.clone());
    scene.put(job("unheard")).await;
    scene.cancel("unheard".into()).await.unwrap();
    let mut news = room.listen();
    scene.hear().await;
    scene.put_all(vec![job("a"), NewJob { delay: LEASE, queue: "later".into(), ..job("b") }]).await.unwrap();
    let taken = scene.take().await.unwrap();
    scene.say(&taken, retry_after(Duration::ZERO)).await;
    let taken = scene.take().await.unwrap();
    scene.say(&taken, complete()).await;
    scene.retry("a".into()).await.unwrap();
    scene.take().await.unwrap();
    scene.cancel("a".into()).await.unwrap();
    scene.recover("me".into(), vec![]).await.unwrap();
    scene.cancel("b".into()).await.unwrap();
    scene.put(job("c")).await;
    scene.take().await.unwrap();
    scene.run_out().await;
    assert_eq!(scene.take().await.unwrap().job.id, "c".into());
    let expected = [
        "put a q waiting",
        "put b later delayed",
        "fetched a q running",
        "again a q waiting",
        "fetched a q running",
        "complete a q complete",
        "retried a q waiting",
        "fetched a q running",
        "canceling a q canceling",
        "canceled a q canceled",
        "canceled b later canceled",
        "put c q waiting",
        "fetched c q running",
        "lock_lost c q waiting",
        "fetched c q running",
    ];
    for (n, expected) in expected.iter().enumerate() {
        let told = news.recv().await.unwrap();
        let (job, queue) = (told.job.as_ref().unwrap(), told.queue.as_ref().unwrap());
        assert_eq!(format!("{} {job} {queue} {}", told.what, told.state.unwrap()), *expected);
        assert_eq!(told.n, n as u64 + 1, "what nobody heard has no number");
    }
    drop(news);
    assert!(!room.is_heard());
}

async fn every_change_of_a_job_is_published(scene: Scene) {
    let room = EventBus::default();
    scene.publish(room.clone());
    let mut news = room.listen();
    scene.hear().await;
    let waits = NewJob { depends: vec!["a".into()], ..job("b") };
    scene.put_all(vec![job("a"), waits, job("c"), job("d")]).await.unwrap();
    let next = Next { queue: "r".into(), delay: Duration::ZERO, depends: vec![] };
    let taken = scene.take().await.unwrap();
    scene.say(&taken, Verdict::Complete { result: None, next: Some(next) }).await;
    let taken = scene.take_from("r").await.unwrap();
    scene.say(&taken, complete()).await;
    let verdicts = [Verdict::Fail { failure: failure() }, Verdict::Hold { failure: failure() }, release()];
    for (fetched, verdict) in scene.fetch(request(&["q"], 3)).await.unwrap().iter().zip(verdicts) {
        scene.say(fetched, verdict).await;
    }
    let failed = Bulk {
        act: Act::Retry,
        state: JobState::Failed,
        group: None,
        class: None,
        queue: None,
        since: None,
        after: None,
        limit: None,
        dry_run: false,
    };
    scene.tell(failed.clone(), "me").await.unwrap();
    scene.tell(Bulk { act: Act::Discard, state: JobState::Held, ..failed }, "me").await.unwrap();
    scene.cancel("b".into()).await.unwrap();
    let expected = [
        "put a q waiting",
        "put b q depends",
        "put c q waiting",
        "put d q waiting",
        "fetched a q running",
        "advanced a r waiting",
        "fetched a r running",
        "complete a r complete",
        "released b q waiting",
        "fetched b q running",
        "fetched c q running",
        "fetched d q running",
        "failed b q failed",
        "held c q held",
        "again d q waiting",
        "retried b q waiting",
        "removed c q held",
        "canceled b q canceled",
    ];
    for expected in expected {
        let told = news.recv().await.unwrap();
        let (job, queue) = (told.job.as_ref().unwrap(), told.queue.as_ref().unwrap());
        assert_eq!(format!("{} {job} {queue} {}", told.what, told.state.unwrap()), expected);
    }
}

async fn edits_are_published_with_the_tags_of_the_job(scene: Scene) {
    let room = EventBus::default();
    scene.publish(room.clone());
    let mut news = room.listen();
    scene.hear().await;
    scene.put_all(vec![NewJob { tags: vec!["x".into()], ..job("a") }, job("b")]).await.unwrap();
    let (a, b): (JobId, JobId) = ("a".into(), "b".into());
    scene.tell(Prioritize { job: b.clone(), priority: 3 }, "me").await.unwrap();
    scene.tell(Tag { job: b.clone(), add: vec!["x".into()], remove: vec![] }, "me").await.unwrap();
    scene.tell(DependOn { job: b.clone(), jobs: vec![a.clone()] }, "me").await.unwrap();
    scene.tell(Track { job: b.clone() }, "me").await.unwrap();
    scene.tell(Untrack { job: b.clone() }, "me").await.unwrap();
    // No change: the job has this value already.
    scene.tell(Prioritize { job: b.clone(), priority: 3 }, "me").await.unwrap();
    scene.tell(DependOff { job: b.clone(), jobs: None }, "me").await.unwrap();
    scene.cancel(b.clone()).await.unwrap();
    scene.tell(Discard { job: b.clone() }, "me").await.unwrap();
    let of_x = Interest { tag: Some("x".into()), ..Interest::default() };
    let expected = [
        (true, "put a waiting "),
        (false, "put b waiting "),
        (false, "edited b waiting priority 3; it was 0"),
        (true, "edited b waiting tags x"),
        (true, "edited b depends it depends on a"),
        (true, "edited b depends tracked"),
        (true, "edited b depends not tracked any more"),
        (true, "edited b depends it does not depend on all others any more"),
        (true, "released b waiting "),
        (true, "canceled b canceled "),
        (true, "removed b canceled "),
        (false, "put c waiting "),
    ];
    scene.put(job("c")).await;
    for (has_tag, words) in expected {
        let told = news.recv().await.unwrap();
        let (job, why) = (told.job.as_ref().unwrap(), told.why.as_deref().unwrap_or_default());
        assert_eq!(format!("{} {job} {} {why}", told.what, told.state.unwrap()), words);
        assert_eq!(of_x.takes(&told), has_tag, "{words}");
    }
    assert!(news.try_recv().is_err());
}

#[tokio::test]
async fn events_are_published_only_after_they_are_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let broken = fails.clone();
    let sync = move |file: &std::fs::File| match broken.load(Ordering::SeqCst) {
        true => Err(io::Error::other("the disk is gone")),
        false => file.sync_data(),
    };
    let world = World { sync: Arc::new(sync), ..World::default() };
    let options = Options { world, ..Options::default() };
    let store = Broker::from(Sqlite::open(dir.path().join("store.db"), options).unwrap());
    let room = EventBus::default();
    store.publish(room.clone());
    let mut news = room.listen();
    store.put(vec![job("a")]).await.unwrap();
    assert_eq!(news.recv().await.unwrap().job, Some("a".into()));
    fails.store(true, Ordering::SeqCst);
    store.put(vec![job("b")]).await.unwrap_err();
    drop(store);
    assert!(news.try_recv().is_err());
}
