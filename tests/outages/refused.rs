//! What a supervisor does in a Redis beside the calls for its jobs: to hear of jobs, to look at what is due. A server
//! that refuses one command of it fails that alone, and the health says so until the command is allowed again.

use std::time::Duration;

use crate::spoiled::Scene;

/// The server of `scheme` refuses `command`; `what` fails, as the complaint calls it.
async fn is_told(scheme: &str, command: &str, what: &str) {
    let scene = Scene::over(scheme);
    scene.put("before").await;
    assert_eq!(scene.fetch(1).await.len(), 1);
    let told = || scene.broker.complaints().told(clock::now());
    // What waits at the server does so again.
    let end_waits = || scene.ask(&["CLIENT KILL TYPE pubsub", "CLIENT KILL TYPE normal"]);
    scene.ask(&[&format!("ACL SETUSER default -{command}")]);
    end_waits();
    asks_until(&scene, what, || told().iter().any(|told| told.what == what)).await;
    let how = told().into_iter().find(|told| told.what == what).unwrap().how;
    assert!(how.contains("ACL"), "it says what to do: {how}");
    scene.put("meanwhile").await;
    // Who hears no cancels takes no jobs of qless.
    if scheme != "qless" {
        assert_eq!(scene.fetch(1).await.len(), 1, "jobs go on");
    }
    scene.ask(&[&format!("ACL SETUSER default +{command}")]);
    asks_until(&scene, "the health is well", || told().is_empty()).await;
}

/// Asks for jobs meanwhile, as a supervisor does whenever it is told to: some wait for jobs only after that.
async fn asks_until(scene: &Scene, what: &str, is_so: impl Fn() -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    let asks = async {
        while !is_so() {
            drop(scene.try_fetch(1).await);
            ticks.tick().await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), asks).await.is_ok(), "{what}");
}

/// Resets the connections over `scheme` until the broker complains that new jobs are not heard. The complaint must end
/// soon after the last reset, and not only when the wait for jobs that follows has run out.
async fn is_soon_over(scheme: &str) {
    let scene = Scene::over(scheme);
    assert_eq!(scene.try_fetch(1).await.map(|jobs| jobs.len()), Ok(0));
    let told = || scene.broker.complaints().told(clock::now());
    let deaf = || told().iter().any(|told| told.what == "new jobs in Redis are not heard at once");
    asks_until(&scene, "the broker complains", || {
        scene.ask(&["CLIENT KILL TYPE pubsub", "CLIENT KILL TYPE normal"]);
        deaf()
    })
    .await;
    let over = asks_until(&scene, "the complaint has ended", || !deaf());
    assert!(tokio::time::timeout(Duration::from_secs(15), over).await.is_ok(), "{:?}", told());
}

#[tokio::test]
async fn rq_whose_connections_were_reset_is_soon_well() {
    is_soon_over("rq").await;
}

#[tokio::test]
async fn reliable_queue_whose_connections_were_reset_is_soon_well() {
    is_soon_over("reliable").await;
}

macro_rules! table {
    ($($name:ident: $scheme:literal $command:literal $what:literal,)*) => {
        $(#[tokio::test]
        async fn $name() {
            is_told($scheme, $command, $what).await;
        })*
    };
}

table! {
    qless_that_may_not_be_heard_is_told: "qless" "subscribe" "the events of Redis are not heard",
    rq_whose_commands_may_not_be_heard_is_told: "rq" "psubscribe" "commands to the workers of RQ are not heard",
    rq_whose_registries_may_not_be_looked_at_is_told: "rq" "zrangebyscore"
        "the chores of RQ's registries cannot be done",
    reliable_queue_that_may_not_be_waited_at_is_told: "reliable" "blmove" "new jobs in Redis are not heard at once",
    reliable_queue_whose_due_jobs_may_not_be_looked_at_is_told: "reliable" "zrangebyscore"
        "failed to look at what is due",
}
