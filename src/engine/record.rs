//! What the loop keeps for those who read its log or look at the whole: lines, orders of people, the verdict.

use std::sync::Arc;

use tracing::Level;
use tracing::level_filters::LevelFilter;

use super::count_cache::Counted;
use super::event_log::{EventLog, Line};
use super::event_loop::View;
use super::flood::Kind;
use super::judge::{self, Facts};
use super::orders::{self, Pauses};
use super::publish;
use super::service::{Queues, concerns};
use super::systemd;
use super::telemetry::Telemetry;
use super::watch::Watch;
use crate::broker::Outbox;
use crate::clock;
use crate::model::{Health, Instant, Millis, PoolStatus};
use crate::process::Children;
use crate::supervisor::{Command, Event};

use super::effects::Effects;

/// The record of one supervisor.
pub(super) struct Record {
    pub(super) lines: EventLog,
    /// Orders that came by signals and are yet to be carried out, with the names of the signals.
    pub(super) by_signal: Vec<(Event, &'static str)>,
    /// Who paused what.
    pub(super) pauses: Pauses,
    /// Whether held jobs make the verdict degraded.
    pub(super) held_degrades: bool,
    /// When the whole is judged.
    pub(super) watch: Watch,
    /// When the supervisor started.
    pub(super) started: Instant,
    /// How long tasks took, if that is written down.
    pub(super) telemetry: Option<Telemetry>,
    /// Where new jobs wait that cannot be put.
    pub(super) outbox: Option<Arc<Outbox>>,
}

impl Record {
    /// Of a supervisor that starts now.
    pub(super) fn new(pauses: Pauses, held_degrades: bool) -> Record {
        let now = clock::now();
        let level = LevelFilter::current().into_level().unwrap_or(Level::ERROR);
        let (lines, watch) = (EventLog::new(level), Watch::new(now));
        Record {
            lines,
            by_signal: Vec::new(),
            pauses,
            held_degrades,
            watch,
            started: now,
            telemetry: None,
            outbox: None,
        }
    }

    /// Writes the line of a command, if it is worth one.
    pub(super) fn log_command(&mut self, now: Instant, command: &Command, children: &Children) {
        self.telemetry.iter_mut().for_each(|telemetry| telemetry.order(now, command, children));
        self.lines.order(now, command, children).iter().for_each(Line::write);
    }

    /// Writes the lines whose time has come, and looks after what is watched.
    pub(super) fn look(&mut self, now: Instant) {
        self.lines.overdue(now).iter().for_each(Line::write);
        self.watch.look(now);
    }

    /// When to look.
    pub(super) fn due(&self) -> Option<Instant> {
        self.watch.due().into_iter().chain(self.lines.due()).min()
    }

    /// The line of a fact, if it is worth one.
    pub(super) fn line_of_fact(&mut self, now: Instant, event: &Event, children: &Children) -> Option<Line> {
        self.telemetry.iter_mut().for_each(|telemetry| telemetry.fact(now, event));
        self.lines.fact(now, event, children)
    }

    /// Writes the line of an order, unless there are too many of them.
    pub(super) fn log_order(&mut self, kind: Kind, line: Line) {
        self.lines.person(clock::now(), kind, line).iter().for_each(Line::write);
    }
}

impl Effects {
    /// A person has ordered this: who, is kept, logged and published.
    pub(super) fn note_order(&mut self, event: &Event, by: &str, pools: &[PoolStatus]) {
        let wall = clock::wall_millis();
        publish::ordered(&self.newsroom, event, by);
        if let Event::Change(pool, change) = event {
            self.record.pauses.note(pool.as_deref(), *change, by, Millis(wall));
            self.record.log_order(Kind::Orders, orders::change(pool.as_deref(), *change, by));
        }
        if let Event::Stop(stage) = event {
            let until = Millis(wall + self.stop_deadline.as_millis() as i64);
            let until = judge::rfc3339(until);
            let line = orders::stop(*stage, by, pools, self.stop_deadline, &until);
            self.record.log_order(Kind::Stops, line);
        }
    }

    /// The queues were counted: what is to be said of the whole now.
    pub(super) fn judge(&mut self, view: &View, counted: &Counted<Queues>) {
        let trouble = counted.trouble.as_deref();
        let concerns = concerns(&self.broker, self.record.outbox.as_deref());
        let facts = Facts { view, queues: &counted.counts, trouble, concerns };
        let verdict = judge::judge(&facts);
        if view.stopping.is_none() {
            self.note_verdict(&verdict);
        }
        let words = self.systemd.status(|| systemd::line(view, &counted.counts, &verdict));
        self.notify(words);
        self.record.watch.looked();
    }

    /// Logs and publishes a verdict that is another one than before, or has other reasons.
    fn note_verdict(&mut self, verdict: &(Health, Vec<String>)) {
        let before = self.record.watch.verdict();
        if let Some(line) = self.record.watch.judged(clock::now(), verdict) {
            line.write();
            publish::judged(&self.newsroom, before, verdict.0, &verdict.1);
        }
    }
}
