//! The broker's contract, call by call.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::call::Kind;
use super::checkpoint::{LONG, UNCUT};
use super::handle::{Files, Sqlite};
use super::notify_file::Ear;
use super::store::{STRETCH, Store};
use super::{admin, lease, list, put, settle, tally, tasks, verbs};
use broker::{
    Admin, Broker, Browse, Card, Complaints, Error, EventBus, Feed, Fetch, Health, JobEnd, Notice, Recovery,
    Renewal, Settling, Source,
};
use model::verb::{Ability, Answer, Verb};
use model::{
    Cursor, Fence, Fetched, Filter, Instance, JobCounts, JobId, JobState, Lease, Millis, NewJob, Page,
    Progress, Settlement, Verdict, WorkerId, size,
};

/// The card of the embedded store.
pub(super) static CARD: Card = Card {
    name: "sqlite",
    shared: false,
    batch: 1000,
    longest_delay: None,
    data_max: NewJob::DATA_MAX,
    cannot: &[
        (
            Ability::Fleet,
            "one supervisor has it, and `taskvisor status` shows that one; a fleet shares a Redis (-b redis://HOST)",
        ),
        (Ability::AllEvents, "the supervisor tells what it does itself; `job list` shows the rest"),
    ],
};

impl From<Sqlite> for Broker {
    fn from(store: Sqlite) -> Broker {
        let store = Arc::new(store);
        Broker::new(&CARD, store.clone())
            .with_recovery(store.clone())
            .with_admin(store.clone())
            .with_store(store)
    }
}

impl Sqlite {
    /// A warning about a store that works: it has lost jobs, its write-ahead log cannot be cut, or it sees changes late.
    fn concern(&self, wal_bytes: Option<u64>) -> Option<String> {
        let Files { wal, losses, ear, .. } = self.files.as_ref()?;
        let looks = ear.as_ref().and_then(Ear::concern);
        let wal = wal.display();
        // What the disk does not take is a complaint of its own: nobody reads then.
        let is_read = || self.notices.complaints.told(clock::now()).iter().all(|told| told.what != UNCUT);
        let long = wal_bytes.filter(|bytes| *bytes >= LONG && is_read()).map(|bytes| {
            format!(
                "{wal} has grown to {} and cannot be cut: another program keeps a read transaction open: end it, `fuser \
                 {wal}` shows which",
                size(bytes)
            )
        });
        losses.said().map(|lost| format!("the store {lost}")).or(long).or(looks)
    }

    /// Why the store's files are not where they were opened, if they were moved, removed or replaced.
    fn lost_place(&self) -> Option<String> {
        let lost = self.files.as_ref()?.place.lost()?;
        // The store's thread is to find it, too: it must promise nothing more.
        self.look_now();
        Some(lost)
    }

    /// The acknowledged jobs and changes that the store has lost, as a sentence; None once a person removed the `-loss`
    /// file.
    pub fn losses(&self) -> Option<String> {
        self.files.as_ref()?.losses.said()
    }

    fn wal_bytes(&self) -> Option<u64> {
        Some(std::fs::metadata(&self.files.as_ref()?.wal).ok()?.len())
    }

    fn store_bytes(&self, wal_bytes: Option<u64>) -> Option<u64> {
        let wal = self.files.as_ref()?.wal.to_str()?;
        let main = std::fs::metadata(wal.strip_suffix("-wal")?).ok()?.len();
        Some(main + wal_bytes.unwrap_or(0))
    }
}

#[async_trait]
impl Source for Sqlite {
    async fn fetch(&self, request: Fetch) -> Result<Vec<Fetched>, Error> {
        // From the grant: the call may have waited for a long time for another program that had locked the store.
        self.run(Kind::Fetch, move |store| lease::fetch(store, &request, store.now())).await
    }

    async fn renew(&self, leases: Vec<Lease>, by: Duration) -> Result<Vec<Renewal>, Error> {
        self.run(Kind::Lease, move |store| lease::renew(store, &leases, by, store.now())).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settling>, Error> {
        let now = self.now();
        // A person waits for the answer to a cancel.
        let is_awaited = settlements.iter().any(|one| one.verdict == Verdict::Canceled);
        let kind = if is_awaited { Kind::Durable } else { Kind::Settle };
        self.run(kind, move |store| settle::settle(store, &settlements, now)).await
    }

    async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error> {
        let now = self.now();
        let ids = self.run(Kind::Durable, move |store| put::enqueue(store, &jobs, now)).await?;
        Ok(ids.into_iter().map(Ok).collect())
    }

    async fn next_notice(&self) -> Notice {
        self.notices.next().await
    }

    fn complaints(&self) -> Complaints {
        self.notices.complaints.clone()
    }

    fn health(&self) -> Health {
        let wal_bytes = self.wal_bytes();
        Health {
            trouble: self.notices.trouble().or_else(|| self.lost_place()),
            concern: self.concern(wal_bytes),
            store_bytes: self.store_bytes(wal_bytes),
            wal_bytes,
        }
    }

    async fn progress(&self, notes: Vec<(JobId, Fence, Progress)>) -> Result<(), Error> {
        self.run(Kind::Lease, move |store| lease::progress(store, &notes)).await
    }
}

#[async_trait]
impl Recovery for Sqlite {
    async fn recover(&self, instance: Instance, keep: Vec<(JobId, Fence)>) -> Result<u64, Error> {
        let now = self.now();
        self.run(Kind::Durable, move |store| admin::recover(store, &instance, &keep, now)).await
    }

    async fn held_by(&self, instance: Instance) -> Result<Vec<(JobId, Fence, WorkerId)>, Error> {
        self.run(Kind::Read, move |store| admin::held_by(store, &instance)).await
    }
}

#[async_trait]
impl Admin for Sqlite {
    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Error> {
        // Counted in pages, so that other requests come between.
        if let Verb::Failed(_) = verb {
            return Ok(Answer::Failed(self.groups_by_pages().await?));
        }
        let now = self.now();
        let kind = if verb.route().only_looks() { Kind::Read } else { Kind::Durable };
        self.run(kind, move |store| verbs::apply(store, &verb, &by, now)).await
    }
}

#[async_trait]
impl Browse for Sqlite {
    async fn page(&self, filter: &Filter, at: Option<Cursor>) -> Result<Page, Error> {
        let filter = filter.clone();
        self.run(Kind::Read, move |store| list::page(store, &filter, at.clone())).await
    }

    async fn tally(
        &self,
        filter: &Filter,
        at: Option<Cursor>,
        counts: &JobCounts,
        now: Millis,
    ) -> Result<Option<(JobCounts, Option<Cursor>)>, Error> {
        let (filter, counts) = (filter.clone(), counts.clone());
        let next =
            move |store: &mut Store| tally::next(store, &filter, at.clone(), counts.clone(), now).map(Some);
        self.run(Kind::Read, next).await
    }

    async fn count_tasks(&self, begins: &str, states: &[JobState]) -> Result<u64, Error> {
        let (begins, states) = (begins.to_owned(), states.to_vec());
        let (prefix, wanted) = (begins.clone(), states.clone());
        let kept = self.run(Kind::Read, move |store| tasks::count(store, &prefix, &wanted)).await?;
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let (mut sum, mut behind) = (0, None);
        loop {
            let (begins, states) = (begins.clone(), states.clone());
            let next = move |store: &mut Store| tasks::count_next(store, &begins, &states, behind.as_deref());
            let (count, rest) = self.run(Kind::Read, next).await?;
            sum += count;
            if rest.is_none() {
                return Ok(sum);
            }
            behind = rest;
        }
    }

    async fn ended(&self, id: JobId) -> Result<JobState, Error> {
        let (told, mut ends) = unbounded_channel();
        self.tell_ends(&[id], &told).await?;
        // Else `recv` would wait for ever if the store's thread ends.
        drop(told);
        let closed = || Err(Error::Failed("the store is closed".into()));
        ends.recv().await.map_or_else(closed, |(_, end)| end)
    }

    async fn tell_ends(&self, jobs: &[JobId], told: &UnboundedSender<JobEnd>) -> Result<bool, Error> {
        // Other requests come between these.
        for some in jobs.chunks(STRETCH) {
            let (some, mut told) = (some.to_vec(), Some(told.clone()));
            self.run(Kind::Read, move |store| admin::tell_ends(store, &some, &mut told)).await?;
        }
        Ok(true)
    }
}

#[async_trait]
// Publishes events of this process only.
impl Feed for Sqlite {
    fn publish(&self, room: EventBus) {
        self.notices.publish(room);
    }
}
