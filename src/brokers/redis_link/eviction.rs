//! Whether a server evicts keys when its memory is full. Its policy can change at any time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind};

/// Interval between two looks at the policy.
pub(super) const LOOK: Duration = Duration::from_secs(5);

/// What a server said last of dropping keys.
pub(super) struct Eviction {
    /// Whether keys of jobs have an expiry: then a policy matters that drops only such keys.
    expire: bool,
    last: Mutex<Option<Concern>>,
}

/// The finding that a server evicts keys.
struct Concern {
    what: String,
    /// Whether the server answers such questions no more.
    is_old: bool,
}

impl Eviction {
    pub(super) fn new(expire: bool) -> Eviction {
        Eviction { expire, last: Mutex::default() }
    }

    /// Asks the server, called `name` in the log. One that is silent keeps its last answer. So does one that refuses to
    /// answer, but over a new connection that may be another server, of which nothing is known.
    pub(super) async fn look(&self, conn: &mut MultiplexedConnection, name: &str, is_new: bool) {
        let info: RedisResult<String> = redis::cmd("INFO").arg("memory").query_async(conn).await;
        let mut last = self.locked();
        match (info, last.take()) {
            (Ok(info), before) => {
                *last = evicting(&info, self.expire).map(|what| Concern { what, is_old: false });
                if let Some(Concern { what, .. }) = &*last
                    && before.is_none_or(|before| before.what != *what)
                {
                    tracing::warn!("{name}: {what}");
                }
            }
            (Err(error), Some(_)) if is_new && is_refusal(&error) => {
                tracing::info!("{name}: it does not say whether it drops keys, as it refuses INFO");
            }
            (Err(error), Some(before)) => {
                *last = Some(Concern { is_old: before.is_old || is_refusal(&error), ..before });
            }
            (Err(_), None) => {}
        }
    }

    /// The concern that it drops keys of jobs.
    pub(super) fn concern(&self) -> Option<String> {
        self.locked().as_ref().map(|Concern { what, is_old }| match is_old {
            false => what.clone(),
            true => format!("{what}. It said so before it refused INFO: let the ACL of its user allow that"),
        })
    }

    fn locked(&self) -> MutexGuard<'_, Option<Concern>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the server answers this question to nobody, or not to this user.
fn is_refusal(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
        // A server whose INFO was renamed or switched off says this.
        || error.detail().is_some_and(|said| said.contains("unknown command"))
}

/// The concern, by the server's `INFO memory`.
fn evicting(info: &str, expire: bool) -> Option<String> {
    let value =
        |name: &str| info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
    let drops = |policy: &&str| policy.starts_with("allkeys") || (expire && policy.starts_with("volatile"));
    let policy = value("maxmemory_policy").filter(drops)?;
    // 0 is no limit, under which no policy ever applies.
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
