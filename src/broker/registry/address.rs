//! Where jobs wait, in one word: which kind of broker, and which of that kind; and what a kind is to whoever has its URL.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::ADAPTERS;
use crate::broker::{Broker, Card, Error};
use crate::model::{QueueCounts, QueueName};

/// The URL of a broker. It may hold a password: it is shown without.
#[derive(Clone)]
pub struct Address {
    kind: &'static dyn Adapter,
    url: String,
    /// Of a kind that has one; a path need not be text.
    file: Option<PathBuf>,
}

/// What is wrong with a URL, and what can be written instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong.
    pub what: String,
    /// What can be written instead.
    pub hint: String,
}

impl Address {
    /// Reads a URL such as `sqlite:PATH`, `memory:` or `redis://HOST`. It is not repeated in errors: it may hold a password.
    pub fn parse(url: &str) -> Result<Self, Wrong> {
        let hint = || {
            let forms: Vec<&str> = ADAPTERS.iter().map(|kind| kind.forms()).collect();
            format!("{} are supported", forms.join(", "))
        };
        let wrong = |what: String| Wrong { what, hint: hint() };
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(wrong("the broker is no URL".into()));
        };
        match ADAPTERS.iter().copied().find(|kind| kind.schemes().contains(&scheme)) {
            Some(kind) => match kind.fault(url) {
                Some(fault) => Err(wrong(format!("the broker '{scheme}:' {fault}"))),
                None => Ok(Address::of(kind, url)),
            },
            // What is no scheme may be a part of a password.
            None if rest.starts_with("//") || !rest.contains('@') => {
                Err(wrong(format!("no broker speaks '{scheme}:'")))
            }
            None => Err(wrong("the broker is no URL".into())),
        }
    }

    fn of(kind: &'static dyn Adapter, url: &str) -> Address {
        let file = match kind.place(url) {
            Place::File(path) => Some(path),
            Place::Supervisor | Place::Server => None,
        };
        Address { kind, url: url.to_owned(), file }
    }

    /// The embedded store in this file.
    pub fn of_file(path: PathBuf) -> Address {
        let url = format!("sqlite:{}", path.display());
        Address { file: Some(path), ..Address::of(ADAPTERS[0], &url) }
    }

    /// The file of its jobs, where they are in one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Where its jobs are.
    pub fn place(&self) -> Place {
        match &self.file {
            Some(path) => Place::File(path.clone()),
            None => self.kind.place(&self.url),
        }
    }

    /// Whether the jobs are in the supervisor's memory, and nobody reaches them without it.
    pub fn is_of_supervisor(&self) -> bool {
        self.place() == Place::Supervisor
    }

    /// What it can do.
    pub fn card(&self) -> &'static Card {
        self.kind.card()
    }

    /// The whole URL, for whoever opens it.
    pub(in crate::broker) fn reveal(&self) -> &str {
        &self.url
    }

    /// Opens it. Nothing is asked of a server yet.
    pub fn open(&self, how: &Opening) -> Result<Broker, Error> {
        self.kind.open(self, how)
    }

    /// What an opening would refuse, found out without a trace.
    pub fn look(&self) -> Result<(), Error> {
        self.kind.look(self)
    }

    /// What somebody should know of a server that answers.
    pub async fn concern(&self) -> Result<Option<String>, Error> {
        self.kind.concern(self).await
    }

    /// The queues of a release: see [`Adapter::release`].
    pub async fn release(&self, release: &str) -> Result<Option<Counted>, Error> {
        self.kind.release(self, release).await
    }

    /// Whether a broker that is shown like this is the same, however it is written and whoever asks it.
    pub fn is_at(&self, shown: &str) -> bool {
        let of = |shown: &str| Address::parse(shown).map(|other| other.kind.identity(shown));
        of(shown).is_ok_and(|other| self.kind.identity(&self.to_string()) == other)
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        (&self.url, &self.file) == (&other.url, &other.file)
    }
}

impl Eq for Address {}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(path) => write!(f, "sqlite:{}", path.display()),
            None => f.write_str(&self.kind.shown(&self.url)),
        }
    }
}

/// As it is shown: no password gets into a log.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// A kind of broker.
#[async_trait]
pub trait Adapter: Sync {
    /// What it can do.
    fn card(&self) -> &'static Card;

    /// The schemes of its URLs: `redis` of `redis://HOST`.
    fn schemes(&self) -> &'static [&'static str];

    /// How its URLs are written, for people who have written one wrongly.
    fn forms(&self) -> &'static str;

    /// What is wrong with a URL of one of its schemes, as the end of "the broker 'SCHEME:' …"; nothing is opened. The URL is
    /// not repeated: it may hold a password.
    fn fault(&self, url: &str) -> Option<&'static str>;

    /// Where its jobs are.
    fn place(&self, url: &str) -> Place;

    /// The URL as people may see it.
    fn shown(&self, url: &str) -> String;

    /// What tells one broker of this kind from another, made of a URL that is shown: the same for all ways to write it.
    fn identity(&self, shown: &str) -> String;

    /// Opens it. Nothing is asked of a server yet.
    fn open(&self, at: &Address, how: &Opening) -> Result<Broker, Error>;

    /// What [`Adapter::open`] would refuse, found out without a trace.
    fn look(&self, _at: &Address) -> Result<(), Error> {
        Ok(())
    }

    /// What somebody should know of a server that answers, e.g. that it keeps nothing on disk.
    async fn concern(&self, _at: &Address) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// The queues of a release, whose names begin with `RELEASE-`, with all their jobs on all hosts, where the server itself
    /// must be asked for them. None = the list of queues has them.
    async fn release(&self, _at: &Address, _release: &str) -> Result<Option<Counted>, Error> {
        Ok(None)
    }
}

/// Queues with their jobs by state.
pub type Counted = BTreeMap<QueueName, QueueCounts>;

/// Where the jobs of a broker are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the memory of the supervisor, and gone with it.
    Supervisor,
    /// In a file of this machine.
    File(PathBuf),
    /// On a server that all can reach.
    Server,
}

/// What a broker is opened for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// By the supervisor, which stays: it puts what recurs and takes back leases that run out. Else by somebody who passes by.
    pub serves: bool,
    /// Where this supervisor keeps what is its own, in words that are the same nowhere else and at no other boot.
    pub place: String,
    /// The state directory, for what a broker keeps beside its server.
    pub state_dir: PathBuf,
}

impl Opening {
    /// By somebody who passes by.
    pub fn passing(state_dir: &Path) -> Opening {
        Opening { state_dir: state_dir.to_owned(), ..Opening::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is_same(one: &str, other: &str) -> bool {
        let shown = Address::parse(other).unwrap().to_string();
        Address::parse(one).unwrap().is_at(&shown)
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
