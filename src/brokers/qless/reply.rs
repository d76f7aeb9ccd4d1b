//! Turns replies of the script into values of this program.

use std::time::Duration;

use redis::Value;
use serde::de::DeserializeOwned;

use super::qless_history;
use broker::{Error, Renewal};
use common::stored::{self, Stored};
use model::{
    Bytes, Class, Exec, Fence, Job, JobId, JobRecord, JobState, Lease, Millis, Payload, QueueName, Retry,
};
pub(super) use redis_link::values::{array, json, number, odd, parts, some_number, text};

/// A value in the form in which it is stored.
pub(super) fn kept<T>(value: &Value) -> Option<T>
where
    Stored<T>: DeserializeOwned,
{
    stored::from_json(text(value)?.as_bytes()).ok()
}

/// Gives the error if the reply is a refusal; else the reply.
pub(super) fn unless_refused(
    value: Value,
    said: impl FnOnce(&[String]) -> Option<Error>,
) -> Result<Value, Error> {
    let Value::Array(values) = &value else { return Ok(value) };
    if values.first().and_then(text).as_deref() != Some("no") {
        return Ok(value);
    }
    let words: Vec<String> = values[1..].iter().map(|word| text(word).unwrap_or_default()).collect();
    let known = |words: &[String]| match words {
        [kind, id] if kind == "job" => Some(Error::NoJob(id.as_str().into())),
        [kind, queue] if kind == "queue" => Some(Error::NoQueue(queue.as_str().into())),
        [kind, name] if kind == "recurring" => Some(Error::NoRecurring(name.clone())),
        [kind, id] if kind == "exists" => Some(Error::Exists(id.as_str().into())),
        [kind, key, has] if kind == "kind" => Some(Error::NotAJob(key.clone(), has.clone())),
        [kind, id] if kind == "need" => Some(Error::NoneToNeed(id.as_str().into())),
        _ => None,
    };
    Err(said(&words).or_else(|| known(&words)).unwrap_or_else(|| odd("a refusal that is known")))
}

/// The fields of a job, in the order in which [`record`] takes them.
pub(super) const RECORD: [&str; 39] = [
    "jid",
    "klass",
    "queue",
    "from",
    "state",
    "canceling",
    "held",
    "priority",
    "tags",
    "attempt",
    "policy",
    "limit",
    "crashes",
    "interrupted",
    "unknown",
    "put_at",
    "put_by",
    "recurring",
    "spawned_from_jid",
    "due",
    "started",
    "ended",
    "instance",
    "life",
    "hold",
    "renewals",
    "renewed",
    "expires",
    "progress",
    "result",
    "why",
    "forensics",
    "retries",
    "remaining",
    "failure",
    "time",
    "worker",
    "held_by",
    "begin_within",
];
/// Additional fields at the end, for a single job.
pub(super) const WHOLE: [&str; 3] = ["data", "exec", "happened"];

/// The values of a job's fields, by name; a missing field is `Nil`.
struct Fields<'a>(&'a [Value]);

impl Fields<'_> {
    fn of(&self, name: &str) -> &Value {
        let place = RECORD.iter().chain(&WHOLE).position(|known| *known == name);
        place.and_then(|place| self.0.get(place)).unwrap_or(&Value::Nil)
    }

    fn text(&self, name: &str) -> Option<String> {
        text(self.of(name))
    }

    fn number<T: std::str::FromStr + Default>(&self, name: &str) -> T {
        number(self.of(name))
    }

    fn json<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        json(self.of(name))
    }

    fn kept<T>(&self, name: &str) -> Option<T>
    where
        Stored<T>: DeserializeOwned,
    {
        kept(self.of(name))
    }

    fn millis(&self, name: &str) -> Option<Millis> {
        some_number(self.of(name)).map(Millis)
    }

    /// A time given in seconds, as qless does.
    fn seconds(&self, name: &str) -> Option<Millis> {
        let seconds: f64 = self.text(name)?.parse().ok()?;
        Some(Millis((seconds * 1000.0) as i64))
    }
}

/// Makes a job from the fields of its hash and the first entry of its history. Jobs of other programs lack our fields.
pub(super) fn record(id: &JobId, values: &[Value], tracked: bool, first: &Value) -> Result<JobRecord, Error> {
    if values.len() < RECORD.len() {
        return Err(odd("a job's fields"));
    }
    let job = Fields(values);
    let is_held = job.text("held").as_deref() == Some("1");
    let state = state_of(job.text("state").as_deref(), job.text("canceling").is_some(), is_held);
    let queue = job.text("queue").filter(|queue| !queue.is_empty()).or_else(|| job.text("from"));
    // Another program that ends a job empties these fields: the history still has the queue.
    let queue = queue.or_else(|| qless_history::put_into(first));
    let spent = || job.number::<u32>("retries").saturating_sub(job.number("remaining"));
    let holder =
        job.text("worker").filter(|worker| state.is_leased() && job.text("held_by").as_ref() != Some(worker));
    // Our fields about a lease are of our own lease, unless another program holds the job: then its own field says when
    // it took the job.
    let is_ours = holder.is_none();
    let since = if is_ours { job.millis("started") } else { job.seconds("time") };
    let put = job.seconds("time").filter(|_| is_ours && since.is_none());
    let is_whole = values.len() > RECORD.len();
    Ok(JobRecord {
        id: id.clone(),
        queue: queue.unwrap_or_default().into(),
        class: job.text("klass").unwrap_or_default().into(),
        payload: is_whole.then(|| payload(job.of("data"), job.of("exec"))),
        title: None,
        state,
        priority: job.number("priority"),
        tags: job.json("tags").unwrap_or_default(),
        tracked,
        needs: Vec::new(),
        needed_by: Vec::new(),
        attempt: some_number(job.of("attempt")).unwrap_or_else(spent),
        retry: policy_of(job.of("policy"), job.of("retries"), job.of("attempt")),
        time_limit: some_number(job.of("limit")).map(Duration::from_nanos),
        crashes: job.number("crashes"),
        interrupted: job.number("interrupted"),
        unknown: job.number("unknown"),
        put_at: put_at(&job, first).or(put).unwrap_or(Millis(0)),
        dead_letter: None,
        put_by: job.text("put_by"),
        recurring: job.text("recurring").or_else(|| job.text("spawned_from_jid")),
        due_at: job.millis("due").filter(|_| matches!(state, JobState::Delayed | JobState::Depends)),
        begin_by: begin_by(&job, state),
        started_at: since,
        ended_at: job.millis("ended").filter(|_| state.has_ended()),
        // After the job's end this says where its output is.
        instance: job
            .text("instance")
            .filter(|_| is_ours && (state.is_leased() || state.has_ended()))
            .map(Into::into),
        worker: job.json("life").filter(|_| is_ours),
        fence: Fence(job.number("hold")),
        renewals: if is_ours { job.number("renewals") } else { 0 },
        renewed_at: job.millis("renewed").filter(|_| is_ours),
        holder,
        expires_at: job.seconds("expires").filter(|_| state.is_leased()),
        progress: job.kept("progress"),
        result: job.text("result"),
        // Other programs only know the field of qless.
        failure: job.kept("why").or_else(|| job.kept("failure")),
        forensics: job.kept("forensics"),
        history: job.text("happened").map_or_else(Vec::new, |lines| stored::entries(&lines)),
    })
}

/// When the job was put, by our own field or by its history.
fn put_at(job: &Fields<'_>, first: &Value) -> Option<Millis> {
    job.millis("put_at").or_else(|| qless_history::put_at(first))
}

/// By when the job is to begin, if it has not yet and is dropped else.
fn begin_by(job: &Fields<'_>, state: JobState) -> Option<Millis> {
    let waits = matches!(state, JobState::Waiting | JobState::Delayed | JobState::Depends);
    let within: i64 = some_number(job.of("begin_within"))?;
    let put_at = job.millis("put_at")?;
    (waits && job.number::<u32>("attempt") == 0).then(|| Millis(put_at.0.saturating_add(within)))
}

/// The job's state, from the word of qless and our fields.
pub(super) fn state_of(word: Option<&str>, canceling: bool, held: bool) -> JobState {
    match word {
        Some("running") if canceling => JobState::Canceling,
        Some("running") => JobState::Running,
        Some("scheduled") => JobState::Delayed,
        Some("depends") => JobState::Depends,
        Some("complete") => JobState::Complete,
        Some("failed") if held => JobState::Held,
        Some("failed") => JobState::Failed,
        Some("canceled") => JobState::Canceled,
        _ => JobState::Waiting,
    }
}

/// The retry policy: as put here; for a job of another program, the number of tries with which it was put.
fn policy_of(policy: &Value, retries: &Value, attempt: &Value) -> Option<Retry> {
    let foreign = || text(attempt).is_none().then(|| Retry { retries: number(retries), ..Retry::CLASS });
    kept(policy).or_else(foreign)
}

/// The program of a job, if it can be read. Otherwise another client has changed it, and it is plain data.
pub(super) fn payload(data: &Value, exec: &Value) -> Payload {
    let bytes = if let Value::BulkString(bytes) = data { bytes.clone() } else { Vec::new() };
    let program = || stored::from_json::<Exec>(&bytes).ok();
    let program = if text(exec).as_deref() == Some("1") { program() } else { None };
    program.map_or_else(|| Payload::Data(Bytes(bytes)), Payload::Exec)
}

/// The answer to the renewal of a lease.
pub(super) fn renewal(lease: Lease, said: &Value) -> Renewal {
    let job = lease.job.clone();
    Renewal::read(lease, text(said).as_deref(), |why| {
        Error::Failed(format!("cannot renew the lease of job '{job}' in Redis: {why}"))
    })
}

/// A fetched job, from the values that `taskvisor.fetch` gives: its id, its queue, its fence, its fields, and how long
/// it has waited.
pub(super) fn given(value: Value) -> Result<(Job, Fence, Option<Duration>), Error> {
    let values = array(value)?;
    let [
        id,
        queue,
        hold,
        class,
        data,
        priority,
        tags,
        attempt,
        crashes,
        interrupted,
        unknown,
        policy,
        limit,
        exec,
        retries,
        _remaining,
        waited,
    ] = &values[..]
    else {
        return Err(odd("a job that was given out"));
    };
    let foreign = Retry { retries: number(retries), ..Retry::CLASS };
    let is_ours = !matches!(policy, Value::Nil);
    let job = Job {
        id: text(id).unwrap_or_default().into(),
        queue: QueueName::from(text(queue).unwrap_or_default()),
        class: Class::from(text(class).unwrap_or_default()),
        payload: payload(data, exec),
        priority: number(priority),
        tags: json(tags).unwrap_or_default(),
        attempt: number(attempt),
        crashes: number(crashes),
        interrupted: number(interrupted),
        unknown: number(unknown),
        retry: if is_ours { kept(policy) } else { Some(foreign) },
        time_limit: some_number(limit).map(Duration::from_nanos),
    };
    let waited = text(waited).and_then(|seconds| seconds.parse().ok());
    // Another program may have written a time that is still to come.
    Ok((job, Fence(number(hold)), waited.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Instant;

    #[test]
    fn answer_to_a_renewal_that_is_not_known_is_no_loss() {
        let lease = || Lease { job: "j".into(), fence: Fence(1), expires_at: Instant::from_millis(9) };
        let said = |word: &str| renewal(lease(), &Value::BulkString(word.into()));
        assert_eq!(said("renewed"), Renewal::Renewed(lease()));
        assert_eq!(said("lost"), Renewal::Lost(model::Revocation::LockLost));
        for answer in [said("wrong: why"), said("held"), renewal(lease(), &Value::Nil)] {
            assert!(matches!(&answer, Renewal::Failed(_)), "{answer:?}");
        }
    }
}
