//! Redis is emptied under a supervisor, or an empty one takes its place. The health says so in the same words over every
//! broker on Redis, and what it knew of its jobs is shown by nobody as waiting for ever.

use std::time::Duration;

use model::verb::Get;
use model::{Happened, JobRecord, JobState, Presence, Settlement, Verdict};

use broker::{Error, Settling};

use crate::spoiled::Scene;

/// What the health, the metrics and the log call it.
const WHAT: &str = "Redis has forgotten what it held";

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    let asks = async {
        while !is_so().await {
            ticks.tick().await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), asks).await.is_ok(), "{what}");
}

/// A supervisor over `scheme` runs `ran`, has released `waits`, and has left its mark, which `mark` finds.
async fn is_told(scheme: &str, mark: &[&str]) -> Scene {
    let scene = Scene::over(scheme);
    scene.broker.sign(Presence {
        instance: "me".into(),
        started: clock::now(),
        stopping: None,
        pools: Vec::new(),
    });
    for id in ["ran", "waits"] {
        scene.put(id).await;
    }
    let jobs = scene.fetch(2).await;
    let end = |at: usize, verdict| Settlement {
        job: jobs[at].lease.job.clone(),
        fence: jobs[at].lease.fence,
        verdict,
        crashed: false,
        forensics: None,
    };
    let release = Verdict::Release { after: Duration::ZERO, counts: None };
    let released = scene.broker.settle(vec![end(1, release)]).await.unwrap();
    assert_eq!(released, [Settling::Settled(JobState::Waiting)]);
    let mut redis = scene.server.connect();
    until("its mark is there", async || {
        redis::cmd(mark[0]).arg(&mark[1..]).query::<Option<String>>(&mut redis).unwrap().is_some()
    })
    .await;
    let told = || scene.broker.complaints().told(clock::now());
    assert_eq!(told(), [], "nothing is wrong");
    scene.ask(&["FLUSHALL"]);
    let complete = Verdict::Complete { result: None, next: None };
    assert_eq!(scene.broker.settle(vec![end(0, complete)]).await.unwrap(), [Settling::NotOurs]);
    until("status has a complaint", async || !told().is_empty()).await;
    let told = told();
    assert_eq!(told.iter().map(|told| &*told.what).collect::<Vec<_>>(), [WHAT]);
    assert!(told[0].how.contains("was emptied, or another server has taken its place"), "{}", told[0].how);
    scene
}

async fn record(scene: &Scene, id: &str) -> Result<JobRecord, Error> {
    scene.broker.tell(Get { job: id.into() }, "").await
}

#[tokio::test]
async fn qless_that_was_emptied_is_told() {
    let scene = is_told("qless", &["GET", "ql:taskvisor:mark"]).await;
    assert!(matches!(record(&scene, "ran").await, Err(Error::NoJob(_))));
}

#[tokio::test]
async fn rq_that_was_emptied_is_told() {
    let scene = is_told("rq", &["GET", "rq:taskvisor:mark"]).await;
    assert!(matches!(record(&scene, "ran").await, Err(Error::NoJob(_))));
}

#[tokio::test]
async fn reliable_queue_that_was_emptied_is_told_and_its_jobs_do_not_wait_for_ever() {
    let scene = is_told("reliable", &["HGET", "taskvisor:counts", "mark"]).await;
    let unknown = "Redis does not know it any more: it was removed there, or Redis was emptied or replaced";
    let ran = record(&scene, "ran").await.unwrap();
    assert_eq!(ran.state, JobState::Complete, "it ended well here");
    let is_noted = |what: &Happened| matches!(what, Happened::Noted { what } if what.contains(unknown));
    assert!(ran.history.iter().any(|entry| is_noted(&entry.what)), "{:?}", ran.history);
    // Nobody asks about it: what the ledger has as waiting is asked about by itself.
    until("it does not wait for ever", async || {
        let failed = scene.broker.tell(model::verb::Failed::default(), "").await.unwrap();
        failed.iter().any(|group| group.group == "forgotten")
    })
    .await;
    let waits = record(&scene, "waits").await.unwrap();
    assert_eq!(
        (waits.state, waits.failure.map(|failure| failure.group)),
        (JobState::Failed, Some("forgotten".into()))
    );
}
