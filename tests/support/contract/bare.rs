//! A minimal broker: a source of a few lines, with the ledger for its history.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use broker::{Broker, Card, Error, Fetch, Notice, Renewal, Settling};
use ledger::{BareSource, Delivery, Handle, Ledger, with_ledger};
use model::verb::Ability;
use model::*;
use select::Turns;
use sqlite::Options;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use uuid::Uuid;

use crate::support::{Clock, Elsewhere};

/// The card of the source with its ledger.
pub static CARD: Card = Card {
    name: "bare",
    shared: false,
    batch: 1000,
    longest_delay: None,
    data_max: NewJob::DATA_MAX,
    cannot: &[
        (Ability::ShowWaiting, "take it"),
        (Ability::Position, "take them"),
        (Ability::Retry, "put the job again"),
        (Ability::RetryMany, "put the jobs again"),
        (Ability::Depend, "put the second job from the first one"),
        (Ability::Prioritize, "give each priority a queue of its own"),
        (Ability::SetData, "complete the job, and put another one"),
        (Ability::Pause, "take nothing from it"),
        (Ability::Recur, "put it from cron"),
        (Ability::Forget, "drop it"),
        (Ability::Options, "change its source"),
        (Ability::Fleet, "there is one"),
        (Ability::UniqueId, "give each job an id of its own"),
        (Ability::Expire, "have the job look at the time"),
        (Ability::PutTogether, "put them one by one"),
        (Ability::AllEvents, "the supervisor tells what it does itself"),
    ],
};

/// Jobs in memory that survive a reopening of the broker.
struct Place {
    jobs: Arc<Mutex<Jobs>>,
    directory: tempfile::TempDir,
}

pub fn start() -> Box<dyn Elsewhere> {
    Box::new(Place { jobs: Arc::default(), directory: tempfile::tempdir().expect("a directory") })
}

impl Elsewhere for Place {
    /// It knows that this supervisor lives, and that is no death.
    fn run_out_counts(&self) -> Count {
        Count::Stopped
    }

    fn open(&self, clock: &Clock) -> Broker {
        let world = clock.world();
        let (now, options) = (world.now.clone(), Options { world, ..Options::default() });
        let ledger = Ledger::open_in(self.directory.path(), options).expect("a ledger");
        let (say, told) = unbounded_channel();
        let bare = Bare { jobs: self.jobs.clone(), ledger, now, lost: (say, told.into()) };
        with_ledger(&CARD, Arc::new(bare))
    }

    fn afresh(&self) -> Box<dyn Elsewhere> {
        start()
    }
}

/// The required methods of a source.
#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Waiting>,
    running: BTreeMap<JobId, (Waiting, Lease)>,
    fence: u64,
}

#[derive(Clone)]
struct Waiting {
    job: NewJob,
    due: Instant,
    attempt: u32,
}

impl Jobs {
    /// Puts a job back at the front of its queue, unless it is delayed.
    fn back(&mut self, one: Waiting, after: Duration, now: Instant) -> JobState {
        self.waiting.push_front(Waiting { due: now + after, ..one });
        if after.is_zero() { JobState::Waiting } else { JobState::Delayed }
    }

    /// Releases the jobs of expired leases.
    fn expire(&mut self, now: Instant) -> Vec<Lease> {
        let over: Vec<Lease> = self.running.values().map(|(_, lease)| lease.clone()).collect();
        let over: Vec<Lease> = over.into_iter().filter(|lease| lease.expires_at <= now).collect();
        for lease in &over {
            if let Some((one, _)) = self.running.remove(&lease.job) {
                self.back(Waiting { attempt: one.attempt - 1, ..one }, Duration::ZERO, now);
            }
        }
        over
    }

    fn take(&mut self, queue: &QueueName, request: &Fetch, now: Instant) -> Option<Delivery> {
        let is_it = |one: &Waiting| {
            one.job.queue == *queue && one.due <= now && request.filter.matches(&one.job.class)
        };
        let one = self.waiting.remove(self.waiting.iter().position(is_it)?)?;
        self.fence += 1;
        let one = Waiting { attempt: one.attempt + 1, ..one };
        let (id, fence) = (one.job.id.clone().expect("an id"), Fence(self.fence));
        let lease = Lease { job: id.clone(), fence, expires_at: now + request.lease };
        let given = Delivery {
            job: one.job.clone(),
            lease: lease.clone(),
            message: String::new(),
            attempt: one.attempt,
            put_at: None,
            handle: format!("delivery {fence:?}"),
        };
        self.running.insert(id, (one, lease));
        Some(given)
    }

    /// Applies a verdict; `None` if the lease is not the caller's.
    fn settle(&mut self, settlement: &Settlement, now: Instant) -> Option<JobState> {
        let is_ours = |(_, lease): &(Waiting, Lease)| lease.fence == settlement.fence;
        self.running.get(&settlement.job).filter(|running| is_ours(running))?;
        let (one, _) = self.running.remove(&settlement.job)?;
        Some(match &settlement.verdict {
            Verdict::Complete { next: None, .. } => JobState::Complete,
            Verdict::Complete { next: Some(next), .. } => {
                let job = NewJob { queue: next.queue.clone(), ..one.job };
                self.waiting.push_back(Waiting { job, due: now + next.delay, attempt: 0 });
                JobState::Complete
            }
            Verdict::Canceled => JobState::Canceled,
            Verdict::Fail { .. } => JobState::Failed,
            Verdict::Hold { .. } => JobState::Held,
            Verdict::Retry { after, .. } => self.back(one, *after, now),
            Verdict::Release { after, .. } => {
                self.back(Waiting { attempt: one.attempt - 1, ..one }, *after, now)
            }
        })
    }
}

struct Bare {
    jobs: Arc<Mutex<Jobs>>,
    ledger: Ledger,
    now: Arc<dyn Fn() -> Instant + Send + Sync>,
    /// Reports expired leases; the ledger leaves that to the source.
    lost: (UnboundedSender<Notice>, tokio::sync::Mutex<UnboundedReceiver<Notice>>),
}

impl Bare {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().expect("no call panics")
    }
}

#[async_trait]
impl BareSource for Bare {
    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    async fn take(&self, request: &Fetch) -> Result<Vec<Delivery>, Error> {
        let now = (self.now)();
        let mut given = Vec::new();
        let over = {
            let mut jobs = self.jobs();
            let over = jobs.expire(now);
            let mut turns = Turns::new(request.take, &request.queues);
            while given.len() < request.workers.len()
                && let Some(queue) = turns.queue()
            {
                match jobs.take(queue, request, now) {
                    Some(delivery) => {
                        given.push(delivery);
                        turns.gave();
                    }
                    None => turns.had_none(),
                }
            }
            over
        };
        for lease in over {
            let lost = Notice::Revoked { job: lease.job, fence: lease.fence, why: Revocation::LockLost };
            self.lost.0.send(lost).expect("it is there as long as the broker");
        }
        Ok(given)
    }

    async fn renew(&self, leases: &[Lease], by: Duration) -> Result<Vec<Renewal>, Error> {
        let expires_at = (self.now)() + by;
        let mut jobs = self.jobs();
        let mut renew = |asked: &Lease| {
            let found = jobs.running.get_mut(&asked.job).filter(|(_, lease)| lease.fence == asked.fence);
            match found.map(|(_, lease)| lease.expires_at = expires_at) {
                Some(()) => Renewal::Renewed(Lease { expires_at, ..asked.clone() }),
                None => Renewal::Lost(Revocation::LockLost),
            }
        };
        Ok(leases.iter().map(&mut renew).collect())
    }

    fn refuses(&self, _next: &Next) -> Option<String> {
        None
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settling>, Error> {
        let now = (self.now)();
        let settle = |one| self.jobs().settle(one, now).map_or(Settling::NotOurs, Settling::Settled);
        let answers: Vec<Settling> = settlements.iter().map(settle).collect();
        self.ledger.settle(settlements, &answers).await;
        Ok(answers)
    }

    async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error> {
        let now = (self.now)();
        let mut put = Vec::new();
        for job in jobs {
            let made = || Uuid::now_v7().simple().to_string().as_str().into();
            let job = NewJob { id: Some(job.id.unwrap_or_else(made)), ..job };
            put.push(job.fault().map_or(Ok(job.id.clone().expect("an id")), |why| Err(Error::Refused(why))));
            if job.fault().is_none() {
                self.jobs().waiting.push_back(Waiting { due: now + job.delay, job, attempt: 0 });
            }
        }
        self.ledger.say(Notice::Wake(QueueSet::All));
        Ok(put)
    }

    async fn next_notice(&self) -> Notice {
        let lost = async { self.lost.1.lock().await.recv().await };
        tokio::select! {
            Some(lost) = lost => lost,
            notice = self.ledger.next_notice() => notice,
        }
    }

    async fn release(
        &self,
        _instance: &Instance,
        lost: Vec<Handle>,
        _keep: &[(JobId, Fence)],
    ) -> Result<u64, Error> {
        let (now, mut count) = ((self.now)(), 0);
        // In reverse order, so that the jobs keep their order at the front.
        for one in lost.iter().rev() {
            let mut jobs = self.jobs();
            if jobs.running.get(&one.job).is_some_and(|(_, lease)| lease.fence == one.fence)
                && let Some((job, _)) = jobs.running.remove(&one.job)
            {
                if !one.is_canceling {
                    jobs.back(Waiting { attempt: job.attempt - 1, ..job }, Duration::ZERO, now);
                }
                count += 1;
            }
        }
        Ok(count)
    }
}
