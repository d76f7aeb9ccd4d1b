//! Applies verdicts: jobs end, or go back.

use rusqlite::{OptionalExtension, params};

use super::columns::state;
use super::gathered::Figures;
use super::history::{self, End};
use super::store::Store;
use super::trouble::Trouble;
use super::{advance, needs, unbegun, unreadable};
use broker::{Error, Settling};
use common::stored;
use model::verb::ClassSums;
use model::{Count, Failure, Forensics, Instant, JobState, Millis, Settlement, Verdict, What, millis_up};

pub(super) fn settle(
    store: &mut Store,
    settlements: &[Settlement],
    now: Instant,
) -> Result<Vec<Settling>, Trouble> {
    let now = store.millis(now);
    let settle = |settlement| {
        // One job whose row cannot be read must not fail the verdicts of the others.
        settle_one(store, settlement, now).or_else(|trouble| match unreadable::fault(&trouble) {
            Some(why) => {
                let job = &settlement.job;
                Ok(Settling::Failed(Error::Failed(format!("cannot settle job '{job}': {why}"))))
            }
            None => Err(trouble),
        })
    };
    settlements.iter().map(settle).collect()
}

/// What a verdict changes about a job.
#[derive(Default)]
struct Change<'a> {
    state: Option<JobState>,
    due: Option<i64>,
    unspent: bool,
    counts: Option<Count>,
    result: Option<&'a str>,
    failure: Option<&'a Failure>,
}

impl Change<'_> {
    /// Whether the job's history gets the attempt. For a complete job, the job's own row describes the attempt; one
    /// released without a count is not kept.
    fn is_kept(&self, to: JobState) -> bool {
        match to {
            JobState::Complete => false,
            JobState::Failed | JobState::Held | JobState::Canceled => true,
            JobState::Waiting
            | JobState::Delayed
            | JobState::Depends
            | JobState::Running
            | JobState::Canceling => !self.unspent || self.counts.is_some(),
        }
    }
}

fn settle_one(store: &mut Store, settlement: &Settlement, now: i64) -> Result<Settling, Trouble> {
    let lease = store
        .conn
        .prepare_cached(
            "SELECT id, queue, state, started_at, class FROM job WHERE jid = ?1 AND fence = ?2 AND state BETWEEN 2 AND 3",
        )?
        .query_row(params![settlement.job.as_str(), settlement.fence.0], |row| {
            // A start that cannot be read must not fail the verdict: it serves statistics only.
            let started = row.get::<_, Option<i64>>(3).unwrap_or_default();
            Ok((row.get(0)?, row.get(1)?, state(row.get(2)?), started, row.get::<_, String>(4)?))
        })
        .optional()?;
    // Its lease is another's by now, or it has ended: a verdict counts once.
    let Some((row, queue, from, started, class)) = lease else { return Ok(Settling::NotOurs) };
    let (mut held, ran) = (None, ran(settlement, started, now));
    if let Verdict::Complete { result, next: Some(next) } = &settlement.verdict
        && from == JobState::Running
    {
        held = advance::fault(store, row, settlement, next)?.map(|failure| Verdict::Hold { failure });
        if held.is_none() {
            store.effects.figures.on(queue, now).run.add(ran);
            count_class(store, &class, settlement, (JobState::Complete, ran), now);
            advance::go_on(store, (row, queue), settlement, result.as_deref(), next, now)?;
            store.effects.given_up.push(settlement.job.clone());
            return Ok(Settling::Settled(JobState::Complete));
        }
    }
    let change = change(held.as_ref().unwrap_or(&settlement.verdict), from, now);
    let to = change.state.unwrap_or(JobState::Waiting);
    if change.is_kept(to) {
        let (failure, forensics) = (change.failure, settlement.forensics.as_ref());
        let end =
            End { crashed: settlement.crashed, counts: change.counts, failure, forensics, ..End::new(to) };
        history::attempt(store, row, now, End { due: change.due, ..end })?;
    }
    write(store, row, to, &change, settlement, now)?;
    store.moved(queue, Some(from), to);
    store.happened(&settlement.job, queue, What::of_end(to), to)?;
    count(store.effects.figures.on(queue, now), &settlement.verdict, to, ran);
    count_class(store, &class, settlement, (to, ran), now);
    if to == JobState::Complete {
        needs::release(store, row, now)?;
    }
    store.effects.given_up.push(settlement.job.clone());
    if let Some(due) = change.due {
        store.expect(due);
    }
    if to.has_ended() {
        store.ended(settlement.job.clone(), to);
    }
    Ok(Settling::Settled(to))
}

/// How long a job has run, in milliseconds: if the supervisor says so, without its wait to run alone or for its worker.
fn ran(settlement: &Settlement, started: Option<i64>, now: i64) -> i64 {
    let told = settlement.forensics.as_ref().map(|left| left.ran.as_millis()).filter(|ran| *ran > 0);
    told.and_then(|ran| i64::try_from(ran).ok()).unwrap_or(now - started.unwrap_or(now))
}

fn count_class(store: &mut Store, class: &str, settlement: &Settlement, end: (JobState, i64), now: i64) {
    if let Some(sums) = ClassSums::of(settlement, end.0, end.1) {
        store.effects.figures.add_to_class(class, &sums, now);
    }
}

/// Adds the end of an attempt to the statistics of the day.
fn count(day: &mut Figures, verdict: &Verdict, to: JobState, ran: i64) {
    match to {
        JobState::Complete => day.run.add(ran),
        JobState::Failed => {
            day.failures += 1;
            day.failed += 1;
        }
        JobState::Waiting | JobState::Delayed => {
            day.retries += i64::from(matches!(verdict, Verdict::Retry { .. }));
        }
        JobState::Depends | JobState::Running | JobState::Canceling | JobState::Held | JobState::Canceled => {
        }
    }
}

/// The change for a verdict. A job being canceled ends canceled, unless it completed before its kill.
fn change(verdict: &Verdict, from: JobState, now: i64) -> Change<'_> {
    let later = |after| {
        let due = Some(now.saturating_add(millis_up(after))).filter(|due| *due > now);
        (Some(if due.is_some() { JobState::Delayed } else { JobState::Waiting }), due)
    };
    let change = match verdict {
        Verdict::Complete { result, next: None } => {
            let result = result.as_deref();
            return Change { state: Some(JobState::Complete), result, ..Change::default() };
        }
        // It was not done, so the cancel came in time.
        Verdict::Complete { next: Some(_), .. } => {
            Change { state: Some(JobState::Canceled), ..Change::default() }
        }
        Verdict::Retry { after, failure } => {
            let (state, due) = later(*after);
            Change { state, due, failure: Some(failure), ..Change::default() }
        }
        Verdict::Fail { failure } => {
            Change { state: Some(JobState::Failed), failure: Some(failure), ..Change::default() }
        }
        Verdict::Release { after, counts } => {
            let (state, due) = later(*after);
            Change { state, due, unspent: true, counts: *counts, ..Change::default() }
        }
        Verdict::Hold { failure } => {
            Change { state: Some(JobState::Held), failure: Some(failure), ..Change::default() }
        }
        Verdict::Canceled => Change { state: Some(JobState::Canceled), ..Change::default() },
    };
    if from == JobState::Canceling {
        Change { state: Some(JobState::Canceled), due: None, ..change }
    } else {
        change
    }
}

fn write(
    store: &mut Store,
    row: i64,
    to: JobState,
    change: &Change<'_>,
    settlement: &Settlement,
    now: i64,
) -> Result<(), Trouble> {
    let failure = change.failure.map(stored::to_json).transpose()?;
    let stamped = |forensics: &Forensics| Forensics { at: Some(Millis(now)), ..forensics.clone() };
    let forensics = settlement.forensics.as_ref().map(|left| stored::to_json(&stamped(left))).transpose()?;
    store
        .conn
        .prepare_cached(
            "UPDATE job SET state = ?2, due_at = ?3, expires_at = NULL, ended_at = ?4,
             attempt = max(attempt - ?5, 0), interrupted = interrupted + ?6, unknown = unknown + ?11, crashes = crashes + ?7, result = ?8,
             failure = CASE ?2 WHEN 4 THEN NULL ELSE coalesce(?9, failure) END,
             forensics = coalesce(?10, forensics), failure_group = ?12, ready_at = ?13 WHERE id = ?1",
        )?
        .execute(params![
            row,
            to as i64,
            change.due,
            to.has_ended().then_some(now),
            change.unspent,
            change.counts == Some(Count::Interrupted),
            settlement.crashed,
            change.result,
            failure,
            forensics,
            change.counts == Some(Count::UnknownClass),
            group(to, change.failure),
            (to == JobState::Waiting).then_some(now),
        ])?;
    if change.unspent { unbegun::given_back(store, row, settlement.has_begun()) } else { Ok(()) }
}

/// The failure group by which a failed or held job is found.
pub(super) fn group(to: JobState, failure: Option<&Failure>) -> Option<&str> {
    failure.filter(|_| matches!(to, JobState::Failed | JobState::Held)).map(|failure| failure.group.as_str())
}
