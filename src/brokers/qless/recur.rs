//! Recurring jobs as people see and change them. `occur.rs` fires them. Recurring jobs of qless are shown and can be
//! removed; only the script fires those.

use std::time::Duration;

use redis::Value;

use super::ask::LOOKS;
use super::reply::{self, array, json, number, odd, parts, some_number, text};
use super::shared::Shared;
use super::{edits, put as jobs};
use broker::Error;
use common::{recurring, stored};
use model::verb::Done;
use model::{
    Bytes, JobId, LatestJob, Millis, NewJob, Overlap, Pause, Payload, Recurring, RecurringRecord, Retry,
    Schedule,
};
use redis_link::Link;

/// A recurring job of taskvisor, as stored.
pub(super) struct Kept {
    pub(super) record: RecurringRecord,
    /// Changes whenever the next occurrence changes.
    pub(super) version: String,
}

/// All recurring jobs, in no order.
pub(super) struct All {
    pub(super) ours: Vec<Kept>,
    of_qless: Vec<RecurringRecord>,
}

/// Reads what a recurring job puts, and when.
pub(super) fn read(name: &str, spec: &Value) -> Result<Recurring, Error> {
    let spec = text(spec).unwrap_or_default();
    stored::from_json(spec.as_bytes()).map_err(|error| {
        let hint = "another version of taskvisor, or another program, has written it; put it again";
        Error::Failed(format!("the recurring job '{name}' cannot be read: {error}: {hint}"))
    })
}

pub(super) async fn all(link: &Link) -> Result<All, Error> {
    let answer = link.call("list what recurs in", "taskvisor.recur.list", link.now(), |_, _| {});
    let [ours, of_qless] = parts(answer.await?)?;
    // A recurring job that cannot be read must not hide the others.
    let skip = |error: &Error| tracing::warn!(%error, "a recurring job is passed over");
    Ok(All {
        ours: array(ours)?.into_iter().filter_map(|one| kept(one).inspect_err(skip).ok()).collect(),
        of_qless: array(of_qless)?.into_iter().filter_map(|one| theirs(one).inspect_err(skip).ok()).collect(),
    })
}

pub(super) async fn list(redis: &Shared) -> Result<Vec<RecurringRecord>, Error> {
    let All { ours, of_qless } = all(&redis.link).await?;
    let ours = ours.into_iter().map(|one| with_trouble(redis, one.record));
    let mut records: Vec<_> = ours.chain(of_qless).collect();
    records.sort_by(|one, other| one.recurring.name.cmp(&other.recurring.name));
    Ok(records)
}

pub(super) async fn show(redis: &Shared, name: &str) -> Result<RecurringRecord, Error> {
    Ok(recurring::with_then(match look(redis, name).await? {
        Found::Ours(kept) => with_trouble(redis, kept.record),
        Found::OfQless(record) => record,
    }))
}

/// Adds why it cannot be put, if this process has tried.
fn with_trouble(redis: &Shared, record: RecurringRecord) -> RecurringRecord {
    let stuck = redis.complaints.latest_for(recurring::NOT_PUT, &record.recurring.name);
    RecurringRecord { stuck, ..record }
}

enum Found {
    Ours(Kept),
    OfQless(RecurringRecord),
}

async fn look(redis: &Shared, name: &str) -> Result<Found, Error> {
    let answer = redis.call("look at what recurs in", "taskvisor.recur.show", |cmd, _| {
        cmd.arg(name);
    });
    let [ours, of_qless] = parts(reply::unless_refused(answer.await?, |_| None)?)?;
    Ok(if ours == Value::Nil { Found::OfQless(theirs(of_qless)?) } else { Found::Ours(kept(ours)?) })
}

pub(super) async fn put(redis: &Shared, recurring: &Recurring, by: &str) -> Result<RecurringRecord, Error> {
    let spec = recurring::text(recurring)?;
    let Recurring { name, schedule, job, .. } = recurring;
    let as_kept = stored::to_json(schedule).unwrap_or_default();
    let now = redis.link.now();
    let answer = redis.link.call("put a recurring job into", "taskvisor.recur.put", now, |cmd, offset| {
        // Its time zone exists: that was checked before.
        let first = recurring::first(schedule, offset.millis(now).0).ok().flatten();
        cmd.arg(name).arg(as_kept).arg(spec).arg(job.queue.as_str()).arg(by);
        cmd.arg(first.map_or_else(String::new, |first| first.to_string()));
    });
    let answer = reply::unless_refused(answer.await?, |words| {
        let why = "a client of qless has one of that name; take another, or remove that one first";
        let is_taken = words.first().is_some_and(|kind| kind == "of_qless");
        is_taken.then(|| Error::Refused(format!("cannot put the recurring job '{name}': {why}")))
    })?;
    redis.recurs.look_now();
    Ok(recurring::with_then(kept(answer)?.record))
}

/// Pauses it: it does not fire until it is resumed, and stays due meanwhile.
pub(super) async fn pause(redis: &Shared, name: &str, by: &str) -> Result<Done, Error> {
    asked(redis, "paused", "taskvisor.recur.pause", &[name, by]).await
}

/// Resumes it. Occurrences of the time between count as late, as if no supervisor had run.
pub(super) async fn resume(redis: &Shared, name: &str) -> Result<Done, Error> {
    let done = asked(redis, "resumed", "taskvisor.recur.resume", &[name]).await?;
    redis.recurs.look_now();
    Ok(done)
}

pub(super) async fn remove(redis: &Shared, name: &str) -> Result<Done, Error> {
    asked(redis, "removed", "taskvisor.recur.remove", &[name]).await
}

async fn asked(redis: &Shared, verb: &str, command: &str, args: &[&str]) -> Result<Done, Error> {
    let answer = redis.call("change a recurring job in", command, |cmd, _| {
        cmd.arg(args);
    });
    reply::unless_refused(answer.await?, |words| of_qless(words, verb)).map(|_| Done {})
}

/// The error if a recurring job belongs to qless.
fn of_qless(words: &[String], verb: &str) -> Option<Error> {
    let [kind, name] = words else { return None };
    (kind == "of_qless").then(|| not_ours(name, verb))
}

fn not_ours(name: &str, verb: &str) -> Error {
    let hint = "it can be shown and removed; pause its queue to have its jobs wait";
    Error::Refused(format!("the recurring job '{name}' is one of qless and cannot be {verb}: {hint}"))
}

/// Puts one of its jobs now, because a person asks for it.
pub(super) async fn run(redis: &Shared, name: &str, by: &str) -> Result<LatestJob, Error> {
    for _ in 0..LOOKS {
        let Found::Ours(Kept { record, version }) = look(redis, name).await? else {
            return Err(not_ours(name, "run"));
        };
        let job = &record.recurring.job;
        let answer = redis.call("put the job of a recurring one into", "taskvisor.recur.run", |cmd, _| {
            cmd.arg(name).arg(&version).arg(recurring::put_by(name, Some(by)));
            jobs::write_one(cmd, job, &JobId::from(""));
        });
        let answer = reply::unless_refused(answer.await?, |words| of_qless(words, "run"))?;
        // Without one its version has changed since the look: it may put another job now.
        if let Some(latest) = latest(answer)? {
            return Ok(latest);
        }
    }
    Err(Error::Failed(format!("the recurring job '{name}' is changed again and again: try again")))
}

/// Reads one of our recurring jobs as the script gives it.
fn kept(value: Value) -> Result<Kept, Error> {
    let [name, values] = parts(value)?;
    let [spec, put_at, put_by, next, count, skipped, missed, paused, version, last] = parts(values)?;
    Ok(Kept {
        record: RecurringRecord {
            recurring: read(&text(&name).unwrap_or_default(), &spec)?,
            put_at: Millis(number(&put_at)),
            put_by: text(&put_by).unwrap_or_default(),
            next_at: some_number(&next).map(Millis),
            then_at: Vec::new(),
            count: number(&count),
            skipped: number(&skipped),
            missed_at: some_number(&missed).map(Millis),
            stuck: None,
            latest: latest(last)?,
            paused: reply::kept::<Pause>(&paused),
        },
        version: text(&version).unwrap_or_default(),
    })
}

fn latest(value: Value) -> Result<Option<LatestJob>, Error> {
    if value == Value::Nil {
        return Ok(None);
    }
    let [id, state, at] = parts(value)?;
    let id = text(&id).unwrap_or_default().into();
    Ok(Some(LatestJob { id, state: edits::state_of(&state), at: Millis(number(&at)) }))
}

/// Reads a recurring job of qless, as closely as our fields can say: it catches up on what it missed, and it is not
/// known who put it.
fn theirs(value: Value) -> Result<RecurringRecord, Error> {
    let [name, values] = parts(value)?;
    let [queue, class, data, priority, tags, retries, interval, backlog, count, next, last] = parts(values)?;
    let seconds = |value: &Value| text(value).and_then(|text| text.parse::<f64>().ok());
    let interval = seconds(&interval)
        .and_then(|interval| Duration::try_from_secs_f64(interval).ok())
        .unwrap_or_default();
    if interval.is_zero() {
        return Err(odd("an interval"));
    }
    let data = if let Value::BulkString(bytes) = data { bytes } else { Vec::new() };
    let job = NewJob {
        priority: number(&priority),
        tags: json(&tags).unwrap_or_default(),
        retry: Some(Retry { retries: number(&retries), ..Retry::CLASS }),
        ..NewJob::new(
            text(&queue).unwrap_or_default().into(),
            text(&class).unwrap_or_default().into(),
            Payload::Data(Bytes(data)),
        )
    };
    let backlog = Some(number(&backlog)).filter(|most| *most > 0).unwrap_or(Recurring::BACKLOG_MAX);
    // Rounded up: the script does not fire it a moment before.
    let millis = |value: &Value| seconds(value).map(|seconds| Millis((seconds * 1000.0).ceil() as i64));
    let latest = array(last)?.try_into().ok().map(|[id, state, at]: [Value; 3]| LatestJob {
        id: text(&id).unwrap_or_default().into(),
        state: edits::state_of(&state),
        at: millis(&at).unwrap_or(Millis(0)),
    });
    Ok(RecurringRecord {
        recurring: Recurring {
            name: text(&name).unwrap_or_default(),
            schedule: Schedule::Every { interval, offset: Duration::ZERO },
            overlap: Overlap::Allow,
            catch_up: Recurring::CATCH_UP_MAX,
            backlog,
            job,
        },
        put_at: Millis(0),
        put_by: "another program".into(),
        next_at: millis(&next),
        then_at: Vec::new(),
        count: number(&count),
        skipped: 0,
        missed_at: None,
        stuck: None,
        latest,
        paused: None,
    })
}
