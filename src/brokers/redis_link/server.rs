//! What a server reports about itself, and whether it can hold jobs.

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisResult, ServerErrorKind, Value};

/// A warning if the server writes nothing to disk, as far as it allows the question.
pub(super) async fn keeps_nothing(conn: &mut MultiplexedConnection) -> Option<&'static str> {
    let asked = async |conn: &mut MultiplexedConnection, name: &str| -> RedisResult<String> {
        let pair: Vec<String> = redis::cmd("CONFIG").arg("GET").arg(name).query_async(conn).await?;
        Ok(pair.into_iter().nth(1).unwrap_or_default())
    };
    let (log, snapshots) = (asked(conn, "appendonly").await.ok()?, asked(conn, "save").await.ok()?);
    (log == "no" && snapshots.is_empty()).then_some(
        "it writes nothing to disk, so its end is the end of all jobs: set appendonly yes, unless they may be lost",
    )
}

/// Warns of a missing right without which only events are lost: those on the channel `news`.
pub(super) async fn warn_of_no_news(conn: &mut MultiplexedConnection, news: &str, name: &str) {
    let asked: RedisResult<Value> = redis::cmd("PUBSUB").arg("NUMSUB").arg(news).query_async(conn).await;
    if asked.is_err_and(|error| error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)) {
        tracing::warn!(
            "the user may not call PUBSUB NUMSUB on {name}: nobody hears the events of what is done from here; let the ACL \
             allow it"
        );
    }
}

/// Our end of the connection, `HOST:PORT`, as the server sees it and as far as it allows the question.
pub(super) async fn client_address(conn: &mut MultiplexedConnection) -> Option<String> {
    let info: String = redis::cmd("CLIENT").arg("INFO").query_async(conn).await.ok()?;
    info.split(' ').find_map(|field| field.strip_prefix("addr=")).map(str::to_owned)
}

/// Why a server cannot hold jobs, by its `INFO server`; `None` if it can, or does not say.
pub(super) fn unfit(info: &str) -> Option<String> {
    let value = |name: &str| {
        info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':').map(str::to_owned))
    };
    // Redis and Valkey have different names for this field.
    match value("redis_mode").or_else(|| value("server_mode")).as_deref() {
        Some("cluster") => {
            let what = "it is a node of a Redis Cluster, which would spread the keys of a job over several nodes: give a \
                        Redis that is none (Sentinel can watch over it)";
            return Some(what.into());
        }
        Some("sentinel") => {
            let what = "it is a sentinel: give redis+sentinel://HOST:PORT/MASTER/DB, so that it is asked for the primary";
            return Some(what.into());
        }
        _ => {}
    }
    // Valkey, too, says with which version of Redis it is compatible.
    let version = value("redis_version")?;
    let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let known = (numbers.next()?, numbers.next().unwrap_or(0));
    (known < OLDEST).then(|| {
        format!("it is Redis {version}: 6.2 or later is needed, or any Valkey, because of commands that this one lacks")
    })
}

const OLDEST: (u32, u32) = (6, 2);

#[cfg(test)]
mod tests {
    use super::unfit;

    #[test]
    fn a_server_that_cannot_hold_jobs_says_why() {
        let info = |version: &str, mode: &str| {
            format!("# Server\r\nredis_version:{version}\r\nredis_mode:{mode}\r\nos:Linux\r\n")
        };
        for (version, mode, word) in [
            ("6.0.16", "standalone", "Redis 6.0.16: 6.2 or later"),
            ("5.0.14", "standalone", "Redis 5.0.14"),
            ("7.2.4", "cluster", "Redis Cluster"),
            ("7.2.4", "sentinel", "redis+sentinel://"),
        ] {
            let said = unfit(&info(version, mode)).unwrap();
            assert!(said.contains(word), "{said}");
        }
        assert!(unfit("redis_version:7.2.4\r\nserver_mode:cluster\r\n").unwrap().contains("Redis Cluster"));
        for version in ["6.2.0", "7.0.15", "8.0.2", "255.255.255", "unknown"] {
            assert_eq!(unfit(&info(version, "standalone")), None, "{version}");
        }
        assert_eq!(unfit(""), None);
    }
}
