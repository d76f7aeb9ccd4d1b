//! After a ring of the bell: handles what other processes did that concerns this one.

use rusqlite::{OptionalExtension, params};

use super::columns::state;
use super::store::Store;
use broker::Error;
use model::{Fence, JobId, QueueSet, Revocation};

/// Makes the changes of other processes take effect here.
pub(super) fn look_around(store: &mut Store) -> Result<(), rusqlite::Error> {
    // The bell does not say what has changed.
    store.effects.wake = QueueSet::All;
    let mut statement = store.conn.prepare_cached(
        "SELECT jid, fence FROM job INDEXED BY job_expiry WHERE expires_at IS NOT NULL AND state = 3",
    )?;
    let canceling: Vec<(JobId, Fence)> = statement
        .query_map([], |row| Ok((row.get::<_, String>(0)?.into(), Fence(row.get(1)?))))?
        .collect::<Result<_, _>>()?;
    drop(statement);
    let revoked = canceling.into_iter().map(|(id, fence)| (id, fence, Revocation::Canceled));
    store.effects.revoked.extend(revoked);
    let (mut ended, mut gone) = (Vec::new(), Vec::new());
    for id in store.waiters.keys() {
        let mut statement = store.conn.prepare_cached("SELECT state FROM job WHERE jid = ?1")?;
        let state = statement.query_row(params![id.as_str()], |row| Ok(state(row.get(0)?))).optional()?;
        match state {
            Some(state) if state.has_ended() => ended.push((id.clone(), state)),
            Some(_) => {}
            None => gone.push(id.clone()),
        }
    }
    // It ended and was removed since the last look: how it ended is not known any more.
    for id in gone {
        for waiter in store.waiters.remove(&id).unwrap_or_default() {
            waiter.tell(Err(Error::NoJob(id.clone())));
        }
    }
    store.effects.ended.extend(ended);
    Ok(())
}
