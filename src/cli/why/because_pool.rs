//! The sentences of `why slot` and `why pool`.

use super::because::{first_down, held_up, paused_pool};
use crate::cli::term::format::counted;
use crate::cli::term::screen::{Look, age};
use model::{JobState, Ordered, PoolStatus, QueueName, SlotState, SlotStatus, Why};

/// Why a slot is in its state.
pub(crate) fn of_slot(name: &str, why: &Why) -> Vec<String> {
    let slots = why
        .pools
        .iter()
        .flat_map(|(pool, _)| pool.template.iter().chain(&pool.slots).map(move |slot| (pool, slot)));
    let found = slots.filter(|(_, slot)| Some(&slot.slot) == why.slot.as_ref());
    let said: Vec<String> = found.flat_map(|(pool, slot)| of_life(pool, slot)).collect();
    if said.is_empty() { vec![format!("Nothing is known of slot {name}.")] } else { said }
}

/// While a pool is replaced a slot has two lives: that of the outdated pool, and its heir's.
fn of_life(pool: &PoolStatus, slot: &SlotStatus) -> Vec<String> {
    let state = slot.state.as_str();
    let leaves = if pool.outdated { ", and leaves for its heir" } else { "" };
    let what = match slot.slot.index {
        0 => format!("The template of pool {}", pool.name),
        _ => format!("Slot {}", slot.slot),
    };
    let what = format!("{what}, generation {},", slot.generation);
    let mut said = vec![format!("{what} has been {state} for {}{leaves}.", age(slot.age))];
    said.extend(in_state(slot));
    // Only a slot with room raises the question why it takes no job.
    if slot.state == SlotState::Ready {
        said.extend(paused_pool(pool).into_iter().chain(pool.suspect.as_ref().map(held_up)));
    }
    let jobs = slot.jobs.iter().map(|job| {
        let ending = job.ending.as_ref().map(|why| format!("; it is being ended: {why}")).unwrap_or_default();
        let alone = if job.alone { ", alone" } else { "" };
        format!("It runs job {}, attempt {}, for {}{alone}{ending}.", job.id, job.attempt, age(job.ran))
    });
    said.extend(jobs);
    said.extend(slot.waits.iter().map(|id| format!("Job {id} waits to run there alone.")));
    said.extend(slot.leaving.as_ref().map(|why| format!("Its worker takes no more jobs and ends: {why}.")));
    if slot.restarts > 0 {
        let last = slot.why.as_ref().map(|why| format!(", the latest of them: {why}")).unwrap_or_default();
        let lives = counted(slot.restarts as usize, "life", "lives");
        said.push(format!("{lives} there ended other than as planned{last}."));
    }
    said.extend(warning(slot).map(|warning| format!("Its worker warns: {warning}.")));
    let trace = slot.trace.iter().flat_map(|trace| trace.lines().rev().find(|line| !line.trim().is_empty()));
    said.extend(trace.map(|line| format!("Its last words before it was ready: {line}")));
    said
}

fn in_state(slot: &SlotStatus) -> Option<String> {
    let left = slot.until.map(age);
    Some(match (slot.state, left) {
        (SlotState::Down, Some(left)) => format!("The next worker is started in {left}."),
        (SlotState::Down, None) => "Its worker is started when its turn comes.".into(),
        (SlotState::Starting, Some(left)) => format!("Its worker must be ready within {left}."),
        (SlotState::Starting, None) if !slot.jobs.is_empty() => {
            "The system has been asked to execute its program and has not done it yet.".into()
        }
        (SlotState::Stopping, Some(left)) => format!("Its worker is killed in {left} if it has not ended."),
        (SlotState::Killed, _) => {
            "Its worker was killed; only the proof that nothing of it lives is missing.".into()
        }
        (SlotState::Ready, _) => "It has room for a job.".into(),
        (SlotState::Unkillable, _) => slot.why.clone()?,
        (SlotState::Busy | SlotState::Starting | SlotState::Stopping, _) => return None,
    })
}

/// How many slots a pool has, and how many are in each state.
fn slots(pool: &PoolStatus) -> String {
    let states = [
        SlotState::Busy,
        SlotState::Ready,
        SlotState::Starting,
        SlotState::Down,
        SlotState::Stopping,
        SlotState::Killed,
        SlotState::Unkillable,
    ];
    let in_state = |state| pool.slots.iter().filter(move |slot| slot.state == state);
    // A place whose turn has not come, as in a recycle, or that no job needs, is not down.
    let is_empty = |slot: &&SlotStatus| slot.until.is_none() && slot.why.is_none();
    let empty = in_state(SlotState::Down).filter(is_empty).count();
    let each = states.map(|state| {
        let less = if state == SlotState::Down { empty } else { 0 };
        (in_state(state).count() - less, state.as_str())
    });
    let each = each.into_iter().chain([(empty, "not started")]).filter(|(count, _)| *count > 0);
    let each: Vec<String> = each.map(|(count, state)| format!("{count} {state}")).collect();
    match pool.slots.len() {
        0 => "no workers".into(),
        1 => format!("1 slot, {}", each.join(", ")),
        many => format!("{many} slots: {}", each.join(", ")),
    }
}

/// What people have ordered of a pool.
fn ordered(pool: &PoolStatus, look: &Look) -> Vec<String> {
    let by = |order: &Ordered| format!("by {} at {}", order.by, look.moment(order.since));
    let paused = pool.pause.as_ref();
    let paused = paused
        .map(|pause| format!(" since {} by {}{}", look.moment(pause.since), pause.by, pause.because()))
        .unwrap_or_default();
    let paused = pool
        .paused
        .then(|| format!("It is paused{paused}. taskvisor resume {} has it take jobs again.", pool.name));
    let scaled = pool.scaled_by.as_ref().map_or("by a person".into(), by);
    let scaled = pool.scaled.map(|to| format!("It was scaled to {to} {scaled}; the settings say otherwise."));
    let recycled = pool.recycled.as_ref();
    let recycled = recycled.map(|order| format!("Its workers were last recycled {}.", by(order)));
    paused.into_iter().chain(scaled).chain(recycled).collect()
}

/// Why a pool has its size, and what keeps it from working.
pub(crate) fn of_pool(pool: &PoolStatus, why: &Why, look: &Look) -> Vec<String> {
    let queues: Vec<&str> = pool.queues.iter().map(QueueName::as_str).collect();
    let (slots, queues) = (slots(pool), queues.join(", "));
    let mut said = vec![format!("Pool {} has {slots}. It takes jobs from {queues}.", pool.name)];
    said.extend(ordered(pool, look));
    said.extend(pool.suspect.as_ref().map(held_up));
    if pool.outdated {
        said.push("Others take its place: it ends when its workers have run their jobs.".into());
    }
    said.extend(replaced(pool, why));
    said.extend(pool.probing.as_ref().map(|probing| format!("It tries with one slot only: {probing}.")));
    said.extend(first_down(pool));
    if let Some(template) = pool.template.as_ref().filter(|template| template.state != SlotState::Ready) {
        said.push(format!("Its template is {}: no worker can be forked.", template.state.as_str()));
    }
    let warned = pool.template.iter().chain(&pool.slots).find_map(|slot| Some((slot, warning(slot)?)));
    said.extend(warned.map(|(slot, warning)| format!("The worker of {} warns: {warning}.", slot.slot)));
    for (class, jobs) in &pool.unknown {
        said.push(format!(
            "Class {class} is known to none of its workers: {} of it came lately.",
            counted(*jobs as usize, "job", "jobs")
        ));
    }
    let paused = why.queues.iter().filter_map(|(name, queue)| Some((name, queue.paused.as_ref()?)));
    said.extend(
        paused.map(|(name, pause)| format!("Queue {name} is paused by {}{}.", pause.by, pause.because())),
    );
    let waiting: u64 = why.queues.values().filter_map(|queue| queue.jobs.get(&JobState::Waiting)).sum();
    let ready = pool.slots.iter().filter(|slot| slot.state == SlotState::Ready).count();
    said.push(match (waiting, ready) {
        // A broker that does not answer has counted nothing, so 0 is no count.
        (0, _) if why.broker_trouble.is_some() => "How many jobs wait for it cannot be told now.".into(),
        (0, _) => "No job waits for it.".into(),
        (1, 1..) => "1 job waits in its queues.".into(),
        (_, 1..) => format!("{waiting} jobs wait in its queues."),
        (1, 0) => "1 job waits in its queues, and no slot has room.".into(),
        (_, 0) => format!("{waiting} jobs wait in its queues, and no slot has room."),
    });
    said
}

/// The first line of what the worker of a slot warns of.
fn warning(slot: &SlotStatus) -> Option<&str> {
    slot.warning.as_deref()?.lines().next().map(|line| line.trim_end_matches('.'))
}

/// How far a pool is with the exchange of its workers.
fn replaced(pool: &PoolStatus, why: &Why) -> Option<String> {
    let old = why.pools.iter().filter(|(old, _)| old.outdated && old.name == pool.name);
    let old: usize = old.map(|(old, _)| old.slots.len()).sum();
    let ready = pool.slots.iter().filter(|slot| slot.is_served()).count();
    (old > 0 && !pool.outdated).then(|| {
        format!(
            "Its workers are being replaced, a quarter at a time: {ready} of {} are new, and {} still there.",
            pool.slots.len(),
            counted(old, "old one is", "old ones are"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::record::page::tests::look;
    use crate::cli::status::tree::tests::healthy;
    use model::{Fit, Millis, Pause};

    #[test]
    fn places_whose_turn_has_not_come_are_not_called_down() {
        let mut pool = healthy().pools.remove(0);
        let mut slot = pool.slots[0].clone();
        (slot.state, slot.until, slot.why) = (SlotState::Down, None, None);
        pool.slots = vec![slot.clone(), SlotStatus { why: Some("exit 1".into()), ..slot.clone() }, slot];
        let said = of_pool(&pool, &Why::default(), &look(80));
        assert!(said[0].contains(" has 3 slots: 1 down, 2 not started. "), "{said:?}");
    }

    #[test]
    fn pool_whose_workers_are_exchanged_says_how_far_it_is() {
        let mut heir = healthy().pools.remove(0);
        let mut slot = heir.slots[0].clone();
        (slot.state, slot.until, slot.why) = (SlotState::Ready, None, None);
        let waits = SlotStatus { state: SlotState::Down, ..slot.clone() };
        heir.slots = vec![slot.clone(), waits.clone(), waits];
        let old = PoolStatus { outdated: true, slots: vec![slot.clone(), slot], ..heir.clone() };
        let pools = vec![(old.clone(), Fit::Runs), (heir.clone(), Fit::Runs)];
        let why = Why { pools, ..Why::default() };
        let said = of_pool(&heir, &why, &look(80)).join("\n");
        assert!(said.contains(" has 3 slots: 1 ready, 2 not started. "), "{said}");
        let how_far = "replaced, a quarter at a time: 1 of 3 are new, and 2 old ones are still there.";
        assert!(said.contains(how_far), "{said}");
        assert!(of_pool(&old, &why, &look(80)).join("\n").contains("Others take its place"));
        assert!(!of_pool(&heir, &Why::default(), &look(80)).join("\n").contains("replaced"));
    }

    #[test]
    fn pool_names_who_paused_scaled_and_recycled_it() {
        let mut pool = healthy().pools.remove(0);
        let order = |by: &str| Ordered { since: Millis(1_790_000_000_000), by: by.into() };
        let pause =
            Pause { since: Millis(1_790_000_000_000), by: "uid 7".into(), reason: Some("smtp".into()) };
        (pool.paused, pool.pause) = (true, Some(pause));
        (pool.scaled, pool.scaled_by, pool.recycled) = (Some(3), Some(order("uid 8")), Some(order("uid 9")));
        let said = of_pool(&pool, &Why::default(), &look(80)).join("\n");
        for words in
            [" by uid 7: smtp. taskvisor resume ", "scaled to 3 by uid 8 at ", "last recycled by uid 9 at "]
        {
            assert!(said.contains(words), "{said}");
        }
    }
}
