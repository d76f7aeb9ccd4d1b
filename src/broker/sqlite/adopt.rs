//! The store as the ledger of a broker that keeps no history: it records jobs that another broker has already handed
//! out, and grants no lease by itself. Its writes do not wait for the disk.

use std::sync::Arc;

use rusqlite::{OptionalExtension, params};

use super::call::Kind;
use super::columns::state;
use super::handle::Sqlite;
use super::lease::{self, HeldLease};
use super::put::{self, Granted};
use super::store::Store;
use super::trouble::Trouble;
use super::waiting::Found;
use super::{admin, settle};
use crate::broker::ledger::{Adopted, Delivery, Handle};
use crate::broker::{Error, Fetch, Settling};
use crate::model::{Fence, Fetched, Instance, Instant, Job, JobId, JobState, Settlement, What, WorkerId};

/// A broker's handles for deliveries.
const HANDLES: &str = "CREATE TABLE IF NOT EXISTS handle (
    job INTEGER PRIMARY KEY, fence INTEGER NOT NULL, handle TEXT NOT NULL) STRICT;
    DELETE FROM handle WHERE job NOT IN (SELECT id FROM job WHERE expires_at IS NOT NULL)";

impl Sqlite {
    /// Makes the store a ledger, by one more table.
    pub(in crate::broker) async fn keep_handles(&self) -> Result<(), Error> {
        self.run(Kind::Lease, |store| {
            store.is_ledger = true;
            Ok(store.conn.execute_batch(HANDLES)?)
        })
        .await
    }

    /// Records deliveries, each with its worker, and answers each.
    pub(in crate::broker) async fn adopt(
        &self,
        request: Fetch,
        given: Vec<(Delivery, WorkerId)>,
    ) -> Result<Vec<Adopted>, Error> {
        let now = self.now();
        self.run(Kind::Lease, move |store| {
            given.iter().map(|(delivery, worker)| adopt(store, &request, delivery, *worker, now)).collect()
        })
        .await
    }

    /// Records how jobs ended.
    pub(in crate::broker) async fn note_ends(&self, ends: Vec<Settlement>) -> Result<Vec<Settling>, Error> {
        let now = self.now();
        self.run(Kind::Note, move |store| {
            if store.conn.prepare_cached("SELECT 1 FROM handle LIMIT 1")?.exists([])? {
                ends.iter().try_for_each(|end| forget_handle(store, &end.job))?;
            }
            settle::settle(store, &ends, now)
        })
        .await
    }

    /// Which of these leases belong to jobs that are being canceled.
    pub(in crate::broker) async fn canceling(&self, asked: Vec<(JobId, Fence)>) -> Result<Vec<bool>, Error> {
        self.run(Kind::Read, move |store| {
            let canceling = JobState::Canceling as usize;
            let mut look = store
                .conn
                .prepare_cached("SELECT 1 FROM job WHERE jid = ?1 AND fence = ?2 AND state = ?3")?;
            let mut answers = Vec::with_capacity(asked.len());
            for (job, fence) in &asked {
                answers.push(look.exists(params![job.as_str(), fence.0, canceling])?);
            }
            Ok(answers)
        })
        .await
    }

    /// The jobs that an instance held when it died, with the broker's handles.
    pub(in crate::broker) async fn handles(&self, instance: Instance) -> Result<Vec<Handle>, Error> {
        self.run(Kind::Read, move |store| {
            let mut statement = store.conn.prepare_cached(
                "SELECT jid, job.fence, coalesce(handle, ''), queue.name, state FROM job
                 LEFT JOIN handle ON handle.job = job.id AND handle.fence = job.fence
                 JOIN queue ON queue.id = job.queue WHERE expires_at > ?2 AND instance = ?1",
            )?;
            let rows = statement.query_map(params![instance.as_str(), store.time()], |row| {
                Ok(Handle {
                    job: row.get::<_, String>(0)?.into(),
                    fence: Fence(row.get(1)?),
                    handle: row.get(2)?,
                    queue: row.get::<_, String>(3)?.into(),
                    is_canceling: state(row.get(4)?) == JobState::Canceling,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }
}

fn adopt(
    store: &mut Store,
    request: &Fetch,
    delivery: &Delivery,
    worker: WorkerId,
    now: Instant,
) -> Result<Adopted, Trouble> {
    let Delivery { job, fence, attempt, handle, .. } = delivery;
    let id = job.id.clone().unwrap_or_else(|| "".into());
    let queue = store.queue_made(&job.queue)?;
    let time = store.millis(now);
    let known = known(store, &id)?;
    let counted = match known {
        Some((_, JobState::Complete)) if delivery.is_own_id => return Ok(Adopted::Complete),
        Some((row, state)) => {
            wait_again(store, &id, (row, queue, state), now)?;
            counters(store, row)?
        }
        None => Counters::default(),
    };
    let run = Job {
        id: id.clone(),
        queue: job.queue.clone(),
        class: job.class.clone(),
        payload: job.payload.clone(),
        priority: job.priority,
        attempt: counted.attempt.saturating_add(1).max(*attempt),
        crashes: counted.crashes,
        interrupted: counted.interrupted,
        unknown: counted.unknown,
        tags: job.tags.clone(),
        retry: job.retry,
        time_limit: job.time_limit,
    };
    let (row, job, lease) = match known {
        Some((row, _)) => {
            let found = Found { row, fence: fence.0.saturating_sub(1), ready: time, job: run };
            let lease = lease::grant(store, request, queue, worker, &found, now)?;
            store.moved(queue, Some(JobState::Waiting), JobState::Running);
            (row, found.job, lease)
        }
        None => {
            let granted = Granted { request, worker, fence: *fence, attempt: run.attempt };
            let row = put::insert(store, job, &id, (false, Some(&granted)), time)?;
            (row, run, lease::granted(store, request, (queue, time), (&id, *fence), now))
        }
    };
    store.happened(&id, queue, What::Fetched, JobState::Running)?;
    if !handle.is_empty() {
        store
            .conn
            .prepare_cached("INSERT OR REPLACE INTO handle (job, fence, handle) VALUES (?1, ?2, ?3)")?
            .execute(params![row, fence.0, handle])?;
    }
    Ok(Adopted::Runs(Fetched { job: Arc::new(job), lease }))
}

/// The job, if it was recorded before.
fn known(store: &Store, id: &JobId) -> Result<Option<(i64, JobState)>, Trouble> {
    let mut statement = store.conn.prepare_cached("SELECT id, state FROM job WHERE jid = ?1")?;
    Ok(statement.query_row([id.as_str()], |row| Ok((row.get(0)?, state(row.get(1)?)))).optional()?)
}

/// Whatever the state recorded here: the broker has delivered the job, so it was waiting.
fn wait_again(
    store: &mut Store,
    id: &JobId,
    (row, queue, from): (i64, i64, JobState),
    now: Instant,
) -> Result<(), Trouble> {
    let time = store.millis(now);
    match from {
        JobState::Waiting => Ok(()),
        JobState::Delayed | JobState::Depends => {
            store
                .conn
                .prepare_cached("UPDATE job SET state = 0, due_at = NULL, ready_at = ?2 WHERE id = ?1")?
                .execute([row, time])?;
            store.moved(queue, Some(from), JobState::Waiting);
            Ok(())
        }
        JobState::Running | JobState::Canceling => {
            let mut statement =
                store.conn.prepare_cached(&format!("SELECT {} FROM job WHERE id = ?1", lease::HELD_LEASE))?;
            let held: HeldLease = statement.query_row([row], lease::held_lease)?;
            drop(statement);
            lease::take_back(store, &HeldLease { state: JobState::Running, ..held }, false, time)?;
            match known(store, id)? {
                Some((_, JobState::Waiting)) | None => Ok(()),
                // The ledger's own rule holds the job, but its broker has delivered it all the same.
                Some((_, to)) => admin::put_back(store, id, row, queue, to, "its broker", time),
            }
        }
        JobState::Complete | JobState::Failed | JobState::Held | JobState::Canceled => {
            admin::put_back(store, id, row, queue, from, "its broker", time)
        }
    }
}

#[derive(Default)]
struct Counters {
    attempt: u32,
    crashes: u32,
    interrupted: u32,
    unknown: u32,
}

fn counters(store: &Store, row: i64) -> Result<Counters, Trouble> {
    let mut statement =
        store.conn.prepare_cached("SELECT attempt, crashes, interrupted, unknown FROM job WHERE id = ?1")?;
    Ok(statement.query_row([row], |row| {
        Ok(Counters {
            attempt: row.get(0)?,
            crashes: row.get(1)?,
            interrupted: row.get(2)?,
            unknown: row.get(3)?,
        })
    })?)
}

fn forget_handle(store: &Store, job: &JobId) -> Result<(), Trouble> {
    store
        .conn
        .prepare_cached("DELETE FROM handle WHERE job = (SELECT id FROM job WHERE jid = ?1)")?
        .execute([job.as_str()])?;
    Ok(())
}
