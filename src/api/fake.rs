//! A service that writes down what it was asked, for the tests of this room.
#![allow(clippy::wildcard_enum_match_arm, reason = "it plays few verbs")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::broadcast::{Receiver, Sender, channel};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{JobOutput, PauseOrder, Problem, Queued, Reloaded, Service};
use model::verb::{Answer, Cancel, Done, Each, Fate, Get, Tag, Tags, Verb};
use model::{
    Change, Cursor, Filter, JobCounts, JobId, JobRecord, JobState, Meters, Millis, NewJob, Page, PoolsNow,
    PublishedEvent, PutNote, QueueCounts, Status, Stop, Subject, Why,
};

/// Writes down what it was asked.
pub(super) struct Fake {
    pub(super) asked: Mutex<Vec<String>>,
    /// What happens to a request.
    pub(super) news: Sender<Arc<PublishedEvent>>,
    /// Jobs in each list.
    pub(super) jobs: u64,
}

/// Jobs in each page of them.
pub(super) const PAGE: u64 = 100;

pub(super) fn record(id: &str) -> JobRecord {
    let job = json!({
        "id": id, "queue": "mail", "class": "send", "state": "waiting", "priority": 0, "tags": [], "attempt": 0,
        "crashes": 0, "interruptions": 0, "put_at_ms": 1, "fence": 0,
    });
    serde_json::from_value(job).expect("a record")
}

impl Default for Fake {
    fn default() -> Self {
        Fake { asked: Mutex::default(), news: channel(KEPT).0, jobs: 0 }
    }
}

/// News a listener may fall behind.
pub(super) const KEPT: usize = 16;

impl Fake {
    fn note(&self, what: String) {
        self.asked.lock().expect("not poisoned").push(what);
    }
}

#[async_trait]
impl Service for Fake {
    fn broker(&self) -> String {
        "sqlite:/store.db".into()
    }

    async fn put(&self, jobs: Vec<NewJob>) -> Result<Queued, Problem> {
        self.note(format!("put {}", jobs.len()));
        let ids = (0..jobs.len()).map(|n| format!("j{n}").into()).collect();
        let taken = ["mail".into()].into();
        let misnamed = jobs.iter().filter(|job| job.queue.as_str() == "mial");
        let notes = misnamed.map(|job| PutNote::no_pool(&job.queue, &taken)).collect();
        Ok(Queued { ids, notes, ..Queued::default() })
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "what is not played is refused")]
    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Problem> {
        self.note(format!("{verb:?} by {by}"));
        #[allow(clippy::wildcard_enum_match_arm)]
        match verb {
            Verb::Get(Get { job }) => {
                let put_by = |by: &str| JobRecord { put_by: Some(by.into()), ..record(job.as_str()) };
                match job.as_str() {
                    "of-put" => return Ok(Answer::Get(put_by("127.0.0.1 (put token)"))),
                    "of-another" => return Ok(Answer::Get(put_by("127.0.0.1"))),
                    "of-nobody" => return Ok(Answer::Get(record("of-nobody"))),
                    "slow" => tokio::time::sleep(Duration::from_secs(25)).await,
                    "stuck" => std::future::pending().await,
                    _ => {}
                }
                Err(Problem::not_found(format!("no job has the id '{job}'")).hint("see taskvisor job list"))
            }
            Verb::Cancel(Cancel { jobs, .. }) => {
                let fate = Fate::State(JobState::Canceling);
                Ok(Answer::Cancel(
                    jobs.into_iter().map(|job| Each { job, fate: fate.clone(), told: None }).collect(),
                ))
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
    async fn page(&self, filter: &Filter, at: Option<Cursor>) -> Result<Page, Problem> {
        self.note(format!("{filter:?} at {at:?}"));
        let Cursor { place, left, .. } = at.unwrap_or(Cursor { left: self.jobs, ..Cursor::default() });
        if filter.class.as_ref().is_some_and(|class| class.as_str() == "broken") && place > 0 {
            return Err(Problem::unavailable("the disk is gone").hint("mend it"));
        }
        let ids = (place..).take(left.min(PAGE) as usize);
        let next = left.checked_sub(PAGE).map(|left| Cursor {
            place: place + PAGE as i64,
            left,
            ..Cursor::default()
        });
        Ok(Page { jobs: ids.map(|n| record(&format!("j{n}"))).collect(), next, cut: None })
    }
    async fn count_jobs(&self, filter: &Filter) -> Result<JobCounts, Problem> {
        self.note(format!("count {filter:?}"));
        Ok(JobCounts::default())
    }
    async fn count_tasks(&self, begins: &str, states: &[JobState]) -> Result<u64, Problem> {
        self.note(format!("count {begins} {states:?}"));
        Ok(7)
    }
    async fn news(&self) -> Receiver<Arc<PublishedEvent>> {
        self.news.subscribe()
    }
    async fn reload(&self, dry_run: bool, _by: String) -> Result<Reloaded, Problem> {
        self.note(format!("reload {dry_run}"));
        let pools = BTreeMap::from([("default".into(), "unchanged".into())]);
        Ok(Reloaded { file: None, pools, changed: Vec::new() })
    }
    async fn change(
        &self,
        pool: Option<String>,
        change: Change,
        _how: PauseOrder,
        _by: String,
    ) -> Result<PoolsNow, Problem> {
        self.note(format!("{change:?} of {pool:?}"));
        Ok(PoolsNow::default())
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
    async fn output(&self, _id: &JobId) -> Result<JobOutput, Problem> {
        let reader = log::Reader::new("/nonexistent".into(), "/nonexistent/x.log".into());
        Ok(JobOutput { reader, state: JobState::Running, elsewhere: None, put_at: Millis(1) })
    }
    async fn ends(
        &self,
        jobs: Vec<JobId>,
    ) -> Result<UnboundedReceiver<(JobId, Result<JobState, Problem>)>, Problem> {
        let (told, ends) = unbounded_channel();
        for job in jobs {
            match job.as_str() {
                "endless" => drop(Box::leak(Box::new(told.clone()))),
                "nope" => drop(told.send((job, Err(Problem::not_found("no job has the id 'nope'"))))),
                _ => drop(told.send((job, Ok(JobState::Complete)))),
            }
        }
        Ok(ends)
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
    async fn stop(&self, how: Stop, _by: String) -> Result<(), Problem> {
        self.note(format!("stop {how:?}"));
        Ok(())
    }
}
