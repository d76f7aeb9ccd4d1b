//! A process that stands: a signal has stopped it. Nobody knows who sent that, the job or a stranger, so the time counts
//! towards no limit, up to a bound that ends it.

use std::collections::VecDeque;
use std::time::Duration;

use super::Slot;
use super::running::Phase;
use crate::Command;
use model::{Excess, Instant, PoolSettings};

/// The least time that is given. A job that stops its own process is not to keep its slot for longer.
const LEAST: Duration = Duration::from_secs(60);

impl Slot {
    /// The process has stood for this time since the last look, and in all for `since`, or goes on. Each job with a time
    /// limit has as much again for it, [`LEAST`] at least. Then the worker is killed: with several jobs each of them runs
    /// again alone, as one may have stopped it. A gap since the last look is given already.
    pub(crate) fn stand(
        &mut self,
        now: Instant,
        (stood, since): (Duration, Option<Duration>),
        pool: &PoolSettings,
        orders: &mut VecDeque<Command>,
    ) {
        let mut over = None;
        for (index, job) in self.jobs.iter_mut().enumerate() {
            if job.phase != Phase::Runs {
                continue;
            }
            let given =
                job.gap.filter(|(at, _)| now.since(*at) <= stood).map_or(Duration::ZERO, |(_, gap)| gap);
            let stood = stood.saturating_sub(given);
            job.stands = since;
            job.stood += stood;
            if let Some(most) = job.limits.time.map(|limit| limit.max(LEAST))
                && job.stood > most
            {
                over = Some((index, Excess::Stopped(most, job.stood)));
            }
            job.stopped += stood;
            job.deadline = job.deadline.map(|deadline| deadline + stood);
        }
        if let Some((index, excess)) = over {
            self.exceeded(now, index, excess, pool, orders);
        }
    }
}
