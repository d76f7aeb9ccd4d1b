//! What the broker has yet to hear.

use std::collections::{BTreeMap, VecDeque};

use super::Command;
use super::restart::{Backoff, Random};
use super::verdict;
use crate::model::{Fence, Instant, JobId, Revocation, Settlement, Verdict};

/// Verdicts that are not known to be durable. A verdict stays until the broker has said so.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    waiting: BTreeMap<(JobId, Fence), Waiting>,
    /// Jobs settled so far, by verdict.
    pub(super) counts: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct Waiting {
    settlement: Settlement,
    /// When to tell it; None while the broker is being told.
    due: Option<Instant>,
    backoff: Backoff,
}

impl Unsettled {
    /// A job has ended.
    pub(super) fn add(&mut self, now: Instant, settlement: Settlement) {
        let key = (settlement.job.clone(), settlement.fence);
        self.waiting.entry(key).or_insert(Waiting { settlement, due: Some(now), backoff: Backoff::BROKER });
    }

    /// Whether the broker knows it all.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether this end is still to be told.
    pub(super) fn has(&self, job: &JobId, fence: Fence) -> bool {
        self.waiting.contains_key(&(job.clone(), fence))
    }

    /// It is durable, or it was not ours any more.
    pub(super) fn settled(&mut self, job: JobId, fence: Fence) {
        if let Some(told) = self.waiting.remove(&(job, fence)) {
            *self.counts.entry(verdict::word(&told.settlement.verdict).into()).or_default() += 1;
        }
    }

    /// The broker could not be told; try again.
    pub(super) fn failed(&mut self, now: Instant, job: JobId, fence: Fence, random: &mut Random) {
        if let Some(waiting) = self.waiting.get_mut(&(job, fence))
            && waiting.due.is_none()
        {
            waiting.due = Some(now + random.jitter(waiting.backoff.failed(), 20));
        }
    }

    /// The right was lost after the end: a canceled job is told as canceled (its processes are proven dead), any other
    /// is not ours to tell. Gives whether it was dropped.
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
                self.waiting.remove(&key).is_some()
            }
        }
    }

    /// Tells what is due.
    pub(super) fn tell(&mut self, now: Instant, orders: &mut VecDeque<Command>) {
        for waiting in self.waiting.values_mut() {
            if waiting.due.is_some_and(|due| due <= now) {
                waiting.due = None;
                orders.push_back(Command::Settle(waiting.settlement.clone()));
            }
        }
    }

    /// When something is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.values().filter_map(|waiting| waiting.due).min()
    }
}
