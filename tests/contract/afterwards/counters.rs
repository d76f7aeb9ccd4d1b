//! Counters, failure groups and statistics after each of many random steps.

use super::*;
use crate::random::{Random, seed};

contract!(
    counters_match_the_jobs_after_each_random_step [Clock, Retry, Queues],
);

async fn counters_match_the_jobs_after_each_random_step(scene: Scene) {
    let seed = seed();
    let mut random = Random(seed);
    let mut leases: Vec<Lease> = Vec::new();
    for step in 0..500 {
        let id = JobId::from(random.below(step + 1).to_string().as_str());
        let queue = ["q", "p"][random.below(2) as usize];
        match random.below(10) {
            0..3 => {
                let delay = Duration::from_secs(random.below(2) * 5);
                scene.put(NewJob { queue: queue.into(), delay, ..job(&step.to_string()) }).await;
            }
            3 | 4 => {
                let taken = scene.fetch(request(&["p", "q"], 2)).await.unwrap();
                leases.extend(taken.into_iter().map(|taken| taken.lease));
            }
            5 | 6 if !leases.is_empty() => {
                let lease = leases.swap_remove(random.below(leases.len() as u64) as usize);
                let verdict = match random.below(6) {
                    0 => complete(),
                    1 => retry_after(Duration::from_secs(2)),
                    2 => Verdict::Hold { failure: failure() },
                    3 => release(),
                    _ => Verdict::Fail { failure: failure() },
                };
                scene.settle(vec![settlement(&lease, verdict)]).await.unwrap();
            }
            7 => drop(scene.cancel(id).await),
            8 => {
                let state = [JobState::Complete, JobState::Failed, JobState::Held, JobState::Canceled];
                let act = if random.below(3) == 0 { Act::Discard } else { Act::Retry };
                let asked = bulk(act, state[random.below(4) as usize]);
                swept(&scene, Bulk { limit: Some(random.below(4)), queue: Some(queue.into()), ..asked })
                    .await;
            }
            _ if random.below(30) == 0 => {
                scene.clock.forward(DAY * 8);
                look(&scene).await;
            }
            _ => {
                scene.clock.forward(Duration::from_secs(random.below(20)));
                // Due jobs become waiting before the counts are compared.
                scene.fetch(request(&["none"], 1)).await.unwrap();
            }
        }
        counted(&scene, &format!("seed {seed}, step {step}")).await;
    }
}

/// Compares counters, failure groups and statistics with the jobs themselves.
async fn counted(scene: &Scene, at: &str) {
    let jobs = scene.list(Filter { limit: 9_999, ..Filter::default() }).await.unwrap();
    let mut queues: BTreeMap<QueueName, BTreeMap<JobState, u64>> = BTreeMap::new();
    let mut went_wrong = 0;
    let mut failed: BTreeMap<(QueueName, Day), u64> = BTreeMap::new();
    for job in &jobs {
        *queues.entry(job.queue.clone()).or_default().entry(job.state).or_default() += 1;
        went_wrong += u64::from(matches!(job.state, JobState::Failed | JobState::Held));
        if job.state == JobState::Failed {
            let day = Day::of(job.ended_at.unwrap());
            *failed.entry((job.queue.clone(), day)).or_default() += 1;
        }
    }
    let mut counts = scene.counts().await.unwrap();
    for ((queue, day), count) in failed {
        let told = scene.tell(Stats { queue, day: Some(day) }, "").await.unwrap();
        assert_eq!(told.failed, count, "{at}, {day}");
    }
    counts.retain(|_, counts| !counts.jobs.is_empty());
    let counts: BTreeMap<_, _> = counts.into_iter().map(|(name, counts)| (name, counts.jobs)).collect();
    assert_eq!(counts, queues, "{at}");
    let grouped: u64 = groups(scene).await.iter().map(|group| group.failed + group.held).sum();
    assert_eq!(grouped, went_wrong, "{at}");
}
