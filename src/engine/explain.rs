//! The loop's part of an explanation: what it sees of the pools, the slot, and the decisions about them.

use tokio::sync::oneshot;

use super::decisions::About;
use super::outside::Outside;
use crate::api::Problem;
use crate::clock;
use crate::model::{Class, Fit, JobId, PoolStatus, QueueName, SlotId, Why};
use crate::supervisor::Supervisor;

/// What is to be explained, as the loop can tell it.
pub(super) enum Asked {
    /// A job of a queue and a class.
    Job(JobId, QueueName, Class),
    /// A slot: `POOL.N`, or as `status` shows it.
    Slot(String),
    /// A pool, by its name.
    Pool(String),
}

/// Where the answer goes.
pub(super) type Answer = oneshot::Sender<Result<Why, Problem>>;

/// The facts, without those that the broker has.
pub(super) fn explain(supervisor: &Supervisor, outside: &Outside, asked: &Asked) -> Result<Why, Problem> {
    let now = clock::now();
    let class = match asked {
        Asked::Job(_, _, class) => Some(class),
        Asked::Slot(_) | Asked::Pool(_) => None,
    };
    let mut pools = supervisor.status_for(now, class);
    outside.wardrobe.name_users(supervisor.outfits(), pools.iter_mut().map(|(_, pool, _)| pool));
    for slot in pools.iter_mut().flat_map(|(_, pool, _)| pool.template.iter_mut().chain(&mut pool.slots)) {
        slot.trace = outside.stillborn.get(&slot.slot).cloned();
    }
    let mut why = Why { stopping: supervisor.stopping(), ..Why::default() };
    let decisions = |about| outside.decisions.about(&about, now);
    match asked {
        Asked::Job(id, queue, _) => {
            why.decisions = decisions(About::Job(id));
            pools.retain(|(_, pool, _)| pool.queues.contains(queue));
        }
        Asked::Slot(text) => {
            let slot = slot(&pools, text)?;
            why.decisions = decisions(About::Slot(slot));
            (why.slot, why.snapshot) = (Some(slot), outside.snapshots.latest(slot).cloned());
            pools.retain(|(number, ..)| *number == slot.pool);
        }
        Asked::Pool(name) => {
            let names: Vec<String> = pools.iter().map(|(_, pool, _)| pool.name.clone()).collect();
            pools.retain(|(_, pool, _)| pool.name == *name);
            if pools.is_empty() {
                let hint = format!("there are: {}", names.join(", "));
                return Err(Problem::not_found(format!("no pool is called '{name}'")).hint(hint));
            }
            let numbers: Vec<u16> = pools.iter().map(|(number, ..)| *number).collect();
            why.decisions = decisions(About::Pool(name, &numbers));
        }
    }
    why.pools = pools.into_iter().map(|(_, pool, fit)| (pool, fit)).collect();
    Ok(why)
}

/// `mail.3`; or as `status` shows it: `3`, `1:3`, with or without the generation, `1:3.7`. A template's is 0.
fn slot(pools: &[(u16, PoolStatus, Fit)], text: &str) -> Result<SlotId, Problem> {
    let places = || {
        pools.iter().flat_map(|(_, pool, _)| {
            pool.template.iter().chain(&pool.slots).map(move |slot| (pool.name.as_str(), slot.slot))
        })
    };
    let named = text.rsplit_once('.').and_then(|(name, index)| {
        let index: u16 = index.parse().ok()?;
        places().find(|(pool, slot)| *pool == name && slot.index == index)
    });
    let shown = || {
        let place = text.split_once('.').map_or(text, |(place, _)| place);
        places().find(|(_, slot)| slot.to_string() == place)
    };
    let found = named.or_else(shown).map(|(_, slot)| slot);
    found.ok_or_else(|| {
        Problem::not_found(format!("there is no worker at '{text}', and none is wanted there")).hint(
            "a slot is POOL.N, or its number as 'taskvisor status' shows it; a pool fills its places as jobs wait",
        )
    })
}
