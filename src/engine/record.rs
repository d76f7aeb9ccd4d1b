//! Records of the loop for its log and its status: lines, orders of people, the verdict.

use std::sync::Arc;

use tracing::Level;
use tracing::level_filters::LevelFilter;

use super::authors::Authors;
use super::event_log::EventLog;
use super::flood::Kind;
use super::fresh::Kept;
use super::line::Line;
use super::telemetry::Telemetry;
use super::watch::Watch;
use model::Instant;
use outbox::Outbox;
use process::Children;
use supervisor::{Command, Event};

/// The record of one supervisor.
pub(super) struct Record {
    pub(super) lines: EventLog,
    /// Orders that came by signals and are yet to be carried out, with the names of the signals.
    pub(super) by_signal: Vec<(Event, &'static str)>,
    /// Authors of the latest pauses, scalings and recyclings, by pool.
    pub(super) authors: Authors,
    /// The latest change of a pool while it is being stored.
    pub(super) keeping: Kept,
    /// Whether held jobs make the verdict degraded.
    pub(super) held_degrades: bool,
    /// Decides when to judge the health of the service.
    pub(super) watch: Watch,
    /// When the supervisor started.
    pub(super) started: Instant,
    /// Writes the duration of tasks to files, if that is configured.
    pub(super) telemetry: Option<Telemetry>,
    /// Keeps new jobs that cannot be put now.
    pub(super) outbox: Option<Arc<Outbox>>,
}

impl Record {
    /// The record of a supervisor that starts now.
    pub(super) fn new(authors: Authors, held_degrades: bool) -> Record {
        let now = clock::now();
        let level = LevelFilter::current().into_level().unwrap_or(Level::ERROR);
        let (lines, watch) = (EventLog::new(level), Watch::new(now));
        Record {
            lines,
            by_signal: Vec::new(),
            authors,
            keeping: None,
            held_degrades,
            watch,
            started: now,
            telemetry: None,
            outbox: None,
        }
    }

    /// Logs a command, if it is worth a line.
    pub(super) fn log_command(&mut self, now: Instant, command: &Command, children: &Children) {
        self.telemetry.iter_mut().for_each(|telemetry| telemetry.order(now, command, children));
        self.lines.order(now, command, children).iter().for_each(Line::write);
    }

    /// Logs the lines that are due, and looks at the health if that is due.
    pub(super) fn look(&mut self, now: Instant) {
        self.lines.overdue(now).iter().for_each(Line::write);
        self.watch.look(now);
    }

    /// Time of the next check.
    pub(super) fn due(&self) -> Option<Instant> {
        self.watch.due().into_iter().chain(self.lines.due()).min()
    }

    /// The line of an event, if it is worth one.
    pub(super) fn line_of_fact(&mut self, now: Instant, event: &Event, children: &Children) -> Option<Line> {
        self.telemetry.iter_mut().for_each(|telemetry| telemetry.fact(now, event));
        self.lines.fact(now, event, children)
    }

    /// Logs an order, unless there are too many of its kind.
    pub(super) fn log_order(&mut self, kind: Kind, line: Line) {
        self.lines.person(clock::now(), kind, line).iter().for_each(Line::write);
    }
}
