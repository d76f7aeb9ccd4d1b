//! The store as a ledger: the receives that are open at a broker, for the supervisor after this one; and how often
//! messages were received.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::call::Kind;
use super::handle::Sqlite;
use super::store::Store;
use super::trouble::Trouble;
use crate::delivery::{OpenReceive, Received};
use broker::Error;
use model::{Instant, JobId, Millis, QueueName, millis_up};

/// The latest receive from each queue, until its answer.
pub(super) const RECEIVES: &str =
    "CREATE TABLE IF NOT EXISTS receive (queue TEXT PRIMARY KEY, until INTEGER NOT NULL,
    lease INTEGER NOT NULL) STRICT, WITHOUT ROWID";

/// Limit of the jobs that one call returns.
const SOME: usize = 500;

impl Sqlite {
    /// Records that a receive from a queue is open; None = it was answered.
    pub async fn receives(&self, queue: QueueName, open: Option<OpenReceive>) -> Result<(), Error> {
        self.run(Kind::Note, move |store| {
            let Some(OpenReceive { until, lease }) = open else {
                let mut forget = store.conn.prepare_cached("DELETE FROM receive WHERE queue = ?1")?;
                forget.execute([queue.as_str()])?;
                return Ok(());
            };
            let mut keep = store
                .conn
                .prepare_cached("INSERT OR REPLACE INTO receive (queue, until, lease) VALUES (?1, ?2, ?3)")?;
            keep.execute(params![queue.as_str(), until.0, millis_up(lease)])?;
            Ok(())
        })
        .await
    }

    /// How often a job was delivered; None if its broker does not count deliveries, or if none is recorded.
    pub async fn received(&self, job: JobId) -> Result<Option<u32>, Error> {
        self.run(Kind::Read, move |store| counted(store, &job)).await
    }

    /// The jobs of a queue that have waited since a lease before `then`, those first that were delivered most often.
    pub async fn received_before(
        &self,
        queue: QueueName,
        then: Instant,
        lease: Duration,
    ) -> Result<Vec<Received>, Error> {
        self.run(Kind::Read, move |store| {
            let Some(queue) = store.queue(&queue)? else { return Ok(Vec::new()) };
            let before = store.millis(then).saturating_sub(millis_up(lease));
            let mut statement = store.conn.prepare_cached(&format!(
                "SELECT jid, counted FROM job INDEXED BY job_waiting JOIN delivery USING (jid)
                 WHERE state = 0 AND queue = ?1 AND ready_at <= ?2 ORDER BY counted DESC LIMIT {SOME}"
            ))?;
            let rows = statement.query_map(params![queue.id, before], |row| {
                Ok(Received { job: row.get::<_, String>(0)?.into(), times: row.get(1)? })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// The receive from a queue that had no answer when its supervisor died.
    pub async fn open_receive(&self, queue: QueueName) -> Result<Option<OpenReceive>, Error> {
        self.run(Kind::Read, move |store| {
            let mut look = store.conn.prepare_cached("SELECT until, lease FROM receive WHERE queue = ?1")?;
            let row = look.query_row([queue.as_str()], |row| {
                Ok(OpenReceive { until: Millis(row.get(0)?), lease: Duration::from_millis(row.get(1)?) })
            });
            Ok(row.optional()?)
        })
        .await
    }
}

/// How many deliveries the job's attempts account for; None if its broker does not count deliveries, or if none is
/// recorded.
pub(super) fn counted(store: &Store, id: &JobId) -> Result<Option<u32>, Trouble> {
    let mut statement = store.conn.prepare_cached("SELECT counted FROM delivery WHERE jid = ?1")?;
    Ok(statement.query_row([id.as_str()], |row| row.get(0)).optional()?)
}
