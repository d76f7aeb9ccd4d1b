//! The outbox: keeps new jobs in the state directory while the broker is away, and puts them in order when it is back.

#![warn(unreachable_pub)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use broker::{Admin, Broker, Complaints, Error, Source};
use model::verb::{Cancel, SetOption, Verb};
use model::{Exists, JobId, JobState, NewJob, OptionName};
use sqlite::Sqlite;
use wq::Taken;

/// The name of its file in the state directory.
const FILE: &str = "outbox.db";
/// Number of jobs in one put.
const BATCH: usize = 100;
/// Wait after a failed put, and the limit up to which it is doubled.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Pause between two looks at jobs that were refused, while there are any: a person may have removed them.
const SEEN_TO: Duration = Duration::from_secs(60);
/// What fails while the broker is away, for the log.
const PASS_ON: &str = "failed to put the jobs of the outbox";
/// What has failed for good, for the health.
const REFUSED: &str = "the broker has refused jobs of the outbox, which will not run";

/// The outbox of one state directory.
pub struct Outbox {
    broker: Arc<Broker>,
    store: Sqlite,
    file: PathBuf,
    /// Whether the outbox accepts jobs. If not, it only passes on those that are left in it.
    takes: bool,
    /// Number of jobs in the outbox or on their way into it.
    count: AtomicUsize,
    /// Number of jobs that the broker has refused.
    refused: AtomicUsize,
    came: Notify,
    wrong: Complaints,
}

impl Outbox {
    /// Opens the outbox if it is to accept jobs, or if its file exists. A broker on this machine's own disk needs none.
    pub async fn open(
        state_dir: &Path,
        broker: &Arc<Broker>,
        takes: bool,
    ) -> Result<Option<Arc<Outbox>>, Error> {
        let (file, takes) = (state_dir.join(FILE), takes && broker.card().shared);
        if !takes && !file.exists() {
            return Ok(None);
        }
        let store = Sqlite::open(&file, sqlite::Options::default())?;
        keep_all(&store).await?;
        let count = AtomicUsize::new(store.count_in(JobState::Waiting).await?);
        let (refused, came, wrong) = (AtomicUsize::new(0), Notify::new(), broker.complaints().clone());
        let outbox = Outbox { broker: broker.clone(), store, file, takes, count, refused, came, wrong };
        outbox.look_for_refused().await?;
        Ok(Some(Arc::new(outbox)))
    }

    /// Puts a job with an id, and answers when the job is durable in the broker or here. It goes here while the broker
    /// is away, or while other jobs wait here, so that the order is kept.
    pub async fn put(self: &Arc<Self>, job: NewJob) -> Result<Taken, Error> {
        let id = job.id.clone().ok_or_else(|| Error::Refused("the job has no id".into()))?;
        // Refused now and not when the broker is back: by then the client has its answer.
        self.broker.card().takes(std::slice::from_ref(&job))?;
        if !self.takes || self.count.load(Ordering::SeqCst) == 0 {
            match self.broker.put(vec![job.clone()]).await {
                Err(error) if self.takes && is_away(&error) => {}
                Err(error) => return Err(error),
                Ok(_) => return Ok(Taken { task_id: id, kept: false }),
            }
        }
        // Runs as a task of its own, so that the count stays right if the client goes away.
        let kept = tokio::spawn(self.clone().keep(job)).await;
        kept.unwrap_or_else(|error| Err(Error::Failed(error.to_string())))
            .map(|()| Taken { task_id: id, kept: true })
    }

    /// Stores a job in the outbox.
    async fn keep(self: Arc<Self>, job: NewJob) -> Result<(), Error> {
        // Counted before it is stored, so that no later job goes past it to the broker.
        self.count.fetch_add(1, Ordering::SeqCst);
        let put = self.store.put(vec![job]).await;
        if put.is_err() {
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
        self.came.notify_one();
        put.map(drop)
    }

    /// Number of jobs in the outbox.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// A warning if the outbox has lost jobs, or if some wait in it.
    pub fn concern(&self) -> Option<String> {
        self.store.losses().map(|lost| format!("the outbox {lost}")).or_else(|| self.waiting())
    }

    /// Looks for jobs that the broker has refused: they were acknowledged, and run only if a person puts them again.
    async fn look_for_refused(&self) -> Result<(), Error> {
        let count = self.store.count_in(JobState::Canceled).await?;
        self.refused.store(count, Ordering::SeqCst);
        let (file, now) = (self.file.display(), clock::now());
        match count {
            0 => self.wrong.well(REFUSED, now),
            _ => self.wrong.stands(
                REFUSED,
                &format!(
                    "{count}; taskvisor -b sqlite:{file} job list names them; once seen to: job discard"
                ),
                now,
            ),
        }
        Ok(())
    }

    fn waiting(&self) -> Option<String> {
        let count = Some(self.count()).filter(|count| *count > 0)?;
        Some(format!(
            "{count} new {} in {} until they can be put",
            if count == 1 { "job waits" } else { "jobs wait" },
            self.file.display()
        ))
    }

    /// Passes on waiting jobs in order, for ever; retries until the broker takes them.
    pub async fn pass_on(self: Arc<Self>) {
        let mut wait = AGAIN.0;
        loop {
            match self.pass_some_on().await {
                Ok(0) => self.idle().await,
                Ok(_) => wait = AGAIN.0,
                Err(error) => {
                    self.wrong.wrong(PASS_ON, &error, clock::now());
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(AGAIN.1);
                }
            }
        }
    }

    /// Waits for a job. Looks now and then whether jobs that were refused are still here.
    async fn idle(&self) {
        while self.refused.load(Ordering::SeqCst) > 0 {
            if tokio::time::timeout(SEEN_TO, self.came.notified()).await.is_ok() {
                return;
            }
            // An error of the store shows with the next job.
            self.look_for_refused().await.ok();
        }
        self.came.notified().await;
    }

    /// Puts the first jobs and removes them here; gives their number. If the supervisor dies in between, a job is put
    /// again: the broker recognizes its id.
    async fn pass_some_on(&self) -> Result<usize, Error> {
        let jobs = self.store.first(BATCH).await?;
        let jobs: Vec<NewJob> = jobs.into_iter().map(|job| NewJob { exists: Exists::Skip, ..job }).collect();
        let count = jobs.len();
        if count == 0 {
            return Ok(0);
        }
        let ids: Vec<JobId> = jobs.iter().filter_map(|job| job.id.clone()).collect();
        let (mut put, mut away) = (Vec::new(), None);
        for (id, answer) in ids.into_iter().zip(self.put_each(jobs).await?) {
            match answer {
                Ok(_) => put.push(id),
                Err(error) if is_away(&error) => away = Some(error),
                Err(error) => self.set_aside(id, &error).await?,
            }
        }
        let gone = put.len();
        self.store.remove(put).await?;
        self.count.fetch_sub(gone, Ordering::SeqCst);
        self.wrong.well(PASS_ON, clock::now());
        // Those that went through are removed by now, so the caller may try again.
        away.map_or(Ok(count), Err)
    }

    /// Puts jobs so that each has its own answer: if the batch is refused as a whole, puts them one by one.
    async fn put_each(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error> {
        match self.broker.put_each(jobs.clone()).await {
            Err(error) if !is_away(&error) => {}
            answer => return answer,
        }
        let mut answers = Vec::with_capacity(jobs.len());
        for job in jobs {
            match self.broker.put(vec![job]).await {
                Err(error) if is_away(&error) => return Err(error),
                answer => answers.push(answer.and_then(|ids| ids.into_iter().next().ok_or_else(unsaid))),
            }
        }
        Ok(answers)
    }

    /// Sets a job aside that the broker refuses: it stays here, canceled, and does not block the others.
    async fn set_aside(&self, id: JobId, error: &Error) -> Result<(), Error> {
        tracing::error!(job = %id, %error, path = %self.file.display(), "a job of the outbox is refused, it stays there");
        let asked = Cancel { jobs: vec![id], dependents: false, reason: Some(error.to_string()) };
        self.store.ask(Verb::Cancel(asked), "the outbox".into()).await?;
        self.count.fetch_sub(1, Ordering::SeqCst);
        self.look_for_refused().await
    }
}

/// A job that was refused stays until a person has seen to it, however long that takes.
async fn keep_all(store: &Sqlite) -> Result<(), Error> {
    for name in [OptionName::KeepComplete, OptionName::KeepCompleteCount] {
        let for_ever = SetOption { name: name.as_str().into(), value: "0".into(), queue: None };
        store.ask(Verb::SetOption(for_ever), "the outbox".into()).await?;
    }
    Ok(())
}

/// Whether the broker may take the job later.
fn is_away(error: &Error) -> bool {
    matches!(error, Error::Failed(_) | Error::Disk(_) | Error::Unanswered(_))
}

fn unsaid() -> Error {
    Error::Failed("the broker did not say what became of the job".into())
}
