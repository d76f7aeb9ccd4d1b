//! Jobs whose rows cannot be read, because of a bad disk or a change by another program. Each is held with a reason, so
//! that the rest of its queue goes on; lists show what can be read.

use rusqlite::{ErrorCode, OptionalExtension, Row, params};

use super::columns::state;
use super::store::Store;
use super::trouble::Trouble;
use common::stored;
use model::{Failure, Fence, JobId, JobRecord, JobState, Millis, What};

/// The failure group of such jobs.
const GROUP: &str = "unreadable";

/// A job that cannot be read: its row, and why.
pub(super) type Unreadable = (i64, String);

/// Why the current row cannot be read; None if the store itself has trouble.
pub(super) fn fault(trouble: &Trouble) -> Option<String> {
    use rusqlite::Error as Sql;
    match trouble {
        Trouble::Mine(error) => Some(error.to_string()),
        Trouble::Store(Sql::QueryReturnedNoRows) => Some("its data is not in the store".into()),
        Trouble::Store(
            error @ (Sql::FromSqlConversionFailure(..)
            | Sql::IntegralValueOutOfRange(..)
            | Sql::InvalidColumnType(..)
            | Sql::Utf8Error(..)),
        ) => Some(format!("the store holds a field that cannot be read: {error}")),
        Trouble::Store(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            Some(format!("the store is damaged where the job is kept: {error}"))
        }
        Trouble::Store(_) => None,
    }
}

/// Holds such a job of a queue that is about to be fetched from.
pub(super) fn hold(store: &mut Store, queue: i64, (row, why): Unreadable, now: i64) -> Result<(), Trouble> {
    let failure = failure(why);
    // The id may itself be damaged: cast, and read as far as it is text.
    let id: Option<JobId> = store
        .conn
        .prepare_cached(
            "UPDATE job SET state = 6, ended_at = ?2, failure = ?3, failure_group = ?4 WHERE id = ?1
             RETURNING CAST(jid AS TEXT)",
        )?
        .query_row(params![row, now, stored::to_json(&failure)?, GROUP], |row| {
            Ok(String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?).into_owned().into())
        })
        .optional()?;
    let Some(id) = id else { return Ok(()) };
    tracing::error!(job = %id, why = failure.message, "a job cannot be read: it is held, and its queue goes on");
    store.moved(queue, Some(JobState::Waiting), JobState::Held);
    store.happened(&id, queue, What::of_end(JobState::Held), JobState::Held)?;
    store.ended(id, JobState::Held);
    Ok(())
}

fn failure(message: String) -> Failure {
    Failure { group: GROUP.into(), message, trace: None }
}

/// The part of a job that can be shown though its record cannot be read. The columns are those of
/// [`super::read::RECORD`].
pub(super) fn remains(row: &Row<'_>, why: String) -> Result<JobRecord, Trouble> {
    let text = |column: usize| -> Result<String, Trouble> {
        let bytes = row.get_ref(column)?.as_bytes_or_null().ok().flatten().unwrap_or_default();
        Ok(String::from_utf8_lossy(bytes).into_owned())
    };
    let state = state(row.get(4).unwrap_or_default());
    Ok(JobRecord {
        priority: row.get(5).unwrap_or_default(),
        attempt: row.get(7).unwrap_or_default(),
        crashes: row.get(12).unwrap_or_default(),
        interrupted: row.get(13).unwrap_or_default(),
        put_at: Millis(row.get(14).unwrap_or_default()),
        ended_at: row.get::<_, Option<i64>>(17).unwrap_or_default().map(Millis),
        fence: Fence(row.get(20).unwrap_or_default()),
        failure: Some(failure(why)),
        ..JobRecord::new(text(1)?.into(), text(2)?.into(), text(3)?.into(), state)
    })
}
