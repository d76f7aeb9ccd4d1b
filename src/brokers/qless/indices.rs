//! The indices that have the jobs of a filter, looked at some at a time: a call for those of ten thousand queues would
//! hold up all other clients of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use redis::{Cmd, Value};

use super::ask::asked;
use super::reply::{array, number, parts, text};
use super::shared::Shared;
use broker::Error;
use model::{Filter, JobState, QueueName};

/// A key, a queue's name or a job's id: other programs take any bytes.
pub(super) type Raw = Vec<u8>;

/// Limit of the keys that one call reads.
const KEYS: usize = 1_000;
/// Limit of the ids that one call reads.
const IDS: u32 = 1_000;
/// Limit of the jobs gathered from their indices. If there are more, a look goes through all jobs.
const FEW: u64 = 2_000;

/// Which jobs of other programs a look adds to the index of all jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Adopts {
    /// Jobs that the filter may match.
    All,
    /// The same, but none if the index of all jobs has as many entries as there are jobs.
    IfMore,
    /// None: an earlier look has done it.
    None,
}

/// The jobs that a filter may match: any, or some, by their places in the index of all jobs.
pub(super) enum Among {
    Any,
    Few(BTreeMap<i64, Raw>),
}

impl Among {
    /// Writes the next ones behind a place, `rows` at most, as the script takes them.
    pub(super) fn write(&self, cmd: &mut Cmd, behind: i64, rows: usize, is_up: bool) {
        let Among::Few(jobs) = self else {
            cmd.arg("any");
            return;
        };
        let next: Vec<_> = if is_up {
            jobs.range((Bound::Excluded(behind), Bound::Unbounded)).take(rows).collect()
        } else {
            jobs.range(..behind).rev().take(rows).collect()
        };
        cmd.arg(next.len());
        next.into_iter().for_each(|(place, job)| _ = cmd.arg(*place).arg(job));
    }
}

fn raw(value: Value) -> Option<Raw> {
    if let Value::BulkString(bytes) = value { Some(bytes) } else { None }
}

/// All names of a kind, some in each call; with `ended` each with its value. A name that is there all the time is among
/// them, perhaps twice.
pub(super) async fn scan(redis: &Shared, what: &str) -> Result<Vec<Value>, Error> {
    let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let answer = asked(redis, "taskvisor.scan", |cmd| {
            cmd.arg(what).arg(&cursor);
        });
        let [next, some] = parts(answer.await?)?;
        found.extend(array(some)?);
        cursor = text(&next).unwrap_or_default();
        if matches!(cursor.as_str(), "" | "0") {
            return Ok(found);
        }
    }
}

/// The names of all queues.
pub(super) async fn queues(redis: &Shared) -> Result<BTreeSet<Raw>, Error> {
    // A scan of a sorted set gives each member with its score.
    Ok(scan(redis, "queues").await?.into_iter().step_by(2).filter_map(raw).collect())
}

/// The groups of failed jobs.
pub(super) async fn groups(redis: &Shared) -> Result<BTreeSet<Raw>, Error> {
    Ok(scan(redis, "failures").await?.into_iter().filter_map(raw).collect())
}

/// How the keys of a queue end that have its jobs of a state.
fn endings(state: JobState) -> &'static [&'static str] {
    match state {
        JobState::Waiting => &["-work", "-throttled"],
        JobState::Delayed => &["-scheduled"],
        JobState::Depends => &["-depends"],
        JobState::Running | JobState::Canceling => &["-locks"],
        JobState::Complete | JobState::Failed | JobState::Held | JobState::Canceled => &[],
    }
}

/// The key that has the jobs of a state, whatever their queue; failed ones have one for each group.
fn of_ended(state: JobState) -> Option<&'static str> {
    match state {
        JobState::Complete => Some("ql:completed"),
        JobState::Held => Some("ql:f:held"),
        JobState::Canceled => Some("ql:taskvisor:canceled"),
        JobState::Waiting | JobState::Delayed | JobState::Depends => None,
        JobState::Running | JobState::Canceling | JobState::Failed => None,
    }
}

/// Whether indices have fewer than all jobs of which the filter may want some.
fn has_fewer(filter: &Filter) -> bool {
    !filter.states.is_empty() || of_one(filter).is_some()
}

/// The keys that have all jobs of a tag, a group, or those that are followed.
fn of_one(filter: &Filter) -> Option<Vec<Raw>> {
    if let Some(tag) = filter.tag.as_deref().filter(|tag| !tag.is_empty()) {
        return Some(vec![format!("ql:t:{tag}").into()]);
    }
    // Held jobs of all groups share one key.
    if let Some(group) = &filter.group {
        return Some(vec![format!("ql:f:{group}").into(), "ql:f:held".into()]);
    }
    filter.tracked.then(|| vec!["ql:tracked".into()])
}

/// The keys of the indices, as many for each call as it may look at. Those of a queue are looked at together, and those
/// of ended jobs at the end where jobs are gathered: a job that goes on meanwhile is met.
async fn indices(redis: &Shared, filter: &Filter) -> Result<Vec<Vec<Raw>>, Error> {
    if let Some(keys) = of_one(filter) {
        return Ok(vec![keys]);
    }
    let states = if filter.states.is_empty() { &JobState::ALL[..] } else { &filter.states };
    let endings: BTreeSet<&str> = states.iter().flat_map(|state| endings(*state)).copied().collect();
    let queues = match &filter.queue {
        _ if endings.is_empty() => BTreeSet::new(),
        Some(queue) => BTreeSet::from([QueueName::as_str(queue).into()]),
        None => queues(redis).await?,
    };
    let of_queue = |queue: Raw| -> Vec<Raw> {
        endings.iter().map(|end| [b"ql:q:", &*queue, end.as_bytes()].concat()).collect()
    };
    let mut ended: BTreeSet<Raw> =
        states.iter().filter_map(|state| of_ended(*state)).map(Into::into).collect();
    if states.contains(&JobState::Failed) {
        ended.extend(groups(redis).await?.into_iter().map(|group| [b"ql:f:", &*group].concat()));
    }
    let queues: Vec<Vec<Raw>> = queues.into_iter().map(of_queue).collect();
    let ended: Vec<Vec<Raw>> = ended.into_iter().map(|key| vec![key]).collect();
    let all = if has_fewer(filter) { [queues, ended] } else { [ended, queues] };
    let mut calls: Vec<Vec<Raw>> = vec![Vec::new()];
    for keys in all.into_iter().flatten() {
        match calls.last_mut().filter(|call| call.len() + keys.len() <= KEYS) {
            Some(call) => call.extend(keys),
            None => calls.push(keys),
        }
    }
    Ok(calls)
}

/// Whether the indices have more entries than this; `None` is as many as the index of all jobs has.
async fn are_more(redis: &Shared, calls: &[Vec<Raw>], most: Option<u64>) -> Result<bool, Error> {
    let mut jobs = 0;
    for keys in calls {
        let answer = asked(redis, "taskvisor.sizes", |cmd| {
            cmd.arg(keys);
        });
        let [some, places]: [Value; 2] = parts(answer.await?)?;
        jobs += number::<u64>(&some);
        if jobs > most.unwrap_or_else(|| number(&places)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Looks for the jobs that a filter may match, and adopts those of other programs.
pub(super) async fn look(redis: &Shared, filter: &Filter, adopts: Adopts) -> Result<Among, Error> {
    let has_fewer = has_fewer(filter);
    if !has_fewer && adopts == Adopts::None {
        return Ok(Among::Any);
    }
    let calls = indices(redis, filter).await?;
    let is_enough = match adopts {
        Adopts::None => are_more(redis, &calls, Some(FEW)).await?,
        Adopts::IfMore if !has_fewer && filter.queue.is_none() => !are_more(redis, &calls, None).await?,
        Adopts::IfMore | Adopts::All => false,
    };
    if is_enough {
        return Ok(Among::Any);
    }
    let mut few = has_fewer.then(BTreeMap::new);
    for keys in calls {
        // Lua, which counts these keys, begins with 1.
        let (mut key, mut after) = (1, Raw::new());
        while key > 0 {
            let answer = asked(redis, "taskvisor.adopt", |cmd| {
                cmd.arg(key).arg(&after).arg(IDS).arg(u8::from(few.is_some())).arg(&keys);
            });
            let [next, last, met]: [Value; 3] = parts(answer.await?)?;
            (key, after) = (number::<u32>(&next), raw(last).unwrap_or_default());
            let mut met = array(met)?.into_iter();
            while let (Some(place), Some(job)) = (met.next(), met.next()) {
                let (Some(found), Some(job)) = (&mut few, raw(job)) else { continue };
                found.insert(number::<f64>(&place) as i64, job);
            }
            // With more the page goes through all jobs; the walk over the indices goes on to adopt the rest.
            few = few.filter(|found| found.len() as u64 <= FEW);
        }
    }
    Ok(few.map_or(Among::Any, Among::Few))
}
