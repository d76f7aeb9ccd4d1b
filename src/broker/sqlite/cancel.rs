//! People end jobs, several at a time.

use std::collections::{HashMap, HashSet};

use rusqlite::params;

use super::history;
use super::needs;
use super::store::Store;
use super::trouble::Trouble;
use crate::broker::Error;
use crate::model::verb::{Cancel, Each, Fate, Refusal};
use crate::model::{Happened, Instant, JobId, JobState, Revocation, What};

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

/// So many jobs are ended at a time at most. They are ended together or not at all, so in one transaction, which nobody else
/// gets by.
const MOST: usize = 10_000;

/// Those that were named, each once; with `dependents` also those that wait for them, and so on.
fn named(store: &Store, verb: &Cancel) -> Result<Vec<Named>, Trouble> {
    let mut seen = HashSet::new();
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
        let dependents =
            place.map_or_else(|| Ok(Vec::new()), |(row, ..)| needs::dependents(store, row, u32::MAX))?;
        if found.len() == MOST {
            return Err(too_many(&job).into());
        }
        if verb.dependents {
            open.extend(dependents.iter().rev().cloned());
        }
        found.push(Named { job, place, dependents });
    }
    Ok(found)
}

fn too_many(next: &JobId) -> Error {
    Error::Refused(format!(
        "more than {MOST} jobs cannot be canceled at a time, and '{next}' would be one more: first cancel, in parts, those \
         that wait for the others"
    ))
}

/// Who is left as it is, and why. A job is, too, when one that waits for it is.
fn refused(named: &[Named]) -> HashMap<JobId, Refusal> {
    let mut refused = HashMap::new();
    let mut ending: HashSet<&JobId> = HashSet::new();
    let mut needs: HashMap<&JobId, Vec<&JobId>> = HashMap::new();
    for Named { job, place, dependents } in named {
        match place {
            Some((_, _, state @ (JobState::Complete | JobState::Failed))) => {
                refused.insert(job.clone(), Refusal::State { state: *state });
            }
            Some(_) => drop(ending.insert(job)),
            None => {}
        }
        dependents.iter().for_each(|dependent| needs.entry(dependent).or_default().push(job));
    }
    let mut staying: Vec<&JobId> = needs.keys().copied().filter(|job| !ending.contains(job)).collect();
    staying.sort_unstable();
    while let Some(job) = staying.pop() {
        for needed in needs.get(job).into_iter().flatten().copied() {
            if ending.remove(needed) {
                staying.push(needed);
            }
            let refusal = refused.entry(needed.clone()).or_insert(Refusal::NeededBy { jobs: Vec::new() });
            if let Refusal::NeededBy { jobs } = refusal {
                jobs.push(job.clone());
            }
        }
    }
    refused
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
            "UPDATE job SET state = ?2, due_at = NULL, not_before = NULL, ended_at = ?3, failure_group = NULL
             WHERE id = ?1",
        )?
        .execute(params![row, to as i64, ended])?;
    store.moved(queue, Some(from), to);
    store.happened(id, queue, What::of_end(to), to)?;
    if to.has_ended() {
        store.ended(id.clone(), to);
    } else if let Some(fence) = store.leases.get(id) {
        store.effects.revoked.push((id.clone(), *fence, Revocation::Canceled));
    }
    Ok(to)
}
