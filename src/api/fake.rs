//! A service that writes down what it was asked, for the tests of this room.
#![allow(clippy::wildcard_enum_match_arm, reason = "it plays few verbs")]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;

use super::{Problem, Reloaded, Service};
use crate::model::verb::{Answer, Cancel, Done, Each, Fate, Get, Tag, Tags, Verb};
use crate::model::{Change, JobId, JobState, Meters, NewJob, QueueCounts, Status, Stop, Subject, Why};

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
    #[allow(clippy::wildcard_enum_match_arm, reason = "what is not played is refused")]
    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Problem> {
        self.note(format!("{verb:?} by {by}"));
        #[allow(clippy::wildcard_enum_match_arm)]
        match verb {
            Verb::Get(Get { job }) => {
                match job.as_str() {
                    "slow" => tokio::time::sleep(Duration::from_secs(25)).await,
                    "stuck" => std::future::pending().await,
                    _ => {}
                }
                Err(Problem::not_found(format!("no job has the id '{job}'")).hint("see taskvisor job list"))
            }
            Verb::List(_) => Ok(Answer::List(Vec::new())),
            Verb::Cancel(Cancel { jobs, .. }) => {
                let fate = Fate::State(JobState::Canceling);
                Ok(Answer::Cancel(jobs.into_iter().map(|job| Each { job, fate: fate.clone() }).collect()))
            }
            Verb::Tag(Tag { add, .. }) => Ok(Answer::Tag(Tags { tags: add })),
            Verb::Retry(_) => Ok(Answer::Retry(Done {})),
            Verb::Pause(_) => Ok(Answer::Pause(Done {})),
            Verb::Resume(_) => Ok(Answer::Resume(Done {})),
            Verb::Queues(_) => {
                let jobs = BTreeMap::from([(JobState::Waiting, 3)]);
                let counts = QueueCounts { jobs, ..QueueCounts::default() };
                Ok(Answer::Queues(BTreeMap::from([("mail".into(), counts)])))
            }
            _ => Err(Problem::unavailable("not played")),
        }
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
    async fn ended(&self, id: JobId) -> Result<JobState, Problem> {
        match id.as_str() {
            "endless" => std::future::pending().await,
            _ => Ok(JobState::Complete),
        }
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
