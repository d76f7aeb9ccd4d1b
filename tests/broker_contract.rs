//! What every broker does, case by case, over each of them.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, clippy::too_many_lines)]

#[path = "support/store.rs"]
mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use support::*;
use taskvisor::broker::{Broker, Error, Notice, Renewal, Settling};
use taskvisor::model::*;

macro_rules! contract {
    ($($case:ident),* $(,)?) => {
        mod memory { $( #[tokio::test] async fn $case() { super::$case(super::Scene::memory()).await; } )* }
        mod file { $( #[tokio::test] async fn $case() { super::$case(super::Scene::file()).await; } )* }
    };
}

contract!(
    jobs_run_in_insertion_order,
    a_batch_goes_to_as_many_workers,
    queues_are_tried_in_order,
    higher_priority_runs_first,
    a_delayed_job_waits_for_its_time,
    a_retry_spends_the_attempt_and_waits,
    a_release_keeps_its_place_and_its_attempt,
    an_interrupted_release_is_counted,
    a_crash_is_counted,
    a_held_job_keeps_its_reason_until_it_is_retried,
    a_failed_job_keeps_its_failure,
    a_result_is_kept,
    forensics_are_stamped,
    a_waiting_job_is_canceled_at_once,
    a_running_job_is_canceled_when_it_settles,
    a_job_done_before_its_kill_is_complete,
    only_what_is_not_over_can_be_canceled,
    only_what_is_over_can_be_retried,
    a_late_settlement_is_not_ours,
    a_lease_is_renewed,
    a_lease_that_ran_out_is_lost,
    a_canceled_job_is_not_renewed,
    fences_ascend,
    a_paused_queue_gives_nothing,
    a_queue_that_is_not_there_cannot_be_resumed,
    recover_releases_what_an_instance_held,
    recover_keeps_what_it_is_told_to_keep,
    five_interruptions_hold_a_job,
    lists_go_on_after_a_job,
    lists_are_filtered,
    counts_follow_the_jobs,
    a_batch_is_put_whole_or_not_at_all,
    a_large_payload_comes_back,
    arguments_need_not_be_text,
    everything_put_comes_back,
    the_end_is_told_to_those_who_wait,
    a_put_wakes,
    a_mistake_leaves_what_comes_with_it_alone,
    random_operations_agree_with_a_model,
);

async fn jobs_run_in_insertion_order(scene: Scene) {
    scene.enqueue(vec![job("b"), job("a"), job("c")]).await.unwrap();
    for id in ["b", "a", "c"] {
        assert_eq!(scene.take().await.unwrap().job.id.as_str(), id);
    }
    assert!(scene.take().await.is_none());
}

async fn a_batch_goes_to_as_many_workers(scene: Scene) {
    scene.enqueue(vec![job("a"), job("b"), job("c")]).await.unwrap();
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

async fn higher_priority_runs_first(scene: Scene) {
    for (id, priority) in [("n", 0), ("h1", 5), ("l", -5), ("h2", 5)] {
        scene.put(NewJob { priority, ..job(id) }).await;
    }
    assert_eq!(ids(&scene.fetch(request(&["q"], 9)).await.unwrap()), ["h1", "h2", "n", "l"]);
}

async fn a_delayed_job_waits_for_its_time(scene: Scene) {
    scene.put(NewJob { delay: Duration::from_secs(10), ..job("d") }).await;
    assert_eq!(scene.state(&"d".into()).await, JobState::Delayed);
    scene.clock.forward(Duration::from_millis(9_999));
    assert!(scene.take().await.is_none());
    scene.clock.forward(Duration::from_millis(1));
    assert_eq!(scene.take().await.unwrap().job.id.as_str(), "d");
}

async fn a_retry_spends_the_attempt_and_waits(scene: Scene) {
    scene.put(job("a")).await;
    let first = scene.take().await.unwrap();
    assert_eq!(first.job.attempt, 1);
    assert_eq!(scene.say(&first, retry_after(Duration::from_secs(5))).await, Settling::Settled);
    assert_eq!(scene.record(&"a".into()).await.failure, Some(failure()));
    assert!(scene.take().await.is_none());
    scene.clock.forward(Duration::from_secs(5));
    assert_eq!(scene.take().await.unwrap().job.attempt, 2);
}

async fn a_release_keeps_its_place_and_its_attempt(scene: Scene) {
    scene.enqueue(vec![job("a"), job("b")]).await.unwrap();
    let a = scene.take().await.unwrap();
    scene.say(&a, release()).await;
    let again = scene.take().await.unwrap();
    assert_eq!((again.job.id.as_str(), again.job.attempt), ("a", 1));
}

async fn an_interrupted_release_is_counted(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.say(&a, Verdict::Release { after: Duration::ZERO, counts: Some(Count::Interrupted) }).await;
    let again = scene.take().await.unwrap();
    assert_eq!((again.job.attempt, again.job.interrupted), (1, 1));
}

async fn a_crash_is_counted(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    let crash = Settlement { crashed: true, ..settlement(&a.lease, retry_after(Duration::ZERO)) };
    scene.settle(vec![crash]).await.unwrap();
    let again = scene.take().await.unwrap();
    assert_eq!((again.job.attempt, again.job.crashes), (2, 1));
}

async fn a_held_job_keeps_its_reason_until_it_is_retried(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.say(&a, Verdict::Hold { failure: failure() }).await;
    let held = scene.record(&"a".into()).await;
    assert_eq!((held.state, held.failure), (JobState::Held, Some(failure())));
    assert!(scene.take().await.is_none());
    scene.retry("a".into()).await.unwrap();
    let freed = scene.record(&"a".into()).await;
    assert_eq!((freed.state, freed.failure, freed.attempt), (JobState::Waiting, None, 0));
    assert_eq!(scene.take().await.unwrap().job.attempt, 1);
}

async fn a_failed_job_keeps_its_failure(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.say(&a, Verdict::Fail { failure: failure() }).await;
    let failed = scene.record(&"a".into()).await;
    assert_eq!((failed.state, failed.failure), (JobState::Failed, Some(failure())));
    assert!(failed.ended_at.is_some() && failed.instance.is_none());
}

async fn a_result_is_kept(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.say(&a, Verdict::Complete { result: Some("[1]".into()) }).await;
    assert_eq!(scene.record(&"a".into()).await.result.as_deref(), Some("[1]"));
}

async fn forensics_are_stamped(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    let left = Forensics { stderr_tail: "oh".into(), ..Forensics::default() };
    let settled = Settlement { forensics: Some(left.clone()), ..settlement(&a.lease, complete()) };
    scene.settle(vec![settled]).await.unwrap();
    let record = scene.record(&"a".into()).await;
    assert_eq!(record.forensics, Some(Forensics { at: record.ended_at, ..left }));
}

async fn a_waiting_job_is_canceled_at_once(scene: Scene) {
    scene.enqueue(vec![job("a"), NewJob { delay: LEASE, ..job("b") }]).await.unwrap();
    assert_eq!(scene.cancel("a".into()).await, Ok(JobState::Canceled));
    assert_eq!(scene.cancel("b".into()).await, Ok(JobState::Canceled));
    assert_eq!(scene.cancel("b".into()).await, Ok(JobState::Canceled));
    scene.clock.forward(LEASE);
    assert!(scene.take().await.is_none());
}

async fn a_running_job_is_canceled_when_it_settles(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    assert_eq!(scene.next_notice().await, Notice::Wake);
    assert_eq!(scene.cancel("a".into()).await, Ok(JobState::Canceling));
    assert_eq!(scene.next_notice().await, Notice::Revoked("a".into(), a.lease.fence, Revocation::Canceled));
    assert_eq!(scene.say(&a, retry_after(Duration::from_secs(1))).await, Settling::Settled);
    assert_eq!(scene.state(&"a".into()).await, JobState::Canceled);
}

async fn a_job_done_before_its_kill_is_complete(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.cancel("a".into()).await.unwrap();
    scene.say(&a, complete()).await;
    assert_eq!(scene.state(&"a".into()).await, JobState::Complete);
}

async fn only_what_is_not_over_can_be_canceled(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.say(&a, complete()).await;
    let wrong = Error::WrongState { id: "a".into(), state: JobState::Complete, verb: "canceled" };
    assert_eq!(scene.cancel("a".into()).await, Err(wrong));
    assert_eq!(scene.cancel("x".into()).await, Err(Error::NoJob("x".into())));
}

async fn only_what_is_over_can_be_retried(scene: Scene) {
    scene.put(job("a")).await;
    let wrong = Error::WrongState { id: "a".into(), state: JobState::Waiting, verb: "retried" };
    assert_eq!(scene.retry("a".into()).await, Err(wrong));
    assert_eq!(scene.retry("x".into()).await, Err(Error::NoJob("x".into())));
}

async fn a_late_settlement_is_not_ours(scene: Scene) {
    scene.put(job("a")).await;
    let first = scene.take().await.unwrap();
    assert_eq!(scene.say(&first, release()).await, Settling::Settled);
    assert_eq!(scene.say(&first, complete()).await, Settling::NotOurs);
    let second = scene.take().await.unwrap();
    assert_eq!(scene.say(&first, complete()).await, Settling::NotOurs);
    assert_eq!(scene.say(&second, complete()).await, Settling::Settled);
    assert_eq!(scene.say(&second, complete()).await, Settling::NotOurs);
}

async fn a_lease_is_renewed(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.clock.forward(LEASE / 2);
    let renewed = scene.renew(vec![a.lease.clone()], LEASE).await.unwrap();
    let expires_at = a.lease.expires_at + LEASE / 2;
    assert_eq!(renewed, [Renewal::Renewed(Lease { expires_at, ..a.lease.clone() })]);
    scene.clock.forward(LEASE / 2);
    assert!(scene.take().await.is_none());
    assert_eq!(scene.say(&a, complete()).await, Settling::Settled);
}

async fn a_lease_that_ran_out_is_lost(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    assert_eq!(scene.next_notice().await, Notice::Wake);
    scene.clock.forward(LEASE);
    let again = scene.take().await.unwrap();
    assert_eq!((again.job.attempt, again.job.interrupted), (1, 1));
    assert_eq!(scene.next_notice().await, Notice::Revoked("a".into(), a.lease.fence, Revocation::LockLost));
    assert_eq!(
        scene.renew(vec![a.lease.clone()], LEASE).await.unwrap(),
        [Renewal::Lost(Revocation::LockLost)]
    );
    assert_eq!(scene.say(&a, complete()).await, Settling::NotOurs);
    assert_eq!(scene.say(&again, complete()).await, Settling::Settled);
}

async fn a_canceled_job_is_not_renewed(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.cancel("a".into()).await.unwrap();
    assert_eq!(scene.renew(vec![a.lease], LEASE).await.unwrap(), [Renewal::Lost(Revocation::Canceled)]);
}

async fn fences_ascend(mut scene: Scene) {
    scene.put(job("a")).await;
    let mut last = Fence(0);
    for _ in 0..3 {
        let a = scene.take().await.unwrap();
        assert!(a.lease.fence > last);
        last = a.lease.fence;
        scene.say(&a, release()).await;
        scene.reopen();
    }
}

async fn a_paused_queue_gives_nothing(mut scene: Scene) {
    scene.put(job("a")).await;
    scene.pause("q".into(), "uid 0".into(), Some("lunch".into())).await.unwrap();
    scene.reopen();
    assert!(scene.take().await.is_none());
    let paused = scene.counts().await.unwrap()[&"q".into()].paused.clone().unwrap();
    assert_eq!((paused.by.as_str(), paused.reason.as_deref()), ("uid 0", Some("lunch")));
    scene.resume("q".into()).await.unwrap();
    assert!(scene.take().await.is_some());
}

async fn a_queue_that_is_not_there_cannot_be_resumed(scene: Scene) {
    assert_eq!(scene.resume("x".into()).await, Err(Error::NoQueue("x".into())));
}

async fn recover_releases_what_an_instance_held(mut scene: Scene) {
    scene.enqueue(vec![job("a"), job("b")]).await.unwrap();
    scene.take().await.unwrap();
    scene.take().await.unwrap();
    scene.cancel("b".into()).await.unwrap();
    scene.reopen();
    assert_eq!(scene.recover("other".into(), vec![]).await, Ok(0));
    assert_eq!(scene.recover("me".into(), vec![]).await, Ok(2));
    assert_eq!(scene.state(&"b".into()).await, JobState::Canceled);
    let again = scene.take().await.unwrap();
    assert_eq!((again.job.id.as_str(), again.job.attempt, again.job.interrupted), ("a", 1, 1));
}

async fn recover_keeps_what_it_is_told_to_keep(scene: Scene) {
    scene.enqueue(vec![job("a"), job("b")]).await.unwrap();
    let a = scene.take().await.unwrap();
    scene.take().await.unwrap();
    assert_eq!(scene.recover("me".into(), vec![("a".into(), a.lease.fence)]).await, Ok(1));
    assert_eq!(scene.state(&"a".into()).await, JobState::Running);
    assert_eq!(scene.say(&a, complete()).await, Settling::Settled);
}

async fn five_interruptions_hold_a_job(scene: Scene) {
    scene.put(job("a")).await;
    for _ in 0..4 {
        scene.take().await.unwrap();
        assert_eq!(scene.recover("me".into(), vec![]).await, Ok(1));
    }
    scene.take().await.unwrap();
    scene.recover("me".into(), vec![]).await.unwrap();
    let held = scene.record(&"a".into()).await;
    assert_eq!((held.state, held.interrupted), (JobState::Held, 5));
    assert_eq!(held.failure.unwrap().group, "interrupted");
}

async fn lists_go_on_after_a_job(scene: Scene) {
    scene.enqueue((0..10).map(|n| job(&n.to_string())).collect()).await.unwrap();
    let mut filter = Filter { limit: 4, ..Filter::default() };
    let mut seen = String::new();
    loop {
        let page = scene.list(filter.clone()).await.unwrap();
        let Some(last) = page.last() else { break };
        filter.after = Some(last.id.clone());
        page.iter().for_each(|job| seen.push_str(job.id.as_str()));
        assert!(page.iter().all(|job| job.payload.is_none()));
    }
    assert_eq!(seen, "9876543210");
}

async fn lists_are_filtered(scene: Scene) {
    let jobs =
        vec![job("a"), NewJob { class: "x".into(), ..job("b") }, NewJob { queue: "r".into(), ..job("c") }];
    scene.enqueue(jobs).await.unwrap();
    scene.cancel("a".into()).await.unwrap();
    let base = Filter { limit: 9, ..Filter::default() };
    let cases = [
        (Filter { states: vec![JobState::Canceled], ..base.clone() }, "a"),
        (Filter { states: vec![JobState::Waiting, JobState::Canceled], ..base.clone() }, "cba"),
        (Filter { class: Some("x".into()), ..base.clone() }, "b"),
        (Filter { queue: Some("r".into()), ..base.clone() }, "c"),
        (Filter { queue: Some("r".into()), class: Some("x".into()), ..base }, ""),
    ];
    for (filter, want) in cases {
        let got: String = scene.list(filter).await.unwrap().iter().map(|job| job.id.to_string()).collect();
        assert_eq!(got, want);
    }
}

async fn counts_follow_the_jobs(scene: Scene) {
    scene.enqueue(vec![job("a"), job("b"), NewJob { delay: LEASE, ..job("c") }]).await.unwrap();
    let put_at = scene.record(&"b".into()).await.put_at;
    let a = scene.take().await.unwrap();
    scene.say(&a, complete()).await;
    let counts = scene.counts().await.unwrap();
    let jobs = [(JobState::Waiting, 1), (JobState::Delayed, 1), (JobState::Complete, 1)];
    let want = QueueCounts { jobs: jobs.into(), oldest_waiting: Some(put_at), paused: None };
    assert_eq!(counts, BTreeMap::from([("q".into(), want)]));
}

async fn a_batch_is_put_whole_or_not_at_all(scene: Scene) {
    scene.put(job("a")).await;
    let taken = Err(Error::Exists("a".into()));
    assert_eq!(scene.enqueue(vec![job("b"), job("a")]).await, taken);
    assert_eq!(scene.enqueue(vec![job("c"), job("c")]).await, Err(Error::Exists("c".into())));
    assert_eq!(scene.list(Filter { limit: 9, ..Filter::default() }).await.unwrap().len(), 1);
    let made = scene.enqueue(vec![NewJob { id: None, ..job("") }]).await.unwrap();
    assert_eq!(made[0].as_str().len(), 32);
}

async fn a_large_payload_comes_back(mut scene: Scene) {
    let payload = Payload::Data(Bytes((0..10 << 20).map(|n| (n % 251) as u8).collect()));
    scene.put(NewJob { payload: payload.clone(), ..job("a") }).await;
    scene.reopen();
    assert!(scene.take().await.unwrap().job.payload == payload);
}

async fn arguments_need_not_be_text(scene: Scene) {
    let exec = Exec {
        argv: vec!["cat".into(), Bytes(b"\xff\n".to_vec())],
        cwd: Bytes(b"/\xfe".to_vec()),
        umask: 0o22,
        stdin: Bytes(vec![0, 255]),
    };
    let payload = Payload::Exec(exec);
    scene.put(NewJob { payload: payload.clone(), ..job("a") }).await;
    assert_eq!(scene.record(&"a".into()).await.payload, Some(payload.clone()));
    assert_eq!(scene.take().await.unwrap().job.payload, payload);
}

async fn everything_put_comes_back(scene: Scene) {
    let put = NewJob {
        priority: -3,
        tags: vec!["x".into(), "y z".into()],
        retry: Some(Retry { retries: 2, delay: Duration::from_nanos(1), cap: Duration::from_secs(9) }),
        time_limit: Some(Duration::from_millis(1500)),
        ..job("a")
    };
    scene.put(put.clone()).await;
    let got = scene.take().await.unwrap().job;
    assert_eq!((&got.queue, &got.class, &got.payload), (&put.queue, &put.class, &put.payload));
    assert_eq!(
        (got.priority, &got.tags, got.retry, got.time_limit),
        (-3, &put.tags, put.retry, put.time_limit)
    );
}

async fn the_end_is_told_to_those_who_wait(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    let settle = async {
        tokio::task::yield_now().await;
        scene.say(&a, complete()).await
    };
    let (state, _) = tokio::join!(scene.ended("a".into()), settle);
    assert_eq!(state, Ok(JobState::Complete));
    assert_eq!(scene.ended("a".into()).await, Ok(JobState::Complete));
    assert_eq!(scene.ended("x".into()).await, Err(Error::NoJob("x".into())));
}

async fn a_put_wakes(scene: Scene) {
    scene.enqueue(vec![job("a"), job("b")]).await.unwrap();
    scene.put(job("c")).await;
    assert_eq!(scene.next_notice().await, Notice::Wake);
}

async fn a_mistake_leaves_what_comes_with_it_alone(scene: Scene) {
    scene.put(job("a")).await;
    let (before, mistake, after) = tokio::join!(
        scene.enqueue(vec![job("b")]),
        scene.enqueue(vec![job("c"), job("a")]),
        scene.enqueue(vec![job("d")]),
    );
    assert_eq!(mistake, Err(Error::Exists("a".into())));
    assert!(before.is_ok() && after.is_ok());
    assert_eq!(ids(&scene.fetch(request(&["q"], 9)).await.unwrap()), ["a", "b", "d"]);
}

/// A job as the model sees it.
#[derive(Clone, Debug)]
struct Seen {
    id: JobId,
    priority: i32,
    state: JobState,
    attempt: u32,
    due: u64,
    lease: Option<Lease>,
}

async fn random_operations_agree_with_a_model(scene: Scene) {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed);
    let mut random = Random(seed);
    let mut model: Vec<Seen> = Vec::new();
    let mut time = 0;
    for step in 0..600 {
        let busy: Vec<usize> = (0..model.len()).filter(|n| model[*n].lease.is_some()).collect();
        match random.below(6) {
            0 | 1 => {
                let (priority, delay) = (random.below(3) as i32, random.below(3) * 5);
                let id = step.to_string();
                let put = NewJob { priority, delay: Duration::from_secs(delay), ..job(&id) };
                scene.put(put).await;
                let state = if delay > 0 { JobState::Delayed } else { JobState::Waiting };
                model.push(Seen {
                    id: id.as_str().into(),
                    priority,
                    state,
                    attempt: 0,
                    due: time + delay,
                    lease: None,
                });
            }
            2 => {
                scene.clock.forward(Duration::from_secs(1));
                time += 1;
            }
            3 => {
                let due = |job: &Seen| job.state == JobState::Delayed && job.due <= time;
                model.iter_mut().filter(|job| due(job)).for_each(|job| job.state = JobState::Waiting);
                let next = (0..model.len())
                    .filter(|n| model[*n].state == JobState::Waiting)
                    .max_by_key(|n| (model[*n].priority, std::cmp::Reverse(*n)));
                let got =
                    scene.fetch(taskvisor::broker::Fetch { lease: LEASE * 100, ..request(&["q"], 1) }).await;
                let got = got.unwrap().pop();
                assert_eq!(got.as_ref().map(|got| &got.job.id), next.map(|n| &model[n].id), "seed {seed}");
                if let (Some(got), Some(n)) = (got, next) {
                    model[n].attempt += 1;
                    assert_eq!(got.job.attempt, model[n].attempt, "seed {seed}");
                    (model[n].state, model[n].lease) = (JobState::Running, Some(got.lease));
                }
            }
            4 if !busy.is_empty() => {
                let job = &mut model[busy[random.below(busy.len() as u64) as usize]];
                let lease = job.lease.take().unwrap();
                let (verdict, mut state) = match random.below(4) {
                    0 => (complete(), JobState::Complete),
                    1 => (retry_after(Duration::from_secs(3)), JobState::Delayed),
                    2 => (release(), JobState::Waiting),
                    _ => (Verdict::Fail { failure: failure() }, JobState::Failed),
                };
                if state == JobState::Waiting {
                    job.attempt -= 1;
                }
                if job.state == JobState::Canceling && state != JobState::Complete {
                    state = JobState::Canceled;
                }
                (job.state, job.due) = (state, time + 3);
                assert_eq!(
                    scene.settle(vec![settlement(&lease, verdict)]).await.unwrap(),
                    [Settling::Settled]
                );
            }
            _ if !model.is_empty() => {
                let n = random.below(model.len() as u64) as usize;
                let job = &mut model[n];
                let state = match job.state {
                    JobState::Waiting | JobState::Delayed | JobState::Held | JobState::Canceled => {
                        JobState::Canceled
                    }
                    JobState::Running | JobState::Canceling => JobState::Canceling,
                    JobState::Complete | JobState::Failed => job.state,
                };
                // What time has moved on in the store alone is the same to a cancel.
                assert_eq!(scene.cancel(job.id.clone()).await.unwrap_or(job.state), state, "seed {seed}");
                job.state = state;
            }
            _ => {}
        }
    }
    for job in &model {
        let record = scene.record(&job.id).await;
        let late = job.state == JobState::Delayed && record.state == JobState::Waiting && job.due <= time;
        assert!(record.state == job.state || late, "seed {seed}: {job:?} is {}", record.state);
        assert_eq!(record.attempt, job.attempt, "seed {seed}: {job:?}");
    }
    let total: u64 = scene.counts().await.unwrap()[&"q".into()].jobs.values().sum();
    assert_eq!(total, model.len() as u64, "seed {seed}");
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
