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
}

impl BrokerUrl {
    /// Reads `sqlite:PATH` or `memory:`. The text itself is not repeated in errors: it may hold a password.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let supported = "sqlite:PATH and memory: are supported";
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(BrokerUrl::Sqlite(path.into())),
            Some(("sqlite", _)) => {
                Err(Error::new(Fault::Config, "the broker 'sqlite:' needs a path").hint(supported))
            }
            Some(("memory", "")) => Ok(BrokerUrl::Memory),
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
        }
    }
}
