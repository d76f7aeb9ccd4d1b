//! Carries out the orders of the screen.

use super::desk::Desk;
use crate::cli::access::Access;
use crate::cli::access::elsewhere::supervisor;
use crate::cli::term::format::counted;
use ::top::order::{Act, Order};
use api::PauseOrder;
use failure::{Failure, exit};
use model::verb::{
    self, Bulk, Cancel, Discard, Each, Fate, PauseRecurring, RemoveRecurring, Resume, ResumeRecurring, Retry,
    RunRecurring, VerbRequest,
};
use model::{Change, JobState, Scale};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Carries it out; gives what became of it, in a line.
pub(super) async fn carry_out(desk: &Desk, order: &Order) -> Result<String, Failure> {
    let access = desk.access().await?;
    let names = &order.names;
    match order.act {
        Act::Cancel => cancel(&access, order).await,
        Act::Kill => kill(desk, order).await,
        Act::Retry => each(&access, names, "put back", |name| Retry { job: name.into() }).await,
        Act::Discard => each(&access, names, "discarded", |name| Discard { job: name.into() }).await,
        Act::RetryGroup => bulk(&access, names, verb::Act::Retry, "put back").await,
        Act::DiscardGroup => bulk(&access, names, verb::Act::Discard, "discarded").await,
        Act::PauseQueue => {
            each(&access, names, "paused", |name| verb::Pause { queue: name.into(), reason: None }).await
        }
        Act::ResumeQueue => each(&access, names, "resumed", |name| Resume { queue: name.into() }).await,
        Act::PausePool => change(desk, names, Change::Pause, "paused").await,
        Act::ResumePool => change(desk, names, Change::Resume, "resumed").await,
        Act::Grow => change(desk, names, Change::Scale(Scale::By(1)), "scaled").await,
        Act::Shrink => change(desk, names, Change::Scale(Scale::By(-1)), "scaled").await,
        Act::Recycle => change(desk, names, Change::Recycle, "being recycled").await,
        Act::RunNow => each(&access, names, "put", |name| RunRecurring { name: name.into() }).await,
        Act::PauseRecurring => {
            each(&access, names, "paused", |name| PauseRecurring { name: name.into() }).await
        }
        Act::ResumeRecurring => {
            each(&access, names, "resumed", |name| ResumeRecurring { name: name.into() }).await
        }
        Act::RemoveRecurring => {
            each(&access, names, "removed", |name| RemoveRecurring { name: name.into() }).await
        }
    }
}

/// Does it for each, goes on after a failure, and says how many it was done with, and the first failure.
async fn each<V: VerbRequest>(
    access: &Access,
    names: &[String],
    done: &str,
    verb: impl Fn(&str) -> V,
) -> Result<String, Failure> {
    let (mut count, mut first) = (0, None);
    for name in names {
        match access.ask(verb(name)).await {
            Ok(_) => count += 1,
            Err(failure) => first = first.or(Some(failure)),
        }
    }
    match first {
        Some(failure) => Err(failure.of(format!("{count} of {} {done}", names.len()))),
        None if count == 1 => Ok(format!("{} {done}", names[0])),
        None => Ok(format!("{count} {done}")),
    }
}

/// Cancels jobs, and waits until their processes are dead.
async fn cancel(access: &Access, order: &Order) -> Result<String, Failure> {
    let asked = Cancel { jobs: order.jobs(), dependents: false, reason: None };
    let (mut canceled, mut refused) = (0, None);
    for Each { job, fate, .. } in access.ask(asked).await? {
        match fate {
            Fate::State(state) if state.has_ended() => canceled += 1,
            Fate::State(_) => {
                let state = access.ended(&job).await?;
                if state == JobState::Canceled {
                    canceled += 1;
                } else {
                    let other = || Failure::new(exit::FAILED, format!("{job} is {state}"));
                    refused = Some(refused.unwrap_or_else(other));
                }
            }
            Fate::Refused(why) => {
                refused = refused.or(Some(Failure::from(broker::Error::refused(job, why, "canceled"))));
            }
        }
    }
    let jobs = counted(canceled, "job", "jobs");
    match refused {
        Some(failure) => Err(failure.of(format!("{jobs} canceled, others not"))),
        None => Ok(format!("{jobs} canceled")),
    }
}

/// Retries or discards the failed and held jobs of groups, a stretch at a time.
async fn bulk(access: &Access, groups: &[String], act: verb::Act, done: &str) -> Result<String, Failure> {
    let (mut count, mut needed) = (0, 0);
    for group in groups {
        // A request is for one state.
        for state in [JobState::Failed, JobState::Held] {
            let mut after = None;
            loop {
                let asked = Bulk {
                    act,
                    state,
                    group: Some(group.clone()),
                    class: None,
                    queue: None,
                    since: None,
                    limit: None,
                    dry_run: false,
                    after,
                };
                let swept = access.ask(asked).await?;
                (count, needed) = (count + swept.count, needed + swept.needed);
                after = swept.next;
                if after.is_none() {
                    break;
                }
            }
        }
    }
    let stay = if needed > 0 { format!("; {needed} stay, as others depend on them") } else { String::new() };
    Ok(format!("{} {done}{stay}", counted(usize::try_from(count).unwrap_or(usize::MAX), "job", "jobs")))
}

async fn change(desk: &Desk, pools: &[String], change: Change, done: &str) -> Result<String, Failure> {
    let client = supervisor(&desk.config).await?;
    let mut said = Vec::new();
    for pool in pools {
        let now = client.change(Some(pool), change, &PauseOrder::default()).await?;
        said.extend(now.pools.iter().map(|now| match now.workers_before == now.workers {
            true => format!("{} {done}", now.pool),
            false => format!("{} {done}: {} -> {} workers", now.pool, now.workers_before, now.workers),
        }));
    }
    Ok(said.join("; "))
}

/// Kills the first process of slots on this host, if it is still theirs. The keeper kills the rest of the tree.
async fn kill(desk: &Desk, order: &Order) -> Result<String, Failure> {
    if desk.config.remote.is_some() {
        let message = "a worker is killed on its own host: there, taskvisor top kills it, too";
        return Err(Failure::new(exit::UNSUPPORTED, message));
    }
    let failed =
        |error: rustix::io::Errno| Failure::from(std::io::Error::from(error)).of("failed to kill the worker");
    // Opened before the look: a process that has the number by then, and is the slot's, is the one that is meant.
    let mut held = Vec::new();
    for (name, pid) in order.names.iter().zip(&order.pids) {
        if let Some(number) = Pid::from_raw(*pid)
            && let Ok(process) = pidfd_open(number, PidfdFlags::empty())
        {
            held.push((name, *pid, process));
        }
    }
    let status = supervisor(&desk.config).await?.status().await?;
    let slots = || status.pools.iter().flat_map(|pool| pool.template.iter().chain(&pool.slots));
    let mut killed = 0;
    for (name, pid, process) in held {
        let is_theirs = slots().any(|slot| {
            format!("{}#{}", slot.slot, slot.generation) == *name
                && slot.process.as_ref().is_some_and(|process| process.pid == pid)
        });
        if is_theirs {
            pidfd_send_signal(&process, Signal::KILL).map_err(failed)?;
            killed += 1;
        }
    }
    let gone = order.names.len() - killed;
    let others = if gone > 0 { format!("; {gone} had ended before") } else { String::new() };
    Ok(format!("{} killed{others}", counted(killed, "worker", "workers")))
}
