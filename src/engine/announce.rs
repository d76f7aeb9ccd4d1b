//! Orders by people and changes of health become facts here.

use std::time::Duration;

use super::count_cache::Counted;
use super::effects::Effects;
use super::fact::{Fact, OfService};
use super::judge::{self, Facts, concerns};
use super::orders;
use super::request::{Queues, View};
use super::systemd;
use api::PauseOrder;
use model::{Millis, PoolStatus, quoted};
use supervisor::Event;

/// A person gave this order: records who it was, and tells it.
pub(super) fn note_order(
    effects: &mut Effects,
    event: &Event,
    (by, how): (&str, &PauseOrder),
    pools: &[PoolStatus],
) {
    let wall = clock::wall_millis();
    if let Event::Change(pool, change) = event {
        effects.changes.authors.note((pool.as_deref(), pools), *change, (by, how), Millis(wall));
        let reason = how.reason.as_deref().map(|reason| quoted(reason).into());
        let (pool, change, by) = (pool.as_deref().map(Into::into), *change, by.into());
        effects.tell(Fact::Service(OfService::Changed { pool, change, by, reason }));
    } else if let Event::Stop(stage) = event {
        let (stage, deadline) = (*stage, effects.stop_deadline);
        let at = |after: Duration| judge::rfc3339(Millis(wall + after.as_millis() as i64));
        let (plan, by) = (orders::stop(stage, pools, deadline, at).into(), by.into());
        effects.tell(Fact::Service(OfService::Stopping { stage, by, plan, deadline }));
    }
}

/// The queues were counted: judges the health of the whole service now.
pub(super) fn judge(effects: &mut Effects, view: &View, counted: &Counted<Queues>) {
    let trouble = counted.trouble.as_deref();
    let concerns =
        concerns(effects.calls.broker(), effects.record.outbox.as_deref(), &effects.failing, trouble);
    let facts = Facts { view, queues: &counted.counts, trouble, concerns };
    let verdict = judge::judge(&facts);
    // During a stop its slots go down in any case.
    if view.stopping.is_none() {
        let news = effects.record.watch.judged(clock::now(), &verdict);
        news.into_iter().for_each(|fact| effects.tell(fact));
    }
    let words = effects.systemd.status(|| systemd::line(view, &counted.counts, &verdict));
    effects.notify(words);
    effects.record.watch.looked();
}
