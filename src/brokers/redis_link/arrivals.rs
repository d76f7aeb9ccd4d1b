//! Notices new jobs in a list without asking for them. A connection blocks in a BLMOVE from one end of the list to the
//! same end: the server answers as soon as there is a job, and leaves the job where it is. Nothing is ever removed by
//! it.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Direction, RedisResult, Value};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::backoff::backoff;
use super::link::Link;
use broker::{Complaints, Error};

/// How long one BLMOVE blocks, in seconds: a connection that broke silently is noticed after that.
const BLOCK: u64 = 20;
/// The same after a failure: an answer soon says that jobs are heard again.
const TRY: u64 = 1;
/// The pause before the next fetch where jobs wait that could not be taken.
const PAUSE: Duration = Duration::from_secs(1);
const VERB: &str = "wait for jobs in";
const DEAF: &str = "new jobs in Redis are not heard at once";

/// A list from which jobs are taken.
pub struct Arrivals {
    key: String,
    /// The end from which they are taken.
    end: Direction,
    awaited: watch::Sender<Awaited>,
}

/// What to wait for before the next fetch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// The fetch, which happens for another reason.
    Nothing,
    /// A job in the list.
    Job,
    /// The end of [`PAUSE`].
    Pause,
}

impl Arrivals {
    /// Nothing is awaited yet. Jobs of the list `key` are taken from this end of it.
    pub fn new(key: String, end: Direction) -> Arrivals {
        Arrivals { key, end, awaited: watch::Sender::new(Awaited::Nothing) }
    }

    /// Notes that a fetch has left this number of jobs in the list; `is_full` = it got as many as it asked for.
    pub fn fetched(&self, left: u64, is_full: bool) {
        match left {
            0 => self.wait_for(Awaited::Job),
            // All that asked have a job: the next fetch comes when a worker is free.
            _ if is_full => {}
            _ => self.wait_for(Awaited::Pause),
        }
    }

    fn wait_for(&self, what: Awaited) {
        self.awaited.send_if_modified(|now| std::mem::replace(now, what) != what);
    }

    /// Calls `wake` whenever the next fetch is due. Runs until it is dropped.
    pub async fn listen(&self, link: &Link, complaints: &Complaints, wake: impl Fn()) {
        let (mut awaited, mut conn, mut failed) = (self.awaited.subscribe(), None, 0);
        loop {
            let Ok(what) = awaited.wait_for(|what| *what != Awaited::Nothing).await.map(|what| *what) else {
                return;
            };
            if what == Awaited::Pause {
                tokio::select! {
                    () = sleep(PAUSE) => {}
                    // A fetch came first, and says what to wait for now.
                    _ = awaited.changed() => continue,
                }
            } else {
                match self.block(link, &mut conn, if failed > 0 { TRY } else { BLOCK }).await {
                    Ok(has_job) => {
                        complaints.well(DEAF, link.now());
                        failed = 0;
                        if !has_job {
                            continue;
                        }
                    }
                    // A fetch may work all the same: a full server refuses BLMOVE, and still gives jobs.
                    Err(error) => {
                        complaints.wrong(DEAF, &error, link.now());
                        failed = (failed + 1).min(16);
                        sleep(backoff(failed)).await;
                    }
                }
            }
            // Before the wake: the fetch that follows sets what comes next.
            self.wait_for(Awaited::Nothing);
            wake();
        }
    }

    /// Whether a job came within this number of seconds. After an error there is no connection.
    async fn block(
        &self,
        link: &Link,
        conn: &mut Option<MultiplexedConnection>,
        seconds: u64,
    ) -> Result<bool, Error> {
        let mut live = match conn.take() {
            Some(live) => live,
            None => link.own(VERB).await?,
        };
        // Moved from an end to the same end, a job keeps its place: the command only waits for one.
        let mut cmd = redis::cmd("BLMOVE");
        cmd.arg(&self.key).arg(&self.key).arg(&self.end).arg(&self.end).arg(seconds);
        // The server answers after that time at the latest, so later silence is that of a dead connection.
        let late = Duration::from_secs(seconds + 10);
        let answer: RedisResult<Value> =
            timeout(late, cmd.query_async(&mut live)).await.map_err(|_| link.silent(VERB))?;
        let value = answer.map_err(|error| link.explain(VERB, &error))?;
        *conn = Some(live);
        Ok(value != Value::Nil)
    }
}
