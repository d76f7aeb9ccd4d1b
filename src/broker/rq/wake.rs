//! Notices new jobs without asking for them. For each queue, a connection blocks in a BLMOVE from the head of the list
//! to the head of the same list: the server answers as soon as there is a job, and leaves the job where it is. Nothing
//! is ever removed by it.

use std::sync::Weak;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use tokio::time::{sleep, timeout};

use super::bell::Bell;
use super::shared::Shared;
use crate::broker::redis::backoff;
use crate::broker::{Error, Notice};
use crate::model::QueueName;

/// How long one BLMOVE blocks, in seconds: a connection that broke silently is noticed after that.
const WAIT: u64 = 20;
const VERB: &str = "wait for jobs in";
const DEAF: &str = "new jobs in Redis are not heard at once";

/// Waits for jobs whenever the bell is set, as long as the broker exists.
pub(super) async fn listen(shared: Weak<Shared>, queue: QueueName, bell: std::sync::Arc<Bell>) {
    let (mut conn, mut failed) = (None, 0);
    loop {
        bell.rings().await;
        loop {
            match hear(&shared, &queue, &mut conn).await {
                Ok(true) => break,
                Ok(false) => failed = 0,
                Err(error) => {
                    conn = None;
                    failed = (failed + 1).min(16);
                    let Some(shared) = shared.upgrade() else { return };
                    shared.complaints.wrong(DEAF, &error, shared.link.now());
                    drop(shared);
                    sleep(backoff(failed)).await;
                }
            }
        }
        let Some(shared) = shared.upgrade() else { return };
        shared.complaints.well(DEAF, shared.link.now());
        bell.heard();
        shared.notices.push(Notice::Wake);
    }
}

/// Whether a job came.
async fn hear(
    shared: &Weak<Shared>,
    queue: &QueueName,
    conn: &mut Option<MultiplexedConnection>,
) -> Result<bool, Error> {
    let late = Duration::from_secs(WAIT + 10);
    let Some(strong) = shared.upgrade() else { return Ok(true) };
    let mut live = match conn.take() {
        Some(live) => live,
        None => strong.link.own(VERB).await?,
    };
    let key = strong.key(&format!("queue:{queue}"));
    drop(strong);
    let mut cmd = redis::cmd("BLMOVE");
    cmd.arg(&key).arg(&key).arg("LEFT").arg("LEFT").arg(WAIT);
    let answer: Result<RedisResult<Value>, _> = timeout(late, cmd.query_async(&mut live)).await;
    let Some(strong) = shared.upgrade() else { return Ok(true) };
    match answer {
        Ok(Ok(value)) => {
            *conn = Some(live);
            Ok(value != Value::Nil)
        }
        Ok(Err(error)) => Err(strong.link.explain(VERB, &error)),
        Err(_) => Err(strong.link.silent(VERB)),
    }
}
