//! Cancels jobs, several at a time.

use std::collections::HashSet;

use rusqlite::params;

use super::history;
use super::needs;
use super::store::Store;
use super::trouble::Trouble;
use broker::Error;
use common::cancel::{self, Named};
use model::verb::{Cancel, Each, Fate, Refusal};
use model::{Happened, Instant, JobId, JobState, PublishedEvent, Revocation, What};

pub(super) fn cancel(store: &mut Store, verb: &Cancel, by: &str, now: Instant) -> Result<Vec<Each>, Trouble> {
    let now = store.millis(now);
    let (named, places) = named(store, verb)?;
    let refused = cancel::refused(&named);
    let mut all = Vec::with_capacity(named.len());
    for (Named { job, .. }, place) in named.into_iter().zip(places) {
        let fate = match (place, refused.get(&job)) {
            (Some(place), None) => Fate::State(end(store, &job, place, (by, verb.reason.as_deref()), now)?),
            (None, _) => Fate::Refused(Refusal::NoJob),
            (Some(_), Some(refusal)) => Fate::Refused(refusal.clone()),
        };
        all.push(Each { job, fate, told: None });
    }
    Ok(all)
}

/// Row, queue and state of a job.
type Place = (i64, i64, JobState);

/// The jobs that were named, each once; with `dependents` also those that wait for them, and so on.
fn named(store: &Store, verb: &Cancel) -> Result<(Vec<Named>, Vec<Option<Place>>), Trouble> {
    let mut seen = HashSet::new();
    let (mut found, mut places) = (Vec::new(), Vec::new());
    // A stack: reversed, so that the answers have the order of the request.
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
        if found.len() == cancel::MOST {
            return Err(cancel::too_many(&job).into());
        }
        if verb.dependents {
            open.extend(dependents.iter().rev().cloned());
        }
        found.push(Named { job, state: place.map(|(_, _, state)| state), dependents });
        places.push(place);
    }
    Ok((found, places))
}

fn end(
    store: &mut Store,
    id: &JobId,
    (row, queue, from): Place,
    (by, reason): (&str, Option<&str>),
    now: i64,
) -> Result<JobState, Trouble> {
    let to = match from {
        JobState::Waiting | JobState::Delayed | JobState::Depends | JobState::Held => JobState::Canceled,
        JobState::Running => JobState::Canceling,
        JobState::Canceling | JobState::Canceled | JobState::Complete | JobState::Failed => return Ok(from),
    };
    let reason = reason.map(str::to_owned);
    history::note(store, row, now, Happened::Canceled { by: by.into(), reason: reason.clone() })?;
    let ended = to.has_ended().then_some(now);
    store
        .conn
        .prepare_cached(
            "UPDATE job SET state = ?2, due_at = NULL, not_before = NULL, ended_at = ?3, failure_group = NULL
             WHERE id = ?1",
        )?
        .execute(params![row, to as i64, ended])?;
    store.moved(queue, Some(from), to);
    let news = store.news_of(id, queue, What::of_end(to), to)?;
    store.effects.news.extend(news.map(|news| PublishedEvent { why: reason, ..news }));
    if to.has_ended() {
        store.ended(id.clone(), to);
    } else if let Some(fence) = store.leases.get(id) {
        // It runs in this process. Another one finds it when the bell rings (`heard.rs`).
        store.effects.revoked.push((id.clone(), *fence, Revocation::Canceled));
    }
    Ok(to)
}
