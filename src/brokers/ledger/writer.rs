//! Writes into the ledger, in their order. What the disk refuses is kept and written once the disk works again: without
//! that a job that has ended would be shown as running for ever.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;

use broker::{Complaints, Error, Fetch, Recovery, Source};
use model::{Count, Fence, Instance, JobId, Payload, Settlement, WorkerId};
use sqlite::{Adopted, Delivery, Elsewhere, Sqlite};

/// Most writes that are kept, and most bytes of the payloads of their jobs. The oldest are given up for new ones.
const MOST: usize = 8192;
const MOST_BYTES: usize = 32 << 20;
/// Between two tries while nothing else is written.
const PAUSE: Duration = Duration::from_secs(1);

/// A change of the ledger. Made twice, it changes no more than made once.
#[derive(Clone)]
pub(super) enum Write {
    /// Deliveries, each with its worker.
    Adopt(Fetch, Vec<(Delivery, WorkerId)>),
    /// How jobs ended, and messages that run no more.
    Ends(Vec<Settlement>, Vec<String>),
    /// Leases that are lost, each with what its end counts as.
    Lost(Vec<(JobId, Fence, Count)>),
    /// Jobs that ended elsewhere.
    Learn(Vec<(JobId, Elsewhere)>),
    /// The jobs of an instance wait again, apart from these.
    Recover(Instance, Vec<(JobId, Fence)>),
}

impl Write {
    /// What failed if it fails.
    pub fn what(&self) -> &'static str {
        match self {
            Write::Adopt(..) => "failed to write jobs into the ledger",
            Write::Ends(..) => "failed to write ends of jobs into the ledger",
            Write::Lost(_) => "failed to write into the ledger which leases are lost",
            Write::Learn(_) => "failed to write into the ledger what ended elsewhere",
            Write::Recover(..) => "failed to write into the ledger what waits again",
        }
    }

    /// The bytes of its payloads.
    fn bytes(&self) -> usize {
        let Write::Adopt(_, given) = self else { return 0 };
        let bytes = |payload: &Payload| match payload {
            Payload::Exec(exec) => {
                exec.argv.iter().map(|word| word.0.len()).sum::<usize>() + exec.stdin.0.len()
            }
            Payload::Data(data) => data.0.len(),
        };
        given.iter().map(|(delivery, _)| bytes(&delivery.job.payload)).sum()
    }

    /// Makes it; gives the answers for deliveries.
    async fn make(self, store: &Sqlite) -> Result<Vec<Adopted>, Error> {
        match self {
            Write::Adopt(request, given) => return store.adopt(request, given).await,
            Write::Ends(ends, messages) => drop(store.note_ends(ends, messages).await?),
            Write::Lost(leases) => store.lost(leases).await?,
            Write::Learn(ended) => store.learn(ended).await?,
            Write::Recover(instance, keep) => drop(store.recover(instance, keep).await?),
        }
        Ok(Vec::new())
    }
}

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

/// What could not be written yet, in order.
#[derive(Default)]
struct Owed {
    writes: VecDeque<Write>,
    /// The first of them is being written.
    in_hand: bool,
    /// A task tries again and again.
    is_tried: bool,
}

impl Owed {
    fn is_nothing(&self) -> bool {
        self.writes.is_empty() && !self.in_hand
    }
}

impl Writer {
    pub fn new(store: Arc<Sqlite>) -> Arc<Writer> {
        let wrong = store.complaints();
        let (prepared, owed, paying) = (OnceCell::new(), Mutex::default(), tokio::sync::Mutex::default());
        Arc::new(Writer { store, prepared, wrong, owed, paying })
    }

    /// Makes the table of deliveries, once.
    pub async fn prepare(&self) -> Result<(), Error> {
        self.prepared.get_or_try_init(async || self.store.keep_deliveries().await).await?;
        Ok(())
    }

    /// Makes a change, after those before it. One that fails is made as soon as the disk works again, also if nobody
    /// waits for the answer any more.
    pub async fn write(self: Arc<Self>, write: Write) -> Result<Vec<Adopted>, Error> {
        let what = write.what();
        let made = tokio::spawn(async move {
            let answer = match self.pay().await {
                Ok(()) => self.make(write.clone()).await,
                Err(error) => Err(error),
            };
            if answer.is_err() {
                self.owe(write);
            }
            answer
        });
        made.await.unwrap_or_else(|_| Err(Error::Failed(format!("{what}: the supervisor ends"))))
    }

    async fn make(&self, write: Write) -> Result<Vec<Adopted>, Error> {
        let what = write.what();
        let made = async {
            self.prepare().await?;
            write.make(&self.store).await
        };
        let answer = made.await;
        self.wrong.note(what, &answer, clock::now());
        answer
    }

    /// Makes the changes that are owed, in order, up to the first that fails again.
    async fn pay(&self) -> Result<(), Error> {
        if self.owed().is_nothing() {
            return Ok(());
        }
        let _paying = self.paying.lock().await;
        while let Some(first) = self.take() {
            let answer = self.make(first.clone()).await;
            let mut owed = self.owed();
            owed.in_hand = false;
            if let Err(error) = answer {
                owed.writes.push_front(first);
                return Err(error);
            }
        }
        Ok(())
    }

    fn take(&self) -> Option<Write> {
        let mut owed = self.owed();
        let first = owed.writes.pop_front();
        owed.in_hand = first.is_some();
        first
    }

    fn owe(self: &Arc<Self>, write: Write) {
        let mut owed = self.owed();
        owed.writes.push_back(write);
        while owed.writes.len() > MOST || owed.writes.iter().map(Write::bytes).sum::<usize>() > MOST_BYTES {
            owed.writes.pop_front();
        }
        if !std::mem::replace(&mut owed.is_tried, true) {
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
