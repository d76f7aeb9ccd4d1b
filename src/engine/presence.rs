//! Publishes this supervisor's presence to all that share its broker, at most once a second.

use std::time::Duration;

use model::{Instance, Instant, PoolSign, PoolStatus, Presence, Why};
use supervisor::Supervisor;

/// Shortest time between two publications.
const PAUSE: Duration = Duration::from_secs(1);

/// Decides when to publish the presence.
pub(super) struct PresencePublisher {
    started: Instant,
    /// When to publish the latest changes; None = nothing has changed, or no one shares the broker.
    due: Option<Instant>,
    quiet_until: Instant,
    heard: bool,
}

impl PresencePublisher {
    /// For a supervisor that starts now; `heard` says whether others may share the broker.
    pub(super) fn new(started: Instant, heard: bool) -> Self {
        PresencePublisher { started, due: heard.then_some(started), quiet_until: started, heard }
    }

    /// Something has changed.
    pub(super) fn changed(&mut self) {
        if self.heard {
            self.due.get_or_insert(self.quiet_until);
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The presence to publish now, if that is due.
    pub(super) fn take(&mut self, now: Instant, instance: &Instance, of: &Supervisor) -> Option<Presence> {
        self.due.take_if(|due| *due <= now)?;
        self.quiet_until = now + PAUSE;
        Some(Presence {
            instance: instance.clone(),
            started: self.started,
            stopping: of.stopping(),
            pools: of.status(now).iter().map(|pool| sign(pool, of)).collect(),
        })
    }
}

fn sign(pool: &PoolStatus, of: &Supervisor) -> PoolSign {
    // A list of that length is cut: what it lacks may be known all the same.
    let classes: Vec<_> = of.known_in(&pool.name).take(Why::KNOWN_MAX).cloned().collect();
    let is_whole = classes.len() < Why::KNOWN_MAX;
    PoolSign { classes: if is_whole { classes } else { Vec::new() }, ..PoolSign::of(pool) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{PoolSettings, Settings};

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn presence_is_due_at_once_and_then_once_a_second_while_active() {
        let settings = Settings { pools: vec![PoolSettings::default()], ..Settings::default() };
        let supervisor = Supervisor::new(settings, at(0));
        let mut presence = PresencePublisher::new(at(0), true);
        let take = |presence: &mut PresencePublisher, now| presence.take(at(now), &"i".into(), &supervisor);
        let first = take(&mut presence, 0).expect("the first");
        assert_eq!((first.pools.len(), first.pools[0].slots, first.pools[0].ready), (1, 1, 0));
        assert_eq!(presence.due(), None, "what does not change wakes nobody");
        presence.changed();
        assert_eq!(presence.due(), Some(at(1000)));
        assert_eq!(take(&mut presence, 999), None);
        assert!(take(&mut presence, 1000).is_some());
        let mut alone = PresencePublisher::new(at(0), false);
        alone.changed();
        assert_eq!(alone.due(), None, "nobody would hear it");
    }
}
