//! What an uppercase key would do with what is chosen.

use std::collections::BTreeSet;

use crate::order::{Act, Order};
use crate::state::{Line, Model, Said};
use crate::thing::Thing;
use model::JobId;

/// Asks whether to carry out the order of a key, or says why there is none.
pub(super) fn ask(model: &mut Model, key: char) {
    if model.read_only {
        return refuse(model, "this screen only looks: it was opened with --read-only");
    }
    match order(model, key) {
        Ok(order) => model.line = Line::Confirm(order),
        Err(why) => refuse(model, why),
    }
}

fn refuse(model: &mut Model, why: &str) {
    model.said = Some(Said { text: why.into(), is_bad: true });
}

fn order(model: &Model, key: char) -> Result<Order, &'static str> {
    match key {
        'C' => of_jobs(model, Act::Cancel),
        'K' => kill(model),
        'R' => of_ended(model, Act::Retry, Act::RetryGroup, Act::RunNow),
        'D' => of_ended(model, Act::Discard, Act::DiscardGroup, Act::RemoveRecurring),
        'P' => pause(model),
        '+' => of_pools(model, Act::Grow),
        '-' => of_pools(model, Act::Shrink),
        // N: no other key comes here.
        _ => of_pools(model, Act::Recycle),
    }
}

/// The jobs that are chosen: themselves, or by the slots that run them.
pub(super) fn jobs(model: &Model) -> Vec<JobId> {
    let of = |thing: Thing| match thing {
        Thing::Job(id) => vec![id],
        Thing::Slot(slot) | Thing::Process(slot, _) => model
            .slot(&slot)
            .map_or_else(Vec::new, |slot| slot.jobs.iter().map(|job| job.id.clone()).collect()),
        event @ Thing::Event(_) => match model.subject_of(&event) {
            Some(Thing::Job(id)) => vec![id],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    // A job and its slot may both be marked.
    let mut seen = BTreeSet::new();
    model.chosen().into_iter().flat_map(of).filter(|id| seen.insert(id.clone())).collect()
}

fn of_jobs(model: &Model, act: Act) -> Result<Order, &'static str> {
    let jobs = jobs(model);
    match jobs.is_empty() {
        true => Err("there is no job here"),
        false => Ok(Order::new(act, jobs.iter().map(ToString::to_string).collect())),
    }
}

fn kill(model: &Model) -> Result<Order, &'static str> {
    let status = model.data.status.as_ref().ok_or("no supervisor runs: nothing can be killed")?;
    let slots = || status.pools.iter().flat_map(|pool| pool.template.iter().chain(&pool.slots));
    let is_chosen = |name: &str, slot: &model::SlotStatus, thing: &Thing| match thing {
        Thing::Slot(chosen) | Thing::Process(chosen, _) => chosen == name,
        Thing::Job(id) => slot.jobs.iter().any(|job| job.id == *id),
        _ => false,
    };
    let chosen = model.chosen();
    let mut order = Order::new(Act::Kill, Vec::new());
    for slot in slots() {
        let name = slot.slot.to_string();
        if let Some(process) = &slot.process
            && chosen.iter().any(|thing| is_chosen(&name, slot, thing))
        {
            // With the generation: by then another worker may be in the slot.
            order.names.push(format!("{name}#{}", slot.generation));
            order.pids.push(process.pid);
        }
    }
    if order.names.is_empty() { Err("there is no worker here that could be killed") } else { Ok(order) }
}

fn of_ended(model: &Model, jobs: Act, groups: Act, recurring: Act) -> Result<Order, &'static str> {
    let chosen = model.chosen();
    let named = |pick: fn(&Thing) -> Option<String>| chosen.iter().filter_map(pick).collect::<Vec<String>>();
    let of_groups = named(|thing| if let Thing::Group(name) = thing { Some(name.clone()) } else { None });
    if !of_groups.is_empty() {
        let count = model.data.failures.iter().filter(|group| of_groups.contains(&group.group));
        let count = count.map(|group| group.failed + group.held).sum();
        return Ok(Order { count: Some(count), ..Order::new(groups, of_groups) });
    }
    let of_recurring =
        named(|thing| if let Thing::Recurring(name) = thing { Some(name.clone()) } else { None });
    if !of_recurring.is_empty() {
        return Ok(Order::new(recurring, of_recurring));
    }
    of_jobs(model, jobs)
}

fn pause(model: &Model) -> Result<Order, &'static str> {
    let chosen = model.chosen();
    // The first one says for all whether it is a pause or its end.
    if let Some(Thing::Queue(first)) = chosen.first() {
        let is_paused =
            model.data.queues.get(&first.as_str().into()).is_some_and(|queue| queue.paused.is_some());
        let act = if is_paused { Act::ResumeQueue } else { Act::PauseQueue };
        return Ok(Order::new(act, chosen.iter().map(Thing::name).collect()));
    }
    if let Some(Thing::Recurring(first)) = chosen.first() {
        let found = model.data.recurring.iter().find(|record| record.recurring.name == *first);
        let is_paused = found.is_some_and(|record| record.paused.is_some());
        let act = if is_paused { Act::ResumeRecurring } else { Act::PauseRecurring };
        return Ok(Order::new(act, chosen.iter().map(Thing::name).collect()));
    }
    let order = of_pools(model, Act::PausePool)?;
    let pools = model.data.status.iter().flat_map(|status| &status.pools);
    let is_paused = pools.filter(|pool| order.names.contains(&pool.name)).any(|pool| pool.paused);
    Ok(Order { act: if is_paused { Act::ResumePool } else { Act::PausePool }, ..order })
}

/// The pools that are chosen: themselves, or by their slots.
fn of_pools(model: &Model, act: Act) -> Result<Order, &'static str> {
    let status = model.data.status.as_ref().ok_or("no supervisor runs: there are no pools")?;
    let chosen = model.chosen();
    let has = |pool: &&model::PoolStatus| {
        let slots = || pool.template.iter().chain(&pool.slots);
        chosen.iter().any(|thing| match thing {
            Thing::Pool(name) => *name == pool.name,
            Thing::Slot(name) | Thing::Process(name, _) => slots().any(|slot| slot.slot.to_string() == *name),
            _ => false,
        })
    };
    let pools: Vec<String> = status.pools.iter().filter(has).map(|pool| pool.name.clone()).collect();
    if pools.is_empty() {
        Err("there is no pool here: it goes with a line of the slots")
    } else {
        Ok(Order::new(act, pools))
    }
}
