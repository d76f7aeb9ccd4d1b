//! How a client hears of the end of a job: RQ and this script write each result of a job into a stream.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, RedisResult, Value};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};

use super::hearing::Hearing;
use super::source::Rq;
use model::JobId;

/// A job's end is looked for as often while results are heard: an end may leave none.
const HEARING: Duration = Duration::from_secs(1);
/// The same while they are not, and few jobs are looked for so.
const DEAF: Duration = Duration::from_millis(100);
/// Each further one is looked for a millisecond later: a thousand ask the server no more than if all were heard.
const EACH: Duration = Duration::from_millis(1);

/// How long to wait before a job is looked for again whose results are not heard.
fn pause(deaf: &Arc<()>) -> Duration {
    let count = u32::try_from(Arc::strong_count(deaf)).unwrap_or(u32::MAX);
    EACH.saturating_mul(count).clamp(DEAF, HEARING)
}

/// The results of one job, read over a connection of their own, on which a request may wait, as long as there is a place
/// for one.
pub(super) struct Results<'a> {
    rq: &'a Rq,
    key: String,
    how: How,
}

enum How {
    Heard(Heard),
    /// All places are taken; one may become free.
    NoPlace(Arc<()>),
    /// The server gives no connection, or has ended it.
    Deaf(Arc<()>),
}

/// A place, the connection, and the id of the latest result that is known.
struct Heard {
    _place: OwnedSemaphorePermit,
    conn: MultiplexedConnection,
    last: String,
}

impl Results<'_> {
    /// Begins to hear of the results that come from now on.
    pub(super) async fn of<'a>(rq: &'a Rq, job: &JobId) -> Results<'a> {
        let key = rq.shared.key(&format!("results:{job}"));
        let how = listen(rq, &key).await;
        Results { rq, key, how }
    }

    /// Waits for the next result, or for long enough to look for an end without one.
    pub(super) async fn next(&mut self) {
        let Hearing { places, deaf } = &self.rq.shared.hearing;
        match &mut self.how {
            How::Heard(Heard { conn, last, .. }) => {
                let mut cmd = redis::cmd("XREAD");
                cmd.arg("BLOCK").arg(HEARING.as_millis() as u64).arg("STREAMS").arg(&self.key).arg(&*last);
                let latest = match ask::<Value>(conn, &cmd).await {
                    Some(_) => latest(conn, &self.key).await,
                    None => None,
                };
                match latest {
                    Some(latest) => *last = latest,
                    None => self.how = How::Deaf(deaf.clone()),
                }
            }
            How::NoPlace(_) if places.available_permits() > 0 => {
                self.how = listen(self.rq, &self.key).await;
            }
            How::NoPlace(deaf) | How::Deaf(deaf) => sleep(pause(deaf)).await,
        }
    }
}

async fn listen(rq: &Rq, key: &str) -> How {
    let Hearing { places, deaf } = &rq.shared.hearing;
    // Without this limit each caller that waits would cost the server a connection.
    let Ok(place) = places.clone().try_acquire_owned() else { return How::NoPlace(deaf.clone()) };
    if let Ok(mut conn) = rq.shared.link.own("hear of the ends of jobs in").await
        && let Some(last) = latest(&mut conn, key).await
    {
        return How::Heard(Heard { _place: place, conn, last });
    }
    How::Deaf(deaf.clone())
}

/// The id of the latest result, or one before all; None = it could not be asked for.
async fn latest(conn: &mut MultiplexedConnection, key: &str) -> Option<String> {
    let mut cmd = redis::cmd("XREVRANGE");
    cmd.arg(key).arg("+").arg("-").arg("COUNT").arg(1);
    let found: Vec<(String, Vec<Value>)> = ask(conn, &cmd).await?;
    Some(found.into_iter().next().map_or_else(|| "0-0".into(), |(id, _)| id))
}

async fn ask<T: FromRedisValue>(conn: &mut MultiplexedConnection, cmd: &Cmd) -> Option<T> {
    // XREAD itself may wait for one HEARING: a longer silence means a dead connection.
    let answer: RedisResult<T> = timeout(2 * HEARING, cmd.query_async(conn)).await.ok()?;
    answer.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_that_are_not_heard_are_looked_for_less_often() {
        let Hearing { deaf, .. } = Hearing::default();
        let many = vec![deaf.clone(); 500];
        assert_eq!(pause(&deaf), Duration::from_millis(501));
        drop(many);
        assert_eq!(pause(&deaf), DEAF);
        let _all = vec![deaf.clone(); 10_000];
        assert_eq!(pause(&deaf), HEARING);
    }
}
