//! A request to the store: the store's thread applies it, and it is answered when its kind allows.

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::store::Store;
use super::trouble::Trouble;
use broker::Error;

/// What must happen before a call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing: it only reads.
    Read,
    /// A commit, without the disk: leases.
    Lease,
    /// As [`Kind::Lease`], and it may wait some milliseconds for others.
    Note,
    /// As [`Kind::Lease`], and refused while the disk fails: no new work then.
    Fetch,
    /// Answered once on disk; it may wait some milliseconds for others.
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

/// Called when the disk, or the transaction, is done.
pub(super) type Done = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// A request with any type of answer.
pub(super) trait Call: Send {
    fn kind(&self) -> Kind;
    /// Runs it inside a transaction. May run again after a rollback.
    fn apply(&mut self, store: &mut Store) -> Result<(), rusqlite::Error>;
    /// Sends the answer of `apply`, or the error that came after it.
    fn answer(self: Box<Self>, after: Result<(), Error>);
}

/// A request with the answer `T`. `work` makes all its checks before it writes, so that a refusal needs no rollback.
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
        // The caller may have gone; the request was carried out all the same.
        let _ = self.reply.send(result);
    }
}
