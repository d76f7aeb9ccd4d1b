//! People end jobs, several at a time.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::params;

use super::history;
use super::needs;
use super::store::Store;
use super::trouble::Trouble;
use crate::broker::Error;
use crate::model::verb::{Cancel, Each, Fate, Refusal};
use crate::model::{Happened, Instant, JobId, JobState, Revocation};

pub(super) fn cancel(store: &mut Store, verb: &Cancel, by: &str, now: Instant) -> Result<Vec<Each>, Trouble> {
    let now = store.millis(now);
    let named = named(store, verb)?;
    let refused = refused(&named);
    let mut all = Vec::with_capacity(named.len());
    for Named { job, place, .. } in named {
        let fate = match (place, refused.get(&job)) {
            (Some(place), None) => Fate::State(end(store, &job, place, by, now)?),
            (None, _) => Fate::Refused(Refusal::NoJob),
            (Some(_), Some(refusal)) => Fate::Refused(refusal.clone()),
        };
        all.push(Each { job, fate });
    }
    Ok(all)
}

/// A job that is to end.
struct Named {
    job: JobId,
    /// None = there is no such job.
    place: Option<(i64, i64, JobState)>,
    dependents: Vec<JobId>,
}

/// Those that were named, each once; with `dependents` also those that wait for them, and so on.
fn named(store: &Store, verb: &Cancel) -> Result<Vec<Named>, Trouble> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let mut open: Vec<JobId> = verb.jobs.iter().rev().cloned().collect();
    while let Some(job) = open.pop() {
        if !seen.insert(job.clone()) {
            continue;
        }
        let place = match store.place(&job) {
            Ok(place) => Some(place),
            Err(Trouble::Mine(Error::NoJob(_))) => None,
            Err(trouble) => return Err(trouble),
        };
        let dependents = place.map_or_else(|| Ok(Vec::new()), |(row, ..)| needs::dependents(store, row))?;
        if verb.dependents {
            open.extend(dependents.iter().rev().cloned());
        }
        found.push(Named { job, place, dependents });
    }
    Ok(found)
}

/// Who is left as it is, and why. A job is, too, when one that waits for it is.
fn refused(named: &[Named]) -> BTreeMap<JobId, Refusal> {
    let ends = |of: &Named| {
        of.place.is_some_and(|(_, _, state)| !matches!(state, JobState::Complete | JobState::Failed))
    };
    let mut ending: BTreeSet<&JobId> = named.iter().filter(|of| ends(of)).map(|of| &of.job).collect();
    let mut refused = BTreeMap::new();
    for of in named {
        if let Some((_, _, state)) = of.place.filter(|_| !ends(of)) {
            refused.insert(of.job.clone(), Refusal::State { state });
        }
    }
    loop {
        let before = ending.len();
        for of in named {
            let left: Vec<JobId> =
                of.dependents.iter().filter(|job| !ending.contains(job)).cloned().collect();
            if !left.is_empty() && ending.remove(&of.job) {
                refused.insert(of.job.clone(), Refusal::NeededBy { jobs: left });
            }
        }
        if ending.len() == before {
            return refused;
        }
    }
}

fn end(
    store: &mut Store,
    id: &JobId,
    (row, queue, from): (i64, i64, JobState),
    by: &str,
    now: i64,
) -> Result<JobState, Trouble> {
    let to = match from {
        JobState::Waiting | JobState::Delayed | JobState::Depends | JobState::Held => JobState::Canceled,
        JobState::Running => JobState::Canceling,
        JobState::Canceling | JobState::Canceled | JobState::Complete | JobState::Failed => return Ok(from),
    };
    history::note(store, row, now, Happened::Canceled { by: by.into() })?;
    let ended = to.has_ended().then_some(now);
    store
        .conn
        .prepare_cached(
            "UPDATE job SET state = ?2, due_at = NULL, not_before = NULL, ended_at = ?3 WHERE id = ?1",
        )?
        .execute(params![row, to as i64, ended])?;
    store.moved(queue, Some(from), to);
    if to.has_ended() {
        store.ended(id.clone(), to);
    } else if let Some(fence) = store.leases.get(id) {
        store.effects.revoked.push((id.clone(), *fence, Revocation::Canceled));
    }
    Ok(to)
}
