//! For which queues the store wakes its supervisor.

use super::*;

/// The queues of the next wake-up.
async fn woken(store: &Broker) -> Vec<String> {
    let Notice::Wake(QueueSet::Only(queues)) = store.next_notice().await else { panic!("of all queues") };
    queues.into_iter().map(|queue| queue.to_string()).collect()
}

#[tokio::test]
async fn wake_up_names_the_queues_in_which_jobs_have_come() {
    let store = Broker::from(Sqlite::memory().unwrap());
    let put_into = |queue: &str, job: NewJob| store.put(vec![NewJob { queue: queue.into(), ..job }]);
    put_into("a", job("a")).await.unwrap();
    assert_eq!(woken(&store).await, ["a"]);
    put_into("b", job("b")).await.unwrap();
    put_into("c", NewJob { depends: vec!["b".into()], ..job("c") }).await.unwrap();
    put_into("a", job("d")).await.unwrap();
    assert_eq!(woken(&store).await, ["a", "b"], "of all commits since the last one");
    let b = store.fetch(request(&["b"], 1)).await.unwrap().pop().unwrap();
    store.settle(vec![settlement(&b.lease, complete())]).await.unwrap();
    assert_eq!(woken(&store).await, ["c"]);
    let c = store.fetch(request(&["c"], 1)).await.unwrap().pop().unwrap();
    let next = Next { queue: "next".into(), delay: Duration::ZERO, depends: Vec::new() };
    store
        .settle(vec![settlement(&c.lease, Verdict::Complete { result: None, next: Some(next) })])
        .await
        .unwrap();
    assert_eq!(woken(&store).await, ["next"]);
    store.pause("a".into(), "me".into(), None).await.unwrap();
    store.resume("a".into()).await.unwrap();
    assert_eq!(woken(&store).await, ["a"]);
}
