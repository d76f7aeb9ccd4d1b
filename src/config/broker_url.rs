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
        let place = place.split(['?', '#']).next().unwrap_or_default();
        write!(f, "{scheme}://{place}")
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
                let what = format!("the broker '{scheme}:' needs // and a host, or a path");
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

impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BrokerUrl::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            BrokerUrl::Memory => f.write_str("memory:"),
            BrokerUrl::Redis(url) => url.fmt(f),
        }
    }
}
