//! The end of a supervisor waits for the broker: an open request may yet bring jobs, which go back then.

use std::time::Duration;

use broker::Broker;
use model::{Instant, Stop};

/// How often to look whether the broker is at rest.
const LOOK: Duration = Duration::from_millis(20);

/// The wait for the broker at the end.
#[derive(Debug, Default)]
pub(super) struct Farewell {
    /// Until when to wait at most; None = no stop is ordered.
    until: Option<Instant>,
    /// Whether everything but the broker is at rest.
    is_waiting: bool,
}

impl Farewell {
    /// Notes the stage of a stop. A drain may wait until its deadline, the other stages do not wait.
    pub(crate) fn look(&mut self, stage: Option<Stop>, deadline: Duration, now: Instant, broker: &Broker) {
        let Some(stage) = stage else { return };
        // Once, at the first look after the order.
        if let (None, Some(peers)) = (self.until, broker.peers()) {
            peers.stopping();
        }
        let until = self.until.unwrap_or(now + deadline);
        self.until = Some(if stage == Stop::Drain { until } else { until.min(now) });
    }

    /// All else is done. Whether the supervisor can end at once.
    pub(crate) fn begin(&mut self, now: Instant, broker: &Broker) -> bool {
        self.is_waiting = true;
        let can_end = self.take(now, broker);
        if !can_end && let Some(until) = self.until {
            let most = until.since(now).as_secs();
            tracing::info!(
                "waits for the answers to open requests for jobs, {most} s at most; what they bring goes back"
            );
        }
        can_end
    }

    /// Whether the wait is over now.
    pub(crate) fn take(&mut self, now: Instant, broker: &Broker) -> bool {
        let is_late = self.until.is_none_or(|until| now >= until);
        let is_over = self.is_waiting && (is_late || broker.peers().is_none_or(|peers| peers.is_rested()));
        self.is_waiting &= !is_over;
        is_over
    }

    /// When to look again.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        self.is_waiting.then(|| now + LOOK)
    }
}
