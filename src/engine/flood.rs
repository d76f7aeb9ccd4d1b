//! Limits lines that may come by the thousand: the first ones of a minute are logged, the others are counted and logged
//! as one summary.

use std::collections::BTreeMap;
use std::time::Duration;

use tracing::Level;

use super::line::Line;
use model::Instant;

/// Limit of the lines of one kind about one pool or queue in one period.
const MOST: u64 = 10;
/// Limit of the pools and queues that a kind tells apart in one period; lines about all others are counted together.
const APART: usize = 64;
const PERIOD: Duration = Duration::from_secs(60);

/// Kinds of lines; those of one kind are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Failed,
    Held,
    Crashed,
    Death,
    Lost,
    Suspects,
    Floods,
    /// Orders of people that change settings and pools.
    Orders,
    /// Orders of people to stop.
    Stops,
    /// Requests of people about jobs and queues.
    Asked,
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
            Kind::Floods => "jobs flood their output",
            Kind::Orders => "orders were given",
            Kind::Stops => "orders to stop were given",
            Kind::Asked => "orders about jobs and queues were given",
        }
    }
}

impl Kind {
    fn level(self) -> Level {
        match self {
            Kind::Orders | Kind::Stops | Kind::Asked => Level::INFO,
            Kind::Failed
            | Kind::Held
            | Kind::Crashed
            | Kind::Death
            | Kind::Lost
            | Kind::Suspects
            | Kind::Floods => Level::WARN,
        }
    }
}

#[derive(Debug)]
struct Counted {
    since: Instant,
    count: u64,
}

/// The pool or queue of a line, if it has one: a flood of lines about one pool does not hide those about another.
type Whose = Option<String>;

/// The counts of the current period, by kind and by pool or queue.
#[derive(Debug, Default)]
pub(super) struct Flood(BTreeMap<(Kind, Whose), Counted>);

impl Flood {
    /// Gives the line back, unless there were too many of its kind.
    pub(super) fn pass(&mut self, now: Instant, kind: Kind, line: Line) -> Option<Line> {
        // Those over the limit stay until `overdue` has said how many they were.
        let over = |counted: &mut Counted| counted.count <= MOST && counted.since + PERIOD <= now;
        self.0.retain(|_, counted| !over(counted));
        let key = (kind, self.whose(kind, &line));
        let counted = self.0.entry(key).or_insert(Counted { since: now, count: 0 });
        counted.count += 1;
        (counted.count <= MOST).then_some(line)
    }

    fn whose(&self, kind: Kind, line: &Line) -> Whose {
        let whose = line.pool.clone().or_else(|| line.queue.as_ref().map(ToString::to_string));
        let others = self.0.keys().filter(|(other, _)| *other == kind).count();
        // Anybody may put to new queues: beyond the limit their lines share one count.
        whose.filter(|whose| others < APART || self.0.contains_key(&(kind, Some(whose.clone()))))
    }

    /// When the next summary is due; None while no line was left out.
    pub(super) fn due(&self) -> Option<Instant> {
        let left_out = self.0.values().filter(|counted| counted.count > MOST);
        left_out.map(|counted| counted.since + PERIOD).min()
    }

    /// Summaries of the periods that are over.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Line> {
        let over = |counted: &Counted| counted.count > MOST && counted.since + PERIOD <= now;
        let mut lines = Vec::new();
        self.0.retain(|(kind, whose), counted| {
            if !over(counted) {
                return true;
            }
            let (more, seconds) = (counted.count - MOST, now.since(counted.since).as_secs());
            let of = whose.as_ref().map(|whose| format!(" of {whose}")).unwrap_or_default();
            let message = format!("{more} more {}{of} within {seconds} s", kind.words());
            lines.push(Line::new(kind.level(), message));
            false
        });
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_of_a_minute_are_written_and_the_others_counted() {
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

    #[test]
    fn flood_of_one_pool_or_kind_hides_no_other_lines() {
        let at = Instant::from_millis(1000);
        let mut flood = Flood::default();
        let death = |pool: &str| Line::new(Level::WARN, "x").pool(pool);
        (0..10_000).for_each(|_| _ = flood.pass(at, Kind::Death, death("a")));
        assert!(flood.pass(at, Kind::Death, death("b")).is_some());
        let order = || Line::new(Level::INFO, "x");
        (0..10_000).for_each(|_| _ = flood.pass(at, Kind::Asked, order()));
        assert!(flood.pass(at, Kind::Stops, order()).is_some());
        // More names than are tracked do not bring more lines either.
        let mut passed = |n: u32| flood.pass(at, Kind::Failed, death(&n.to_string())).is_some();
        let passed = (0..10_000).filter(|n| passed(*n)).count();
        assert_eq!(passed as u64, APART as u64 + MOST);
        let told: Vec<String> = flood.overdue(at + PERIOD).into_iter().map(|line| line.message).collect();
        assert!(told.contains(&"9990 more workers died of a within 60 s".to_owned()), "{told:?}");
    }
}
