//! The order of fetches: queues in order and in turn, priorities, delays, class filters.

use std::time::Duration;

use crate::support::*;
use broker::{Error, Fetch};
use model::*;

const SIZES: [&[u16]; 4] = [&[10], &[1; 10], &[8, 2], &[3, 3, 3, 3]];

contract!(
    jobs_run_in_insertion_order [Order],
    fetch_gives_one_job_to_each_worker [Order, Fences],
    queues_are_tried_in_order [Queues, Order],
    one_queue_is_emptied_before_the_next [Queues, Order],
    round_robin_takes_one_job_from_each_queue [Queues, Order],
    round_robin_skips_paused_and_empty_queues [Pause, Queues],
    round_robin_takes_the_highest_priority_of_each_queue [Prioritize, Queues],
    fetch_obeys_the_class_filter [Order, AnyId],
    class_filter_leaves_other_jobs_in_place [Prioritize, Queues],
    class_filter_that_found_nothing_finds_later_jobs [Clock, Retry],
    higher_priority_runs_first [Prioritize],
    delayed_job_is_not_fetched_before_its_time [Clock, ShowWaiting],
    paused_queue_gives_no_jobs [Pause],
    unknown_queue_cannot_be_resumed [Pause],
    put_wakes_the_supervisor [WakesUnasked],
    fetched_job_says_how_long_it_has_waited [Waits],
);

async fn fetched_job_says_how_long_it_has_waited(scene: Scene) {
    scene.put(job("a")).await;
    let waited = scene.take().await.unwrap().waited;
    assert!(waited.is_some_and(|waited| waited < Duration::from_secs(60)), "{waited:?}");
}

async fn jobs_run_in_insertion_order(scene: Scene) {
    scene.put_all(vec![job("b"), job("a"), job("c")]).await.unwrap();
    for id in ["b", "a", "c"] {
        assert_eq!(scene.take().await.unwrap().job.id.as_str(), id);
    }
    assert!(scene.take().await.is_none());
}

async fn fetch_gives_one_job_to_each_worker(scene: Scene) {
    scene.put_all(vec![job("a"), job("b"), job("c")]).await.unwrap();
    assert_eq!(ids(&scene.fetch(request(&["q"], 2)).await.unwrap()), ["a", "b"]);
    let held = scene.held_by("me".into()).await.unwrap();
    assert_eq!(held, [("a".into(), Fence(1), worker(1)), ("b".into(), Fence(1), worker(2))]);
    assert_eq!(ids(&scene.fetch(request(&["q"], 2)).await.unwrap()), ["c"]);
}

async fn queues_are_tried_in_order(scene: Scene) {
    scene.put(NewJob { queue: "low".into(), ..job("l") }).await;
    scene.put(NewJob { queue: "high".into(), ..job("h") }).await;
    assert_eq!(ids(&scene.fetch(request(&["high", "none", "low"], 3)).await.unwrap()), ["h", "l"]);
}

/// Queues C, B and A with 3, 2 and 5 jobs.
async fn three_queues(scene: &Scene) {
    for (queue, jobs) in [("A", 5), ("B", 2), ("C", 3)] {
        let job = |n| NewJob { queue: queue.into(), ..job(&format!("{queue}{n}")) };
        scene.put_all((0..jobs).map(job).collect()).await.unwrap();
    }
}

/// The queues that fetches of these sizes take from. With `Take::InTurn` each fetch begins after the last queue taken.
async fn taken(scene: &Scene, take: Take, sizes: &[u16]) -> String {
    let mut queues = vec!["C", "B", "A"];
    let mut seen = String::new();
    for size in sizes {
        let fetched = scene.fetch(Fetch { take, ..request(&queues, *size) }).await.unwrap();
        fetched.iter().for_each(|fetched| seen.push_str(fetched.job.queue.as_str()));
        let last =
            fetched.last().and_then(|last| queues.iter().position(|queue| last.job.queue.as_str() == *queue));
        if let Some(last) = last.filter(|_| take == Take::InTurn) {
            queues.rotate_left(last + 1);
        }
    }
    seen
}

async fn one_queue_is_emptied_before_the_next(mut scene: Scene) {
    for sizes in SIZES {
        three_queues(&scene).await;
        assert_eq!(taken(&scene, Take::InOrder, sizes).await, "CCCBBAAAAA", "{sizes:?}");
        scene = scene.afresh();
    }
}

async fn round_robin_takes_one_job_from_each_queue(mut scene: Scene) {
    for sizes in SIZES {
        three_queues(&scene).await;
        assert_eq!(taken(&scene, Take::InTurn, sizes).await, "CBACBACAAA", "{sizes:?}");
        scene = scene.afresh();
    }
}

async fn round_robin_skips_paused_and_empty_queues(scene: Scene) {
    three_queues(&scene).await;
    scene.pause("B".into(), "me".into(), None).await.unwrap();
    let queues = ["none", "C", "B", "A"];
    let fetched = scene.fetch(Fetch { take: Take::InTurn, ..request(&queues, 4) }).await.unwrap();
    assert_eq!(ids(&fetched), ["C0", "A0", "C1", "A1"]);
    scene.resume("B".into()).await.unwrap();
    let fetched = scene.fetch(Fetch { take: Take::InTurn, ..request(&queues, 9) }).await.unwrap();
    assert_eq!(ids(&fetched), ["C2", "B0", "A2", "B1", "A3", "A4"]);
}

async fn round_robin_takes_the_highest_priority_of_each_queue(scene: Scene) {
    for (id, queue, priority) in
        [("x", "X", 0), ("x5", "X", 5), ("y", "Y", 0), ("y9", "Y", 9), ("x5b", "X", 5)]
    {
        scene.put(NewJob { queue: queue.into(), priority, ..job(id) }).await;
    }
    let fetched = scene.fetch(Fetch { take: Take::InTurn, ..request(&["X", "Y"], 9) }).await.unwrap();
    assert_eq!(ids(&fetched), ["x5", "y9", "x5b", "y", "x"]);
}

fn filter(only: &[&str], except: &[&str]) -> ClassFilter {
    let names = |names: &[&str]| names.iter().map(|name| Class::from(*name)).collect();
    ClassFilter { only: names(only), except: names(except) }
}

async fn fetch_obeys_the_class_filter(mut scene: Scene) {
    let classes =
        ["mail.Send", "mail.Sändung", "mail", "Mail.Send", "ml.Train", "ml_x", "m%", "größe", "größen"];
    let names: [&[&str]; 7] =
        [&[], &["mail.Send"], &["mail.*", "ml.Train"], &["*"], &["m%*"], &["größe*", "x"], &["none"]];
    for (only, except) in names.iter().flat_map(|only| names.map(|except| (only, except))) {
        let filter = filter(only, except);
        scene
            .put_all(classes.map(|class| NewJob { class: class.into(), ..job(class) }).into())
            .await
            .unwrap();
        let fetched = scene.fetch(Fetch { filter: filter.clone(), ..request(&["q"], 99) }).await.unwrap();
        let want: Vec<&str> = classes.into_iter().filter(|class| filter.matches(&(*class).into())).collect();
        assert_eq!(ids(&fetched), want, "{filter:?}");
        scene = scene.afresh();
    }
}

async fn class_filter_leaves_other_jobs_in_place(scene: Scene) {
    three_queues(&scene).await;
    for (id, queue, priority) in [("a", "A", 0), ("a9", "A", 9), ("b", "B", 0)] {
        scene.put(NewJob { queue: queue.into(), class: "rare".into(), priority, ..job(id) }).await;
    }
    let ask = |filter, take| scene.fetch(Fetch { filter, take, ..request(&["C", "B", "A"], 20) });
    assert_eq!(ids(&ask(filter(&["none"], &[]), Take::InTurn).await.unwrap()), [""; 0]);
    assert_eq!(ids(&ask(filter(&["rare"], &[]), Take::InTurn).await.unwrap()), ["b", "a9", "a"]);
    let rest = ask(filter(&[], &["rare"]), Take::InOrder).await.unwrap();
    assert_eq!(ids(&rest), ["C0", "C1", "C2", "B0", "B1", "A0", "A1", "A2", "A3", "A4"]);
}

async fn class_filter_that_found_nothing_finds_later_jobs(scene: Scene) {
    let rare = |id: &str| NewJob { class: "rare".into(), ..job(id) };
    let take = async || {
        let fetched =
            scene.fetch(Fetch { filter: filter(&["rare"], &[]), ..request(&["q"], 2) }).await.unwrap();
        let other = scene.fetch(Fetch { filter: filter(&["ra*"], &[]), ..request(&["q"], 2) }).await.unwrap();
        assert_eq!(other, []);
        fetched.into_iter().next()
    };
    scene.put(job("other")).await;
    assert_eq!(take().await, None);
    scene.put(rare("a")).await;
    let a = take().await.unwrap();
    assert_eq!(take().await, None);
    scene.say(&a, release()).await;
    let a = take().await.unwrap();
    scene.say(&a, retry_after(Duration::from_secs(1))).await;
    assert_eq!(take().await, None);
    scene.clock.forward(Duration::from_secs(1));
    take().await.unwrap();
    assert_eq!(take().await, None);
    scene.run_out().await;
    take().await.unwrap();
    assert_eq!(take().await, None);
    scene.recover("me".into(), vec![]).await.unwrap();
    let a = take().await.unwrap();
    scene.say(&a, complete()).await;
    assert_eq!(take().await, None);
    scene.retry("a".into()).await.unwrap();
    take().await.unwrap();
    assert_eq!(take().await, None);
    if let Some(second) = scene.second() {
        second.put(vec![rare("b")]).await.unwrap();
        assert_eq!(take().await.unwrap().job.id.as_str(), "b");
    }
}

async fn higher_priority_runs_first(scene: Scene) {
    for (id, priority) in [("n", 0), ("h1", 5), ("l", -5), ("h2", 5)] {
        scene.put(NewJob { priority, ..job(id) }).await;
    }
    assert_eq!(ids(&scene.fetch(request(&["q"], 9)).await.unwrap()), ["h1", "h2", "n", "l"]);
}

async fn delayed_job_is_not_fetched_before_its_time(scene: Scene) {
    scene.put(NewJob { delay: Duration::from_secs(10), ..job("d") }).await;
    assert_eq!(scene.state(&"d".into()).await, JobState::Delayed);
    scene.clock.forward(Duration::from_millis(9_999));
    assert!(scene.take().await.is_none());
    scene.clock.forward(Duration::from_millis(1));
    assert_eq!(scene.take().await.unwrap().job.id.as_str(), "d");
}

async fn paused_queue_gives_no_jobs(mut scene: Scene) {
    scene.put(job("a")).await;
    scene.pause("q".into(), "uid 0".into(), Some("lunch".into())).await.unwrap();
    scene.reopen();
    assert!(scene.take().await.is_none());
    let paused = scene.counts().await.unwrap()[&"q".into()].paused.clone().unwrap();
    assert_eq!((paused.by.as_str(), paused.reason.as_deref()), ("uid 0", Some("lunch")));
    scene.resume("q".into()).await.unwrap();
    assert!(scene.take().await.is_some());
}

async fn unknown_queue_cannot_be_resumed(scene: Scene) {
    assert_eq!(scene.resume("x".into()).await, Err(Error::NoQueue("x".into())));
}

async fn put_wakes_the_supervisor(scene: Scene) {
    scene.put_all(vec![job("a"), job("b")]).await.unwrap();
    scene.put(job("c")).await;
    assert!(scene.is_woken_for("q").await);
}
