//! Options of a store and their effects: max_concurrency of queues, the grace of a lease.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::*;
use broker::{Error, Notice, Renewal, Settling};
use model::verb::{LoadOptions, OptionShown, SetOption, ShowOptions, UnsetOption};
use model::*;

contract!(
    needs [Options];
    option_of_a_queue_overrides_the_global_one,
    options_are_loaded_all_or_none,
    max_concurrency_bounds_the_running_jobs_of_a_queue,
    max_concurrency_counts_jobs_of_other_supervisors,
    end_of_a_job_makes_room_and_wakes,
    expired_lease_blocks_others_during_its_grace,
    renewal_during_the_grace_restores_the_lease,
    settlement_during_the_grace_counts,
);

async fn set(scene: &Scene, name: &str, value: &str, queue: Option<&str>) -> Result<(), Error> {
    let queue = queue.map(QueueName::from);
    scene.tell(SetOption { name: name.into(), value: value.into(), queue }, "me").await.map(drop)
}

async fn shown(scene: &Scene, name: &str) -> Vec<(Option<String>, String, bool)> {
    let all: Vec<OptionShown> = scene.tell(ShowOptions {}, "me").await.unwrap();
    let named = all.into_iter().filter(|option| option.name == name);
    named.map(|option| (option.queue.map(|queue| queue.to_string()), option.value, option.is_set)).collect()
}

async fn option_of_a_queue_overrides_the_global_one(mut scene: Scene) {
    assert_eq!(shown(&scene, "grace").await, [(None, "10s".into(), false)]);
    set(&scene, "grace", "5s", None).await.unwrap();
    set(&scene, "grace", "1m30s", Some("q")).await.unwrap();
    scene.reopen();
    let both = [(None, "5s".into(), true), (Some("q".into()), "1m30s".into(), true)];
    assert_eq!(shown(&scene, "grace").await, both);
    let unset = |queue: Option<&str>| UnsetOption { name: "grace".into(), queue: queue.map(Into::into) };
    scene.tell(unset(Some("q")), "me").await.unwrap();
    scene.tell(unset(None), "me").await.unwrap();
    assert_eq!(shown(&scene, "grace").await, [(None, "10s".into(), false)]);
    let refused = |error: Result<(), Error>| match error {
        Err(Error::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(set(&scene, "grace", "-1", None).await),
        "option grace: '-1' is no duration like 250ms, 10s, 1m30s, 2h or 1d"
    );
    assert!(refused(set(&scene, "gracious", "1s", None).await).starts_with("no option is called 'gracious'"));
    assert!(refused(set(&scene, "keep_failed", "1d", Some("q")).await).contains("for all queues"));
}

async fn options_are_loaded_all_or_none(scene: Scene) {
    set(&scene, "max_concurrency", "3", Some("q")).await.unwrap();
    let of = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    let load = async |options: Options, clear| scene.tell(LoadOptions { options, clear }, "me").await;
    let bad = Options {
        all: of("grace", "1s"),
        queues: BTreeMap::from([("a".into(), of("grace", "x"))]),
        ..Options::default()
    };
    assert!(matches!(load(bad, true).await, Err(Error::Refused(_))));
    assert_eq!(shown(&scene, "max_concurrency").await.len(), 2);
    let good = Options { all: of("grace", "1s"), ..Options::default() };
    load(good.clone(), false).await.unwrap();
    assert_eq!(shown(&scene, "max_concurrency").await.len(), 2);
    load(good, true).await.unwrap();
    assert_eq!(shown(&scene, "max_concurrency").await, [(None, "0".into(), false)]);
    assert_eq!(shown(&scene, "grace").await, [(None, "1s".into(), true)]);
}

async fn max_concurrency_bounds_the_running_jobs_of_a_queue(scene: Scene) {
    set(&scene, "max_concurrency", "2", Some("q")).await.unwrap();
    scene.put_all((0..5).map(|n| job(&n.to_string())).collect()).await.unwrap();
    scene.put(NewJob { queue: "other".into(), ..job("o") }).await;
    let first = scene.fetch(request(&["q", "other"], 5)).await.unwrap();
    assert_eq!(ids(&first), ["0", "1", "o"]);
    assert!(scene.take().await.is_none());
    scene.say(&first[0], complete()).await;
    assert_eq!(ids(&scene.fetch(request(&["q"], 5)).await.unwrap()), ["2"]);
    // A canceling job counts as running until its end.
    scene.cancel("1".into()).await.unwrap();
    assert!(scene.take().await.is_none());
    set(&scene, "max_concurrency", "0", Some("q")).await.unwrap();
    assert_eq!(ids(&scene.fetch(request(&["q"], 5)).await.unwrap()), ["3", "4"]);
}

async fn max_concurrency_counts_jobs_of_other_supervisors(scene: Scene) {
    let Some(second) = scene.second() else { return };
    set(&scene, "max_concurrency", "2", None).await.unwrap();
    scene.put_all((0..5).map(|n| job(&n.to_string())).collect()).await.unwrap();
    let mine = scene.fetch(request(&["q"], 1)).await.unwrap();
    assert_eq!(ids(&second.fetch(request(&["q"], 5)).await.unwrap()), ["1"]);
    assert!(second.fetch(request(&["q"], 5)).await.unwrap().is_empty());
    scene.say(&mine[0], complete()).await;
    assert_eq!(ids(&second.fetch(request(&["q"], 5)).await.unwrap()), ["2"]);
}

async fn end_of_a_job_makes_room_and_wakes(scene: Scene) {
    set(&scene, "max_concurrency", "1", Some("q")).await.unwrap();
    scene.put_all(vec![job("a"), job("b")]).await.unwrap();
    let a = scene.take().await.unwrap();
    assert!(scene.take().await.is_none());
    assert!(scene.is_woken_for("q").await);
    scene.say(&a, complete()).await;
    assert!(scene.is_woken_for("q").await);
    assert_eq!(scene.take().await.unwrap().job.id.as_str(), "b");
}

async fn expired_lease_blocks_others_during_its_grace(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    assert!(scene.is_woken_for("q").await);
    scene.clock.forward(LEASE);
    assert!(scene.take().await.is_none());
    let lost = Notice::Revoked { job: "a".into(), fence: a.lease.fence, why: Revocation::LockLost };
    // One put may wake several times; no other notice may come first.
    let notice = loop {
        match scene.next_notice().await {
            Notice::Wake(_) => (),
            other => break other,
        }
    };
    assert_eq!(notice, lost);
    scene.clock.forward(GRACE - Duration::from_millis(1));
    assert!(scene.take().await.is_none());
    assert_eq!(scene.state(&"a".into()).await, JobState::Running);
    scene.clock.forward(Duration::from_millis(1));
    assert_eq!(scene.take().await.unwrap().job.interrupted, 1);
    assert_eq!(scene.say(&a, complete()).await, Settling::NotOurs);
}

async fn renewal_during_the_grace_restores_the_lease(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    for _ in 0..2 {
        // Each expired lease has its own grace.
        scene.clock.forward(LEASE + GRACE / 2);
        assert!(scene.take().await.is_none());
        let renewed = scene.renew(vec![a.lease.clone()], LEASE).await.unwrap();
        assert!(matches!(renewed[0], Renewal::Renewed(_)), "{renewed:?}");
    }
    scene.clock.forward(LEASE - Duration::from_millis(1));
    assert!(scene.take().await.is_none());
    // A later cancel is reported, too.
    scene.cancel("a".into()).await.unwrap();
    let told = async || loop {
        if let Notice::Revoked { why: Revocation::Canceled, .. } = scene.next_notice().await {
            return;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), told()).await.unwrap();
}

async fn settlement_during_the_grace_counts(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.clock.forward(LEASE);
    assert!(scene.take().await.is_none());
    assert_eq!(scene.say(&a, complete()).await, Settling::Settled(JobState::Complete));
    scene.clock.forward(GRACE);
    assert!(scene.take().await.is_none());
}
