//! Dependencies: put, released, edited, canceled together.

mod beside_a_model;

use std::time::Duration;

use crate::support::*;
use broker::Error;
use model::verb::{Cancel, DependOff, DependOn, Each, Fate, Refusal};
use model::*;

contract!(
    needs [Depend];
    job_runs_when_all_its_dependencies_are_complete,
    complete_dependency_is_not_waited_for,
    delay_of_a_dependent_counts_from_its_put,
    batch_may_name_its_own_jobs_as_dependencies_in_any_order,
    cycles_in_a_batch_are_refused_with_their_jobs,
    a_job_that_depends_on_an_unknown_job_is_refused,
    dependents_of_a_failed_job_wait_until_its_retry_completes,
    retry_of_a_complete_job_does_not_block_released_dependents,
    dependencies_of_a_waiting_job_can_be_added_and_removed,
    cycles_by_edits_are_refused_with_their_jobs,
    dependencies_can_be_added_only_before_the_job_runs,
    cancel_of_a_needed_job_is_refused_without_its_dependents,
    refused_cancel_also_refuses_the_dependencies_of_that_job,
    cancel_with_dependents_cancels_the_whole_tree,
    cancel_works_with_thousands_of_dependents,
    cancel_with_too_many_dependents_cancels_none,
    canceled_job_keeps_its_dependencies_for_a_retry,
    release_of_a_dependent_wakes_the_supervisor,
    completion_releases_all_of_2500_dependents,
    chain_of_ten_thousand_dependencies_is_no_cycle,
);

fn needing(id: &str, needs: &[&str]) -> NewJob {
    NewJob { depends: needs.iter().map(|id| JobId::from(*id)).collect(), ..job(id) }
}

fn names(ids: &[&str]) -> Vec<JobId> {
    ids.iter().map(|id| JobId::from(*id)).collect()
}

async fn done(scene: &Scene, id: &str) {
    let fetched = scene.take().await.unwrap();
    assert_eq!(fetched.job.id.as_str(), id);
    scene.say(&fetched, complete()).await;
}

async fn on(scene: &Scene, id: &str, jobs: &[&str]) -> Result<JobState, Error> {
    let verb = DependOn { job: id.into(), jobs: names(jobs) };
    scene.tell(verb, "uid 7").await.map(|answer| answer.state)
}

async fn off(scene: &Scene, id: &str, jobs: Option<&[&str]>) -> Result<JobState, Error> {
    let verb = DependOff { job: id.into(), jobs: jobs.map(names) };
    scene.tell(verb, "uid 7").await.map(|answer| answer.state)
}

async fn cancel(scene: &Scene, jobs: &[&str], dependents: bool) -> Vec<(String, Fate)> {
    let each = scene.tell(Cancel { jobs: names(jobs), dependents, reason: None }, "uid 7").await.unwrap();
    each.into_iter().map(|Each { job, fate, .. }| (job.to_string(), fate)).collect()
}

fn now(id: &str, state: JobState) -> (String, Fate) {
    (id.into(), Fate::State(state))
}

fn needed(id: &str, by: &[&str]) -> (String, Fate) {
    (id.into(), Fate::Refused(Refusal::NeededBy { jobs: names(by) }))
}

async fn needs(scene: &Scene, id: &str) -> Vec<(String, JobState)> {
    let record = scene.record(&id.into()).await;
    record.needs.into_iter().map(|need| (need.job.to_string(), need.state)).collect()
}

async fn job_runs_when_all_its_dependencies_are_complete(mut scene: Scene) {
    scene.put_all(vec![job("a"), job("b")]).await.unwrap();
    scene.put(needing("c", &["a", "b", "a"])).await;
    assert_eq!(scene.state(&"c".into()).await, JobState::Depends);
    let waiting = |id: &str| (id.to_owned(), JobState::Waiting);
    assert_eq!(needs(&scene, "c").await, [waiting("a"), waiting("b")]);
    assert_eq!(scene.record(&"a".into()).await.needed_by, names(&["c"]));
    done(&scene, "a").await;
    assert_eq!(needs(&scene, "c").await, [waiting("b")]);
    scene.reopen();
    done(&scene, "b").await;
    assert_eq!(scene.state(&"c".into()).await, JobState::Waiting);
    done(&scene, "c").await;
    let counts = scene.counts().await.unwrap();
    assert_eq!(counts[&"q".into()].jobs, [(JobState::Complete, 3)].into());
}

async fn complete_dependency_is_not_waited_for(scene: Scene) {
    scene.put(job("a")).await;
    done(&scene, "a").await;
    scene.put(needing("b", &["a"])).await;
    scene.put(NewJob { delay: LEASE, ..needing("c", &["a"]) }).await;
    assert_eq!(scene.state(&"c".into()).await, JobState::Delayed);
    assert!(needs(&scene, "b").await.is_empty());
    done(&scene, "b").await;
}

async fn delay_of_a_dependent_counts_from_its_put(scene: Scene) {
    scene.put(job("a")).await;
    scene.put(NewJob { delay: Duration::from_secs(10), ..needing("b", &["a"]) }).await;
    scene.put(NewJob { delay: Duration::from_secs(2), ..needing("c", &["a"]) }).await;
    let due = scene.record(&"b".into()).await.due_at;
    assert!(due.is_some());
    scene.clock.forward(Duration::from_secs(4));
    done(&scene, "a").await;
    assert_eq!(scene.state(&"b".into()).await, JobState::Delayed);
    assert_eq!(scene.record(&"b".into()).await.due_at, due);
    done(&scene, "c").await;
    assert!(scene.take().await.is_none());
    scene.clock.forward(Duration::from_secs(6));
    done(&scene, "b").await;
}

async fn batch_may_name_its_own_jobs_as_dependencies_in_any_order(scene: Scene) {
    let batch =
        vec![needing("last", &["mid"]), needing("mid", &["first", "second"]), job("first"), job("second")];
    scene.put_all(batch).await.unwrap();
    for id in ["first", "second", "mid", "last"] {
        done(&scene, id).await;
    }
}

fn said<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().to_string()
}

async fn cycles_in_a_batch_are_refused_with_their_jobs(scene: Scene) {
    let batch = vec![needing("x", &["a"]), needing("a", &["b"]), needing("b", &["c"]), needing("c", &["a"])];
    assert_eq!(
        said(scene.put_all(batch).await),
        "jobs cannot wait for each other in a circle: 'a' needs 'b' needs 'c' needs 'a'"
    );
    assert_eq!(said(scene.put_all(vec![needing("a", &["a"])]).await), "job 'a' cannot depend on itself");
    assert!(scene.list(Filter::default()).await.unwrap().is_empty());
}

async fn a_job_that_depends_on_an_unknown_job_is_refused(scene: Scene) {
    let refused = scene.put_all(vec![job("a"), needing("b", &["a", "x"])]).await;
    assert_eq!(refused, Err(Error::NoneToNeed("x".into())), "as for any id that is not there");
    assert_eq!(scene.get("a".into()).await, Ok(None));
}

async fn dependents_of_a_failed_job_wait_until_its_retry_completes(scene: Scene) {
    scene.put(job("a")).await;
    scene.put(needing("b", &["a"])).await;
    let a = scene.take().await.unwrap();
    scene.say(&a, Verdict::Fail { failure: failure() }).await;
    assert_eq!(needs(&scene, "b").await, [("a".into(), JobState::Failed)]);
    scene.put(needing("c", &["a"])).await;
    assert!(scene.take().await.is_none());
    scene.retry("a".into()).await.unwrap();
    for id in ["a", "b", "c"] {
        done(&scene, id).await;
    }
}

async fn retry_of_a_complete_job_does_not_block_released_dependents(scene: Scene) {
    scene.put(job("a")).await;
    scene.put(needing("b", &["a"])).await;
    done(&scene, "a").await;
    scene.retry("a".into()).await.unwrap();
    assert_eq!(scene.state(&"b".into()).await, JobState::Waiting);
    assert!(scene.record(&"a".into()).await.needed_by.is_empty());
    scene.cancel("a".into()).await.unwrap();
    done(&scene, "b").await;
}

async fn dependencies_of_a_waiting_job_can_be_added_and_removed(scene: Scene) {
    scene.put_all(vec![job("a"), job("b"), job("c")]).await.unwrap();
    scene.put(NewJob { delay: Duration::from_secs(10), ..job("d") }).await;
    assert_eq!(on(&scene, "a", &["b", "c"]).await, Ok(JobState::Depends));
    assert_eq!(on(&scene, "d", &["c"]).await, Ok(JobState::Depends));
    assert_eq!(off(&scene, "a", Some(&["b"])).await, Ok(JobState::Depends));
    assert_eq!(off(&scene, "d", None).await, Ok(JobState::Delayed));
    assert_eq!(
        off(&scene, "d", None).await,
        Err(Error::WrongState {
            id: "d".into(),
            state: JobState::Delayed,
            verb: "let off: it depends on nothing",
        })
    );
    assert_eq!(off(&scene, "a", Some(&["x"])).await, Err(Error::NoJob("x".into())));
    let Happened::Edited { by, what } = &scene.record(&"a".into()).await.history[1].what else { panic!() };
    assert_eq!((by.as_str(), what.as_str()), ("uid 7", "it does not depend on b any more"));
    // The job keeps its place in the queue.
    assert_eq!(off(&scene, "a", Some(&["c", "b"])).await, Ok(JobState::Waiting));
    for id in ["a", "b", "c"] {
        done(&scene, id).await;
    }
    assert_eq!(on(&scene, "d", &["a"]).await, Ok(JobState::Delayed), "what is complete is not waited for");
    scene.clock.forward(Duration::from_secs(10));
    done(&scene, "d").await;
}

async fn cycles_by_edits_are_refused_with_their_jobs(scene: Scene) {
    scene.put_all(vec![job("a"), needing("b", &["a"]), needing("c", &["b"]), job("d")]).await.unwrap();
    assert_eq!(
        said(on(&scene, "a", &["d", "c"]).await),
        "jobs cannot wait for each other in a circle: 'a' needs 'c' needs 'b' needs 'a'"
    );
    assert_eq!(said(on(&scene, "a", &["a"]).await), "job 'a' cannot depend on itself");
    assert!(said(on(&scene, "a", &["x"]).await).ends_with("no job has that id"));
    assert_eq!(scene.state(&"a".into()).await, JobState::Waiting);
    assert!(scene.record(&"a".into()).await.history.is_empty());
}

async fn dependencies_can_be_added_only_before_the_job_runs(scene: Scene) {
    scene.put_all(vec![job("a"), job("b")]).await.unwrap();
    let a = scene.take().await.unwrap();
    let wrong = |state| Err(Error::WrongState { id: "a".into(), state, verb: "made to depend on others" });
    assert_eq!(on(&scene, "a", &["b"]).await, wrong(JobState::Running));
    scene.say(&a, complete()).await;
    assert_eq!(on(&scene, "a", &["b"]).await, wrong(JobState::Complete));
    assert_eq!(on(&scene, "x", &["b"]).await, Err(Error::NoJob("x".into())));
}

async fn cancel_of_a_needed_job_is_refused_without_its_dependents(scene: Scene) {
    scene.put_all(vec![job("a"), needing("b", &["a"]), job("c")]).await.unwrap();
    let refused = Error::Needed { id: "a".into(), by: names(&["b"]), verb: "canceled" };
    assert_eq!(scene.cancel("a".into()).await, Err(refused.clone()));
    assert_eq!(refused.to_string(), "job 'a' cannot be canceled: 'b' needs it");
    let unknown = ("x".to_owned(), Fate::Refused(Refusal::NoJob));
    assert_eq!(
        cancel(&scene, &["a", "x", "c", "c"], false).await,
        [needed("a", &["b"]), unknown, now("c", JobState::Canceled)]
    );
    assert_eq!(scene.state(&"a".into()).await, JobState::Waiting);
    let both = [now("b", JobState::Canceled), now("a", JobState::Canceled)];
    assert_eq!(cancel(&scene, &["b", "a"], false).await, both);
}

async fn refused_cancel_also_refuses_the_dependencies_of_that_job(scene: Scene) {
    scene.put_all(vec![job("a"), needing("b", &["a"]), needing("c", &["b"])]).await.unwrap();
    assert_eq!(cancel(&scene, &["a", "b"], false).await, [needed("a", &["b"]), needed("b", &["c"])]);
    for id in ["a", "b", "c"] {
        done(&scene, id).await;
    }
    let state = Fate::Refused(Refusal::State { state: JobState::Complete });
    assert_eq!(cancel(&scene, &["a"], true).await, [("a".to_owned(), state)]);
}

async fn cancel_with_dependents_cancels_the_whole_tree(scene: Scene) {
    let batch =
        vec![job("a"), needing("b", &["a"]), needing("c", &["a"]), needing("d", &["b", "c"]), job("e")];
    scene.put_all(batch).await.unwrap();
    let a = scene.take().await.unwrap();
    let ended = |id| now(id, JobState::Canceled);
    assert_eq!(
        cancel(&scene, &["a"], true).await,
        [now("a", JobState::Canceling), ended("b"), ended("d"), ended("c")]
    );
    // The job completes before its kill; its dependents stay canceled.
    scene.say(&a, complete()).await;
    assert_eq!(scene.state(&"b".into()).await, JobState::Canceled);
    done(&scene, "e").await;
    assert!(scene.take().await.is_none());
}

async fn cancel_works_with_thousands_of_dependents(scene: Scene) {
    let many: Vec<String> = (0..1500).map(|n| n.to_string()).collect();
    let row = |n: usize| {
        needing(&format!("row {n}"), &[&if n == 0 { "a".into() } else { format!("row {}", n - 1) }])
    };
    scene.put(job("a")).await;
    scene
        .put_all(many.iter().map(|id| needing(id, &["a"])).chain((0..1500).map(row)).collect())
        .await
        .unwrap();
    assert_eq!(scene.record(&"a".into()).await.needed_by.len(), 1000, "the first of them are shown");
    let all_but_the_last: Vec<String> = (0..1499).map(|n| format!("row {n}")).collect();
    let named: Vec<&str> = all_but_the_last.iter().map(String::as_str).collect();
    let each = cancel(&scene, &named, false).await;
    let next = |n: usize| needed(&format!("row {n}"), &[&format!("row {}", n + 1)]);
    assert!(each.into_iter().eq((0..1499).map(next)));
    let refused = scene.cancel("a".into()).await;
    assert!(matches!(refused, Err(Error::Needed { by, .. }) if by.len() == 1501));
    let each = cancel(&scene, &["a"], true).await;
    assert!(each.len() == 3001 && each.iter().all(|(_, fate)| *fate == Fate::State(JobState::Canceled)));
    assert_eq!(scene.counts().await.unwrap()[&"q".into()].jobs, [(JobState::Canceled, 3001)].into());
}

async fn cancel_with_too_many_dependents_cancels_none(scene: Scene) {
    scene.put(job("a")).await;
    let many = 10_000;
    scene.put_all((0..many).map(|n| needing(&n.to_string(), &["a"])).collect()).await.unwrap();
    let all = || scene.tell(Cancel { jobs: names(&["a"]), dependents: true, reason: None }, "uid 7");
    let said = all().await.unwrap_err().to_string();
    assert_eq!(
        said,
        "more than 10000 jobs cannot be canceled at a time, and '9999' would be one more: first cancel, in parts, those that wait for the others"
    );
    let counts = async || scene.counts().await.unwrap()[&"q".into()].jobs.clone();
    assert_eq!(counts().await, [(JobState::Waiting, 1), (JobState::Depends, many)].into());
    scene.cancel("7".into()).await.unwrap();
    assert_eq!(all().await.unwrap().len() as u64, many);
    assert_eq!(counts().await, [(JobState::Canceled, many + 1)].into());
}

async fn canceled_job_keeps_its_dependencies_for_a_retry(mut scene: Scene) {
    scene.put_all(vec![job("a"), needing("b", &["a"])]).await.unwrap();
    scene.cancel("b".into()).await.unwrap();
    assert!(scene.record(&"a".into()).await.needed_by.is_empty(), "it does not wait any more");
    scene.retry("b".into()).await.unwrap();
    assert_eq!(scene.state(&"b".into()).await, JobState::Depends);
    scene.cancel("b".into()).await.unwrap();
    scene.reopen();
    done(&scene, "a").await;
    scene.retry("b".into()).await.unwrap();
    done(&scene, "b").await;
}

async fn release_of_a_dependent_wakes_the_supervisor(scene: Scene) {
    scene.put_all(vec![job("a"), needing("b", &["a"])]).await.unwrap();
    assert!(scene.is_woken_for("q").await);
    let a = scene.take().await.unwrap();
    scene.say(&a, complete()).await;
    assert!(scene.is_woken_for("q").await);
}

async fn completion_releases_all_of_2500_dependents(scene: Scene) {
    scene.put(job("a")).await;
    let crowd = 2500;
    scene.put_all((0..crowd).map(|n| needing(&n.to_string(), &["a"])).collect()).await.unwrap();
    done(&scene, "a").await;
    let mut free = 0;
    while free < crowd {
        let fetched = scene.fetch(request(&["q"], 500)).await.unwrap();
        free += fetched.len();
        if fetched.is_empty() {
            while !scene.is_woken_for("q").await {}
        }
    }
}

async fn chain_of_ten_thousand_dependencies_is_no_cycle(scene: Scene) {
    const MANY: usize = 10_000;
    let one = |n: usize| match n {
        0 => job("0"),
        _ => needing(&n.to_string(), &[&(n - 1).to_string()]),
    };
    scene.put_all((0..MANY).map(one).collect()).await.unwrap();
    let last = (MANY - 1).to_string();
    assert!(
        said(on(&scene, "0", &[&last]).await).starts_with("jobs cannot wait for each other in a circle: '0'")
    );
    done(&scene, "0").await;
    done(&scene, "1").await;
}
