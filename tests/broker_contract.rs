//! What every broker does, case by case, over each of them.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, clippy::too_many_lines)]

#[macro_use]
#[path = "support/store.rs"]
mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use support::*;
use taskvisor::broker::{Broker, Error, Fetch, Notice, Renewal, Settling, Verbs};
use taskvisor::model::verb::Before;
use taskvisor::model::*;

contract!(
    jobs_run_in_insertion_order,
    a_batch_goes_to_as_many_workers,
    queues_are_tried_in_order,
    one_queue_is_emptied_before_the_next,
    each_queue_has_its_turn,
    a_turn_is_left_out_by_what_is_paused_or_empty,
    a_turn_takes_the_highest_priority,
    classes_are_taken_as_the_filter_says,
    a_filter_leaves_the_others_in_their_places,
    a_filter_that_found_nothing_finds_what_comes_later,
    a_class_that_nobody_knows_is_counted_until_a_retry,
    progress_is_kept_the_latest_of_it,
    progress_of_others_is_ignored,
    an_attempt_begins_without_progress,
    a_large_result_comes_back,
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
    a_job_that_completes_at_once_has_no_history,
    an_attempt_that_does_not_complete_is_in_the_history,
    what_goes_back_unspent_is_in_the_history_if_it_counts,
    what_people_do_is_in_the_history,
    an_attempt_that_nobody_settled_is_in_the_history,
    the_history_keeps_the_latest_hundred,
    renewals_are_counted_for_each_lease,
    what_comes_before_a_job_is_counted,
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

/// Queues C, B and A with 3, 2 and 5 jobs.
async fn three_queues(scene: &Scene) {
    for (queue, jobs) in [("A", 5), ("B", 2), ("C", 3)] {
        let job = |n| NewJob { queue: queue.into(), ..job(&format!("{queue}{n}")) };
        scene.enqueue((0..jobs).map(job).collect()).await.unwrap();
    }
}

/// The queues that fetches of these sizes take from. With `Take::InTurn` each begins behind the queue that had the last turn.
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

const SIZES: [&[u16]; 4] = [&[10], &[1; 10], &[8, 2], &[3, 3, 3, 3]];

async fn one_queue_is_emptied_before_the_next(mut scene: Scene) {
    for sizes in SIZES {
        three_queues(&scene).await;
        assert_eq!(taken(&scene, Take::InOrder, sizes).await, "CCCBBAAAAA", "{sizes:?}");
        scene = scene.afresh();
    }
}

async fn each_queue_has_its_turn(mut scene: Scene) {
    for sizes in SIZES {
        three_queues(&scene).await;
        assert_eq!(taken(&scene, Take::InTurn, sizes).await, "CBACBACAAA", "{sizes:?}");
        scene = scene.afresh();
    }
}

async fn a_turn_is_left_out_by_what_is_paused_or_empty(scene: Scene) {
    three_queues(&scene).await;
    scene.pause("B".into(), "me".into(), None).await.unwrap();
    let queues = ["none", "C", "B", "A"];
    let fetched = scene.fetch(Fetch { take: Take::InTurn, ..request(&queues, 4) }).await.unwrap();
    assert_eq!(ids(&fetched), ["C0", "A0", "C1", "A1"]);
    scene.resume("B".into()).await.unwrap();
    let fetched = scene.fetch(Fetch { take: Take::InTurn, ..request(&queues, 9) }).await.unwrap();
    assert_eq!(ids(&fetched), ["C2", "B0", "A2", "B1", "A3", "A4"]);
}

async fn a_turn_takes_the_highest_priority(scene: Scene) {
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

async fn classes_are_taken_as_the_filter_says(mut scene: Scene) {
    let classes =
        ["mail.Send", "mail.Sändung", "mail", "Mail.Send", "ml.Train", "ml_x", "m%", "größe", "größen"];
    let names: [&[&str]; 7] =
        [&[], &["mail.Send"], &["mail.*", "ml.Train"], &["*"], &["m%*"], &["größe*", "x"], &["none"]];
    for (only, except) in names.iter().flat_map(|only| names.map(|except| (only, except))) {
        let filter = filter(only, except);
        scene
            .enqueue(classes.map(|class| NewJob { class: class.into(), ..job(class) }).into())
            .await
            .unwrap();
        let fetched = scene.fetch(Fetch { filter: filter.clone(), ..request(&["q"], 99) }).await.unwrap();
        let want: Vec<&str> = classes.into_iter().filter(|class| filter.matches(&(*class).into())).collect();
        assert_eq!(ids(&fetched), want, "{filter:?}");
        scene = scene.afresh();
    }
}

async fn a_filter_leaves_the_others_in_their_places(scene: Scene) {
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

async fn a_filter_that_found_nothing_finds_what_comes_later(scene: Scene) {
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
    scene.clock.forward(LEASE + GRACE);
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
        second.enqueue(vec![rare("b")]).await.unwrap();
        assert_eq!(take().await.unwrap().job.id.as_str(), "b");
    }
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

async fn a_class_that_nobody_knows_is_counted_until_a_retry(scene: Scene) {
    scene.put(job("a")).await;
    for unknown in 1..=2 {
        let a = scene.take().await.unwrap();
        assert_eq!((a.job.attempt, a.job.unknown), (1, unknown - 1));
        let counts = Some(Count::UnknownClass);
        scene.say(&a, Verdict::Release { after: Duration::from_secs(1), counts }).await;
        let record = scene.record(&"a".into()).await;
        assert_eq!((record.state, record.unknown, record.interrupted), (JobState::Delayed, unknown, 0));
        scene.clock.forward(Duration::from_secs(1));
    }
    let a = scene.take().await.unwrap();
    scene.say(&a, Verdict::Hold { failure: failure() }).await;
    assert_eq!(scene.record(&"a".into()).await.unknown, 2);
    scene.retry("a".into()).await.unwrap();
    assert_eq!(scene.take().await.unwrap().job.unknown, 0);
}

fn far(fraction: f64, message: &str) -> Progress {
    Progress { fraction: Some(fraction), message: Some(message.into()) }
}

async fn progress_is_kept_the_latest_of_it(mut scene: Scene) {
    scene.enqueue(vec![job("a"), job("b")]).await.unwrap();
    let (a, b) = (scene.take().await.unwrap(), scene.take().await.unwrap());
    let note = |fetched: &Fetched, progress| (fetched.job.id.clone(), fetched.lease.fence, progress);
    let notes = vec![note(&a, far(0.25, "one")), note(&b, far(0.1, "b")), note(&a, far(0.5, "two"))];
    scene.progress(notes).await.unwrap();
    scene.reopen();
    assert_eq!(scene.record(&"a".into()).await.progress, Some(far(0.5, "two")));
    scene.progress(vec![note(&a, far(0.4, "back"))]).await.unwrap();
    scene.say(&a, complete()).await;
    assert_eq!(scene.record(&"a".into()).await.progress, Some(far(0.4, "back")));
    assert_eq!(scene.record(&"b".into()).await.progress, Some(far(0.1, "b")));
}

async fn progress_of_others_is_ignored(scene: Scene) {
    scene.enqueue(vec![job("a"), job("b")]).await.unwrap();
    let a = scene.take().await.unwrap();
    let (old, late) = (Fence(a.lease.fence.0 - 1), Fence(a.lease.fence.0 + 1));
    let none = ["a", "a", "b", "x"].into_iter().zip([old, late, Fence(0), Fence(1)]);
    scene.progress(none.map(|(id, fence)| (id.into(), fence, far(0.9, "no"))).collect()).await.unwrap();
    assert_eq!(scene.record(&"a".into()).await.progress, None);
    scene.say(&a, complete()).await;
    scene.progress(vec![("a".into(), a.lease.fence, far(0.9, "too late"))]).await.unwrap();
    assert_eq!(scene.record(&"a".into()).await.progress, None);
    assert_eq!(scene.record(&"b".into()).await.progress, None);
}

async fn an_attempt_begins_without_progress(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.progress(vec![("a".into(), a.lease.fence, far(0.9, "nearly"))]).await.unwrap();
    scene.say(&a, retry_after(Duration::ZERO)).await;
    assert_eq!(scene.record(&"a".into()).await.progress, Some(far(0.9, "nearly")));
    let a = scene.take().await.unwrap();
    assert_eq!(scene.record(&"a".into()).await.progress, None);
    scene.progress(vec![("a".into(), a.lease.fence, far(0.1, "again"))]).await.unwrap();
    scene.say(&a, complete()).await;
    scene.retry("a".into()).await.unwrap();
    assert_eq!(scene.record(&"a".into()).await.progress, None);
}

async fn a_large_result_comes_back(mut scene: Scene) {
    for (id, length) in [("small", 1025), ("large", 10 << 20)] {
        scene.put(job(id)).await;
        let fetched = scene.take().await.unwrap();
        let result = format!("\"{}\"", "ä".repeat(length / 2));
        scene.say(&fetched, Verdict::Complete { result: Some(result.clone()), next: None }).await;
        scene.reopen();
        assert!(scene.record(&id.into()).await.result == Some(result));
    }
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
    scene.say(&a, Verdict::Complete { result: Some("[1]".into()), next: None }).await;
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

async fn what_comes_before_a_job_is_counted(scene: Scene) {
    let urgent = NewJob { priority: 1, ..job("c") };
    let delayed = NewJob { priority: 9, delay: LEASE, ..job("d") };
    let elsewhere = NewJob { queue: "other".into(), ..job("e") };
    scene.enqueue(vec![job("a"), job("b"), urgent, delayed, elsewhere]).await.unwrap();
    let before = async |id: &str| scene.tell(Before { job: id.into() }, "").await.map(|before| before.count);
    assert_eq!((before("a").await, before("b").await, before("c").await), (Ok(1), Ok(2), Ok(0)));
    assert_eq!(before("e").await, Ok(0));
    scene.take().await.unwrap();
    assert_eq!(before("b").await, Ok(1));
    scene.enqueue((0..1200).map(|n| NewJob { priority: 2, ..job(&n.to_string()) }).collect()).await.unwrap();
    assert_eq!(before("b").await, Ok(1000));
    assert_eq!(before("x").await, Err(Error::NoJob("x".into())));
}

/// The attempts in the history of the job `a`, and who did what to it meanwhile.
async fn history(scene: &Scene) -> (Vec<Attempt>, Vec<Happened>) {
    let (mut attempts, mut acts) = (Vec::new(), Vec::new());
    for entry in scene.record(&"a".into()).await.history {
        match entry.what {
            Happened::Attempt(attempt) => attempts.push(*attempt),
            act => acts.push(act),
        }
    }
    (attempts, acts)
}

async fn a_job_that_completes_at_once_has_no_history(scene: Scene) {
    scene.put(NewJob { by: Some("uid 5".into()), ..job("a") }).await;
    let a = scene.take().await.unwrap();
    assert_eq!(scene.record(&"a".into()).await.expires_at.map(|at| at.0 > 0), Some(true));
    scene.say(&a, complete()).await;
    let record = scene.record(&"a".into()).await;
    assert_eq!((record.history, record.expires_at, record.put_by), (vec![], None, Some("uid 5".into())));
}

async fn an_attempt_that_does_not_complete_is_in_the_history(scene: Scene) {
    scene.put(job("a")).await;
    let first = scene.take().await.unwrap();
    scene.clock.forward(Duration::from_secs(20));
    scene.renew(vec![first.lease.clone()], LEASE).await.unwrap();
    let left = Forensics { stderr_tail: "no\n".repeat(5000), ran: LEASE, ..Forensics::default() };
    let verdict = retry_after(Duration::from_secs(5));
    let crash =
        Settlement { crashed: true, forensics: Some(left.clone()), ..settlement(&first.lease, verdict) };
    scene.settle(vec![crash]).await.unwrap();
    scene.clock.forward(Duration::from_secs(5));
    let second = scene.take().await.unwrap();
    scene.say(&second, complete()).await;
    let (attempts, acts) = history(&scene).await;
    let [one] = &attempts[..] else { panic!("{attempts:?}") };
    assert_eq!((one.attempt, one.fence, one.state), (1, first.lease.fence, JobState::Delayed));
    assert_eq!((one.instance.clone(), one.worker), (Some("me".into()), Some(worker(1))));
    let begun = one.started_at.unwrap().0;
    assert_eq!((one.renewals, one.renewed_at), (1, Some(Millis(begun + 20_000))));
    assert_eq!(one.due_at, Some(Millis(begun + 25_000)));
    assert_eq!((one.crashed, one.counts, &one.failure), (true, None, &Some(failure())));
    let kept = one.forensics.as_ref().unwrap();
    assert!(kept.ran == LEASE && kept.at.is_some() && left.stderr_tail.ends_with(&kept.stderr_tail));
    assert!(kept.stderr_tail.starts_with("no\n") && kept.stderr_tail.len() < 3000);
    assert_eq!(acts, []);
}

async fn what_goes_back_unspent_is_in_the_history_if_it_counts(scene: Scene) {
    scene.put(job("a")).await;
    for counts in [None, Some(Count::Interrupted), None, Some(Count::UnknownClass)] {
        let a = scene.take().await.unwrap();
        scene.say(&a, Verdict::Release { after: Duration::ZERO, counts }).await;
    }
    let counted: Vec<_> = history(&scene).await.0.iter().map(|one| (one.counts, one.fence)).collect();
    assert_eq!(counted, [(Some(Count::Interrupted), Fence(2)), (Some(Count::UnknownClass), Fence(4))]);
}

async fn what_people_do_is_in_the_history(mut scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    let left = Forensics { stderr_tail: "fine".into(), ..Forensics::default() };
    let settled = Settlement { forensics: Some(left), ..settlement(&a.lease, complete()) };
    scene.settle(vec![settled]).await.unwrap();
    scene.retry("a".into()).await.unwrap();
    scene.cancel("a".into()).await.unwrap();
    scene.cancel("a".into()).await.unwrap();
    scene.reopen();
    let (attempts, acts) = history(&scene).await;
    assert_eq!((attempts.len(), attempts[0].state), (1, JobState::Complete));
    assert_eq!(attempts[0].forensics.as_ref().unwrap().stderr_tail, "fine");
    let by = "uid 7".to_owned();
    let retried = Happened::Retried { by: by.clone(), from: JobState::Complete };
    assert_eq!(acts, [retried, Happened::Canceled { by }]);
}

async fn an_attempt_that_nobody_settled_is_in_the_history(scene: Scene) {
    scene.put(job("a")).await;
    scene.take().await.unwrap();
    scene.clock.forward(LEASE + GRACE);
    scene.take().await.unwrap();
    scene.recover("me".into(), vec![]).await.unwrap();
    let attempts = history(&scene).await.0;
    let seen: Vec<_> = attempts.iter().map(|one| (one.counts, one.fence, one.state)).collect();
    let interrupted = Some(Count::Interrupted);
    assert_eq!(
        seen,
        [(interrupted, Fence(1), JobState::Waiting), (interrupted, Fence(2), JobState::Waiting)]
    );
}

async fn the_history_keeps_the_latest_hundred(scene: Scene) {
    scene.enqueue(vec![job("a"), job("b")]).await.unwrap();
    let both = scene.fetch(request(&["q"], 2)).await.unwrap();
    scene.say(&both[1], Verdict::Fail { failure: failure() }).await;
    scene.say(&both[0], retry_after(Duration::ZERO)).await;
    for _ in 0..119 {
        let a = scene.take().await.unwrap();
        scene.say(&a, retry_after(Duration::ZERO)).await;
    }
    let fences: Vec<u64> = history(&scene).await.0.iter().map(|one| one.fence.0).collect();
    assert_eq!(fences, (21..=120).collect::<Vec<_>>());
    assert_eq!(scene.record(&"b".into()).await.history.len(), 1);
}

async fn renewals_are_counted_for_each_lease(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    for _ in 0..2 {
        scene.renew(vec![a.lease.clone()], LEASE).await.unwrap();
    }
    let record = scene.record(&"a".into()).await;
    assert_eq!((record.renewals, record.renewed_at), (2, record.started_at));
    scene.say(&a, release()).await;
    scene.take().await.unwrap();
    let record = scene.record(&"a".into()).await;
    assert_eq!((record.renewals, record.renewed_at), (0, None));
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
    scene.clock.forward(LEASE + GRACE);
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
    let one = Sum { count: 1, seconds: 0.0 };
    let today = Today { wait: one, run: one, ..Today::default() };
    let want =
        QueueCounts { jobs: jobs.into(), oldest_waiting: Some(put_at), today, ..QueueCounts::default() };
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
                let got = scene.fetch(Fetch { lease: LEASE * 100, ..request(&["q"], 1) }).await;
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
                    JobState::Waiting
                    | JobState::Delayed
                    | JobState::Depends
                    | JobState::Held
                    | JobState::Canceled => JobState::Canceled,
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
