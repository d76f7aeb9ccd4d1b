//! The store as the ledger of a broker that keeps no history: it records jobs that another broker has already handed
//! out, and grants no lease by itself. Its writes do not wait for the disk.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::call::Kind;
use super::columns::state;
use super::handle::Sqlite;
use super::lapse::{self, HeldLease};
use super::learn::{forget_delivery, known};
use super::lease;
use super::put::{self, Granted};
use super::receives::{RECEIVES, counted};
use super::store::Store;
use super::trouble::Trouble;
use super::waiting::Found;
use super::{admin, history, settle};
use crate::delivery::{Adopted, Delivery, Handle};
use broker::{Error, Fetch, Settling};
use common::stored;
use model::{
    Count, Failure, Fence, Fetched, Happened, Instance, Instant, Job, JobId, JobState, Lease, Settlement,
    What, WorkerId,
};

/// The latest delivery of each job that a broker counts: its fence, the broker's handle, and how many deliveries the
/// job's attempts account for. A later one is an attempt more for each delivery beyond these. And the messages that are
/// to run no more, whatever becomes of their deletion.
const DELIVERIES: &str = "DROP TABLE IF EXISTS handle;
    CREATE TABLE IF NOT EXISTS delivery (jid TEXT PRIMARY KEY, fence INTEGER NOT NULL, handle TEXT NOT NULL,
    counted INTEGER NOT NULL, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS ended_message (id TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID";

/// The number of the latest delivery that `counted` knows of, so that none goes back twice. Earlier ledgers lack it.
const LATEST: &str = "ALTER TABLE delivery ADD COLUMN latest INTEGER NOT NULL DEFAULT 0";

impl Sqlite {
    /// Makes the store a ledger, by more tables.
    pub async fn keep_deliveries(&self) -> Result<(), Error> {
        self.run(Kind::Lease, |store| {
            store.conn.execute_batch(DELIVERIES)?;
            if !store.conn.column_exists(None, "delivery", "latest")? {
                store.conn.execute_batch(LATEST)?;
            }
            store.conn.execute_batch(RECEIVES)?;
            store.is_ledger = true;
            Ok(())
        })
        .await
    }

    /// Records that deliveries of jobs, each with its number, were no attempts: they went back before they ran.
    pub async fn gave_back(&self, jobs: Vec<(JobId, u32)>) -> Result<(), Error> {
        self.run(Kind::Note, move |store| {
            let now = store.time();
            let mut statement = store.conn.prepare_cached(
                "INSERT INTO delivery (jid, fence, handle, counted, at, latest)
                 VALUES (?1, 0, '', coalesce((SELECT attempt FROM job WHERE jid = ?1), 0) + 1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET counted = counted + 1, latest = ?3 WHERE latest < ?3",
            )?;
            for (job, number) in &jobs {
                statement.execute(params![job.as_str(), now, number])?;
            }
            Ok(())
        })
        .await
    }

    /// Records deliveries, each with its worker, and answers each.
    pub async fn adopt(
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

    /// Records how jobs ended, and messages that are to run no more.
    pub async fn note_ends(
        &self,
        ends: Vec<Settlement>,
        messages: Vec<String>,
    ) -> Result<Vec<Settling>, Error> {
        let now = self.now();
        self.run(Kind::Note, move |store| {
            let answers = settle::settle(store, &ends, now)?;
            for message in &messages {
                end_message(store, message, now)?;
            }
            for (end, answer) in ends.iter().zip(&answers) {
                // A job that waits again keeps its count: its broker goes on counting, too.
                if matches!(answer, Settling::Settled(state) if state.has_ended()) {
                    forget_delivery(store, &end.job)?;
                }
            }
            Ok(answers)
        })
        .await
    }

    /// Records that a message is to run no more though it was no job, or one that is held. What is known of the deliveries
    /// of a held job was that message's: another message of it counts from one.
    pub async fn discarded(&self, message: String, job: JobId) -> Result<(), Error> {
        let now = self.now();
        self.run(Kind::Note, move |store| {
            end_message(store, &message, now)?;
            match known(store, &job)? {
                Some((_, JobState::Held)) => forget_delivery(store, &job),
                _ => Ok(()),
            }
        })
        .await
    }

    /// Records that leases are lost, each with what its end counts as: no worker here runs these jobs.
    pub async fn lost(&self, leases: Vec<(JobId, Fence, Count)>) -> Result<(), Error> {
        let now = self.now();
        self.run(Kind::Note, move |store| lapse::lose(store, &leases, store.millis(now))).await
    }

    /// Whether this message is to run no more.
    pub async fn has_ended(&self, message: String) -> Result<bool, Error> {
        self.run(Kind::Read, move |store| has_ended(store, &message)).await
    }

    /// Which of these leases belong to jobs that are being canceled.
    pub async fn canceling(&self, asked: Vec<(JobId, Fence)>) -> Result<Vec<bool>, Error> {
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
    pub async fn handles(&self, instance: Instance) -> Result<Vec<Handle>, Error> {
        self.run(Kind::Read, move |store| {
            let mut statement = store.conn.prepare_cached(
                "SELECT jid, job.fence, coalesce(handle, ''), queue.name, state, expires_at - ?2 FROM job
                 LEFT JOIN delivery USING (jid, fence)
                 JOIN queue ON queue.id = job.queue WHERE expires_at > ?2 AND instance = ?1",
            )?;
            let rows = statement.query_map(params![instance.as_str(), store.time()], |row| {
                Ok(Handle {
                    job: row.get::<_, String>(0)?.into(),
                    fence: Fence(row.get(1)?),
                    handle: row.get(2)?,
                    queue: row.get::<_, String>(3)?.into(),
                    is_canceling: state(row.get(4)?) == JobState::Canceling,
                    lasts: Duration::from_millis(row.get(5)?),
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
    let Delivery { job, lease: Lease { job: id, fence, .. }, attempt, message, .. } = delivery;
    if has_ended(store, message)? {
        return Ok(Adopted::Ended);
    }
    if let Some(fetched) = made_before(store, request, delivery)? {
        return Ok(Adopted::Runs(fetched));
    }
    let queue = store.queue_made(&job.queue)?;
    let time = store.millis(now);
    if let Some((row, JobState::Running | JobState::Canceling)) = known(store, id)? {
        end_lease(store, row, &request.instance, time)?;
    }
    // Read again: the end of its lease has changed its state, and may have held it.
    let (known, counted) = (known(store, id)?, counted(store, id)?);
    let before = match known {
        // The id is that of the message: then what has ended under it is this very message.
        Some((_, JobState::Complete | JobState::Canceled)) if id.as_str() == message => {
            return Ok(Adopted::Ended);
        }
        // Another message of a job that is complete here is a second put of its id, or a put that was sent twice.
        Some((row, JobState::Complete)) if !message.is_empty() => {
            let what =
                format!("message {message} was removed unrun: it brought the id of this complete job again");
            history::note(store, row, time, Happened::Noted { what })?;
            end_message(store, message, now)?;
            return Ok(Adopted::Ended);
        }
        // The rule about interruptions holds it, and its broker has delivered the same message once more.
        Some((row, JobState::Held)) if is_held(store, id, *attempt)? => {
            return Ok(Adopted::Held(failure(store, row)?));
        }
        Some((row, state)) => {
            wait_again(store, id, (row, queue, state), time)?;
            counters(store, row)?
        }
        None => Counters::default(),
    };
    let new = attempt.saturating_sub(counted.unwrap_or(before.attempt));
    // This delivery is an attempt, whatever its broker has counted.
    let run = run(delivery, Counters { attempt: before.attempt.saturating_add(new.max(1)), ..before });
    let (job, lease, since) = match known {
        Some((row, _)) => {
            // `grant` adds one to it.
            // Since when its broker could have delivered it again nobody says.
            let found = Found { row, fence: fence.0.saturating_sub(1), ready: None, job: run };
            let lease = lease::grant(store, request, queue, worker, &found, now)?;
            store.moved(queue, Some(JobState::Waiting), JobState::Running);
            (found.job, lease, None)
        }
        None => {
            let put_at = delivery.put_at.map_or(time, |at| at.0.min(time));
            let granted = Granted { request, worker, fence: *fence, attempt: run.attempt, put_at };
            put::insert(store, job, id, (false, Some(&granted)), time)?;
            // Another host may have run it before: then it has not waited since it was put.
            let since = delivery.put_at.filter(|_| *attempt <= 1).map(|_| put_at);
            (run, lease::granted(store, request, (queue, since), (id, *fence), now), since)
        }
    };
    store.happened(id, queue, What::Fetched, JobState::Running)?;
    keep(store, delivery, time)?;
    let waited = since.map(|since| store.waited(since, now));
    Ok(Adopted::Runs(Fetched { job: Arc::new(job), lease, waited }))
}

/// The job of a delivery that is recorded already, perhaps with its end, or of one after which this instance was given
/// another one: nothing is left to be written of it.
fn made_before(store: &Store, request: &Fetch, delivery: &Delivery) -> Result<Option<Fetched>, Trouble> {
    let Lease { job: id, fence, .. } = &delivery.lease;
    let mut statement = store.conn.prepare_cached(
        "SELECT id FROM job WHERE jid = ?1
         AND (fence = ?2 OR fence > ?2 AND instance = ?3 AND state BETWEEN 2 AND 3)",
    )?;
    let found = statement
        .query_row(params![id.as_str(), fence.0, request.instance.as_str()], |row| row.get(0))
        .optional()?;
    let Some(row) = found else { return Ok(None) };
    let job = Arc::new(run(delivery, counters(store, row)?));
    Ok(Some(Fetched { job, lease: delivery.lease.clone(), waited: None }))
}

/// A job that runs.
fn run(delivery: &Delivery, counters: Counters) -> Job {
    let Delivery { job, lease, .. } = delivery;
    Job {
        id: lease.job.clone(),
        queue: job.queue.clone(),
        class: job.class.clone(),
        payload: job.payload.clone(),
        priority: job.priority,
        attempt: counters.attempt,
        crashes: counters.crashes,
        interrupted: counters.interrupted,
        unknown: counters.unknown,
        tags: job.tags.clone(),
        retry: job.retry,
        time_limit: job.time_limit,
    }
}

/// Keeps a delivery, if it has a handle.
fn keep(store: &Store, delivery: &Delivery, now: i64) -> Result<(), Trouble> {
    let Delivery { lease: Lease { job, fence, .. }, attempt, handle, .. } = delivery;
    if !handle.is_empty() {
        let mut statement = store.conn.prepare_cached(
            "INSERT OR REPLACE INTO delivery (jid, fence, handle, counted, at, latest)
             VALUES (?1, ?2, ?3, ?4, ?5, ?4)",
        )?;
        statement.execute(params![job.as_str(), fence.0, handle, attempt, now])?;
    }
    Ok(())
}

fn end_message(store: &Store, message: &str, now: Instant) -> Result<(), Trouble> {
    let mut keep = store
        .conn
        .prepare_cached("INSERT INTO ended_message (id, at) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?;
    keep.execute(params![message, store.millis(now)])?;
    Ok(())
}

fn has_ended(store: &Store, message: &str) -> Result<bool, Trouble> {
    let mut statement = store.conn.prepare_cached("SELECT 1 FROM ended_message WHERE id = ?1")?;
    Ok(statement.exists([message])?)
}

/// Whether this delivery comes after the one under which the job was held, and of the same message: others count from one.
fn is_held(store: &Store, id: &JobId, attempt: u32) -> Result<bool, Trouble> {
    let mut statement = store.conn.prepare_cached(
        "SELECT 1 FROM delivery JOIN job USING (jid, fence) WHERE jid = ?1 AND counted < ?2",
    )?;
    Ok(statement.exists(params![id.as_str(), attempt])?)
}

/// Why a job is held.
fn failure(store: &Store, row: i64) -> Result<Failure, Trouble> {
    let mut statement = store.conn.prepare_cached("SELECT failure FROM job WHERE id = ?1")?;
    let text: String = statement.query_row([row], |row| row.get(0))?;
    Ok(stored::from_json(text.as_bytes())?)
}

/// Ends the lease of a job that its broker has delivered once more: nobody runs it. If it is this instance's own, then
/// its holder lives: what a dead supervisor held was taken back when the next one started.
fn end_lease(store: &mut Store, row: i64, instance: &Instance, now: i64) -> Result<(), Trouble> {
    let mut statement = store
        .conn
        .prepare_cached(&format!("SELECT {}, instance IS ?2 FROM job WHERE id = ?1", lapse::HELD_LEASE))?;
    let (held, is_own): (HeldLease, bool) = statement
        .query_row(params![row, instance.as_str()], |row| Ok((lapse::held_lease(row)?, row.get(6)?)))?;
    drop(statement);
    let held = HeldLease { state: JobState::Running, ..held };
    if is_own { lapse::give_up(store, &held, now) } else { lapse::take_back(store, &held, false, now) }
}

/// Whatever the state recorded here: the broker has delivered the job, so it was waiting.
fn wait_again(
    store: &mut Store,
    id: &JobId,
    (row, queue, from): (i64, i64, JobState),
    now: i64,
) -> Result<(), Trouble> {
    match from {
        JobState::Waiting | JobState::Running | JobState::Canceling => Ok(()),
        JobState::Delayed | JobState::Depends => {
            store
                .conn
                .prepare_cached("UPDATE job SET state = 0, due_at = NULL, ready_at = ?2 WHERE id = ?1")?
                .execute([row, now])?;
            store.moved(queue, Some(from), JobState::Waiting);
            Ok(())
        }
        JobState::Complete | JobState::Failed | JobState::Held | JobState::Canceled => {
            admin::put_back(store, id, row, queue, from, "its broker", now)
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
