//! Reads the columns of a row.

use std::time::Duration;

use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::de::DeserializeOwned;

use super::trouble::Trouble;
use broker::Error;
use common::stored::Stored;
use model::{Instance, JobState, Millis, Retry, WorkerId, WorkerName};

/// The state for a number on file.
pub(super) fn state(number: usize) -> JobState {
    // A number of a damaged file: nothing runs a held job, and a person looks at it.
    JobState::ALL.into_iter().find(|state| *state as usize == number).unwrap_or(JobState::Held)
}

pub(super) fn moment(row: &Row<'_>, column: usize) -> Result<Option<Millis>, rusqlite::Error> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Millis))
}

pub(super) fn instance(row: &Row<'_>, column: usize) -> Result<Option<Instance>, rusqlite::Error> {
    Ok(row.get::<_, Option<String>>(column)?.map(Into::into))
}

/// The life that runs a job or last ran it. A row of an earlier schema has only the number of its pool.
pub(super) fn worker(row: &Row<'_>, life: usize, pool: usize) -> Result<Option<WorkerName>, rusqlite::Error> {
    let Some(word) = row.get::<_, Option<i64>>(life)? else { return Ok(None) };
    let worker = WorkerId::from_u64(word as u64);
    let pool: Option<String> = row.get(pool)?;
    Ok(Some(WorkerName::new(pool.unwrap_or_else(|| format!("#{}", worker.slot.pool)), worker)))
}

/// A JSON column; NULL is `None`.
pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<Option<T>, Trouble> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Text(text) | ValueRef::Blob(text) => Ok(Some(serde_json::from_slice(text)?)),
        ValueRef::Integer(_) | ValueRef::Real(_) => {
            Err(Error::Failed("the store holds a number where JSON text should be".into()).into())
        }
    }
}

/// The same for a value that is stored in a form of its own.
pub(super) fn kept<T>(row: &Row<'_>, column: usize) -> Result<Option<T>, Trouble>
where
    Stored<T>: DeserializeOwned,
{
    Ok(json::<Stored<T>>(row, column)?.map(Stored::value))
}

/// Reads the three columns of a retry policy.
pub(super) fn retry(row: &Row<'_>, column: usize) -> Result<Option<Retry>, Trouble> {
    let Some(retries) = row.get(column)? else { return Ok(None) };
    let delay = duration(row, column + 1)?.unwrap_or_default();
    let cap = duration(row, column + 2)?.unwrap_or_default();
    Ok(Some(Retry { retries, delay, cap }))
}

pub(super) fn duration(row: &Row<'_>, column: usize) -> Result<Option<Duration>, Trouble> {
    Ok(row.get::<_, Option<u64>>(column)?.map(Duration::from_nanos))
}
