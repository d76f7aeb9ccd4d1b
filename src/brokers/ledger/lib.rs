//! The ledger: history for a broker that keeps none. SQS keeps no history, cannot list jobs and cannot show one. So
//! this host records the jobs that it takes in an embedded store in the state directory.
//!
//! The broker is the truth about who may run; the ledger never grants anything. A ledger that is lost or slow loses history,
//! never a job: every call here has an answer without it. What a full disk refuses is written later.

#![warn(unreachable_pub)]

mod ask;
mod change;
mod queue;
mod source;
mod writer;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use self::change::Write;
use self::writer::Writer;

pub use self::source::{BareSource, WaitingJobs, with_ledger};
use broker::{Complaints, Error, Fetch, Health, Notice, Renewal, Settling, Source};
use model::{
    Count, Fence, Fetched, Instance, Instant, Job, JobId, JobState, Lease, Progress, QueueName, Revocation,
    Settlement, Verdict, WorkerId,
};
use sqlite::Sqlite;
pub use sqlite::{Adopted, Delivery, Elsewhere, Handle, OpenReceive, Received};

/// How long a call waits for the ledger before it goes on without the answer. The change may yet be written.
const PATIENCE: Duration = Duration::from_secs(2);

/// A fetch waits for the ledger for a quarter of the lease at most, and a renewal for a sixteenth. So a disk that hangs
/// does not end jobs that the broker has given or renewed in time.
const FETCH_WAITS: u32 = 4;
const RENEWAL_WAITS: u32 = 16;

/// The name of its file in the state directory.
const FILE: &str = "ledger.db";

/// The ledger of one state directory.
pub struct Ledger {
    store: Arc<Sqlite>,
    /// Why the ledger is in memory only; None if it is on disk.
    lost: Option<String>,
    writer: Arc<Writer>,
    wrong: Complaints,
}

impl Ledger {
    /// Opens the ledger of a state directory; if that fails, one in memory. `serves` says whether this process fetches
    /// jobs.
    pub fn open(state_dir: &Path, serves: bool) -> Result<Ledger, Error> {
        Ledger::open_in(state_dir, sqlite::Options { serves, ..sqlite::Options::default() })
    }

    /// The same, with given options for the store.
    pub fn open_in(state_dir: &Path, options: sqlite::Options) -> Result<Ledger, Error> {
        let world = options.world.clone();
        let (store, lost) = match Sqlite::open(state_dir.join(FILE), options) {
            Ok(store) => (store, None),
            // Without its file history is lost and no job: the broker has the jobs.
            Err(error) => (Sqlite::memory_in(world)?, Some(error.to_string())),
        };
        let (wrong, store) = (store.complaints(), Arc::new(store));
        Ok(Ledger { writer: Writer::new(store.clone()), store, lost, wrong })
    }

    /// Failures of the ledger, and of the broker's other background tasks.
    pub fn complaints(&self) -> Complaints {
        self.wrong.clone()
    }

    /// The store, for verbs and lists.
    pub fn store(&self) -> Arc<Sqlite> {
        self.store.clone()
    }

    /// Makes the table of deliveries, once.
    async fn prepare(&self) {
        self.note("failed to prepare the ledger", self.writer.prepare().await);
    }

    /// The sizes of the ledger's files.
    pub fn health(&self) -> Health {
        // Its trouble is a concern, not a failure: jobs run without a ledger.
        Health { trouble: None, ..self.store.health() }
    }

    /// A concern: history is not kept.
    pub fn concern(&self) -> Option<String> {
        match (&self.lost, self.store.health().trouble) {
            (Some(lost), _) => Some(format!("the history of jobs is kept in memory only: {lost}")),
            (None, Some(trouble)) => Some(format!("the history of jobs is not kept: {trouble}")),
            (None, None) => self.store.losses().map(|lost| format!("of the history of jobs {lost}")),
        }
    }

    /// Records deliveries and says which ones run: each comes with its worker. Without a ledger all of them run.
    pub async fn adopt(&self, request: &Fetch, given: Vec<(Delivery, WorkerId)>) -> Vec<Adopted> {
        let patience = PATIENCE.min(request.lease / FETCH_WAITS);
        match self.write_within(patience, Write::Adopt(request.clone(), given.clone())).await {
            Some(adopted) => adopted,
            None => given.into_iter().map(|(delivery, _)| Adopted::Runs(unwritten(delivery))).collect(),
        }
    }

    /// Records that deliveries were no attempts, each with its number: these went back before they ran. For a broker that
    /// counts them.
    pub async fn gave_back(&self, jobs: Vec<(JobId, u32)>) {
        self.write(Write::GaveBack(jobs)).await;
    }

    /// Records that a receive from a queue is open; None = it was answered. False = it is not recorded.
    pub async fn receives(&self, queue: &QueueName, open: Option<OpenReceive>) -> bool {
        let noted = self.soon("failed to write into the ledger which receives are open", async {
            self.prepare().await;
            self.store.receives(queue.clone(), open).await
        });
        noted.await.is_some()
    }

    /// The receive from a queue that had no answer when its supervisor died.
    pub async fn open_receive(&self, queue: &QueueName) -> Option<OpenReceive> {
        let asked = self.soon("failed to read from the ledger which receives were open", async {
            self.prepare().await;
            self.store.open_receive(queue.clone()).await
        });
        asked.await.flatten()
    }

    /// The verdicts to apply: a job that is being canceled is canceled, unless it completed before its kill.
    pub async fn in_force(&self, ends: Vec<Settlement>) -> Vec<Settlement> {
        let is_done =
            |verdict: &Verdict| matches!(verdict, Verdict::Complete { next: None, .. } | Verdict::Canceled);
        if ends.iter().all(|end| is_done(&end.verdict)) {
            return ends;
        }
        let asked = ends.iter().map(|end| (end.job.clone(), end.fence)).collect();
        let asked = self.soon("failed to read from the ledger who is canceled", self.store.canceling(asked));
        // Without an answer the verdicts stand.
        let canceled = asked.await.unwrap_or_default().into_iter().chain(std::iter::repeat(false));
        let in_force = |(end, is_canceled): (Settlement, bool)| match is_canceled && !is_done(&end.verdict) {
            true => Settlement { verdict: Verdict::Canceled, ..end },
            false => end,
        };
        ends.into_iter().zip(canceled).map(in_force).collect()
    }

    /// Records how jobs ended, by the answers of their broker. A job may be complete there for another reason than its
    /// verdict.
    pub async fn settle(&self, ends: Vec<Settlement>, answers: &[Settling]) {
        let applied =
            ends.into_iter().zip(answers).filter_map(|(end, answer)| match (answer, &end.verdict) {
                (Settling::Aside | Settling::NotOurs | Settling::Failed(_), _) => None,
                (Settling::Settled(JobState::Complete), Verdict::Complete { .. }) => Some(end),
                (Settling::Settled(JobState::Complete), _) => {
                    Some(Settlement { verdict: Verdict::Complete { result: None, next: None }, ..end })
                }
                // Another host has canceled it.
                (Settling::Settled(JobState::Canceled), _) => {
                    Some(Settlement { verdict: Verdict::Canceled, ..end })
                }
                (Settling::Settled(_), _) => Some(end),
            });
        self.write(Write::Ends(applied.collect(), Vec::new())).await;
    }

    /// Adds words to the histories of jobs.
    pub async fn noted(&self, notes: Vec<(JobId, String)>) {
        if !notes.is_empty() {
            self.write(Write::Noted(notes)).await;
        }
    }

    /// Records how a job ends whose message is deleted next. That message runs here no more, even if its deletion fails.
    /// It may be None where the id of the job says so: see [`Delivery::message`].
    pub async fn end(&self, end: Settlement, message: Option<String>) {
        self.write(Write::Ends(vec![end], message.into_iter().collect())).await;
    }

    /// Records that leases are lost, as their broker says, each with what its end counts as. A supervisor that lives to
    /// say so is no death: only one that this host knows of is [`Count::Interrupted`].
    pub async fn lost(&self, leases: Vec<(JobId, Fence, Count)>) {
        if !leases.is_empty() {
            self.write(Write::Lost(leases)).await;
        }
    }

    /// Records that a message runs here no more, though it was no job, or one that is held: if that comes in another
    /// message, somebody has put it back.
    pub async fn discarded(&self, message: String, job: JobId) {
        self.write(Write::Discarded(message, job)).await;
    }

    /// The next jobs after `place` that the ledger has as waiting, in order, with their places.
    pub async fn waiting_behind(&self, place: i64) -> Vec<(i64, JobId)> {
        let asked = self.store.waiting_behind(place);
        self.soon("failed to read from the ledger what waits", asked).await.unwrap_or_default()
    }

    /// Records how jobs ended elsewhere. Jobs that the ledger does not have as waiting are left as they are.
    pub async fn learn(&self, ended: Vec<(JobId, Elsewhere)>) {
        if !ended.is_empty() {
            self.write(Write::Learn(ended)).await;
        }
    }

    /// How often a job was delivered, as far as this host knows.
    pub async fn received(&self, job: JobId) -> Option<u32> {
        let asked = self.soon("failed to read from the ledger how often a job was delivered", async {
            self.prepare().await;
            self.store.received(job).await
        });
        asked.await.flatten()
    }

    /// The jobs of a queue that have waited since a lease before `then`, 500 at most: those first that were delivered
    /// most often. No lease of this host's hides one of them.
    pub async fn received_before(&self, queue: &QueueName, then: Instant, lease: Duration) -> Vec<Received> {
        let asked = self.soon("failed to read from the ledger what waits", async {
            self.prepare().await;
            self.store.received_before(queue.clone(), then, lease).await
        });
        asked.await.unwrap_or_default()
    }

    /// Whether a message is to run no more.
    pub async fn has_ended(&self, message: String) -> bool {
        let asked = self.soon("failed to read from the ledger what has ended", async {
            self.prepare().await;
            self.store.has_ended(message).await
        });
        asked.await.unwrap_or(false)
    }

    /// Extends leases, and says whether a job is being canceled; None where the ledger does not know the job.
    pub async fn renew(&self, leases: Vec<Lease>, by: Duration) -> Vec<Option<Renewal>> {
        let count = leases.len();
        let patience = PATIENCE.min(by / RENEWAL_WAITS);
        let renewed =
            self.within(patience, "failed to renew leases in the ledger", self.store.renew(leases, by)).await;
        renewed.map_or_else(|| vec![None; count], |renewals| renewals.into_iter().map(Some).collect())
    }

    /// Writes what is owed, if the disk takes it now: nothing is written after this.
    pub async fn close(&self) {
        // Its complaint says what is wrong.
        self.writer.pay().await.ok();
    }

    /// Records that the jobs of an instance wait again, apart from those in `keep`.
    pub async fn recover(&self, instance: Instance, keep: Vec<(JobId, Fence)>) {
        self.write(Write::Recover(instance, keep)).await;
    }

    /// The handles of deliveries that a supervisor held when it died, and may still hold.
    pub async fn held(&self, instance: &Instance) -> Vec<Handle> {
        self.prepare().await;
        let held = self.store.handles(instance.clone()).await;
        self.note("failed to read the ledger", held).unwrap_or_default()
    }

    /// Records the progress of jobs.
    pub async fn progress(&self, notes: Vec<(JobId, Fence, Progress)>) {
        self.soon("failed to write progress into the ledger", self.store.progress(notes)).await;
    }

    /// The next notice about running jobs, such as a cancel. Only their broker says that a lease expired.
    pub async fn next_notice(&self) -> Notice {
        loop {
            match self.store.next_notice().await {
                Notice::Revoked { why: Revocation::LockLost, .. } => {}
                notice @ (Notice::Wake(_) | Notice::Revoked { .. }) => return notice,
            }
        }
    }

    /// Makes [`Ledger::next_notice`] return this.
    pub fn say(&self, notice: Notice) {
        self.store.notices().push(notice);
    }

    async fn write(&self, write: Write) {
        self.write_within(PATIENCE, write).await;
    }

    /// The answers for deliveries, if there are some without an error in time.
    async fn write_within(&self, patience: Duration, write: Write) -> Option<Vec<Adopted>> {
        let what = write.what();
        match tokio::time::timeout(patience, self.writer.clone().write(write)).await {
            // The writer notes its failures itself.
            Ok(answer) => answer.ok(),
            Err(_) => self.note(what, Err(slow(patience))),
        }
    }

    /// The answer, if there is one without an error within [`PATIENCE`].
    async fn soon<T>(&self, what: &str, asked: impl Future<Output = Result<T, Error>>) -> Option<T> {
        self.within(PATIENCE, what, asked).await
    }

    /// The answer, if there is one without an error in time.
    async fn within<T>(
        &self,
        patience: Duration,
        what: &str,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Option<T> {
        self.note(what, tokio::time::timeout(patience, asked).await.unwrap_or_else(|_| Err(slow(patience))))
    }

    fn note<T>(&self, what: &str, answer: Result<T, Error>) -> Option<T> {
        self.wrong.note(what, &answer, clock::now());
        answer.ok()
    }
}

fn slow(patience: Duration) -> Error {
    Error::Failed(format!("its disk has not answered for {} ms", patience.as_millis()))
}

/// A delivery that is not recorded in the ledger.
fn unwritten(delivery: Delivery) -> Fetched {
    let Delivery { job, lease, attempt, .. } = delivery;
    let job = Job {
        id: lease.job.clone(),
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
    Fetched { job: Arc::new(job), lease, waited: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hanging_ledger_delays_no_renewal() {
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
