//! What a kind of broker is to whoever has only its URL.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::Address;
use crate::broker::{Broker, Card, Error};
use crate::model::{QueueCounts, QueueName};

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
