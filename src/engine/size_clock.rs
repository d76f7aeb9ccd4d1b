//! Resizes pools by the time of day: sends the supervisor an event when a size rule begins.

use std::time::Duration;

use model::{Instant, Millis, PoolSettings, SizeRule, TimedSize};
use supervisor::Event;

/// The wall clock may be set at any time, so it is read at least this often.
const LOOK: Duration = Duration::from_secs(60);

/// The pools with size rules, and when the next rule begins.
#[derive(Debug, Default)]
pub(super) struct SizeClock {
    pools: Vec<(String, Vec<SizeRule>)>,
    /// The wall clock at the last look.
    looked: Millis,
    due: Option<Instant>,
}

impl SizeClock {
    /// Gives each pool its current size, and waits for the next rule.
    pub(super) fn start(pools: &mut [PoolSettings]) -> SizeClock {
        let (mut clock, wall) = (SizeClock::default(), Millis(clock::wall_millis()));
        pools.iter_mut().for_each(|pool| pool.resize_at(wall));
        clock.set(pools, clock::now(), wall);
        clock
    }

    /// Takes new settings, in which each pool has its current size already.
    pub(super) fn set(&mut self, pools: &[PoolSettings], now: Instant, wall: Millis) {
        let with_rules = pools.iter().filter(|pool| !pool.sizes.is_empty());
        self.pools = with_rules.map(|pool| (pool.name.clone(), pool.sizes.clone())).collect();
        self.looked = wall;
        self.wait(now);
    }

    /// Time of the next check.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Events for the size rules that have begun since the last look.
    pub(super) fn take(&mut self, now: Instant, wall: Millis) -> Vec<Event> {
        if self.due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        let since = std::mem::replace(&mut self.looked, wall);
        self.wait(now);
        let come = self.pools.iter().filter_map(|(pool, rules)| {
            let (at, rule) = SizeRule::in_force(rules, wall)?;
            // A rule that had begun by the last look is in force already, unless a person has scaled since.
            (at > since).then(|| Event::Resized(pool.clone(), rule.workers))
        });
        come.collect()
    }

    /// The size rules of a pool, as the status shows them.
    pub(super) fn of(&self, pool: &str, wall: Millis) -> Option<TimedSize> {
        let (_, rules) = self.pools.iter().find(|(name, _)| name == pool)?;
        TimedSize::of(rules, wall)
    }

    fn wait(&mut self, now: Instant) {
        let next = self.pools.iter().filter_map(|(_, rules)| Some(SizeRule::next(rules, self.looked)?.0));
        let wait = |at: Millis| Duration::from_millis(u64::try_from(at.0 - self.looked.0).unwrap_or(0));
        self.due = next.min().map(|at| now + wait(at).min(LOOK));
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn size_rule_fires_once_also_when_the_clock_jumps_over_it() {
        let rule = |line: &str, workers| SizeRule { at: line.parse().unwrap(), zone: TimeZone::UTC, workers };
        let sizes = vec![rule("0 8 * * *", 16), rule("0 20 * * *", 4)];
        let pool = PoolSettings { name: "p".into(), sizes, ..PoolSettings::default() };
        let wall = |hour: i64, minute: i64| Millis((hour * 60 + minute) * 60_000 + 86_400_000);
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        let mut clock = SizeClock::default();
        clock.set(&[PoolSettings::default()], at(1), wall(7, 59));
        assert_eq!(clock.due(), None);
        clock.set(&[pool], at(1), wall(7, 59));
        assert_eq!(clock.due(), Some(at(61)));
        assert_eq!(clock.take(at(60), wall(7, 59)), []);
        assert_eq!(clock.take(at(61), wall(8, 0)), [Event::Resized("p".into(), 16)]);
        assert_eq!(clock.take(at(121), wall(8, 1)), []);
        assert_eq!(clock.due(), Some(at(181)), "the next rule is far, and the clock may be set");
        assert_eq!(clock.take(at(181), wall(21, 0)), [Event::Resized("p".into(), 4)]);
        // Clock set back: rules of the repeated time apply again.
        assert_eq!(clock.take(at(241), wall(7, 59)), []);
        assert_eq!(clock.take(at(301), wall(8, 0)), [Event::Resized("p".into(), 16)]);
        let shown = TimedSize { workers: Some(16), next: wall(20, 0), next_workers: 4 };
        assert_eq!(clock.of("p", wall(8, 0)), Some(shown));
        assert_eq!(clock.of("q", wall(8, 0)), None);
    }
}
