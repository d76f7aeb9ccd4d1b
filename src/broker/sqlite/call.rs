//! A request on its way through the store: applied by the store's thread, answered when that is right.

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::store::Store;
use super::trouble::Trouble;
use crate::broker::Error;

/// What a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing but to look.
    Read,
    /// A transaction, but no disk: leases.
    Lease,
    /// As [`Kind::Lease`], and may wait some milliseconds for company.
    Note,
    /// As [`Kind::Lease`], and refused while the disk fails: no new work.
    Fetch,
    /// Answered once on disk; may wait some milliseconds for company.
    Settle,
    /// Answered once on disk.
    Durable,
}

impl Kind {
    pub(super) fn writes(self) -> bool {
        self != Kind::Read
    }

    pub(super) fn is_durable(self) -> bool {
        matches!(self, Kind::Settle | Kind::Durable)
    }
}

/// Something that waits for the disk, or for the transaction.
pub(super) type Done = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// A request, whatever it answers.
pub(super) trait Call: Send {
    fn kind(&self) -> Kind;
    /// Runs it inside a transaction. May run again after a rollback.
    fn apply(&mut self, store: &mut Store) -> Result<(), rusqlite::Error>;
    /// Answers what `apply` gave, or the failure of what came after it.
    fn answer(self: Box<Self>, after: Result<(), Error>);
}

/// A request that answers a `T`. `work` checks all it has to check before it writes, so that a mistake needs no rollback.
pub(super) struct Ask<T, W> {
    pub(super) kind: Kind,
    pub(super) work: W,
    pub(super) result: Option<Result<T, Error>>,
    pub(super) reply: oneshot::Sender<Result<T, Error>>,
    pub(super) _permit: OwnedSemaphorePermit,
}

impl<T, W> Call for Ask<T, W>
where
    T: Send,
    W: FnMut(&mut Store) -> Result<T, Trouble> + Send,
{
    fn kind(&self) -> Kind {
        self.kind
    }

    fn apply(&mut self, store: &mut Store) -> Result<(), rusqlite::Error> {
        self.result = Some(match (self.work)(store) {
            Ok(value) => Ok(value),
            Err(Trouble::Mine(error)) => Err(error),
            Err(Trouble::Store(error)) => return Err(error),
        });
        Ok(())
    }

    fn answer(self: Box<Self>, after: Result<(), Error>) {
        let result = match after {
            Ok(()) => {
                self.result.unwrap_or_else(|| Err(Error::Failed("the store did not run the request".into())))
            }
            Err(error) => Err(error),
        };
        // The caller may have gone: what it asked for is done all the same.
        let _ = self.reply.send(result);
    }
}
