//! The rows of recurring jobs, with the columns that firing needs.

use rusqlite::Row;

use super::store::Store;
use super::trouble::Trouble;
use common::stored;
use model::Recurring;

/// A recurring job in force.
pub(super) struct InForce {
    pub(super) row: i64,
    pub(super) recurring: Recurring,
    pub(super) next_at: Option<i64>,
    pub(super) count: u64,
    pub(super) latest: Option<i64>,
}

/// The columns [`in_force`] reads.
pub(super) const IN_FORCE: &str = "id, spec, next_at, count, latest";

pub(super) fn in_force(row: &Row<'_>) -> Result<InForce, Trouble> {
    let spec = row.get_ref(1)?.as_str().unwrap_or_default();
    Ok(InForce {
        row: row.get(0)?,
        recurring: stored::from_json(spec.as_bytes())?,
        next_at: row.get(2)?,
        count: row.get(3)?,
        latest: row.get(4)?,
    })
}

/// The recurring job of this name.
pub(super) fn find(store: &Store, name: &str) -> Result<Option<InForce>, Trouble> {
    let mut statement = store
        .conn
        .prepare_cached(&format!("SELECT {IN_FORCE} FROM recurring WHERE name = ?1 AND NOT removed"))?;
    let mut rows = statement.query([name])?;
    rows.next()?.map(in_force).transpose()
}
