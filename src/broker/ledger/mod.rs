//! The memory of a broker that has none. SQS keeps no history, cannot list and cannot show a job; people still ask. So what
//! this host takes is written into an embedded store in the state directory, the ledger.
//!
//! The broker is the truth about who may run; the ledger never grants anything. A ledger that is lost, full or slow loses
//! history, never a job: every call here has an answer without it.

mod cancel;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::broker::{
    Complaints, Error, Fetch, Health, Notice, Recovery, Renewal, Settling, Source, Sqlite, sqlite,
};
use crate::clock;
use crate::model::{
    Fence, Fetched, Instance, Job, JobId, Lease, NewJob, Progress, QueueName, Revocation, Settlement,
    Verdict, WorkerId,
};

/// A ledger that takes longer is too slow: its broker goes on without the answer. What was asked may yet be written.
const PATIENCE: Duration = Duration::from_secs(2);

/// A fetch waits for the ledger for a quarter of the lease at most, and a renewal for a sixteenth. A disk that hangs
/// must not end jobs that their broker has given or renewed in time.
const FETCH_WAITS: u32 = 4;
const RENEWAL_WAITS: u32 = 16;

/// The name of its file in the state directory.
const FILE: &str = "ledger.db";

/// A job as its broker gave it.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// With its id.
    pub job: NewJob,
    /// The id is that of the message: what is complete under it was this very message.
    pub is_own_id: bool,
    /// Of this delivery: greater than that of every delivery before.
    pub fence: Fence,
    /// Which delivery it is, as the broker counts; 1 is the first.
    pub attempt: u32,
    /// What names this delivery to the broker.
    pub handle: String,
}

/// What the ledger says of a delivery.
#[derive(Clone, Debug)]
pub enum Adopted {
    /// It is written down.
    Runs(Fetched),
    /// It is complete already: the broker has given it twice.
    Complete,
}

/// What names a delivery to its broker, kept for the next supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The job that ran.
    pub job: JobId,
    /// Of its latest delivery.
    pub fence: Fence,
    /// The broker's name for that delivery.
    pub handle: String,
    /// Where the job came from.
    pub queue: QueueName,
    /// Somebody was told that it would be canceled.
    pub is_canceling: bool,
}

/// The ledger of one state directory.
pub struct Ledger {
    store: Arc<Sqlite>,
    /// Why it is in memory only, if it is.
    lost: Option<String>,
    /// Whether it has room for handles.
    prepared: OnceCell<()>,
    wrong: Complaints,
}

impl Ledger {
    /// Opens the ledger of a state directory; where that fails, one in memory. `serves` says whether this process takes jobs.
    pub fn open(state_dir: &Path, serves: bool) -> Result<Ledger, Error> {
        Ledger::open_in(state_dir, sqlite::Options { serves, ..sqlite::Options::default() })
    }

    /// The same, in a world of one's own.
    pub fn open_in(state_dir: &Path, options: sqlite::Options) -> Result<Ledger, Error> {
        let world = options.world.clone();
        let (store, lost) = match Sqlite::open(state_dir.join(FILE), options) {
            Ok(store) => (store, None),
            Err(error) => (Sqlite::memory_in(world)?, Some(error.to_string())),
        };
        Ok(Ledger { store: Arc::new(store), lost, prepared: OnceCell::new(), wrong: Complaints::default() })
    }

    /// The store, for those who ask and look.
    pub fn store(&self) -> Arc<Sqlite> {
        self.store.clone()
    }

    /// Makes room for handles, once.
    async fn prepare(&self) {
        let prepare = async || self.note("failed to prepare the ledger", self.store.keep_handles().await);
        self.prepared.get_or_try_init(async || prepare().await.ok_or(())).await.ok();
    }

    /// The sizes of its files.
    pub fn health(&self) -> Health {
        Health { trouble: None, ..self.store.health() }
    }

    /// What somebody should see to: history is not kept.
    pub fn concern(&self) -> Option<String> {
        let lost = self.lost.as_ref()?;
        Some(format!("the history of jobs is kept in memory only: {lost}"))
    }

    /// Writes down what was given and says what runs: each delivery for the worker beside it. Without a ledger all run.
    pub async fn adopt(&self, request: &Fetch, given: Vec<(Delivery, WorkerId)>) -> Vec<Adopted> {
        let adopted = async {
            self.prepare().await;
            self.store.adopt(request.clone(), given.clone()).await
        };
        let patience = PATIENCE.min(request.lease / FETCH_WAITS);
        match self.within(patience, "failed to write jobs into the ledger", adopted).await {
            Some(adopted) => adopted,
            None => {
                given.into_iter().map(|(delivery, _)| Adopted::Runs(unwritten(delivery, request))).collect()
            }
        }
    }

    /// The verdicts that hold: a job that is being canceled is canceled, unless it was done before its kill came.
    pub async fn in_force(&self, ends: Vec<Settlement>) -> Vec<Settlement> {
        let is_done =
            |verdict: &Verdict| matches!(verdict, Verdict::Complete { next: None, .. } | Verdict::Canceled);
        if ends.iter().all(|end| is_done(&end.verdict)) {
            return ends;
        }
        let asked = ends.iter().map(|end| (end.job.clone(), end.fence)).collect();
        let asked = self.soon("failed to read from the ledger who is canceled", self.store.canceling(asked));
        let canceled = asked.await.unwrap_or_default().into_iter().chain(std::iter::repeat(false));
        let in_force = |(end, is_canceled): (Settlement, bool)| match is_canceled && !is_done(&end.verdict) {
            true => Settlement { verdict: Verdict::Canceled, ..end },
            false => end,
        };
        ends.into_iter().zip(canceled).map(in_force).collect()
    }

    /// Writes down how jobs ended, as their broker has taken it.
    pub async fn settle(&self, ends: Vec<Settlement>) -> Vec<Settling> {
        let count = ends.len();
        let noted = self.soon("failed to write ends of jobs into the ledger", async {
            self.prepare().await;
            self.store.note_ends(ends).await
        });
        noted.await.unwrap_or_else(|| vec![Settling::NotOurs; count])
    }

    /// Whether somebody cancels one of these jobs; None where the ledger does not know it.
    pub async fn renew(&self, leases: Vec<Lease>, by: Duration) -> Vec<Option<Renewal>> {
        let count = leases.len();
        let patience = PATIENCE.min(by / RENEWAL_WAITS);
        let renewed =
            self.within(patience, "failed to renew leases in the ledger", self.store.renew(leases, by)).await;
        renewed.map_or_else(|| vec![None; count], |renewals| renewals.into_iter().map(Some).collect())
    }

    /// Writes down that what an instance held waits again, but for those to keep.
    pub async fn recover(&self, instance: Instance, keep: Vec<(JobId, Fence)>) {
        let released = self.store.recover(instance, keep).await;
        self.note("failed to write into the ledger what waits again", released);
    }

    /// What a supervisor held when it died, and still may.
    pub async fn held(&self, instance: &Instance) -> Vec<Handle> {
        self.prepare().await;
        let held = self.store.handles(instance.clone()).await;
        self.note("failed to read the ledger", held).unwrap_or_default()
    }

    /// How far jobs have come.
    pub async fn progress(&self, notes: Vec<(JobId, Fence, Progress)>) {
        self.soon("failed to write progress into the ledger", self.store.progress(notes)).await;
    }

    /// What people do to jobs that run. That a lease ran out is for their broker to say.
    pub async fn next_notice(&self) -> Notice {
        loop {
            match self.store.next_notice().await {
                Notice::Revoked { why: Revocation::LockLost, .. } => {}
                notice @ (Notice::Wake | Notice::Revoked { .. }) => return notice,
            }
        }
    }

    /// Has [`Ledger::next_notice`] say this.
    pub fn say(&self, notice: Notice) {
        self.store.notices().push(notice);
    }

    /// The answer, if there is a good one within [`PATIENCE`].
    async fn soon<T>(&self, what: &str, asked: impl Future<Output = Result<T, Error>>) -> Option<T> {
        self.within(PATIENCE, what, asked).await
    }

    /// The answer, if there is a good one in time.
    async fn within<T>(
        &self,
        patience: Duration,
        what: &str,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Option<T> {
        let slow =
            || Err(Error::Failed(format!("its disk has not answered for {} ms", patience.as_millis())));
        self.note(what, tokio::time::timeout(patience, asked).await.unwrap_or_else(|_| slow()))
    }

    fn note<T>(&self, what: &str, answer: Result<T, Error>) -> Option<T> {
        match answer {
            Ok(answer) => {
                self.wrong.well(what, clock::now());
                Some(answer)
            }
            Err(error) => {
                self.wrong.wrong(what, &error, clock::now());
                None
            }
        }
    }
}

/// A delivery that no ledger knows.
fn unwritten(delivery: Delivery, request: &Fetch) -> Fetched {
    let Delivery { job, fence, attempt, .. } = delivery;
    let id = job.id.unwrap_or_else(|| "".into());
    let lease = Lease { job: id.clone(), fence, expires_at: clock::now() + request.lease };
    let job = Job {
        id,
        queue: job.queue,
        class: job.class,
        payload: job.payload,
        priority: job.priority,
        tags: job.tags,
        attempt,
        crashes: 0,
        interrupted: 0,
        unknown: 0,
        retry: job.retry,
        time_limit: job.time_limit,
    };
    Fetched { job: Arc::new(job), lease }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_ledger_that_hangs_holds_up_no_renewal() {
        let dir = tempfile::tempdir().expect("a directory");
        let ledger = Ledger::open(dir.path(), true).expect("a ledger");
        let other = rusqlite::Connection::open(dir.path().join(FILE)).expect("the file");
        other.execute_batch("BEGIN IMMEDIATE").expect("its lock");
        let lease = Lease { job: "a".into(), fence: Fence(1), expires_at: clock::now() };
        let lasts = Duration::from_secs(4);
        let asked = ledger.renew(vec![lease], lasts);
        let answer = tokio::time::timeout(lasts / 4, asked).await;
        assert_eq!(answer, Ok(vec![None]), "the broker goes on without it");
    }
}
