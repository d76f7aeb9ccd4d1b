//! Which lines of the supervisor's own log may be dropped when there are too many.

use tracing::{Level, Metadata};

use model::Instant;

/// The target of workers' output outside of jobs, where that goes to the supervisor's own log.
pub const WORKER_LINES: &str = "taskvisor::workers";

/// The importance of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// Warnings, orders, deaths, verdicts: their number is limited where they are made.
    Matters,
    /// Debug and trace lines.
    Detail,
    /// Output of workers outside of jobs.
    Workers,
}

impl Rank {
    pub(crate) fn of(event: &Metadata<'_>) -> Rank {
        match *event.level() {
            _ if event.target() == WORKER_LINES => Rank::Workers,
            Level::DEBUG | Level::TRACE => Rank::Detail,
            _ => Rank::Matters,
        }
    }
}

/// A rate limit: bytes a second, and bytes at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    rate: u64,
    burst: u64,
}

/// The limit of debug and trace lines.
pub(super) const DETAILS: Flow = Flow { rate: 1 << 20, burst: 4 << 20 };

/// The limit of workers' output outside of jobs: it takes hours to fill a whole log.
pub(super) const WORKERS: Flow = Flow { rate: 16 << 10, burst: 1 << 20 };

/// How much of a flow was used.
#[derive(Debug, Default)]
pub(super) struct Budget {
    spent: u64,
    at: Option<Instant>,
}

impl Budget {
    /// Uses this number of bytes. False if not enough is left.
    pub(crate) fn spend(&mut self, bytes: usize, now: Instant, flow: Flow) -> bool {
        let passed = self.at.map_or(0, |at| now.since(at).as_millis() as u64);
        let back = flow.rate.saturating_mul(passed) / 1000;
        // Else short times would be lost one by one to rounding.
        if self.at.is_none() || back > 0 {
            (self.spent, self.at) = (self.spent.saturating_sub(back), Some(now));
        }
        let spent = self.spent + bytes as u64;
        let affords = spent <= flow.burst;
        self.spent = if affords { spent } else { self.spent };
        affords
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_limiter_allows_a_burst_and_then_its_rate() {
        let at = |millis: u64| Instant::from_millis(millis);
        let flow = Flow { rate: 1000, burst: 5000 };
        let mut budget = Budget::default();
        let mut passed = |millis| (0..100).filter(|_| budget.spend(100, at(millis), flow)).count();
        assert_eq!((passed(7), passed(7)), (50, 0));
        let in_steps: usize = (8..=1007).map(&mut passed).sum();
        assert_eq!(in_steps, 10, "a thousand bytes in a second");
        assert_eq!(passed(60_000), 50);
    }
}
