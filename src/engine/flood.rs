//! Lines that may come by the thousand: the first of a minute are written, the others are counted and told in one.

use std::collections::BTreeMap;
use std::time::Duration;

use tracing::Level;

use super::event_log::Line;
use crate::model::Instant;

/// Lines of a kind in one period.
const MOST: u64 = 10;
const PERIOD: Duration = Duration::from_secs(60);

/// What is counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Failed,
    Held,
    Crashed,
    Death,
    Lost,
    Suspects,
    /// Orders of people.
    Orders,
}

impl Kind {
    fn words(self) -> &'static str {
        match self {
            Kind::Failed => "jobs have failed for good",
            Kind::Held => "jobs are held",
            Kind::Crashed => "jobs lost their worker and are tried again",
            Kind::Death => "workers died",
            Kind::Lost => "jobs were lost to others",
            Kind::Suspects => "jobs are to run alone on this host",
            Kind::Orders => "orders were given",
        }
    }
}

#[derive(Debug)]
struct Counted {
    since: Instant,
    count: u64,
}

/// The counts of the current period, by kind.
#[derive(Debug, Default)]
pub(super) struct Flood(BTreeMap<Kind, Counted>);

impl Flood {
    /// The line itself, unless there were too many of its kind.
    pub(super) fn pass(&mut self, now: Instant, kind: Kind, line: Line) -> Option<Line> {
        let counted = self.0.entry(kind).or_insert(Counted { since: now, count: 0 });
        if counted.count <= MOST && counted.since + PERIOD <= now {
            *counted = Counted { since: now, count: 0 };
        }
        counted.count += 1;
        (counted.count <= MOST).then_some(line)
    }

    /// When what was left out is told; None while nothing was.
    pub(super) fn due(&self) -> Option<Instant> {
        let left_out = self.0.values().filter(|counted| counted.count > MOST);
        left_out.map(|counted| counted.since + PERIOD).min()
    }

    /// What was left out in periods that are over.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Line> {
        let over = |counted: &Counted| counted.count > MOST && counted.since + PERIOD <= now;
        let mut lines = Vec::new();
        self.0.retain(|kind, counted| {
            if !over(counted) {
                return true;
            }
            let (more, seconds) = (counted.count - MOST, now.since(counted.since).as_secs());
            let level = if *kind == Kind::Orders { Level::INFO } else { Level::WARN };
            lines.push(Line::new(level, format!("{more} more {} within {seconds} s", kind.words())));
            false
        });
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_minute_are_written_and_the_others_counted() {
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        let mut flood = Flood::default();
        let line = || Line::new(Level::WARN, "x");
        let passed = (0..270).filter(|_| flood.pass(at(1), Kind::Failed, line()).is_some()).count();
        assert_eq!(passed as u64, MOST);
        assert!(flood.pass(at(2), Kind::Held, line()).is_some(), "another kind");
        assert_eq!((flood.due(), flood.overdue(at(60))), (Some(at(61)), vec![]));
        let told: Vec<String> = flood.overdue(at(61)).into_iter().map(|line| line.message).collect();
        assert_eq!(told, ["260 more jobs have failed for good within 60 s"]);
        assert_eq!(flood.due(), None);
        assert!(flood.pass(at(62), Kind::Failed, line()).is_some(), "another minute");
        for seconds in (0..3000).step_by(30) {
            assert!(flood.pass(at(100 + seconds), Kind::Death, line()).is_some(), "a few a minute all stand");
        }
    }
}
