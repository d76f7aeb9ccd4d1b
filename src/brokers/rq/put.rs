//! Puts jobs as RQ's own client would: with RQ's default serializer, so that any worker of RQ can run them.

use std::time::Duration;

use redis::Cmd;
use serde_json::{Map, Number, Value as Json};
use uuid::Uuid;

use super::job::{TAGS, deflated};
use broker::Error;
use kale::pickle::{self, Value};
use model::{Exists, JobId, NewJob, Payload, Retry};

/// A new job in the form of RQ.
pub(super) struct Written {
    pub id: JobId,
    fields: Vec<(&'static str, Vec<u8>)>,
}

/// The arguments of the function in a job's data. The data is an object with only `args` and `kwargs`, a list of
/// arguments, `null` for none, or one argument.
fn arguments(data: &[u8]) -> Result<(Vec<Json>, Map<String, Json>), serde_json::Error> {
    let is_call = |object: &Map<String, Json>| {
        // `{}` is one argument: a call without any has `null` as its data.
        !object.is_empty()
            && object.iter().all(|(name, value)| match name.as_str() {
                "args" => value.is_array(),
                "kwargs" => value.is_object(),
                _ => false,
            })
    };
    Ok(match serde_json::from_slice(data)? {
        Json::Object(mut object) if is_call(&object) => {
            let mut take = |name| object.remove(name).unwrap_or_default();
            let (args, kwargs) = (take("args"), take("kwargs"));
            (args.as_array().cloned().unwrap_or_default(), kwargs.as_object().cloned().unwrap_or_default())
        }
        Json::Array(args) => (args, Map::new()),
        Json::Null => (Vec::new(), Map::new()),
        one @ (Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_)) => {
            (vec![one], Map::new())
        }
    })
}

/// Writes a job, and refuses one that RQ could not run.
pub(super) fn write(job: &NewJob) -> Result<Written, Error> {
    let refused = |why: &str| Err(Error::Refused(format!("a job of RQ {why}")));
    let Payload::Data(data) = &job.payload else {
        return refused("is a Python function: put its name as the class; RQ runs no programs");
    };
    let Ok((args, kwargs)) = arguments(&data.0) else {
        return refused("needs data that is JSON: its arguments");
    };
    let id = job.id.clone().unwrap_or_else(|| Uuid::now_v7().to_string().into());
    // RQ's clients refuse other ids, so they could not read the job.
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !id.as_str().bytes().all(allowed) {
        return refused("has an id of letters, digits, dashes and underscores");
    }
    let description = format!("{}({})", job.class, serde_json::to_string(&args).unwrap_or_default());
    let name = Value::Str(job.class.as_str().into());
    let args = Value::Tuple(args.iter().map(Value::from).collect());
    let call = pickle::write(&Value::Tuple(vec![name, Value::None, args, Value::from(&kwargs)]));
    let mut fields = vec![
        ("data", deflated(&call.unwrap_or_default())),
        ("description", model::cut(description, 200).into_bytes()),
    ];
    if !job.tags.is_empty() {
        fields.push((TAGS, serde_json::to_vec(&job.tags).unwrap_or_default()));
    }
    if let Some(limit) = job.time_limit {
        // RQ's timeouts are whole seconds.
        fields.push(("timeout", limit.as_millis().div_ceil(1000).max(1).to_string().into_bytes()));
    }
    if let Some(retry) = job.retry.filter(|retry| retry.retries > 0) {
        let Some(intervals) = intervals(&retry) else {
            return refused(&format!(
                "has at most {LISTED} retries with waits that grow, as RQ keeps each wait: any number can wait equally long"
            ));
        };
        fields.push(("retries_left", retry.retries.to_string().into_bytes()));
        fields.push(("retry_intervals", serde_json::to_vec(&intervals).unwrap_or_default()));
    }
    Ok(Written { id, fields })
}

/// Limit of the waits that are written into a job.
const LISTED: u32 = 1000;

/// The waits before the retries, in seconds. RQ takes one for each retry from the end of this list, and its first one
/// as long as more retries are left: a list shorter than the retries would begin to grow at its end. `None` = too many.
fn intervals(retry: &Retry) -> Option<Vec<Number>> {
    let wait = |at| retry.delay.saturating_mul(2u32.saturating_pow(at)).min(retry.cap);
    // Equal waits need one entry: RQ uses it for every retry.
    let count = if wait(0) == retry.cap || wait(0).is_zero() { 1 } else { retry.retries };
    let seconds = |wait: Duration| match wait.subsec_nanos() {
        0 => Number::from(wait.as_secs()),
        _ => Number::from_f64(wait.as_secs_f64()).unwrap_or_else(|| wait.as_secs().into()),
    };
    (count <= LISTED).then(|| (0..count).map(|at| seconds(wait(at))).collect())
}

impl Written {
    pub(super) fn write(&self, cmd: &mut Cmd, job: &NewJob) {
        let skips = if job.exists == Exists::Skip { "skip" } else { "refuse" };
        cmd.arg(self.id.as_str()).arg(job.queue.as_str()).arg(job.delay.as_secs_f64()).arg(skips);
        cmd.arg(job.token.as_deref().unwrap_or_default());
        cmd.arg(2 * self.fields.len());
        self.fields.iter().for_each(|(name, bytes)| _ = cmd.arg(*name).arg(bytes.as_slice()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_becomes_the_arguments_of_the_function() {
        let read = |data: &str| {
            let (args, kwargs) = arguments(data.as_bytes()).unwrap();
            format!("{} {}", Json::Array(args), Json::Object(kwargs))
        };
        assert_eq!(read(r#"{"args": [1], "kwargs": {"a": 2}}"#), r#"[1] {"a":2}"#);
        assert_eq!(read(r#"{"kwargs": {"a": 2}}"#), r#"[] {"a":2}"#);
        assert_eq!(read(r#"{"args": 1}"#), r#"[{"args":1}] {}"#);
        assert_eq!(read(r#"{}"#), "[{}] {}");
        assert_eq!(
            (read("null"), read("[1, 2]"), read("7")),
            ("[] {}".into(), "[1,2] {}".into(), "[7] {}".into())
        );
        assert!(arguments(b"x").is_err());
    }

    /// As RQ's Job.get_retry_interval.
    fn taken(intervals: &[Number], left: usize) -> String {
        intervals[intervals.len().saturating_sub(left)].to_string()
    }

    #[test]
    fn waits_grow_from_the_first_of_many_retries_on() {
        let retry = |retries, delay, cap| Retry {
            retries,
            delay: Duration::from_millis(delay),
            cap: Duration::from_millis(cap),
        };
        let many = intervals(&retry(200, 1000, 60_000)).unwrap();
        let waits = [200, 199, 198, 194, 193, 1].map(|left| taken(&many, left));
        assert_eq!(waits, ["1", "2", "4", "60", "60", "60"]);
        let few = intervals(&retry(3, 1500, 4000)).unwrap();
        assert_eq!([3, 2, 1].map(|left| taken(&few, left)), ["1.5", "3", "4"]);
        let equal = intervals(&retry(1_000_000, 5000, 5000)).unwrap();
        assert_eq!((taken(&equal, 1_000_000), equal.len()), ("5".into(), 1));
        assert!(intervals(&retry(1001, 1000, 60_000)).is_none());
    }

    #[test]
    fn jobs_that_rq_could_not_run_are_refused() {
        let job = NewJob::new("q".into(), "app.f".into(), Payload::Data("[1]".into()));
        assert!(write(&job).is_ok());
        let odd = NewJob { id: Some("a b".into()), ..job.clone() };
        assert!(write(&odd).is_err());
        let program = NewJob { payload: Payload::Exec(model::Exec::default()), ..job };
        assert!(write(&program).is_err());
    }
}
