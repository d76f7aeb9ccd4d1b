//! Those who tell what has happened: each reads the row of a fact.

use tracing::Level;
use tracing::level_filters::LevelFilter;

use super::attempts::Attempts;
use super::counting::Counting;
use super::course::{Course, SharedSeries};
use super::decisions::{About, Decisions};
use super::event_log::EventLog;
use super::fact::{Fact, Voice};
use super::flood::Kind;
use super::line::Line;
use super::publish::publish;
use super::telemetry::Telemetry;
use broker::EventBus;
use model::{Counters, Decision, Instant, PoolSettings};

/// The log, `why`, counters, subscribers, and telemetry if it is configured.
pub(super) struct Tellers {
    log: EventLog,
    decisions: Decisions,
    counting: Counting,
    attempts: Attempts,
    event_bus: EventBus,
    telemetry: Option<Telemetry>,
    /// What becomes of each job, for series and metrics.
    pub(super) course: Course,
}

impl Tellers {
    pub(super) fn new(pools: &[PoolSettings], event_bus: EventBus) -> Tellers {
        Tellers {
            log: EventLog::new(LevelFilter::current().into_level().unwrap_or(Level::ERROR)),
            decisions: Decisions::default(),
            counting: Counting::new(pools),
            attempts: Attempts::default(),
            event_bus,
            telemetry: None,
            course: Course::new(SharedSeries::new()),
        }
    }

    /// From now on, writes the duration of tasks to files.
    pub(super) fn set_telemetry(&mut self, telemetry: Telemetry) {
        self.telemetry = Some(telemetry);
    }

    /// Has everybody tell this fact.
    pub(super) fn tell(&mut self, now: Instant, fact: Fact) {
        self.counting.time(now, &fact);
        self.attempts.take_in(now, &fact, |ran| {
            self.counting.ran(&ran);
            self.telemetry.iter().for_each(|telemetry| telemetry.ran(&ran));
        });
        // A repeated fact is counted and published, but neither logged nor kept once more.
        let (is_news, mut ring) = (!self.decisions.is_repeated(&fact), None);
        fact.row(Voice::Plain, &mut |row| {
            self.counting.count(row);
            publish(&self.event_bus, row);
            if is_news {
                self.log.line(now, &fact, row).iter().for_each(Line::write);
                ring = row.ring;
            }
        });
        if let Some(ring) = ring {
            self.decisions.keep(now, ring, fact);
        }
    }

    /// Logs a line that nobody else tells, unless there are too many of its kind.
    pub(super) fn log(&mut self, kind: Kind, line: Line) {
        self.log.pass(clock::now(), Some(kind), line).iter().for_each(Line::write);
    }

    /// Logs the summaries that are due.
    pub(super) fn look(&mut self, now: Instant) {
        self.log.overdue(now).iter().for_each(Line::write);
    }

    /// When the next summary is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.log.due()
    }

    /// The latest decisions about a subject, oldest first.
    pub(super) fn decisions(&self, about: &About<'_>, now: Instant) -> Vec<Decision> {
        self.decisions.about(about, now)
    }

    /// A pool of this name is there from now on.
    pub(super) fn add_pool(&mut self, name: &str) {
        self.counting.add_pool(name);
    }

    /// The counters so far.
    pub(super) fn counters(&self) -> Counters {
        let mut counters = self.counting.counters().clone();
        self.course.add_to(&mut counters);
        counters
    }

    /// Where events are published.
    pub(super) fn event_bus(&self) -> &EventBus {
        &self.event_bus
    }
}
