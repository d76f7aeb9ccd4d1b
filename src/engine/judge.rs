//! Judges the health of the whole service, with reasons. Pure.

use std::collections::BTreeMap;

use super::failing::Failing;
use super::request::{Queues, View};
use broker::Broker;
use model::{Health, JobState, Millis, PoolStatus, SlotState, SlotStatus, Stop};
use outbox::Outbox;

/// Limit of the bad slots of a pool that are named one by one.
const NAMED: usize = 5;

/// The facts on which the verdict rests.
pub(super) struct Facts<'a> {
    pub(super) view: &'a View,
    pub(super) queues: &'a Queues,
    /// The trouble with the broker, and what else there is to say.
    pub(super) trouble: Option<&'a str>,
    pub(super) concerns: Vec<String>,
}

/// Judges the health of the whole service, and gives the reasons when it is not healthy.
pub(super) fn judge(facts: &Facts<'_>) -> (Health, Vec<String>) {
    let Facts { view, queues, trouble, concerns } = facts;
    // The broker comes first: the status line of systemd has room for one reason.
    let mut reasons = Vec::new();
    reasons.extend(trouble.map(|trouble| format!("broker: {trouble}")));
    reasons.extend_from_slice(concerns);
    reasons
        .extend(view.settings_trouble.as_ref().map(|why| format!("the last reload changed nothing: {why}")));
    reasons.extend(view.logs.troubles.clone());
    // Stopped by SIGSTOP. Nothing else shows it: the supervisor goes on, and its orders wait.
    if view.keeper.state == "T" {
        let keeper = view.keeper.pid;
        reasons.push(format!("the keeper is stopped, no worker starts or ends: kill -CONT {keeper}"));
    }
    reasons.extend(paused(&view.pools));
    reasons.extend(view.pools.iter().filter_map(scaled_away));
    let mut alive = false;
    for pool in &view.pools {
        reasons.extend(pool.probing.as_ref().map(|why| format!("pool {}: {why}", pool.name)));
        let slots = || pool.template.iter().chain(&pool.slots);
        alive |= slots().any(is_alive);
        let bad: Vec<&SlotStatus> = slots().filter(|slot| is_bad(slot, view.stopping)).collect();
        reasons.extend(bad.iter().take(NAMED).map(|slot| complaint(slot)));
        reasons.extend(slots().filter_map(stands).take(NAMED));
        if let Some(more @ 1..) = bad.len().checked_sub(NAMED) {
            reasons.push(format!("and {more} more slots of pool {}", pool.name));
        }
    }
    let held: u64 = queues.values().filter_map(|queue| queue.jobs.get(&JobState::Held)).sum();
    if held > 0 && view.held_degrades {
        reasons.push(format!("{held} held: taskvisor job list --state held"));
    }
    // A service that stops has fewer and fewer workers, as it was told to.
    let alive = alive || view.stopping.is_some();
    if !alive && reasons.is_empty() {
        reasons.push(none_alive(&view.pools));
    }
    match (alive, reasons.is_empty()) {
        (false, _) => (Health::Unhealthy, reasons),
        (true, true) => (Health::Healthy, reasons),
        (true, false) => (Health::Degraded, reasons),
    }
}

/// Why no job can run although nothing is wrong with any slot: workers end or start all at once, or there are none.
fn none_alive(pools: &[PoolStatus]) -> String {
    let mut slots: BTreeMap<&str, usize> = BTreeMap::new();
    for slot in pools.iter().flat_map(|pool| &pool.slots) {
        *slots.entry(slot.state.as_str()).or_default() += 1;
    }
    let slots: Vec<String> = slots.into_iter().map(|(state, count)| format!("{count} {state}")).collect();
    match slots.is_empty() {
        true => "no pool has a worker: taskvisor scale POOL 1".into(),
        false => format!("no worker can take a job: {}", slots.join(", ")),
    }
}

/// Concerns about a broker that works.
pub(super) fn of_broker(broker: &Broker, outbox: Option<&Outbox>) -> Vec<String> {
    broker.health().concern.into_iter().chain(outbox.and_then(Outbox::concern)).collect()
}

/// The reasons that these concerns are, and what else fails for a while.
pub(super) fn concerns(
    broker: &Broker,
    outbox: Option<&Outbox>,
    failing: &Failing,
    trouble: Option<&str>,
) -> Vec<String> {
    let of_broker = of_broker(broker, outbox).into_iter().map(|concern| format!("broker: {concern}"));
    of_broker.chain(failing.others(clock::now(), trouble)).collect()
}

/// Whether the slot may take a job, now or as soon as its first worker is ready. A slot that starts again after a life
/// that never became ready counts as down.
fn is_alive(slot: &SlotStatus) -> bool {
    slot.is_served() || (slot.state == SlotState::Starting && !slot.failing)
}

fn is_bad(slot: &SlotStatus, stopping: Option<Stop>) -> bool {
    match slot.state {
        SlotState::Unkillable => true,
        SlotState::Down => slot.why.is_some() && stopping.is_none(),
        SlotState::Starting => slot.failing && stopping.is_none(),
        SlotState::Ready | SlotState::Busy | SlotState::Stopping | SlotState::Killed => false,
    }
}

/// A stranger has stopped its process, or its job has: nothing else shows it.
fn stands(slot: &SlotStatus) -> Option<String> {
    slot.jobs
        .iter()
        .any(|job| job.stopped.is_some())
        .then(|| format!("the process of slot {} is stopped (state T): kill -CONT lets it go on", slot.slot))
}

fn complaint(slot: &SlotStatus) -> String {
    let why = slot.why.as_deref().unwrap_or("no reason known");
    let what = match slot.slot.index {
        0 => format!("the template of pool {}", slot.slot.pool), // Place 0 is the template's.
        _ => format!("slot {}", slot.slot),
    };
    if slot.state == SlotState::Starting {
        return format!("{what} is starting again, its last worker never got ready: {why}");
    }
    format!("{what} is {}: {why}", slot.state.as_str())
}

/// Pools that a person has paused.
fn paused(pools: &[PoolStatus]) -> Vec<String> {
    let staying = || pools.iter().filter(|pool| !pool.outdated);
    let told = |what: &str, pool: &PoolStatus, resume: &str| {
        let pause = pool.pause.as_ref();
        let by =
            pause.map(|pause| format!(" by {} since {}{}", pause.by, rfc3339(pause.since), pause.because()));
        format!("{what} paused{}: {resume}", by.unwrap_or_default())
    };
    let one = |pool: &PoolStatus| {
        told(&format!("pool {} is", pool.name), pool, &format!("taskvisor resume {}", pool.name))
    };
    let mut pauses = staying().map(|pool| pool.paused.then_some(&pool.pause));
    let first = pauses.next().flatten();
    let alike = staying().count() > 1 && first.is_some() && pauses.all(|pause| pause == first);
    match staying().next().filter(|_| alike) {
        Some(any) => vec![told("all pools are", any, "taskvisor resume")],
        None => staying().filter(|pool| pool.paused).map(one).collect(),
    }
}

/// A pool that a person has left without any worker.
fn scaled_away(pool: &PoolStatus) -> Option<String> {
    let name = &pool.name;
    let is_so = pool.scaled == Some(0) && !pool.outdated;
    let by = pool.scaled_by.as_ref().map(|order| format!(" by {}", order.by)).unwrap_or_default();
    is_so.then(|| format!("pool {name} was scaled to 0 workers{by}: taskvisor scale {name} 1"))
}

/// The moment as RFC 3339 in UTC, as in the log.
pub(super) fn rfc3339(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at.0 / 1000 * 1000).map_or_else(|_| "?".into(), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Instant, PoolSettings, QueueCounts, Settings};
    use supervisor::Supervisor;

    #[test]
    fn held_jobs_degrade_unless_the_settings_say_otherwise() {
        let settings = Settings { pools: vec![PoolSettings::default()], ..Settings::default() };
        let mut view = View::of(Supervisor::new(settings, Instant(0)).status(Instant(0)));
        view.pools[0].slots[0].state = SlotState::Ready;
        let jobs = BTreeMap::from([(JobState::Held, 2)]);
        let queues = BTreeMap::from([("q".into(), QueueCounts { jobs, ..QueueCounts::default() })]);
        let verdict =
            |view: &View| judge(&Facts { view, queues: &queues, trouble: None, concerns: Vec::new() });
        let reasons = vec!["2 held: taskvisor job list --state held".to_owned()];
        assert_eq!(verdict(&view), (Health::Degraded, reasons));
        view.pools[0].scaled = Some(0);
        let reasons = verdict(&view).1;
        assert_eq!(reasons[0], "pool default was scaled to 0 workers: taskvisor scale default 1");
        view.pools[0].scaled = None;
        view.held_degrades = false;
        assert_eq!(verdict(&view), (Health::Healthy, vec![]));
    }

    #[test]
    fn unhealthy_service_always_has_a_reason() {
        let settings = Settings { pools: vec![PoolSettings::default()], ..Settings::default() };
        let mut view = View::of(Supervisor::new(settings, Instant(0)).status(Instant(0)));
        let verdict =
            |view: &View| judge(&Facts { view, queues: &Queues::new(), trouble: None, concerns: Vec::new() });
        for slot in &mut view.pools[0].slots {
            slot.state = SlotState::Stopping;
        }
        assert_eq!(verdict(&view), (Health::Healthy, vec![]), "it ends a canceled job, and goes on");
        for slot in &mut view.pools[0].slots {
            slot.failing = true;
        }
        let count = view.pools[0].slots.len();
        let reason = format!("no worker can take a job: {count} stopping");
        assert_eq!(verdict(&view), (Health::Unhealthy, vec![reason]));
        view.pools[0].slots.clear();
        let reason = "no pool has a worker: taskvisor scale POOL 1".to_owned();
        assert_eq!(verdict(&view), (Health::Unhealthy, vec![reason]));
    }
}
