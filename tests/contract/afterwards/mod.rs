//! Jobs after their end: failure groups, statistics, expiry.

mod counters;
mod expiry;
mod failures;
mod ledger;
mod statistics;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::*;
use broker::Error;
use model::verb::{
    Act, Bulk, ClassDay, ClassStats, ClassSums, Failed, FailureGroup, Forget, QueueDay, SetOption, Stats,
    Swept, Times,
};
use model::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn wrong(group: &str, message: &str) -> Failure {
    Failure { group: group.into(), message: message.into(), trace: None }
}

/// Puts a job, takes it and settles it with this verdict.
async fn ended(scene: &Scene, new: NewJob, verdict: Verdict) {
    let queue = new.queue.clone();
    let id = scene.put(new).await;
    let taken = scene.take_from(queue.as_str()).await.unwrap();
    assert_eq!(taken.job.id, id);
    scene.say(&taken, verdict).await;
}

async fn failed(scene: &Scene, id: &str, group: &str) {
    ended(scene, job(id), Verdict::Fail { failure: wrong(group, id) }).await;
}

/// The failure groups of matching jobs, as (group, failed, held).
async fn groups_of(scene: &Scene, asked: Failed) -> Vec<(String, u64, u64)> {
    let groups = scene.tell(asked, "").await.unwrap();
    groups.into_iter().map(|group| (group.group, group.failed, group.held)).collect()
}

async fn groups(scene: &Scene) -> Vec<FailureGroup> {
    scene.tell(Failed::default(), "").await.unwrap()
}

fn bulk(act: Act, state: JobState) -> Bulk {
    Bulk {
        act,
        state,
        group: None,
        class: None,
        queue: None,
        since: None,
        limit: None,
        dry_run: false,
        after: None,
    }
}

/// Repeats the bulk verb until no jobs are left; returns the number of jobs.
async fn swept(scene: &Scene, mut asked: Bulk) -> u64 {
    let mut count = 0;
    loop {
        let answer: Swept = scene.tell(asked.clone(), "uid 7").await.unwrap();
        count += answer.count;
        asked.after = answer.next;
        if answer.next.is_none() {
            return count;
        }
    }
}

async fn waiting(scene: &Scene) -> Vec<String> {
    let filter = Filter { states: vec![JobState::Waiting], limit: 9_999, ..Filter::default() };
    scene.list(filter).await.unwrap().iter().rev().map(|job| job.id.to_string()).collect()
}

/// Today's statistics; asserts that the counts of the queues agree.
async fn stats(scene: &Scene) -> QueueDay {
    let day = scene.tell(Stats { queue: "q".into(), day: None }, "").await.unwrap();
    let today = scene.counts().await.unwrap()[&"q".into()].today;
    let sum = |times: &Times| Sum { count: times.count, seconds: times.mean * times.count as f64 };
    let QueueDay { retries, failures, failed, .. } = day;
    assert_eq!(today, Today { wait: sum(&day.wait), run: sum(&day.run), retries, failures, failed });
    day
}

async fn forget(scene: &Scene, queue: &str) -> Result<(), Error> {
    scene.tell(Forget { queue: queue.into(), discard: false, after: None }, "").await.map(drop)
}

/// Lets the store run its expiry to the end.
async fn look(scene: &Scene) {
    scene.clock.forward(Duration::from_secs(61));
    for _ in 0..50 {
        scene.fetch(request(&["none"], 1)).await.unwrap();
        scene.clock.forward(Duration::from_millis(20));
    }
}

async fn left(scene: &Scene) -> Vec<String> {
    let all = scene.list(Filter { limit: 9_999, ..Filter::default() }).await.unwrap();
    all.iter().rev().map(|job| job.id.to_string()).collect()
}

async fn set(scene: &Scene, name: &str, value: &str) {
    scene.tell(SetOption { name: name.into(), value: value.into(), queue: None }, "me").await.unwrap();
}
