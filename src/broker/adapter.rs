//! A kind of broker: its URLs, what is known of it before it is opened, and how it is opened. An address is a URL with
//! its kind.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;

use super::{Broker, Card, Error, without_secrets};
use model::{Bytes, QueueCounts, QueueName};

/// The URL of a broker. It may hold a password, and is shown without it.
#[derive(Clone)]
pub struct Address {
    kind: &'static dyn Adapter,
    url: String,
    /// The file of a kind that has one; a path need not be UTF-8.
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
    /// Reads a URL of one of these kinds, such as `sqlite:PATH`. Errors do not repeat it: it may hold a password.
    pub fn read(url: &str, kinds: &[&'static dyn Adapter]) -> Result<Self, Wrong> {
        let hint = || {
            let forms: Vec<&str> = kinds.iter().map(|kind| kind.forms()).collect();
            format!("{} are supported", forms.join(", "))
        };
        let wrong = |what: String| Wrong { what, hint: hint() };
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(wrong("the broker is no URL".into()));
        };
        match kinds.iter().copied().find(|kind| kind.schemes().contains(&scheme)) {
            Some(kind) => match kind.fault(url) {
                Some(fault) => Err(wrong(format!("the broker '{scheme}:' {fault}"))),
                None => Ok(Address::of(kind, url)),
            },
            // Text before a colon that is no scheme may be a part of a password.
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

    /// An address of a kind that keeps its jobs in a file: this one.
    pub fn of_file(kind: &'static dyn Adapter, path: PathBuf) -> Address {
        let url = format!("{}:{}", kind.schemes()[0], path.display());
        Address { file: Some(path), ..Address::of(kind, &url) }
    }

    /// The file with its jobs, if they are in one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The place of its jobs.
    pub fn place(&self) -> Place {
        match &self.file {
            Some(path) => Place::File(path.clone()),
            None => self.kind.place(&self.url),
        }
    }

    /// Whether the jobs are in the supervisor's memory, so that only the supervisor can reach them.
    pub fn is_of_supervisor(&self) -> bool {
        self.place() == Place::Supervisor
    }

    /// The card of the broker.
    pub fn card(&self) -> &'static Card {
        self.kind.card()
    }

    /// How many jobs in a row a drawn queue gives: see [`Adapter::turn`].
    pub fn turn(&self) -> usize {
        self.kind.turn()
    }

    /// The whole URL with its password, to open the broker.
    pub fn reveal(&self) -> &str {
        &self.url
    }

    /// Opens the broker. No server is contacted yet.
    pub fn open(&self, how: &Opening) -> Result<Broker, Error> {
        self.kind.open(self, how)
    }

    /// Finds the errors of an opening without changing anything.
    pub fn look(&self) -> Result<(), Error> {
        self.kind.look(self)
    }

    /// What it lacks for a pool with this command, if anything.
    pub fn lacks(&self, command: &[Bytes]) -> Option<&'static str> {
        self.kind.lacks(&self.url, command)
    }

    /// The leases of queues that have one of their own, by the names of these queues.
    pub fn leases(&self) -> BTreeMap<QueueName, Duration> {
        self.kind.leases(&self.url)
    }

    /// A concern about a server that answers, or what a store in a file has lost.
    pub async fn concern(&self) -> Result<Option<String>, Error> {
        self.kind.concern(self).await
    }

    /// The queues of a release: see [`Adapter::release`].
    pub async fn release(&self, release: &str) -> Result<Option<Counted>, Error> {
        self.kind.release(self, release).await
    }

    /// Whether this is the broker that another one's text shows, however the URLs are written.
    pub fn is_at(&self, shown: &str) -> bool {
        let is_ours = Address::read(shown, &[self.kind]).is_ok();
        // Both as shown: what another one's text leaves out must not count here.
        is_ours && self.kind.identity(shown) == self.kind.identity(&self.to_string())
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        // The kind follows from the scheme, which is part of the URL.
        (&self.url, &self.file) == (&other.url, &other.file)
    }
}

impl Eq for Address {}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(path) => write!(f, "{}:{}", self.kind.schemes()[0], path.display()),
            None => f.write_str(&self.kind.shown(&self.url)),
        }
    }
}

/// Shows the URL without its password, as it may get into a log.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// A kind of broker.
#[async_trait]
pub trait Adapter: Sync {
    /// The card of this kind of broker.
    fn card(&self) -> &'static Card;

    /// The schemes of its URLs: `redis` of `redis://HOST`.
    fn schemes(&self) -> &'static [&'static str];

    /// The forms of its URLs, for the text of an error.
    fn forms(&self) -> &'static str;

    /// What is wrong with a URL of one of its schemes, as the end of "the broker 'SCHEME:' …"; opens nothing. Does not
    /// repeat the URL: it may hold a password.
    fn fault(&self, url: &str) -> Option<&'static str>;

    /// The place of its jobs.
    fn place(&self, _url: &str) -> Place {
        Place::Server
    }

    /// The number of jobs that are taken from a queue before the lottery draws again: as many as one request can bring.
    fn turn(&self) -> usize {
        1
    }

    /// The URL as people may see it.
    fn shown(&self, url: &str) -> String {
        without_secrets(url)
    }

    /// Identifies a broker of this kind, from a URL as shown: the same text for all ways to write the URL.
    fn identity(&self, shown: &str) -> String;

    /// Opens the broker. No server is contacted yet.
    fn open(&self, at: &Address, how: &Opening) -> Result<Broker, Error>;

    /// Finds the errors of [`Adapter::open`] without changing anything.
    fn look(&self, _at: &Address) -> Result<(), Error> {
        Ok(())
    }

    /// What a broker with this URL lacks for a pool with this command, as the end of "the broker …".
    fn lacks(&self, _url: &str, _command: &[Bytes]) -> Option<&'static str> {
        None
    }

    /// The leases that a URL gives to queues, by the names of these queues.
    fn leases(&self, _url: &str) -> BTreeMap<QueueName, Duration> {
        BTreeMap::new()
    }

    /// A concern about a server that answers, e.g. that it writes nothing to disk, or what a store in a file has lost.
    async fn concern(&self, _at: &Address) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// The queues of a release, whose names begin with `RELEASE-`, with the counts of their jobs on all hosts, if the
    /// server itself must be asked for them. None = the usual list of queues has them.
    async fn release(&self, _at: &Address, _release: &str) -> Result<Option<Counted>, Error> {
        Ok(None)
    }
}

/// Queues with their jobs by state.
pub type Counted = BTreeMap<QueueName, QueueCounts>;

/// Where the jobs of a broker are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the memory of the supervisor; they are lost when it ends.
    Supervisor,
    /// In a file of this machine.
    File(PathBuf),
    /// On a server that all can reach.
    Server,
}

/// Parameters of an opening.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// Whether the supervisor opens the broker: then it fires recurring jobs and takes back expired leases. False for a
    /// short-lived client.
    pub serves: bool,
    /// Whether to leave the schema of a store as it is: a supervisor of an older program may run on it.
    pub keeps_schema: bool,
    /// Identifies the state directory of this supervisor on this host and in this boot, so no other supervisor has the
    /// same text.
    pub place: String,
    /// The state directory, for a broker that stores something beside its server.
    pub state_dir: PathBuf,
}

impl Opening {
    /// Parameters for a short-lived client.
    pub fn passing(state_dir: &Path) -> Opening {
        Opening { state_dir: state_dir.to_owned(), ..Opening::default() }
    }
}

/// The value of a switch in a URL; None = it is neither `yes` nor `no`.
pub fn yes_or_no(value: &str) -> Option<bool> {
    match value {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}
