//! The embedded store as a kind of broker: in a file, or in memory.

use std::path::PathBuf;

use async_trait::async_trait;

use super::broker::CARD;
use super::count::Losses;
use super::{Options, Sqlite};
use broker::{Adapter, Address, Broker, Card, Error, Opening, Place};

/// The store in a file: `sqlite:PATH`.
pub struct InFile;

/// The store in memory, which is lost when the supervisor ends: `memory:`.
pub struct InMemory;

#[async_trait]
impl Adapter for InFile {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn schemes(&self) -> &'static [&'static str] {
        &["sqlite"]
    }

    fn forms(&self) -> &'static str {
        "sqlite:PATH"
    }

    fn fault(&self, url: &str) -> Option<&'static str> {
        path(url).as_os_str().is_empty().then_some("needs a path")
    }

    fn place(&self, url: &str) -> Place {
        Place::File(path(url))
    }

    fn shown(&self, url: &str) -> String {
        url.to_owned()
    }

    fn identity(&self, shown: &str) -> String {
        let path = path(shown);
        // Two paths that lead to one file are one store.
        format!("sqlite:{}", std::fs::canonicalize(&path).unwrap_or(path).display())
    }

    fn open(&self, at: &Address, how: &Opening) -> Result<Broker, Error> {
        let options = Options { serves: how.serves, keeps_schema: how.keeps_schema, ..Options::default() };
        Ok(Sqlite::open(file(at), options)?.into())
    }

    fn look(&self, at: &Address) -> Result<(), Error> {
        Sqlite::look(file(at))
    }

    async fn concern(&self, at: &Address) -> Result<Option<String>, Error> {
        Ok(Losses::of(&file(at)).said().map(|lost| format!("the store {lost}")))
    }
}

fn path(url: &str) -> PathBuf {
    url.strip_prefix("sqlite:").unwrap_or(url).into()
}

fn file(at: &Address) -> PathBuf {
    at.file().map_or_else(|| path(at.reveal()), PathBuf::from)
}

#[async_trait]
impl Adapter for InMemory {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn schemes(&self) -> &'static [&'static str] {
        &["memory"]
    }

    fn forms(&self) -> &'static str {
        "memory:"
    }

    fn fault(&self, url: &str) -> Option<&'static str> {
        (url != "memory:").then_some("has nothing after its colon")
    }

    fn place(&self, _url: &str) -> Place {
        Place::Supervisor
    }

    fn shown(&self, url: &str) -> String {
        url.to_owned()
    }

    fn identity(&self, shown: &str) -> String {
        shown.to_owned()
    }

    fn open(&self, _at: &Address, how: &Opening) -> Result<Broker, Error> {
        if !how.serves {
            let why = "jobs in memory are those of a supervisor that runs: none can be reached without it";
            return Err(Error::Failed(why.into()));
        }
        Ok(Sqlite::memory()?.into())
    }
}
