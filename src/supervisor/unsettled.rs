//! Verdicts that the broker has not confirmed yet.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use super::restart::{Backoff, Random};
use super::{Command, verdict};
use model::{Fence, Instant, JobId, Revocation, Settlement, Verdict};

/// Verdicts that are not known to be durable. A verdict stays until the broker has said so.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    waiting: BTreeMap<(JobId, Fence), Waiting>,
    /// When to send each of them, without those for which a call is under way.
    due: BTreeMap<(JobId, Fence), Instant>,
}

#[derive(Debug)]
struct Waiting {
    /// The number of the pool that took the job.
    pool: u16,
    settlement: Settlement,
    backoff: Backoff,
}

impl Unsettled {
    /// A job of this pool has ended.
    pub(super) fn add(&mut self, now: Instant, pool: u16, settlement: Settlement) {
        let key = (settlement.job.clone(), settlement.fence);
        // The first verdict under a lease counts.
        if let Entry::Vacant(free) = self.waiting.entry(key) {
            self.due.insert(free.key().clone(), now);
            free.insert(Waiting { pool, settlement, backoff: Backoff::BROKER });
        }
    }

    /// Whether a settlement of a job of this pool is not yet confirmed.
    pub(super) fn has_of(&self, pool: u16) -> bool {
        self.waiting.values().any(|waiting| waiting.pool == pool)
    }

    /// Whether all settlements are confirmed.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of attempts that have ended, without those that do not count.
    pub(super) fn ended(&self) -> u64 {
        let counts = |waiting: &&Waiting| !matches!(waiting.settlement.verdict, Verdict::Release { .. });
        self.waiting.values().filter(counts).count() as u64
    }

    /// Whether the settlement of this job is not yet confirmed.
    pub(super) fn has(&self, job: &JobId, fence: Fence) -> bool {
        self.waiting.contains_key(&(job.clone(), fence))
    }

    /// The settlement is durable, or the lease was not ours any more. Gives the pool of the job, and the verdict.
    pub(super) fn settled(&mut self, job: JobId, fence: Fence) -> Option<(u16, Verdict)> {
        let told = self.remove(&(job, fence))?;
        Some((told.pool, told.settlement.verdict))
    }

    /// The call to the broker failed: the settlement is sent again, after a backoff.
    pub(super) fn failed(&mut self, now: Instant, job: JobId, fence: Fence, random: &mut Random) {
        let key = (job, fence);
        if let Some(waiting) = self.waiting.get_mut(&key)
            && let Entry::Vacant(under_way) = self.due.entry(key)
        {
            under_way.insert(now + random.jitter(waiting.backoff.failed(), 20));
        }
    }

    fn remove(&mut self, key: &(JobId, Fence)) -> Option<Waiting> {
        self.due.remove(key);
        self.waiting.remove(key)
    }

    /// The lease was lost after the job's end: a canceled job is settled as canceled (its processes are proven dead), any
    /// other is dropped. Gives whether it was dropped.
    pub(super) fn revoked(&mut self, job: &JobId, fence: Fence, why: Revocation) -> bool {
        let key = (job.clone(), fence);
        match why {
            Revocation::Canceled => {
                if let Some(waiting) = self.waiting.get_mut(&key) {
                    waiting.settlement.verdict = Verdict::Canceled;
                }
                false
            }
            Revocation::LockLost | Revocation::Moved | Revocation::RenewRefused | Revocation::SelfFenced => {
                self.remove(&key).is_some()
            }
        }
    }

    /// Sends the settlements that are due.
    pub(super) fn tell(&mut self, now: Instant, orders: &mut VecDeque<Command>) {
        self.send(orders, |due| due <= now);
    }

    /// Sends the failed settlements again before anything is fetched: a broker that answers again could otherwise hand
    /// out jobs that have already run.
    pub(super) fn tell_again(&mut self, now: Instant, orders: &mut VecDeque<Command>) {
        self.send(orders, |due| due > now);
    }

    fn send(&mut self, orders: &mut VecDeque<Command>, is_it: impl Fn(Instant) -> bool) {
        let sent = self.due.extract_if(.., |_, due| is_it(*due));
        let sent = sent.filter_map(|(key, _)| self.waiting.get(&key));
        orders.extend(sent.map(|waiting| Command::Settle(waiting.settlement.clone())));
    }

    /// Logs each verdict that stays unconfirmed.
    pub(super) fn leave(&self, orders: &mut VecDeque<Command>) {
        let untold = self.waiting.values().map(|Waiting { settlement, .. }| {
            let Settlement { job, fence, verdict, .. } = settlement;
            Command::VerdictUnconfirmed { job: job.clone(), fence: *fence, verdict: verdict::word(verdict) }
        });
        orders.extend(untold);
    }

    /// When a settlement is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }
}
