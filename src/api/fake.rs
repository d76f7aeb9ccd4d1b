//! A service that writes down what it was asked, for the tests of this room.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;

use super::{Problem, Reloaded, Service};
use crate::model::{
    Change, Filter, JobId, JobRecord, JobState, Meters, NewJob, QueueCounts, QueueName, Status, Stop,
    Subject, Why,
};

/// Writes down what it was asked.
#[derive(Default)]
pub(super) struct Fake {
    pub(super) asked: Mutex<Vec<String>>,
}

impl Fake {
    fn note(&self, what: String) {
        self.asked.lock().expect("not poisoned").push(what);
    }
}

#[async_trait]
impl Service for Fake {
    async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<JobId>, Problem> {
        self.note(format!("put {}", jobs.len()));
        Ok((0..jobs.len()).map(|n| format!("j{n}").into()).collect())
    }
    async fn job(&self, id: JobId) -> Result<JobRecord, Problem> {
        match id.as_str() {
            "slow" => tokio::time::sleep(Duration::from_secs(25)).await,
            "stuck" => std::future::pending().await,
            _ => {}
        }
        Err(Problem::not_found(format!("no job has the id '{id}'")).hint("see taskvisor job list"))
    }
    async fn jobs(&self, filter: Filter) -> Result<Vec<JobRecord>, Problem> {
        self.note(format!("{filter:?}"));
        Ok(Vec::new())
    }
    async fn cancel(&self, id: JobId, wait: bool, _: String) -> Result<JobState, Problem> {
        self.note(format!("cancel {id} {wait}"));
        Ok(JobState::Canceling)
    }
    async fn reload(&self, rehearsal: bool) -> Result<Reloaded, Problem> {
        self.note(format!("reload {rehearsal}"));
        let pools = BTreeMap::from([("default".into(), "unchanged".into())]);
        Ok(Reloaded { file: None, pools })
    }
    async fn change(&self, pool: Option<String>, change: Change) -> Result<(), Problem> {
        self.note(format!("{change:?} of {pool:?}"));
        Ok(())
    }
    async fn at_rest(&self) -> Result<(), Problem> {
        Ok(())
    }
    async fn retry(&self, id: JobId, _: String) -> Result<(), Problem> {
        self.note(format!("retry {id}"));
        Ok(())
    }
    async fn ended(&self, id: JobId) -> Result<JobState, Problem> {
        match id.as_str() {
            "endless" => std::future::pending().await,
            _ => Ok(JobState::Complete),
        }
    }
    async fn queues(&self) -> Result<BTreeMap<QueueName, QueueCounts>, Problem> {
        let jobs = BTreeMap::from([(JobState::Waiting, 3)]);
        Ok(BTreeMap::from([("mail".into(), QueueCounts { jobs, ..QueueCounts::default() })]))
    }
    async fn pause(&self, queue: QueueName, by: String, reason: Option<String>) -> Result<(), Problem> {
        self.note(format!("pause {queue} by {by}: {reason:?}"));
        Ok(())
    }
    async fn resume(&self, queue: QueueName) -> Result<(), Problem> {
        self.note(format!("resume {queue}"));
        Ok(())
    }
    async fn status(&self) -> Result<Status, Problem> {
        Err(Problem::unavailable("not yet"))
    }
    async fn why(&self, subject: Subject) -> Result<Why, Problem> {
        self.note(format!("why {subject:?}"));
        Ok(Why::default())
    }
    async fn meters(&self) -> Result<Meters, Problem> {
        Err(Problem::unavailable("not yet"))
    }
    async fn turn(&self) -> Result<(), Problem> {
        std::future::pending().await
    }
    async fn stop(&self, how: Stop) -> Result<(), Problem> {
        self.note(format!("stop {how:?}"));
        Ok(())
    }
}
