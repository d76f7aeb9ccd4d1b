//! A supervisor that stops by itself: after a number of jobs, after a time without any, or as a burst.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{Instant, Settings};

/// How often a burst asks the broker whether all is done, while nothing happens here.
const ASK_IDLE: Duration = Duration::from_millis(500);

/// The conditions on which the supervisor stops by itself.
#[derive(Debug, Default)]
pub(super) struct End {
    /// The number of jobs after which it stops.
    after: Option<u64>,
    when_idle: Option<Duration>,
    /// Since when the supervisor has had nothing to do.
    idle_since: Option<Instant>,
}

impl End {
    pub(super) fn new(settings: &Settings) -> Self {
        End { after: settings.end_after, when_idle: settings.end_when_idle, idle_since: None }
    }

    /// Whether this number of jobs is the one after which the supervisor stops, or more.
    pub(super) fn is_reached(&self, jobs: impl FnOnce() -> u64) -> bool {
        self.after.is_some_and(|after| jobs() >= after)
    }

    /// Whether the supervisor stops when it has been idle.
    pub(super) fn comes_when_idle(&self) -> bool {
        self.when_idle.is_some()
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

/// What a burst knows of its end; `burst` decides on it.
#[derive(Debug)]
pub(super) struct Burst {
    is_on: bool,
    /// When to ask whether all is done; None = as soon as possible.
    ask_at: Option<Instant>,
    /// Pools that an earlier start has left paused, by name, with the sentence that says so.
    left_paused: BTreeMap<String, String>,
}

impl Burst {
    pub(super) fn new(is_on: bool) -> Self {
        Burst { is_on, ask_at: None, left_paused: BTreeMap::new() }
    }

    /// Whether the supervisor is to end when no job is left.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// When to ask whether all is done; None = as soon as possible.
    pub(super) fn due(&self) -> Option<Instant> {
        self.ask_at
    }

    /// Whether to ask now.
    pub(super) fn may_ask(&self, now: Instant) -> bool {
        self.ask_at.is_none_or(|at| at <= now)
    }

    /// The question is on its way.
    pub(super) fn asked(&mut self, now: Instant) {
        self.ask_at = Some(now + ASK_IDLE);
    }

    /// Something is to do: the next question comes as soon as that is done.
    pub(super) fn ask_no_more(&mut self) {
        self.ask_at = None;
    }

    /// An earlier start has left these pools paused.
    pub(super) fn leave_paused(&mut self, pools: BTreeMap<String, String>) {
        self.left_paused = pools;
    }

    /// A person has paused or resumed the pool of this name, or all.
    pub(super) fn changed(&mut self, name: Option<&str>) {
        self.left_paused.retain(|pool, _| name.is_some_and(|name| pool != name));
    }

    /// The sentence that says so, if an earlier start has left this pool paused and nobody has resumed it.
    pub(super) fn left_paused(&self, pool: &str) -> Option<&String> {
        self.left_paused.get(pool)
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
