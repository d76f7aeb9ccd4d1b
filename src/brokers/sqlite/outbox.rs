//! The store as an outbox: jobs wait in it, in the order in which they were put, until another broker takes them.

use rusqlite::params;

use super::call::Kind;
use super::handle::Sqlite;
use super::store::Store;
use super::trouble::Trouble;
use super::{read, remove};
use broker::Error;
use model::{JobId, JobState, NewJob, Payload};

/// Limit of the bytes of job data read at a time, without the last job's.
const BYTES: usize = 1 << 20;

impl Sqlite {
    /// How many jobs are in that state.
    pub async fn count_in(&self, state: JobState) -> Result<usize, Error> {
        self.run(Kind::Read, move |store| {
            let count = "SELECT count(*) FROM job WHERE state = ?1";
            Ok(store.conn.query_row(count, [state as i64], |row| row.get(0))?)
        })
        .await
    }

    /// The first waiting jobs, in the order in which they were put: `most` at most.
    pub async fn first(&self, most: usize) -> Result<Vec<NewJob>, Error> {
        self.run(Kind::Read, move |store| first(store, most)).await
    }

    /// Removes jobs. Does not wait for the disk: after a loss of power some may be back.
    pub async fn remove(&self, jobs: Vec<JobId>) -> Result<(), Error> {
        self.run(Kind::Lease, move |store| {
            for job in &jobs {
                let (row, ..) = store.place(job)?;
                remove::job(store, row)?;
            }
            Ok(())
        })
        .await
    }
}

fn first(store: &Store, most: usize) -> Result<Vec<NewJob>, Trouble> {
    let ids: Vec<String> = store
        .conn
        .prepare_cached("SELECT jid FROM job NOT INDEXED WHERE state = ?1 ORDER BY id LIMIT ?2")?
        .query_map(params![JobState::Waiting as i64, most], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let (mut jobs, mut bytes) = (Vec::new(), 0);
    for id in ids {
        let job = read::get(store, &id.into())?;
        // It cannot be read: it stays, and does not hold up those behind it.
        let Some(payload) = job.payload else { continue };
        bytes += match &payload {
            Payload::Data(data) => data.0.len(),
            Payload::Exec(_) => 0,
        };
        jobs.push(NewJob {
            id: Some(job.id),
            priority: job.priority,
            tags: job.tags,
            retry: job.retry,
            time_limit: job.time_limit,
            by: job.put_by,
            ..NewJob::new(job.queue, job.class, payload)
        });
        if bytes >= BYTES {
            break;
        }
    }
    Ok(jobs)
}
