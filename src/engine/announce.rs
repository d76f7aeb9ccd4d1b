//! The log line, the event and the status for systemd of each order by a person and each change of health.

use std::time::Duration;

use super::count_cache::Counted;
use super::effects::Effects;
use super::flood::Kind;
use super::judge::{self, Facts, concerns};
use super::orders;
use super::publish;
use super::request::{Queues, View};
use super::systemd;
use api::PauseOrder;
use model::{Health, Millis, PoolStatus};
use supervisor::Event;

/// A person gave this order: records who it was, logs the order and publishes it.
pub(super) fn note_order(
    effects: &mut Effects,
    event: &Event,
    (by, how): (&str, &PauseOrder),
    pools: &[PoolStatus],
) {
    let wall = clock::wall_millis();
    publish::ordered(&effects.event_bus, event, (by, how.reason.as_deref()));
    if let Event::Change(pool, change) = event {
        effects.record.authors.note((pool.as_deref(), pools), *change, (by, how), Millis(wall));
        let line = orders::change(pool.as_deref(), *change, (by, how.reason.as_deref()));
        effects.record.log_order(Kind::Orders, line);
    }
    if let Event::Stop(stage) = event {
        let at = |after: Duration| judge::rfc3339(Millis(wall + after.as_millis() as i64));
        let line = orders::stop(*stage, by, pools, effects.stop_deadline, at);
        effects.record.log_order(Kind::Stops, line);
    }
}

/// The queues were counted: judges the health of the whole service now.
pub(super) fn judge(effects: &mut Effects, view: &View, counted: &Counted<Queues>) {
    let trouble = counted.trouble.as_deref();
    let concerns = concerns(&effects.broker, effects.record.outbox.as_deref(), &effects.failing, trouble);
    let facts = Facts { view, queues: &counted.counts, trouble, concerns };
    let verdict = judge::judge(&facts);
    if view.stopping.is_none() {
        note_verdict(effects, &verdict);
    }
    let words = effects.systemd.status(|| systemd::line(view, &counted.counts, &verdict));
    effects.notify(words);
    effects.record.watch.looked();
}

/// Logs and publishes a verdict if it or its reasons have changed.
fn note_verdict(effects: &mut Effects, verdict: &(Health, Vec<String>)) {
    let before = effects.record.watch.verdict();
    if let Some(line) = effects.record.watch.judged(clock::now(), verdict) {
        line.write();
        publish::judged(&effects.event_bus, before, verdict.0, &verdict.1);
    }
}
