//! Writes into the ledger, in their order. What the disk refuses is kept and written once the disk works again: without
//! that a job that has ended would be shown as running for ever. What fails for itself, as a row is damaged, is dropped:
//! it would hold up all behind it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;

use super::change::Write;
use super::queue::Owed;
use broker::{Complaints, Error, Source};
use sqlite::{Adopted, Sqlite};

/// Between two tries while nothing else is written.
const PAUSE: Duration = Duration::from_secs(1);

/// Writes into one ledger.
pub(super) struct Writer {
    store: Arc<Sqlite>,
    /// Whether the table of deliveries exists.
    prepared: OnceCell<()>,
    wrong: Complaints,
    owed: Mutex<Owed>,
    /// Held by the one that writes what is owed.
    paying: tokio::sync::Mutex<()>,
}

/// Whether the same write may work later: it is the disk that refuses, and not the write that is wrong.
fn may_pass<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Disk(_)))
}

impl Writer {
    pub(crate) fn new(store: Arc<Sqlite>) -> Arc<Writer> {
        let wrong = store.complaints();
        let (prepared, owed, paying) = (OnceCell::new(), Mutex::default(), tokio::sync::Mutex::default());
        Arc::new(Writer { store, prepared, wrong, owed, paying })
    }

    /// Makes the table of deliveries, once.
    pub(crate) async fn prepare(&self) -> Result<(), Error> {
        self.prepared.get_or_try_init(async || self.store.keep_deliveries().await).await?;
        Ok(())
    }

    /// Makes a change, after those before it. One that the disk refuses is made as soon as the disk works again, also if
    /// nobody waits for the answer any more.
    pub(crate) async fn write(self: Arc<Self>, write: Write) -> Result<Vec<Adopted>, Error> {
        let what = write.what();
        let place = self.owed().next_place();
        let made = tokio::spawn(async move {
            let answer = match self.begin(place).await {
                Ok(()) => self.make(write.clone()).await,
                Err(error) => Err(error),
            };
            self.end(place, write, &answer);
            answer
        });
        made.await.unwrap_or_else(|_| Err(Error::Failed(format!("{what}: the supervisor ends"))))
    }

    /// Waits until nothing is owed that comes first. From then on this write is under way.
    async fn begin(&self, place: u64) -> Result<(), Error> {
        while !self.owed().begin(place) {
            self.pay().await?;
        }
        Ok(())
    }

    async fn make(&self, write: Write) -> Result<Vec<Adopted>, Error> {
        let what = write.what();
        let made = async {
            self.prepare().await?;
            write.make(&self.store).await
        };
        let answer = made.await;
        match &answer {
            Err(error) if !may_pass(&answer) => tracing::warn!(%error, "{what}; it is not tried again"),
            _ => self.wrong.note(what, &answer, clock::now()),
        }
        answer
    }

    /// Makes the changes that are owed, in order, up to the first that the disk refuses again.
    pub(crate) async fn pay(&self) -> Result<(), Error> {
        if self.owed().is_nothing() {
            return Ok(());
        }
        // One at a time: two would mix up the order.
        let _paying = self.paying.lock().await;
        loop {
            let first = self.owed().take();
            let Some((place, first)) = first else { return Ok(()) };
            let answer = self.make(first.clone()).await;
            self.owed().paid(place, first, may_pass(&answer));
            if may_pass(&answer) {
                return answer.map(drop);
            }
        }
    }

    fn end(self: &Arc<Self>, place: u64, write: Write, answer: &Result<Vec<Adopted>, Error>) {
        let mut owed = self.owed();
        if owed.end(place, write, may_pass(answer), answer.is_ok())
            && !std::mem::replace(&mut owed.is_tried, true)
        {
            tokio::spawn(self.clone().try_on());
        }
    }

    /// Tries until nothing is owed.
    async fn try_on(self: Arc<Self>) {
        loop {
            tokio::time::sleep(PAUSE).await;
            // Its complaint says what is wrong.
            self.pay().await.ok();
            let mut owed = self.owed();
            if owed.is_nothing() {
                owed.is_tried = false;
                return;
            }
        }
    }

    fn owed(&self) -> MutexGuard<'_, Owed> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
