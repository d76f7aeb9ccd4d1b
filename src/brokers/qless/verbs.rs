//! Carries out the verbs, one line each.

use std::collections::{BTreeMap, HashMap, HashSet};

use redis::Value;

use super::ask::{LOOKS, asked, line, refused, retried};
use super::reply::{self, number, parts, text};
use super::shared::Shared;
use super::{classes, edits, failures, fleet, lists, options, qless_history, queues, recur};
use broker::Error;
use common::cancel::{self, Named};
use model::verb::{Answer, Cancel, Done, Each, Fate, Number, Refusal, Verb};
use model::{Happened, JobId, JobRecord, JobState, Need};

/// Carries out a verb, except for a list: that one is made page by page.
pub(super) async fn ask(redis: &Shared, verb: Verb, by: String) -> Result<Answer, Error> {
    Ok(match verb {
        Verb::List(_) => return Err(Error::Failed("a list is made page by page".into())),
        Verb::Get(it) => Answer::Get(get(redis, &it.job).await?),
        Verb::Before(it) => {
            let count = asked(redis, "taskvisor.before", |cmd| {
                cmd.arg(it.job.as_str());
            })
            .await?;
            Answer::Before(Number { count: number(&count) })
        }
        Verb::FindJobs(it) => Answer::FindJobs(lists::find(redis, &it.prefix).await?),
        Verb::Cancel(it) => Answer::Cancel(end(redis, &it, &by).await?),
        Verb::Retry(it) => Answer::Retry(retry(redis, &it.job, &by).await?),
        Verb::DependOn(it) => Answer::DependOn(edits::depend_on(redis, &it, &by).await?),
        Verb::DependOff(it) => Answer::DependOff(edits::depend_off(redis, &it, &by).await?),
        Verb::Prioritize(it) => Answer::Prioritize(edits::prioritize(redis, &it, &by).await?),
        Verb::Tag(it) => Answer::Tag(edits::tag(redis, &it, &by).await?),
        Verb::Track(it) => Answer::Track(edits::track(redis, &it.job, true).await?),
        Verb::Untrack(it) => Answer::Untrack(edits::track(redis, &it.job, false).await?),
        Verb::SetData(it) => Answer::SetData(edits::set_data(redis, &it).await?),
        Verb::Discard(it) => Answer::Discard(edits::discard(redis, &it).await?),
        Verb::Failed(_) => Answer::Failed(failures::groups(redis).await?),
        Verb::Bulk(it) => Answer::Bulk(failures::sweep(redis, &it, &by).await?),
        Verb::ShowFleet(it) => Answer::ShowFleet(fleet::show(redis, it).await?),
        Verb::Stats(it) => Answer::Stats(queues::stats(redis, &it).await?),
        Verb::ClassStats(it) => Answer::ClassStats(classes::stats(redis, &it).await?),
        Verb::Forget(it) => Answer::Forget(queues::forget(redis, &it, &by).await?),
        Verb::ShowOptions(_) => Answer::ShowOptions(options::show(redis).await?),
        Verb::SetOption(it) => Answer::SetOption(options::set(redis, &it).await?),
        Verb::UnsetOption(it) => Answer::UnsetOption(options::unset(redis, &it).await?),
        Verb::LoadOptions(it) => Answer::LoadOptions(options::load(redis, &it).await?),
        Verb::Queues(_) => Answer::Queues(queues::counts(redis).await?),
        Verb::Pause(it) => {
            let reason = it.reason.as_deref().unwrap_or_default();
            if let Some(fault) = it.fault() {
                return Err(Error::Refused(fault));
            }
            let paused = asked(redis, "taskvisor.pause", |cmd| {
                cmd.arg(it.queue.as_str()).arg(&by).arg(reason);
            });
            Answer::Pause(paused.await.map(done)?)
        }
        Verb::Resume(it) => {
            let resumed = asked(redis, "taskvisor.resume", |cmd| {
                cmd.arg(it.queue.as_str());
            });
            Answer::Resume(resumed.await.map(done)?)
        }
        Verb::ListRecurring(_) => Answer::ListRecurring(recur::list(redis).await?),
        Verb::ShowRecurring(it) => Answer::ShowRecurring(recur::show(redis, &it.name).await?),
        Verb::PutRecurring(it) => Answer::PutRecurring(recur::put(redis, &it, &by).await?),
        Verb::PauseRecurring(it) => Answer::PauseRecurring(recur::pause(redis, &it.name, &by).await?),
        Verb::ResumeRecurring(it) => Answer::ResumeRecurring(recur::resume(redis, &it.name).await?),
        Verb::RunRecurring(it) => Answer::RunRecurring(recur::run(redis, &it.name, &by).await?),
        Verb::RemoveRecurring(it) => Answer::RemoveRecurring(recur::remove(redis, &it.name).await?),
    })
}

fn done(_: Value) -> Done {
    Done {}
}

async fn get(redis: &Shared, id: &JobId) -> Result<JobRecord, Error> {
    let answer = asked(redis, "taskvisor.get", |cmd| {
        cmd.arg(id.as_str()).arg(reply::RECORD.len() + reply::WHOLE.len());
        for name in reply::RECORD.iter().chain(&reply::WHOLE) {
            cmd.arg(*name);
        }
    });
    let [values, tracked, needs, needed_by, told] = parts(answer.await?)?;
    let told = reply::array(told)?;
    let first = told.first().unwrap_or(&Value::Nil);
    let mut record = reply::record(id, &reply::array(values)?, number::<u8>(&tracked) == 1, first)?;
    qless_history::add(&mut record, &told);
    let mut needs = reply::array(needs)?
        .into_iter()
        .map(|need| {
            let [job, state, order] = parts(need)?;
            let state = text(&state).and_then(|state| state.parse().ok()).unwrap_or(JobState::Waiting);
            let order = text(&order).and_then(|order| order.parse().ok()).unwrap_or(0.0);
            Ok((order, Need { job: text(&job).unwrap_or_default().into(), state }))
        })
        .collect::<Result<Vec<(f64, _)>, Error>>()?;
    // A set of Redis has no order of its own.
    needs.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let needs = needs.into_iter().map(|(_, need)| need).collect();
    let needed_by = reply::array(needed_by)?.iter().filter_map(text).map(Into::into).collect();
    Ok(JobRecord { needs, needed_by, ..record })
}

/// Puts an ended job back to waiting.
async fn retry(redis: &Shared, id: &JobId, by: &str) -> Result<Done, Error> {
    let answer = redis.call("retry a job in", "taskvisor.retry", |cmd, offset| {
        cmd.arg(id.as_str()).arg(retried(offset.millis(redis.link.now()), by));
    });
    reply::unless_refused(answer.await?, |words| refused("retried", words)).map(done)
}

async fn end(redis: &Shared, verb: &Cancel, by: &str) -> Result<Vec<Each>, Error> {
    if let Some(fault) = verb.fault() {
        return Err(Error::Refused(fault));
    }
    for _ in 0..LOOKS {
        if let Some(all) = try_end(redis, verb, by).await? {
            return Ok(all);
        }
    }
    Err(Error::Failed("jobs that depend on those to be canceled keep coming: try again".into()))
}

async fn try_end(redis: &Shared, verb: &Cancel, by: &str) -> Result<Option<Vec<Each>>, Error> {
    let named = named(redis, verb).await?;
    let refused = cancel::refused(&named);
    let ending: Vec<&JobId> = named
        .iter()
        .filter(|one| one.state.is_some() && !refused.contains_key(&one.job))
        .map(|one| &one.job)
        .collect();
    let answer = redis.call("cancel jobs in", "taskvisor.cancel", |cmd, offset| {
        let at = offset.millis(redis.link.now());
        let canceled = Happened::Canceled { by: by.into(), reason: verb.reason.clone() };
        cmd.arg(line(canceled, at)).arg(verb.reason.as_deref().unwrap_or_default()).arg(ending.len());
        for job in &ending {
            cmd.arg(job.as_str());
        }
    });
    let answer = answer.await?;
    if matches!(&answer, Value::Array(words) if words.first().and_then(text).as_deref() == Some("no")) {
        // Since the look jobs have come that depend on one of these.
        return Ok(None);
    }
    let mut states: BTreeMap<JobId, Option<JobState>> = BTreeMap::new();
    let mut told: BTreeMap<JobId, String> = BTreeMap::new();
    for (job, mut ended) in ending.into_iter().zip(reply::array(answer)?) {
        if matches!(ended, Value::Array(_)) {
            let [state, worker] = parts(ended)?;
            told.insert(job.clone(), text(&worker).unwrap_or_default());
            ended = state;
        }
        let state = text(&ended).and_then(|state| state.parse().ok());
        states.insert(job.clone(), state);
    }
    let fate = |one: &Named| match (states.get(&one.job), refused.get(&one.job)) {
        (Some(Some(state)), _) => Fate::State(*state),
        (_, Some(refusal)) => Fate::Refused(refusal.clone()),
        (_, None) => Fate::Refused(Refusal::NoJob),
    };
    let each =
        |one: &Named| Each { job: one.job.clone(), fate: fate(one), told: told.get(&one.job).cloned() };
    Ok(Some(named.iter().map(each).collect()))
}

/// The jobs that were named, each once; with `dependents` also those that wait for them, and so on.
async fn named(redis: &Shared, verb: &Cancel) -> Result<Vec<Named>, Error> {
    let mut known = looked_at(redis, verb).await?;
    // The last one is taken first: reversed, they come in the order of the request.
    let mut open: Vec<JobId> = verb.jobs.iter().rev().cloned().collect();
    let mut found = Vec::with_capacity(known.len());
    while let Some(job) = open.pop() {
        let Some((state, dependents)) = known.remove(&job) else { continue };
        if found.len() == cancel::MOST {
            return Err(cancel::too_many(&job));
        }
        if verb.dependents {
            open.extend(dependents.iter().rev().cloned());
        }
        found.push(Named { job, state, dependents });
    }
    Ok(found)
}

type LookedAt = HashMap<JobId, (Option<JobState>, Vec<JobId>)>;

/// The state of each job, and which jobs wait for it.
async fn looked_at(redis: &Shared, verb: &Cancel) -> Result<LookedAt, Error> {
    let mut known = LookedAt::new();
    let mut open: Vec<JobId> = verb.jobs.clone();
    // One request for each level of dependents.
    while !open.is_empty() {
        let answer = asked(redis, "taskvisor.looked_at", |cmd| {
            cmd.arg(open.len());
            for job in &open {
                cmd.arg(job.as_str());
            }
        });
        let (answers, mut next) = (reply::array(answer.await?)?, Vec::new());
        for (job, looked_at) in open.drain(..).zip(answers) {
            let [state, dependents] = parts(looked_at)?;
            let state = text(&state).and_then(|state| state.parse().ok());
            let dependents: Vec<JobId> =
                reply::array(dependents)?.iter().filter_map(text).map(Into::into).collect();
            next.extend(dependents.iter().filter(|_| verb.dependents).cloned());
            known.insert(job, (state, dependents));
        }
        let mut seen = HashSet::new();
        next.retain(|job| !known.contains_key(job) && seen.insert(job.clone()));
        open = next;
    }
    Ok(known)
}

pub(super) async fn state(redis: &Shared, id: &JobId) -> Result<JobState, Error> {
    let state = asked(redis, "taskvisor.state", |cmd| {
        cmd.arg(id.as_str());
    });
    text(&state.await?).and_then(|state| state.parse().ok()).ok_or_else(|| reply::odd("a state"))
}
