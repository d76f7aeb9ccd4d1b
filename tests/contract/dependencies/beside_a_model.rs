//! Random steps compared with a small model that keeps all jobs in a list.

use std::collections::BTreeSet;

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Put { needs: Vec<usize>, delay: u64 },
    Fetch,
    Settle { nth: usize, how: usize },
    Cancel { nth: usize, dependents: bool },
    Retry { nth: usize },
    On { nth: usize, needs: Vec<usize> },
    Off { nth: usize, all: bool },
    Later,
}

fn step() -> impl Strategy<Value = Step> {
    let nth = 0..1000usize;
    let some = prop::collection::vec(nth.clone(), 0..4);
    prop_oneof![
        4 => (some.clone(), 0..3u64).prop_map(|(needs, delay)| Step::Put { needs, delay }),
        4 => Just(Step::Fetch),
        4 => (nth.clone(), 0..5usize).prop_map(|(nth, how)| Step::Settle { nth, how }),
        1 => (nth.clone(), any::<bool>()).prop_map(|(nth, dependents)| Step::Cancel { nth, dependents }),
        1 => nth.clone().prop_map(|nth| Step::Retry { nth }),
        2 => (nth.clone(), some).prop_map(|(nth, needs)| Step::On { nth, needs }),
        1 => (nth, any::<bool>()).prop_map(|(nth, all)| Step::Off { nth, all }),
        1 => Just(Step::Later),
    ]
}

struct Seen {
    state: JobState,
    needs: BTreeSet<usize>,
    due: u64,
    lease: Option<Lease>,
}

#[derive(Default)]
struct Model {
    jobs: Vec<Seen>,
    time: u64,
}

impl Model {
    /// The state of a job that has not begun: depends, delayed or waiting.
    fn rest(&self, n: usize) -> JobState {
        match &self.jobs[n] {
            of if !of.needs.is_empty() => JobState::Depends,
            of if of.due > self.time => JobState::Delayed,
            _ => JobState::Waiting,
        }
    }

    fn is_open(&self, n: usize) -> bool {
        matches!(self.jobs[n].state, JobState::Waiting | JobState::Delayed | JobState::Depends)
    }

    fn come_due(&mut self) {
        for n in 0..self.jobs.len() {
            if self.jobs[n].state == JobState::Delayed {
                self.jobs[n].state = self.rest(n);
            }
        }
    }

    fn complete(&mut self, done: usize) {
        for n in 0..self.jobs.len() {
            if self.jobs[n].needs.remove(&done) && self.jobs[n].state == JobState::Depends {
                self.jobs[n].state = self.rest(n);
            }
        }
    }

    fn unfinished(&self, needs: &[usize]) -> BTreeSet<usize> {
        needs.iter().copied().filter(|need| self.jobs[*need].state != JobState::Complete).collect()
    }

    fn needs_by_others(&self, n: usize, wanted: usize) -> bool {
        n == wanted || self.jobs[n].needs.iter().any(|need| self.needs_by_others(*need, wanted))
    }

    fn dependents(&self, n: usize) -> Vec<usize> {
        (0..self.jobs.len())
            .filter(|m| self.jobs[*m].state == JobState::Depends && self.jobs[*m].needs.contains(&n))
            .collect()
    }

    fn cancel(&mut self, n: usize) {
        let to = match self.jobs[n].state {
            JobState::Running => JobState::Canceling,
            JobState::Complete | JobState::Failed | JobState::Canceling => return,
            _ => JobState::Canceled,
        };
        self.jobs[n].state = to;
        if to == JobState::Canceled {
            self.jobs[n].due = 0;
        }
    }
}

async fn play(steps: &[Step]) {
    let scene = Scene::memory();
    let mut model = Model::default();
    let name = |n: usize| n.to_string();
    for step in steps {
        let count = model.jobs.len();
        let pick = |nth: &usize| nth % count;
        match step {
            Step::Put { needs, delay } => {
                let needs: Vec<usize> = if count == 0 { vec![] } else { needs.iter().map(pick).collect() };
                let named: Vec<String> = needs.iter().copied().map(name).collect();
                let named: Vec<&str> = named.iter().map(String::as_str).collect();
                scene
                    .put(NewJob { delay: Duration::from_secs(*delay), ..needing(&name(count), &named) })
                    .await;
                let needs = model.unfinished(&needs);
                let (state, due) = (JobState::Waiting, model.time + delay);
                model.jobs.push(Seen { state, needs, due, lease: None });
                model.jobs[count].state = model.rest(count);
            }
            Step::Fetch => {
                model.come_due();
                let next = (0..count).find(|n| model.jobs[*n].state == JobState::Waiting);
                let got = scene.take().await;
                assert_eq!(got.as_ref().map(|got| got.job.id.to_string()), next.map(name));
                if let (Some(got), Some(n)) = (got, next) {
                    (model.jobs[n].state, model.jobs[n].lease) = (JobState::Running, Some(got.lease));
                }
            }
            Step::Settle { nth, how } => {
                let busy: Vec<usize> = (0..count).filter(|n| model.jobs[*n].lease.is_some()).collect();
                let Some(n) = busy.get(nth % busy.len().max(1)).copied() else { continue };
                let lease = model.jobs[n].lease.take().unwrap();
                let (verdict, state) = match how {
                    0..=1 => (complete(), JobState::Complete),
                    2 => (release(), JobState::Waiting),
                    3 => (retry_after(Duration::from_secs(1)), JobState::Delayed),
                    _ => (Verdict::Fail { failure: failure() }, JobState::Failed),
                };
                scene.settle(vec![settlement(&lease, verdict)]).await.unwrap();
                let was_canceling = model.jobs[n].state == JobState::Canceling;
                let ends = was_canceling && state != JobState::Complete;
                model.jobs[n].state = if ends { JobState::Canceled } else { state };
                model.jobs[n].due = if state == JobState::Delayed && !ends { model.time + 1 } else { 0 };
                if state == JobState::Complete {
                    model.complete(n);
                }
            }
            Step::Cancel { nth, dependents } if count > 0 => {
                let n = pick(nth);
                let mut all = vec![n];
                let mut at = 0;
                while at < all.len() && *dependents {
                    let more = model.dependents(all[at]);
                    all.extend(more.into_iter().filter(|m| !all.contains(m)).collect::<Vec<_>>());
                    at += 1;
                }
                cancel(&scene, &[&name(n)], *dependents).await;
                if *dependents || model.dependents(n).is_empty() {
                    all.into_iter().for_each(|n| model.cancel(n));
                }
            }
            Step::Retry { nth } if count > 0 => {
                let n = pick(nth);
                let ended = model.jobs[n].state.has_ended();
                assert_eq!(scene.retry(name(n).into()).await.is_ok(), ended);
                if ended {
                    model.jobs[n].due = 0;
                    model.jobs[n].state = model.rest(n);
                }
            }
            Step::On { nth, needs } if count > 0 => {
                let n = pick(nth);
                let needs: Vec<usize> = needs.iter().map(pick).collect();
                let named: Vec<String> = needs.iter().copied().map(name).collect();
                let named: Vec<&str> = named.iter().map(String::as_str).collect();
                let fits = model.is_open(n) && !needs.iter().any(|need| model.needs_by_others(*need, n));
                assert_eq!(on(&scene, &name(n), &named).await.is_ok(), fits, "{n} on {needs:?}");
                if fits {
                    let more = model.unfinished(&needs);
                    model.jobs[n].needs.extend(more);
                    model.jobs[n].state = model.rest(n);
                }
            }
            Step::Off { nth, all } if count > 0 => {
                let n = pick(nth);
                let first = model.jobs[n].needs.first().copied();
                let named = first.map(name);
                let named: Vec<&str> = named.iter().map(String::as_str).collect();
                let answer = off(&scene, &name(n), (!all).then_some(&named)).await;
                assert_eq!(answer.is_ok(), model.jobs[n].state == JobState::Depends);
                if answer.is_ok() {
                    model.jobs[n].needs.retain(|need| !all && Some(*need) != first);
                    model.jobs[n].state = model.rest(n);
                }
            }
            Step::Later => {
                scene.clock.forward(Duration::from_secs(1));
                model.time += 1;
            }
            Step::Cancel { .. } | Step::Retry { .. } | Step::On { .. } | Step::Off { .. } => {}
        }
        compare(&scene, &mut model, step).await;
    }
}

/// A delayed job may become due between two looks, so `Delayed` counts as `Waiting`.
fn moved(state: JobState) -> JobState {
    if state == JobState::Delayed { JobState::Waiting } else { state }
}

async fn compare(scene: &Scene, model: &mut Model, step: &Step) {
    // The store moves due jobs when it fetches, or a moment earlier.
    model.come_due();
    let mut counts = std::collections::BTreeMap::<JobState, u64>::new();
    for (n, seen) in model.jobs.iter().enumerate() {
        let record = scene.record(&n.to_string().into()).await;
        let late = record.state == JobState::Delayed && seen.state == JobState::Waiting;
        assert!(late || record.state == seen.state, "{step:?}: {n} is {}, not {}", record.state, seen.state);
        let needs: BTreeSet<usize> =
            record.needs.iter().map(|need| need.job.as_str().parse().unwrap()).collect();
        assert_eq!(needs, seen.needs, "{step:?}: {n}");
        let runs = matches!(record.state, JobState::Running | JobState::Canceling);
        assert!(!runs || needs.is_empty(), "{step:?}: {n} runs");
        *counts.entry(moved(record.state)).or_default() += 1;
    }
    let mut on_file = std::collections::BTreeMap::<JobState, u64>::new();
    for (state, count) in scene.counts().await.unwrap().remove(&"q".into()).unwrap_or_default().jobs {
        *on_file.entry(moved(state)).or_default() += count;
    }
    assert_eq!(on_file, counts, "{step:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn random_dependencies_match_a_model(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(play(&steps));
    }
}
