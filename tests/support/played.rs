//! A supervisor that is played: it answers the requests of commands.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use api::{JobOutput, Problem, Queued, Reloaded, Service};
use async_trait::async_trait;
use model::verb::{Answer, Cancel, Done, Each, Fate, Get, Pause, Refusal, Resume, Retry, Verb};
use model::{
    Cursor, Fence, Filter, JobCounts, JobId, JobRecord, JobState, Meters, Millis, NewJob, Page, QueueCounts,
    Status, Stop, Subject, Why,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
/// Jobs whose ids say how they end: `c…` complete, `f…` fail, `r…` run for ever, and others are unknown.
#[derive(Default)]
pub struct Played {
    pub batches: Mutex<Vec<Vec<NewJob>>>,
    pub asked: Mutex<Vec<String>>,
}

fn state_of(id: &JobId) -> Result<JobState, Problem> {
    match id.as_str().as_bytes().first() {
        Some(b'c') => Ok(JobState::Complete),
        Some(b'f') => Ok(JobState::Failed),
        Some(b'r') => Ok(JobState::Running),
        _ => Err(Problem::not_found(format!("no job has the id '{id}'"))),
    }
}

fn record(id: JobId) -> Result<JobRecord, Problem> {
    Ok(JobRecord {
        state: state_of(&id)?,
        id,
        queue: "default".into(),
        class: "exec".into(),
        title: None,
        payload: None,
        priority: 0,
        tags: vec![],
        tracked: false,
        needs: vec![],
        needed_by: vec![],
        attempt: 1,
        retry: None,
        time_limit: None,
        crashes: 0,
        interrupted: 0,
        unknown: 0,
        progress: None,
        put_at: Millis(0),
        put_by: None,
        recurring: None,
        due_at: None,
        begin_by: None,
        started_at: None,
        ended_at: None,
        holder: None,
        instance: None,
        worker: None,
        fence: Fence(1),
        renewals: 0,
        renewed_at: None,
        expires_at: None,
        result: None,
        failure: None,
        dead_letter: None,
        forensics: None,
        history: vec![],
    })
}

impl Played {
    fn note(&self, what: String) -> Result<(), Problem> {
        self.asked.lock().unwrap().push(what);
        Ok(())
    }
}

#[async_trait]
impl Service for Played {
    fn broker(&self) -> String {
        "memory:".into()
    }

    async fn put(&self, jobs: Vec<NewJob>) -> Result<Queued, Problem> {
        if jobs.iter().any(|job| job.queue.as_str() == "torn") {
            let put = |n: usize| n.is_multiple_of(2).then(|| format!("j{n}").into());
            let put = (0..jobs.len()).map(put).collect();
            return Err(Problem { put, ..Problem::unavailable("some jobs were put, the others were not") });
        }
        let mut batches = self.batches.lock().unwrap();
        let before: usize = batches.iter().map(Vec::len).sum();
        let ids = (before..before + jobs.len()).map(|n| format!("j{n}").into()).collect();
        batches.push(jobs);
        Ok(Queued { ids, ..Queued::default() })
    }
    async fn ended(&self, id: JobId) -> Result<JobState, Problem> {
        match state_of(&id)? {
            state if state.has_ended() => Ok(state),
            _ => std::future::pending().await,
        }
    }
    async fn ends(
        &self,
        jobs: Vec<JobId>,
    ) -> Result<UnboundedReceiver<(JobId, Result<JobState, Problem>)>, Problem> {
        let (told, ends) = unbounded_channel();
        for job in jobs {
            match state_of(&job) {
                // The stream stays open for a job that runs for ever.
                Ok(state) if !state.has_ended() => drop(Box::leak(Box::new(told.clone()))),
                state => drop(told.send((job, state))),
            }
        }
        Ok(ends)
    }
    #[allow(clippy::wildcard_enum_match_arm, reason = "what is not played is refused")]
    async fn ask(&self, verb: Verb, _: String) -> Result<Answer, Problem> {
        #[allow(clippy::wildcard_enum_match_arm)]
        match verb {
            Verb::Get(Get { job }) => Ok(Answer::Get(record(job)?)),
            Verb::Cancel(Cancel { jobs, dependents, .. }) => {
                let named: Vec<String> = jobs.iter().map(ToString::to_string).collect();
                self.note(format!("cancel {} {dependents}", named.join(" ")))?;
                let fate = |job: &JobId| match state_of(job) {
                    Ok(_) => Fate::State(JobState::Canceling),
                    Err(_) => Fate::Refused(Refusal::NoJob),
                };
                Ok(Answer::Cancel(
                    jobs.into_iter().map(|job| Each { fate: fate(&job), job, told: None }).collect(),
                ))
            }
            Verb::Retry(Retry { job }) => {
                state_of(&job)?;
                self.note(format!("retry {job}"))?;
                Ok(Answer::Retry(Done {}))
            }
            Verb::Queues(_) => Ok(Answer::Queues(BTreeMap::from([("mail".into(), QueueCounts::default())]))),
            Verb::Pause(Pause { queue, reason }) => {
                self.note(format!("pause {queue} {reason:?}"))?;
                Ok(Answer::Pause(Done {}))
            }
            Verb::Resume(Resume { queue }) => {
                self.note(format!("resume {queue}"))?;
                Ok(Answer::Resume(Done {}))
            }
            _ => Err(Problem::unavailable("not played")),
        }
    }
    async fn page(&self, filter: &Filter, _: Option<Cursor>) -> Result<Page, Problem> {
        self.note(format!("list {}", filter.limit))?;
        Ok(Page { jobs: vec![record("c1".into())?, record("f1".into())?], next: None, cut: None })
    }
    async fn output(&self, id: &JobId) -> Result<JobOutput, Problem> {
        self.note(format!("output {id}"))?;
        let reader = log::Reader::new("/nonexistent".into(), "/nonexistent/x.log".into());
        Ok(JobOutput { reader, state: JobState::Complete, elsewhere: None, put_at: Millis(1) })
    }
    async fn count_jobs(&self, filter: &Filter) -> Result<JobCounts, Problem> {
        self.note(format!("count {}", filter.limit))?;
        Ok(JobCounts::default())
    }
    async fn count_tasks(&self, begins: &str, states: &[JobState]) -> Result<u64, Problem> {
        self.note(format!("count {begins} {states:?}"))?;
        Ok(0)
    }
    async fn news(&self) -> tokio::sync::broadcast::Receiver<Arc<model::PublishedEvent>> {
        tokio::sync::broadcast::channel(1).1
    }
    async fn reload(&self, _dry_run: bool, _by: String) -> Result<Reloaded, Problem> {
        Ok(Reloaded { file: None, pools: BTreeMap::new(), changed: Vec::new() })
    }
    async fn change(
        &self,
        _pool: Option<String>,
        _change: model::Change,
        _order: api::PauseOrder,
        _by: String,
    ) -> Result<model::PoolsNow, Problem> {
        Ok(model::PoolsNow::default())
    }
    async fn at_rest(&self) -> Result<(), Problem> {
        Ok(())
    }
    async fn status(&self) -> Result<Status, Problem> {
        Err(Problem::unavailable("the supervisor is starting"))
    }
    async fn why(&self, subject: Subject) -> Result<Why, Problem> {
        self.note(format!("why {subject:?}"))?;
        Ok(Why::default())
    }
    async fn meters(&self) -> Result<Meters, Problem> {
        Err(Problem::unavailable("the supervisor is starting"))
    }
    async fn turn(&self) -> Result<(), Problem> {
        Ok(())
    }
    async fn stop(&self, how: Stop, _by: String) -> Result<(), Problem> {
        self.note(format!("stop {how:?}"))
    }
}
