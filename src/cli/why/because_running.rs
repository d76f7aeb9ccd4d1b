//! The sentences of `why job` for a job that runs.

use std::time::Duration;

use crate::cli::record::alone;
use crate::cli::term::format::{between, counted};
use crate::cli::term::screen::{age, floods};
use model::{Happened, JobId, JobRecord, JobState, Millis, RunningJob, SlotStatus, Why};

/// What a running or canceling job does, and where.
pub(super) fn running(why: &Why, job: &JobRecord, now: Millis) -> Vec<String> {
    let here = alone::running(why, &job.id);
    let mut said = vec![match (&job.holder, alone::waiting(why, &job.id)) {
        (Some(holder), _) => held_elsewhere(holder, job, now),
        (None, Some(slot)) => {
            format!("It does not run: it is at slot {}, and begins alone when others have ended.", slot.slot)
        }
        (None, None) => has_run(job, here, now),
    }];
    let reason = here.and_then(|(_, run)| alone::reason(job, run));
    said.extend(reason.map(|reason| format!("It runs alone: {reason}.")));
    if let Some(end) = job.expires_at {
        let left = age(between(now, end));
        let often = match job.renewals {
            0 => String::new(),
            renewals => format!(", as it was {}", counted(renewals as usize, "time", "times")),
        };
        said.push(format!("Its lease ends in {left} unless it is extended{often}."));
    }
    if let Some((slot, run)) = here {
        let limit = run.time_limit.map(|limit| format!("It may run for {}.", age(limit)));
        let ending = run
            .ending
            .as_ref()
            .map(|why| format!("It is being ended: {why}; slot {} is {}.", slot.slot, slot.state.as_str()));
        let unkillable = undying(slot, &job.id);
        let stopped = run.stopped.map(|stopped| {
            let (slot, time) = (&slot.slot, age(stopped));
            format!("The process of slot {slot} has been stopped by a signal for {time}, and that counts towards no limit: kill -CONT lets it go on.")
        });
        let flood = run.flood.as_ref().map(|flood| format!("It {}.", floods(flood)));
        said.extend(limit.into_iter().chain(ending).chain(unkillable).chain(stopped).chain(flood));
    }
    said.extend(canceled_by(job).filter(|_| job.state == JobState::Canceling));
    said
}

/// What of a job does not die, and for how long, if the slot has something like that.
pub(crate) fn undying(slot: &SlotStatus, job: &JobId) -> Option<String> {
    let why = slot.why.as_ref().filter(|_| slot.has_unkillable(job))?;
    Some(format!("Something of it has not died for {}: {why}.", age(slot.age)))
}

/// For how long and in which worker it has run. A job that runs again alone does so in a later worker than that of its
/// record.
fn has_run(job: &JobRecord, here: Option<(&SlotStatus, &RunningJob)>, now: Millis) -> String {
    let (since, worker) = match here {
        Some((slot, run)) => (run.ran, Some(format!("{}#{}", slot.slot, slot.generation))),
        None => (
            job.started_at.map_or(Duration::ZERO, |from| between(from, now)),
            job.worker.as_ref().map(ToString::to_string),
        ),
    };
    let worker = worker.map(|worker| format!(" in worker {worker}")).unwrap_or_default();
    let of = job.instance.as_ref().map(|of| format!(" of {of}")).unwrap_or_default();
    format!("Attempt {} has run for {}{worker}{of}.", job.attempt, age(since))
}

/// Of another program's worker only its name is known, and since when it has the job.
fn held_elsewhere(holder: &str, job: &JobRecord, now: Millis) -> String {
    let since = job.started_at.map(|from| format!(" for {}", age(between(from, now)))).unwrap_or_default();
    format!("Worker {holder} of another program has had it{since}.")
}

/// The person or program that canceled it, and the reason, if one was given.
pub(super) fn canceled_by(job: &JobRecord) -> Option<String> {
    job.history.iter().rev().find_map(|entry| match &entry.what {
        Happened::Canceled { by, reason: Some(why) } => Some(format!("It was canceled by {by}: {why}")),
        Happened::Canceled { by, reason: None } => Some(format!("It was canceled by {by}.")),
        Happened::Attempt(_) | Happened::Retried { .. } => None,
        Happened::Edited { .. } | Happened::Advanced { .. } | Happened::Noted { .. } => None,
    })
}
