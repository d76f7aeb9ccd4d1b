//! Verdicts that the broker has answered, counted by pool.

use std::collections::BTreeMap;

use crate::pool::Pool;
use crate::{Supervisor, verdict};
use model::{Fence, JobId, JobState, Tally, Verdict};

impl Supervisor {
    pub(super) fn on_settled(&mut self, job: JobId, fence: Fence, became: Option<JobState>) {
        let Some((pool, verdict)) = self.unsettled.settled(job, fence) else { return };
        if let (Some(pool), Some(became)) = (self.pools.get(usize::from(pool)), became) {
            self.tallies.count_verdict(pool.name(), taken(&verdict, became));
        }
        self.look_again();
    }

    /// Jobs that have ended may have put others: fetches once more before the supervisor stops because it is idle.
    fn look_again(&mut self) {
        if self.end.comes_when_idle() {
            self.pools.iter_mut().for_each(Pool::woken);
        }
    }

    /// Whether the broker has confirmed every verdict.
    pub fn has_told_all(&self) -> bool {
        self.unsettled.is_empty()
    }

    /// The counts of each pool, by its name.
    pub fn tallies(&self) -> &BTreeMap<String, Tally> {
        self.tallies.by_pool()
    }

    /// Jobs settled so far, by verdict.
    pub fn settled(&self) -> BTreeMap<String, u64> {
        self.tallies.by_verdict()
    }
}

/// The word for the state in which the broker put the job after a verdict.
fn taken(verdict: &Verdict, became: JobState) -> &'static str {
    match (became, verdict) {
        (JobState::Canceled, _) => verdict::word(&Verdict::Canceled),
        (JobState::Held, _) => verdict::HELD,
        // The broker decides where RQ's own code ends the jobs, and where RQ's own retries come first.
        (JobState::Failed, _) => verdict::FAILED,
        (JobState::Waiting | JobState::Delayed, Verdict::Complete { .. } | Verdict::Fail { .. }) => {
            verdict::RETRY
        }
        (
            JobState::Complete
            | JobState::Waiting
            | JobState::Delayed
            | JobState::Depends
            | JobState::Running
            | JobState::Canceling,
            _,
        ) => verdict::word(verdict),
    }
}
