//! Random steps compared with a small model that keeps all jobs in a list. `SEED=n` replays a run.

use std::time::Duration;

use crate::support::*;
use broker::{Fetch, Settling};
use model::*;

contract!(
    random_operations_agree_with_a_model [Clock, Prioritize, Depend],
);

pub fn seed() -> u64 {
    std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed)
}

/// A generator for runs that can be replayed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
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
    let seed = seed();
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
                    [Settling::Settled(state)]
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
                // The store may already have moved a delayed job to waiting; a cancel treats both alike.
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
