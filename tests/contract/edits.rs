//! Edits of jobs: priorities, data, tags, tracking, discard. And what a put refuses.

use std::time::Duration;

use crate::support::*;
use broker::Error;
use model::verb::{Discard, Prioritize, SetData, Tag, Track, Untrack};
use model::*;

contract!(
    new_priority_keeps_the_put_order_among_equals [Prioritize, Order],
    new_priority_of_a_running_job_applies_to_its_next_attempt [Prioritize, Order],
    priority_of_an_ended_job_cannot_be_changed [Prioritize, ShowWaiting],
    the_worker_of_a_job_can_change_its_data [SetData],
    data_of_a_job_can_be_changed_only_with_its_lease [SetData],
    tags_are_added_and_removed [ShowWaiting, Tag],
    jobs_are_found_by_tag [Retry, ShowWaiting, Tag, Listed],
    jobs_are_found_by_tag_page_by_page [ShowWaiting, Tag],
    tracked_jobs_are_listed [ShowWaiting, Tag, Track],
    discard_removes_all_data_of_a_job [ShowWaiting, Tag, Track],
    only_ended_jobs_without_dependents_can_be_discarded [Retry, Depend],
    put_with_exists_skip_skips_an_existing_id [Prioritize, Depend, UniqueId, Order],
    invalid_jobs_are_refused_at_the_put [Prioritize, Depend, ShowWaiting, Order, Queues],
);

async fn prioritize(scene: &Scene, id: &str, priority: i32) -> Result<(), Error> {
    scene.tell(Prioritize { job: id.into(), priority }, "uid 7").await.map(drop)
}

async fn tag(scene: &Scene, id: &str, add: &[&str], remove: &[&str]) -> Result<Vec<String>, Error> {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    let verb = Tag { job: id.into(), add: words(add), remove: words(remove) };
    scene.tell(verb, "uid 7").await.map(|answer| answer.tags)
}

async fn discard(scene: &Scene, id: &str) -> Result<(), Error> {
    scene.tell(Discard { job: id.into() }, "uid 7").await.map(drop)
}

/// The listed ids, newest first.
async fn found(scene: &Scene, filter: Filter) -> String {
    let jobs = scene.list(filter).await.unwrap();
    jobs.iter().map(|job| job.id.as_str()).collect::<Vec<_>>().join(" ")
}

fn tagged(tag: &str) -> Filter {
    Filter { tag: Some(tag.into()), ..Filter::default() }
}

async fn edits(scene: &Scene, id: &str) -> Vec<String> {
    let edited = |entry: Entry| match entry.what {
        Happened::Edited { by, what } => format!("{what} ({by})"),
        other => panic!("{other:?}"),
    };
    scene.record(&id.into()).await.history.into_iter().map(edited).collect()
}

async fn new_priority_keeps_the_put_order_among_equals(mut scene: Scene) {
    scene.put_all(vec![job("a"), job("b"), job("c"), NewJob { priority: 5, ..job("d") }]).await.unwrap();
    prioritize(&scene, "c", 5).await.unwrap();
    prioritize(&scene, "c", 5).await.unwrap();
    prioritize(&scene, "b", i32::MIN).await.unwrap();
    prioritize(&scene, "b", 0).await.unwrap();
    assert_eq!(edits(&scene, "c").await, ["priority 5; it was 0 (uid 7)"]);
    assert_eq!(edits(&scene, "b").await.len(), 2);
    assert_eq!(prioritize(&scene, "x", 5).await, Err(Error::NoJob("x".into())));
    scene.reopen();
    assert_eq!(ids(&scene.fetch(request(&["q"], 9)).await.unwrap()), ["c", "d", "a", "b"]);
}

async fn priority_of_an_ended_job_cannot_be_changed(scene: Scene) {
    scene.put(job("a")).await;
    scene.cancel("a".into()).await.unwrap();
    scene.put(job("b")).await;
    let taken = scene.take().await.unwrap();
    scene.say(&taken, complete()).await;
    for (id, state) in [("a", "canceled"), ("b", "complete")] {
        let error = prioritize(&scene, id, 5).await.unwrap_err().to_string();
        assert_eq!(error, format!("job '{id}' is {state}: it cannot be given another priority"));
        assert_eq!(scene.record(&id.into()).await.priority, 0);
    }
}

async fn new_priority_of_a_running_job_applies_to_its_next_attempt(scene: Scene) {
    scene.put_all(vec![job("a"), job("b")]).await.unwrap();
    let a = scene.take().await.unwrap();
    prioritize(&scene, "a", -1).await.unwrap();
    scene.say(&a, release()).await;
    assert_eq!(ids(&scene.fetch(request(&["q"], 9)).await.unwrap()), ["b", "a"]);
}

async fn set_data(scene: &Scene, lease: &Lease, data: &str) -> Result<(), Error> {
    let verb = SetData { job: lease.job.clone(), fence: lease.fence, data: data.into() };
    scene.tell(verb, "worker 1.1").await.map(drop)
}

async fn the_worker_of_a_job_can_change_its_data(mut scene: Scene) {
    scene.put(job("a")).await;
    let long = format!("\"{}\"", "x".repeat(100_000));
    for data in [r#"{"n": 1.0}"#, &long, &long.replace('x', "y"), "[]"] {
        let taken = scene.take().await.unwrap();
        set_data(&scene, &taken.lease, data).await.unwrap();
        assert_eq!(scene.record(&"a".into()).await.payload, Some(Payload::Data(data.into())));
        scene.say(&taken, retry_after(Duration::ZERO)).await;
        scene.reopen();
        let next = scene.take().await.unwrap();
        assert_eq!(next.job.payload, Payload::Data(data.into()));
        scene.say(&next, release()).await;
    }
}

async fn data_of_a_job_can_be_changed_only_with_its_lease(scene: Scene) {
    scene.put(job("a")).await;
    let taken = scene.take().await.unwrap();
    let before = scene.record(&"a".into()).await.payload;
    let other = Lease { fence: Fence(taken.lease.fence.0 + 1), ..taken.lease.clone() };
    let refused = "job 'a' is run by somebody else: its data is theirs to change";
    assert_eq!(set_data(&scene, &other, "1").await, Err(Error::Refused(refused.into())));
    let missing = Lease { job: "x".into(), ..taken.lease.clone() };
    assert_eq!(set_data(&scene, &missing, "1").await, Err(Error::NoJob("x".into())));
    scene.cancel("a".into()).await.unwrap();
    let error = set_data(&scene, &taken.lease, "1").await.unwrap_err();
    assert_eq!(error.to_string(), "job 'a' is canceling: it cannot be given other data");
    assert_eq!(scene.record(&"a".into()).await.payload, before);
    let program = Exec { argv: vec!["true".into()], ..Exec::default() };
    let class = Class::EXEC.into();
    scene.put(NewJob { class, payload: Payload::Exec(program), ..job("p") }).await;
    let program = scene.take().await.unwrap();
    let error = set_data(&scene, &program.lease, "1").await.unwrap_err();
    assert_eq!(error.to_string(), "job 'p' is a program, which has no data to change");
}

async fn tags_are_added_and_removed(mut scene: Scene) {
    scene.put(NewJob { tags: vec!["x".into(), "y".into()], ..job("a") }).await;
    assert_eq!(tag(&scene, "a", &["z", "y", "z"], &["x", "none"]).await.unwrap(), ["y", "z"]);
    assert_eq!(tag(&scene, "a", &["z"], &["x"]).await.unwrap(), ["y", "z"]);
    scene.reopen();
    assert_eq!(scene.record(&"a".into()).await.tags, ["y", "z"]);
    assert_eq!([found(&scene, tagged("x")).await, found(&scene, tagged("z")).await], ["", "a"]);
    assert_eq!(edits(&scene, "a").await, ["tags y z (uid 7)"]);
    let refused = [&["a\u{7f}b"][..], &[""], &[&"x".repeat(257)]];
    for add in refused {
        assert!(matches!(tag(&scene, "a", add, &[]).await, Err(Error::Refused(_))), "{add:?}");
    }
    let many: Vec<String> = (0..99).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let refused = Error::Refused("a job cannot have 101 tags: 100 are the most".into());
    assert_eq!(tag(&scene, "a", &many, &[]).await, Err(refused));
    assert_eq!(tag(&scene, "a", &[], &["y", "z"]).await.unwrap(), [""; 0]);
    assert_eq!(tag(&scene, "x", &["y"], &[]).await, Err(Error::NoJob("x".into())));
    assert_eq!(scene.take().await.unwrap().job.tags, [""; 0]);
}

async fn jobs_are_found_by_tag(scene: Scene) {
    for (id, queue, tags) in [("a", "q", "x y"), ("b", "q", "x"), ("c", "r", "x"), ("d", "q", "y")] {
        let tags = tags.split(' ').map(Into::into).collect();
        scene.put(NewJob { queue: queue.into(), tags, ..job(id) }).await;
    }
    assert_eq!(found(&scene, tagged("x")).await, "c b a");
    assert_eq!(found(&scene, Filter { limit: 2, ..tagged("x") }).await, "c b");
    assert_eq!(found(&scene, Filter { after: Some("b".into()), ..tagged("x") }).await, "a");
    assert_eq!(found(&scene, Filter { queue: Some("q".into()), ..tagged("x") }).await, "b a");
    assert_eq!(found(&scene, tagged("X")).await, "");
    scene.cancel("b".into()).await.unwrap();
    let in_state = |states| Filter { states, ..tagged("x") };
    assert_eq!(found(&scene, in_state(vec![JobState::Canceled])).await, "b");
    assert_eq!(found(&scene, in_state(vec![JobState::Waiting, JobState::Canceled])).await, "c b a");
    scene.retry("b".into()).await.unwrap();
    assert_eq!(found(&scene, in_state(vec![JobState::Waiting])).await, "c b a");
}

async fn jobs_are_found_by_tag_page_by_page(scene: Scene) {
    let one = |n: usize| {
        let tags = if n.is_multiple_of(2) { vec!["even".into()] } else { vec![] };
        NewJob { tags, ..job(&n.to_string()) }
    };
    scene.put_all((0..2600).map(one).collect()).await.unwrap();
    for limit in [1, 700, 1300] {
        let jobs = scene.list(Filter { limit, ..tagged("even") }).await.unwrap();
        let want = (0..limit).map(|n| (2598 - 2 * n).to_string());
        assert!(jobs.iter().map(|job| job.id.to_string()).eq(want), "{limit}");
    }
    let waiting = Filter { states: vec![JobState::Waiting], limit: 5000, ..tagged("even") };
    assert_eq!(scene.list(waiting).await.unwrap().len(), 1300);
}

async fn tracked_jobs_are_listed(mut scene: Scene) {
    scene.put_all(vec![job("a"), job("b"), NewJob { tags: vec!["x".into()], ..job("c") }]).await.unwrap();
    let track = async |id: &str| scene.tell(Track { job: id.into() }, "uid 7").await.map(drop);
    for id in ["a", "c", "c"] {
        track(id).await.unwrap();
    }
    assert_eq!(track("x").await, Err(Error::NoJob("x".into())));
    let tracked = Filter { tracked: true, ..Filter::default() };
    assert_eq!(found(&scene, tracked.clone()).await, "c a");
    assert_eq!(found(&scene, Filter { tag: Some("x".into()), ..tracked.clone() }).await, "c");
    let waiting = Filter { states: vec![JobState::Waiting], ..tracked.clone() };
    assert_eq!(found(&scene, waiting).await, "c a");
    assert!(scene.record(&"a".into()).await.tracked && !scene.record(&"b".into()).await.tracked);
    scene.reopen();
    scene.tell(Untrack { job: "a".into() }, "uid 7").await.unwrap();
    assert_eq!(scene.tell(Untrack { job: "x".into() }, "").await, Err(Error::NoJob("x".into())));
    assert_eq!(found(&scene, tracked).await, "c");
}

async fn discard_removes_all_data_of_a_job(mut scene: Scene) {
    let large = Payload::Data(Bytes(vec![b'1'; 5000]));
    scene.put(NewJob { tags: vec!["x".into()], payload: large, ..job("a") }).await;
    scene.tell(Track { job: "a".into() }, "uid 7").await.unwrap();
    scene.cancel("a".into()).await.unwrap();
    discard(&scene, "a").await.unwrap();
    scene.reopen();
    assert_eq!(scene.get("a".into()).await, Ok(None));
    assert_eq!(discard(&scene, "a").await, Err(Error::NoJob("a".into())));
    assert_eq!(found(&scene, tagged("x")).await, "");
    assert!(scene.counts().await.unwrap()[&"q".into()].jobs.is_empty());
    // A new job of that id inherits nothing, except perhaps its list position.
    scene.put(job("a")).await;
    let record = scene.record(&"a".into()).await;
    assert!(record.history.is_empty() && !record.tracked && record.tags.is_empty(), "{record:?}");
    assert_eq!(record.payload, Some(Payload::Data("{}".into())));
}

async fn only_ended_jobs_without_dependents_can_be_discarded(scene: Scene) {
    scene.put(job("a")).await;
    scene.put(NewJob { depends: vec!["a".into()], ..job("b") }).await;
    let wrong = |state| Err(Error::WrongState { id: "a".into(), state, verb: "discarded" });
    assert_eq!(discard(&scene, "a").await, wrong(JobState::Waiting));
    let a = scene.take().await.unwrap();
    assert_eq!(discard(&scene, "a").await, wrong(JobState::Running));
    scene.say(&a, Verdict::Fail { failure: failure() }).await;
    let needed = Error::Needed { id: "a".into(), by: vec!["b".into()], verb: "discarded" };
    assert_eq!(discard(&scene, "a").await, Err(needed));
    scene.cancel("b".into()).await.unwrap();
    discard(&scene, "a").await.unwrap();
    // A canceled dependent does not need the job any more.
    scene.retry("b".into()).await.unwrap();
    assert_eq!(scene.take().await.unwrap().job.id.as_str(), "b");
}

async fn put_with_exists_skip_skips_an_existing_id(scene: Scene) {
    let skipping = |id: &str, priority| NewJob { exists: Exists::Skip, priority, ..job(id) };
    scene.put(skipping("a", 1)).await;
    let a = scene.take().await.unwrap();
    scene.say(&a, complete()).await;
    let depends = NewJob { depends: vec!["none".into()], ..skipping("a", 2) };
    let put = scene.put_all(vec![depends, skipping("b", 3), skipping("b", 4), job("c")]).await.unwrap();
    assert_eq!(put.iter().map(JobId::as_str).collect::<Vec<_>>(), ["a", "b", "b", "c"]);
    let a = scene.record(&"a".into()).await;
    assert_eq!((a.state, a.priority), (JobState::Complete, 1), "it is left as it is");
    assert_eq!(scene.record(&"b".into()).await.priority, 3);
    let counts = scene.counts().await.unwrap();
    assert_eq!(counts[&"q".into()].jobs, [(JobState::Waiting, 2), (JobState::Complete, 1)].into());
    let refused = scene.put_all(vec![skipping("d", 0), job("a")]).await;
    assert_eq!(refused, Err(Error::Exists("a".into())));
    assert_eq!(scene.get("d".into()).await, Ok(None));
}

async fn invalid_jobs_are_refused_at_the_put(scene: Scene) {
    let long = "x".repeat(257);
    for wrong in [
        job(""),
        job(&long),
        job("a\nb"),
        NewJob { queue: "".into(), ..job("a") },
        NewJob { class: "\u{1b}[2J".into(), ..job("a") },
        NewJob { tags: vec!["".into()], ..job("a") },
        NewJob { tags: vec![long.clone()], ..job("a") },
        NewJob { tags: vec!["t".into(); 101], ..job("a") },
        NewJob { delay: Duration::MAX, ..job("a") },
        NewJob { depends: vec!["b".into(); 1001], ..job("a") },
    ] {
        let refused = scene.put_all(vec![job("b"), wrong]).await;
        let Err(Error::Refused(why)) = refused else { panic!("{refused:?}") };
        assert!(why.len() < 200 && !why.contains(char::is_control), "{why:?}");
    }
    assert!(scene.list(Filter::default()).await.unwrap().is_empty());
    let odd = NewJob { priority: i32::MIN, delay: NewJob::DELAY_MAX, ..job("an id with blanks, ☺") };
    scene.put_all(vec![odd, NewJob { priority: i32::MAX, ..job("b") }]).await.unwrap();
    assert_eq!(scene.take().await.unwrap().job.id.as_str(), "b");
}
