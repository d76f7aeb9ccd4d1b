//! The loop's part of an explanation: what it sees of the pools, the slot, and the decisions about them.

use tokio::sync::oneshot;

use super::decisions::About;
use super::outside::Outside;
use crate::api::Problem;
use crate::clock;
use crate::model::{Class, JobId, PoolStatus, QueueName, SlotId, Why};
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
    let mut pools = supervisor.status(now);
    for slot in pools.iter_mut().flat_map(|pool| pool.template.iter_mut().chain(&mut pool.slots)) {
        slot.trace = outside.stillborn.get(&slot.slot).cloned();
    }
    let decisions = |about| outside.decisions.about(&about, now);
    let mut why = Why { stopping: supervisor.stopping(), ..Why::default() };
    match asked {
        Asked::Job(id, queue, class) => {
            why.decisions = decisions(About::Job(id));
            let all = pools.into_iter().zip(supervisor.fits(class));
            why.pools = all.filter(|(pool, _)| pool.queues.contains(queue)).collect();
        }
        Asked::Slot(text) => {
            let slot = slot(&pools, text)?;
            why.decisions = decisions(About::Slot(slot));
            (why.slot, why.snapshot) = (Some(slot), outside.snapshots.latest(slot).cloned());
            why.pools = pools
                .into_iter()
                .skip(slot.pool.into())
                .take(1)
                .map(|pool| (pool, Default::default()))
                .collect();
        }
        Asked::Pool(name) => {
            let number = number(&pools, name)?;
            why.decisions = decisions(About::Pool(number as u16));
            why.pools =
                pools.into_iter().skip(number).take(1).map(|pool| (pool, Default::default())).collect();
        }
    }
    Ok(why)
}

fn number(pools: &[PoolStatus], name: &str) -> Result<usize, Problem> {
    pools.iter().position(|pool| pool.name == name).ok_or_else(|| {
        let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        Problem::not_found(format!("no pool is called '{name}'"))
            .hint(format!("there are: {}", names.join(", ")))
    })
}

/// `mail.3`; or as `status` shows it: `3`, `1:3`, with or without the generation, `1:3.7`. In mode `fork` the template's is 0.
fn slot(pools: &[PoolStatus], text: &str) -> Result<SlotId, Problem> {
    let named = text.rsplit_once('.').and_then(|(name, index)| {
        let pool = pools.iter().position(|pool| pool.name == name)?;
        Some(SlotId { pool: pool as u16, index: index.parse().ok()? })
    });
    let shown = || {
        let place = text.split_once('.').map_or(text, |(place, _)| place);
        let (pool, index) = place.split_once(':').unwrap_or(("0", place));
        Some(SlotId { pool: pool.parse().ok()?, index: index.parse().ok()? })
    };
    let hint = "a slot is POOL.N, or its number as 'taskvisor status' shows it";
    let Some(slot) = named.or_else(shown) else {
        return Err(Problem::not_found(format!("'{text}' is no slot")).hint(hint));
    };
    let found = pools
        .get(usize::from(slot.pool))
        .filter(|pool| pool.template.iter().chain(&pool.slots).any(|there| there.slot == slot));
    found.map(|_| slot).ok_or_else(|| {
        Problem::not_found(format!("there is no worker at '{text}', and none is wanted there"))
            .hint(format!("{hint}; a pool fills its places as jobs wait"))
    })
}
