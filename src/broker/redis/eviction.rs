//! Whether a server evicts keys when its memory is full. Its policy can change at any time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;

/// Interval between two looks at the policy.
pub(super) const LOOK: Duration = Duration::from_secs(5);

/// What a server said last of dropping keys.
pub(super) struct Eviction {
    /// Whether keys of jobs have an expiry: then a policy matters that drops only such keys.
    expire: bool,
    /// The concern in words, if it drops keys.
    last: Mutex<Option<String>>,
}

impl Eviction {
    pub(super) fn new(expire: bool) -> Eviction {
        Eviction { expire, last: Mutex::default() }
    }

    /// Asks the server, called `name` in the log. A server that does not say keeps its last answer.
    pub(super) async fn look(&self, conn: &mut MultiplexedConnection, name: &str) {
        let info: RedisResult<String> = redis::cmd("INFO").arg("memory").query_async(conn).await;
        let Ok(info) = info else { return };
        let concern = evicting(&info, self.expire);
        let mut last = self.locked();
        if let Some(what) = concern.as_ref().filter(|_| *last != concern) {
            tracing::warn!("{name}: {what}");
        }
        *last = concern;
    }

    /// The concern that it drops keys of jobs.
    pub(super) fn concern(&self) -> Option<String> {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, Option<String>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The concern, by the server's `INFO memory`.
fn evicting(info: &str, expire: bool) -> Option<String> {
    let value =
        |name: &str| info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
    let drops = |policy: &&str| policy.starts_with("allkeys") || (expire && policy.starts_with("volatile"));
    let policy = value("maxmemory_policy").filter(drops)?;
    let is_limited = value("maxmemory").is_some_and(|most| most != "0");
    is_limited.then(|| {
        format!(
            "it drops keys when its memory is full, those of jobs too, and tells nobody (maxmemory-policy {policy}): set \
             maxmemory-policy noeviction, which refuses new jobs instead"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_that_drops_keys_of_jobs_is_a_concern() {
        let info = |most: &str, policy: &str| {
            format!("# Memory\r\nmaxmemory:{most}\r\nmaxmemory_policy:{policy}\r\n")
        };
        assert!(
            evicting(&info("1000", "allkeys-lru"), false).unwrap().contains("maxmemory-policy allkeys-lru")
        );
        assert!(
            evicting(&info("1000", "volatile-ttl"), true).unwrap().contains("maxmemory-policy volatile-ttl")
        );
        for (most, policy) in [("0", "allkeys-lru"), ("1000", "noeviction"), ("1000", "volatile-lru")] {
            assert_eq!(evicting(&info(most, policy), false), None, "{most} {policy}");
        }
        assert_eq!(evicting("", true), None);
    }
}
