//! A supervisor that stops by itself: after a number of jobs, or after a time without any.

use std::time::Duration;

use model::{Instant, Settings};

/// The conditions on which the supervisor stops by itself.
#[derive(Debug, Default)]
pub(super) struct End {
    /// The number of jobs after which it stops.
    pub(super) after: Option<u64>,
    pub(super) when_idle: Option<Duration>,
    /// Since when the supervisor has had nothing to do.
    idle_since: Option<Instant>,
}

impl End {
    pub(super) fn new(settings: &Settings) -> Self {
        End { after: settings.end_after, when_idle: settings.end_when_idle, idle_since: None }
    }

    /// When the supervisor will have been idle for long enough.
    pub(super) fn due(&self) -> Option<Instant> {
        Some(self.idle_since? + self.when_idle?)
    }

    /// Notes whether the supervisor is idle now. Gives whether it has been idle for long enough.
    pub(super) fn was_idle(&mut self, now: Instant, is_quiet: bool) -> bool {
        self.idle_since = is_quiet.then(|| self.idle_since.unwrap_or(now));
        self.due().is_some_and(|due| due <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Event, Supervisor};
    use model::{PoolSettings, Stop};

    fn idle(settings: Settings) -> (Supervisor, Instant) {
        let now = Instant::from_millis(0);
        let settings = Settings { pools: vec![PoolSettings::default()], ..settings };
        let mut supervisor = Supervisor::new(settings, now);
        while let Some(command) = supervisor.next_command() {
            if let Command::Spawn(worker) = command {
                supervisor.handle(now, Event::Ready(worker));
            }
        }
        supervisor.handle(now, Event::Fetched(0, Vec::new()));
        (supervisor, now)
    }

    #[test]
    fn supervisor_ends_after_the_idle_time() {
        let settings = Settings { end_when_idle: Some(Duration::from_secs(3)), ..Settings::default() };
        let (mut supervisor, now) = idle(settings);
        assert!(supervisor.poll_timeout() <= Some(now + Duration::from_secs(3)));
        supervisor.handle_all(now + Duration::from_secs(2), []);
        assert_eq!(supervisor.stopping(), None);
        // Jobs may be waiting: the supervisor is not idle before it knows.
        supervisor.handle(now + Duration::from_secs(2), Event::Woken(model::QueueSet::All));
        supervisor.handle_all(now + Duration::from_secs(4), []);
        assert_eq!(supervisor.stopping(), None);
        supervisor.handle(now + Duration::from_secs(4), Event::Fetched(0, Vec::new()));
        supervisor.handle_all(now + Duration::from_secs(7), []);
        assert_eq!(supervisor.stopping(), Some(Stop::Drain));
    }

    #[test]
    fn supervisor_without_end_when_idle_does_not_end() {
        let (mut supervisor, now) = idle(Settings::default());
        supervisor.handle_all(now + Duration::from_secs(9000), []);
        assert_eq!(supervisor.stopping(), None);
    }
}
