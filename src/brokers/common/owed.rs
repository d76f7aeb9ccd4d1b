//! What is still to be released of an earlier process, because the broker was away at the start. No job is fetched
//! before that.

use std::sync::Mutex;

use crate::lock::lock;
use broker::Error;

/// The argument of a release that is still to be made, if any.
pub struct Owed<T>(Mutex<Option<T>>);

impl<T> Default for Owed<T> {
    fn default() -> Self {
        Owed(Mutex::new(None))
    }
}

impl<T: Clone> Owed<T> {
    /// The number of released jobs by the answer to a release; 0 if the broker was away, and `left` is owed then.
    pub fn or_owed(&self, released: Result<u64, Error>, left: T) -> Result<u64, Error> {
        match released {
            Err(error @ (Error::Failed(_) | Error::Disk(_) | Error::Unanswered(_))) => {
                tracing::warn!(%error, "what was held before is given back once the server is there");
                *lock(&self.0) = Some(left);
                Ok(0)
            }
            answer => answer,
        }
    }

    /// Makes the release before a fetch, if it is still to be made.
    pub async fn pay<F>(&self, release: impl FnOnce(T) -> F) -> Result<(), Error>
    where
        F: Future<Output = Result<u64, Error>>,
    {
        let Some(left) = self.get() else { return Ok(()) };
        release(left).await?;
        *lock(&self.0) = None;
        Ok(())
    }

    /// What is still to be released.
    pub fn get(&self) -> Option<T> {
        lock(&self.0).clone()
    }

    /// Notes that it is released.
    pub fn is_paid(&self) {
        *lock(&self.0) = None;
    }
}
