//! The loop's part of an answer to `why`: the pools, the slot, and the decisions about them.

use super::decisions::About;
use super::effects::Effects;
use super::request::WhySubject;
use super::unborn::PATIENCE;
use api::Problem;
use model::{Fit, PoolStatus, SlotId, SlotName, SlotState, SlotStatus, Why, WorkerId};
use supervisor::Supervisor;

/// Limit of the classes that are named.
const KNOWN: usize = Why::KNOWN_MAX;

/// The facts known to the loop, without those of the broker.
pub(super) fn explain(
    supervisor: &Supervisor,
    effects: &Effects,
    asked: &WhySubject,
) -> Result<Why, Problem> {
    let now = clock::now();
    let class = match asked {
        WhySubject::Job { of, .. } => of.as_ref().map(|(_, class)| class),
        WhySubject::Slot(_) | WhySubject::Pool(_) => None,
    };
    let mut pools = supervisor.status_for(now, class);
    effects.spawn_specs.name_users(supervisor.specs(), pools.iter_mut().map(|(pool, _)| pool));
    for (pool, _) in &mut pools {
        effects.changes.authors.sign(pool);
    }
    for slot in pools.iter_mut().flat_map(|(pool, _)| pool.template.iter_mut().chain(&mut pool.slots)) {
        complete(slot, effects);
    }
    let mut why = Why { stopping: supervisor.stopping(), ..Why::default() };
    let decisions = |about| effects.tellers.decisions(&about, now);
    match asked {
        // The broker does not say which queue it is in: only the pools that run it can explain it.
        WhySubject::Job { id, of: None } => {
            why.decisions = decisions(About::Job(id));
            let runs = |slot: &SlotStatus| slot.jobs.iter().any(|job| job.id == *id);
            pools.retain(|(pool, _)| pool.slots.iter().any(runs));
        }
        WhySubject::Job { id, of: Some((queue, _)) } => {
            why.decisions = decisions(About::Job(id));
            pools.retain(|(pool, _)| pool.queues.contains(queue));
            if pools.iter().all(|(_, fit)| *fit == Fit::Unknown) {
                why.known = supervisor.known(queue).into_iter().take(KNOWN).cloned().collect();
            }
        }
        WhySubject::Slot(text) => {
            let (slot, place) = slot(&pools, text)?;
            why.decisions = decisions(About::Slot(&slot));
            why.snapshot = effects.snapshots.latest(place).cloned();
            // An outdated pool has a slot of the same name until its heir has taken over.
            pools.retain(|(pool, _)| *pool.name == *slot.pool);
            why.slot = Some(slot);
        }
        WhySubject::Pool(name) => {
            let names: Vec<String> = pools.iter().map(|(pool, _)| pool.name.clone()).collect();
            pools.retain(|(pool, _)| pool.name == *name);
            if pools.is_empty() {
                let hint = format!("there are: {}", names.join(", "));
                return Err(Problem::not_found(format!("no pool is called '{name}'")).hint(hint));
            }
            why.decisions = decisions(About::Pool(name));
            why.known = supervisor.known_in(name).take(KNOWN).cloned().collect();
        }
    }
    why.pools = pools;
    Ok(why)
}

/// Adds what only the effects know of a slot. Gives the life in it.
pub(super) fn complete(slot: &mut SlotStatus, effects: &Effects) -> WorkerId {
    let worker = WorkerId { slot: slot.place, generation: slot.generation };
    let told = effects.children.told(worker);
    (slot.warning, slot.preloaded) = (told.warning, told.preloaded);
    slot.trace = effects.mutes.last_words(slot.place);
    slot.jobs.iter_mut().for_each(|job| job.flood = effects.children.flood(worker, &job.id));
    // To execute a program takes a moment, or as long as its filesystem does not answer.
    let is_late = slot.jobs.first().is_some_and(|job| job.ran >= PATIENCE);
    if slot.state == SlotState::Busy && is_late && effects.children.waits_for_exec(worker) {
        slot.state = SlotState::Starting;
    }
    worker
}

/// The slot that a text names, such as `mail.3` or, with a generation, `mail.3#7`, and its place: in the heir while
/// another pool leaves. Index 0 is the template's.
fn slot(pools: &[(PoolStatus, Fit)], text: &str) -> Result<(SlotName, SlotId), Problem> {
    let name = text.split_once('#').map_or(text, |(slot, _)| slot);
    let slots = || {
        let staying_first = [false, true]
            .into_iter()
            .flat_map(|outdated| pools.iter().filter(move |(pool, _)| pool.outdated == outdated));
        staying_first.flat_map(|(pool, _)| pool.template.iter().chain(&pool.slots))
    };
    let found = slots().find(|slot| slot.slot.to_string() == name);
    found.map(|slot| (slot.slot.clone(), slot.place)).ok_or_else(|| {
        Problem::not_found(format!("there is no worker at '{text}', and none is wanted there"))
            .hint("a slot is POOL.N, as 'taskvisor status' shows it; a pool fills its places as jobs wait")
    })
}
