//! Where jobs wait, in one word.

use std::fmt;
use std::path::PathBuf;

use super::{Error, Fault};

/// A broker this program knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrokerUrl {
    /// The embedded store in a file.
    Sqlite(PathBuf),
    /// The embedded store in memory: gone with the supervisor.
    Memory,
    /// A Redis or Valkey that several hosts share.
    Redis(Secret),
}

/// A text that may hold a password: it is shown without.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The whole text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("", &self.0));
        // What stands before the last @ is a name and a password, well written or not; a query may hold them, too.
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        let (place, query) = place.split_once(['?', '#']).unwrap_or((place, ""));
        write!(f, "{scheme}://{place}")?;
        let number = query.split('&').find_map(|word| word.strip_prefix("db="));
        match number.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
            Some(number) => write!(f, "?db={number}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The schemes that mean Redis, Valkey included.
const REDIS: [&str; 8] =
    ["redis", "rediss", "valkey", "valkeys", "unix", "redis+unix", "redis+sentinel", "rediss+sentinel"];

impl BrokerUrl {
    /// Reads `sqlite:PATH`, `memory:` or `redis://HOST`. The text itself is not repeated in errors: it may hold a password.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let supported = "sqlite:PATH, memory:, redis://HOST:PORT/DB, rediss://, unix://PATH and \
                         redis+sentinel://HOST:PORT/MASTER/DB are supported";
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(BrokerUrl::Sqlite(path.into())),
            Some(("sqlite", _)) => {
                Err(Error::new(Fault::Config, "the broker 'sqlite:' needs a path").hint(supported))
            }
            Some(("memory", "")) => Ok(BrokerUrl::Memory),
            Some((scheme, rest)) if REDIS.contains(&scheme) && rest.len() > 2 && rest.starts_with("//") => {
                Ok(BrokerUrl::Redis(Secret(text.to_owned())))
            }
            Some((scheme, _)) if REDIS.contains(&scheme) => {
                let what = format!("the broker '{scheme}:' needs a host, or a path, after its //");
                Err(Error::new(Fault::Config, what).hint(supported))
            }
            // What is no scheme may be a part of a password.
            Some((scheme, rest)) if rest.starts_with("//") || !rest.contains('@') => {
                Err(Error::new(Fault::Config, format!("no broker speaks '{scheme}:'")).hint(supported))
            }
            Some(_) | None => Err(Error::new(Fault::Config, "the broker is no URL").hint(supported)),
        }
    }
}

impl BrokerUrl {
    /// Whether a broker that is shown like this is the same, however it is written and whoever asks it.
    pub fn is_at(&self, shown: &str) -> bool {
        place(&self.to_string()) == place(shown)
    }
}

/// What tells one broker from another: its way, its hosts with their ports, and the number of its database.
fn place(shown: &str) -> String {
    if let Some(path) = shown.strip_prefix("sqlite:") {
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
        return format!("sqlite:{}", path.display());
    }
    let Some((scheme, rest)) = shown.split_once("://") else { return shown.to_owned() };
    let scheme = scheme.replace("valkey", "redis");
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if scheme.ends_with("unix") {
        return format!("unix://{rest} {}", query.trim_start_matches("db=").parse().unwrap_or(0));
    }
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_asked = scheme.ends_with("sentinel");
    let (master, number) = if is_asked { path.split_once('/').unwrap_or((path, "")) } else { ("", path) };
    let port = if is_asked { "26379" } else { "6379" };
    let whole = |host: &str| match host.rsplit_once(':') {
        Some((_, port)) if !port.is_empty() && !port.ends_with(']') => host.to_ascii_lowercase(),
        _ => format!("{}:{port}", host.trim_end_matches(':').to_ascii_lowercase()),
    };
    let hosts: Vec<String> = hosts.split(',').map(whole).collect();
    format!("{scheme}://{} {master} {}", hosts.join(","), number.trim_matches('/').parse().unwrap_or(0))
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BrokerUrl::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            BrokerUrl::Memory => f.write_str("memory:"),
            BrokerUrl::Redis(url) => url.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is_same(one: &str, other: &str) -> bool {
        let shown = BrokerUrl::parse(other).unwrap().to_string();
        BrokerUrl::parse(one).unwrap().is_at(&shown)
    }

    #[test]
    fn a_broker_is_known_however_it_is_written() {
        for (one, other) in [
            ("redis://h", "redis://H:6379/0"),
            ("redis://me:s3cr3t@h:6379", "redis://h/"),
            ("valkey://h/3", "redis://h:6379/3"),
            ("redis://[::1]", "redis://[::1]:6379/0"),
            ("unix:///run/r.sock?db=2", "redis+unix:///run/r.sock?db=2&pass=s3cr3t"),
            ("redis+sentinel://a,b:26379/main", "redis+sentinel://a:26379,b/main/0"),
            ("sqlite:/proc/self/../version", "sqlite:/proc/version"),
            ("memory:", "memory:"),
        ] {
            assert!(is_same(one, other) && is_same(other, one), "{one} and {other}");
        }
    }

    #[test]
    fn another_broker_is_not_taken_for_it() {
        for (one, other) in [
            ("redis://h", "redis://h/1"),
            ("redis://h", "redis://h:6380"),
            ("redis://h", "rediss://h"),
            ("redis://h", "redis://i"),
            ("unix:///run/r.sock?db=2", "unix:///run/r.sock"),
            ("redis+sentinel://a/main", "redis+sentinel://a/other"),
            ("sqlite:/proc/version", "sqlite:/proc/cpuinfo"),
            ("memory:", "redis://h"),
        ] {
            assert!(!is_same(one, other) && !is_same(other, one), "{one} and {other}");
        }
    }
}
