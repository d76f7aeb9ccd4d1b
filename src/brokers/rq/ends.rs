//! How a client hears of the end of a job: RQ and this script write each result of a job into a stream.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, RedisResult, Value};
use tokio::time::{sleep, timeout};

use super::source::Rq;
use model::JobId;

/// A job's end is looked for as often while results are heard: an end may leave none.
const HEARING: Duration = Duration::from_secs(1);
/// The same while they are not.
const DEAF: Duration = Duration::from_millis(100);

/// The results of one job, read over a connection of their own, on which a request may wait.
pub(super) struct Results {
    key: String,
    /// The connection, and the id of the latest result that is known.
    heard: Option<(MultiplexedConnection, String)>,
}

impl Results {
    /// Begins to hear of the results that come from now on.
    pub(super) async fn of(rq: &Rq, job: &JobId) -> Results {
        let key = rq.shared.key(&format!("results:{job}"));
        let mut heard = None;
        if let Ok(mut conn) = rq.shared.link.own("hear of the ends of jobs in").await {
            heard = latest(&mut conn, &key).await.map(|latest| (conn, latest));
        }
        Results { key, heard }
    }

    /// Waits for the next result, or for long enough to look for an end without one.
    pub(super) async fn next(&mut self) {
        let Some((mut conn, last)) = self.heard.take() else { return sleep(DEAF).await };
        let mut cmd = redis::cmd("XREAD");
        cmd.arg("BLOCK").arg(HEARING.as_millis() as u64).arg("STREAMS").arg(&self.key).arg(last);
        if ask::<Value>(&mut conn, &cmd).await.is_some()
            && let Some(latest) = latest(&mut conn, &self.key).await
        {
            self.heard = Some((conn, latest));
        }
    }
}

/// The id of the latest result, or one before all; None = it could not be asked for.
async fn latest(conn: &mut MultiplexedConnection, key: &str) -> Option<String> {
    let mut cmd = redis::cmd("XREVRANGE");
    cmd.arg(key).arg("+").arg("-").arg("COUNT").arg(1);
    let found: Vec<(String, Vec<Value>)> = ask(conn, &cmd).await?;
    Some(found.into_iter().next().map_or_else(|| "0-0".into(), |(id, _)| id))
}

async fn ask<T: FromRedisValue>(conn: &mut MultiplexedConnection, cmd: &Cmd) -> Option<T> {
    let answer: RedisResult<T> = timeout(2 * HEARING, cmd.query_async(conn)).await.ok()?;
    answer.ok()
}
