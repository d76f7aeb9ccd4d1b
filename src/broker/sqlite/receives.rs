//! The store as a ledger: the receives that are open at a broker, for the supervisor after this one.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::call::Kind;
use super::handle::Sqlite;
use crate::broker::Error;
use crate::broker::ledger::OpenReceive;
use crate::model::{Millis, QueueName, millis_up};

/// The latest receive from each queue, until its answer.
pub(super) const RECEIVES: &str =
    "CREATE TABLE IF NOT EXISTS receive (queue TEXT PRIMARY KEY, until INTEGER NOT NULL,
    lease INTEGER NOT NULL) STRICT, WITHOUT ROWID";

impl Sqlite {
    /// Records that a receive from a queue is open; None = it was answered.
    pub(in crate::broker) async fn receives(
        &self,
        queue: QueueName,
        open: Option<OpenReceive>,
    ) -> Result<(), Error> {
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

    /// The receive from a queue that had no answer when its supervisor died.
    pub(in crate::broker) async fn open_receive(
        &self,
        queue: QueueName,
    ) -> Result<Option<OpenReceive>, Error> {
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
