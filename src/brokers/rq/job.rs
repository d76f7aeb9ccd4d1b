//! A job of RQ in the form that a worker here gets. Nothing in it is executed or unpickled.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::{ZlibDecoder, ZlibEncoder};
use serde::Serialize;
use serde_json::Value as Json;

use model::{Class, Fence, Job, JobId, NewJob, Payload, QueueName, Retry};
use redis_link::values::Text;

/// The timeout of a job without one of its own, in seconds, as in RQ.
const TIMEOUT: i64 = 180;
/// How long a job may run beyond its timeout, as in RQ: its alarm inside the worker comes first, and the job may catch it
/// and clean up.
const BEYOND: Duration = Duration::from_secs(60);
/// The class of a job whose function is not known.
const UNKNOWN: &str = "rq";
/// The prefix of our own fields: workers do not get them.
const OURS: &str = "taskvisor_";
/// The tags of a job as JSON: RQ has none, and leaves fields alone that it does not know.
pub(super) const TAGS: &str = "taskvisor_tags";
/// The field that asks to run a callback in place of the job's function.
const CALLBACK: &str = "taskvisor_callback";

/// A job that was taken.
pub(super) struct Taken {
    pub queue: QueueName,
    pub id: JobId,
    pub fields: Fields,
}

/// The fields of a job's hash, or of an entry of its results.
pub(super) type Fields = BTreeMap<Text, Vec<u8>>;

/// A job's data as a worker gets it.
#[derive(Serialize)]
struct Data<'a> {
    id: &'a str,
    queue: &'a str,
    execution: &'a str,
    worker: &'a str,
    prefix: &'a str,
    fields: BTreeMap<&'a str, String>,
    /// The callback to run in place of the job's function, as callbacks.lua writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    callback: Option<&'a Json>,
}

impl Taken {
    fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.fields.get(name)?).ok().filter(|text| !text.is_empty())
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    pub(super) fn count(&self, name: &str) -> u32 {
        self.number(name).map_or(0, |number| number.clamp(0, 1_000_000) as u32)
    }

    /// How many attempts have failed and were followed by another. RQ itself counts only those that returned a `Retry`.
    pub(super) fn spent(&self) -> u32 {
        self.count("taskvisor_attempts").max(self.count("number_of_retries"))
    }

    /// The timeout in seconds; `None` = it may run for ever.
    pub(super) fn timeout(&self) -> Option<u64> {
        u64::try_from(self.number("timeout").unwrap_or(TIMEOUT)).ok()
    }

    /// The tags that the job has.
    pub(super) fn tags(&self) -> Vec<String> {
        self.text(TAGS).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The longest timeout of its callbacks.
    fn callbacks(&self) -> Duration {
        let times = ["success", "failure", "stopped"].map(|of| {
            self.text(&format!("{of}_callback_name"))?;
            Some(self.number(&format!("{of}_callback_timeout")).unwrap_or(60).max(0) as u64)
        });
        Duration::from_secs(times.into_iter().flatten().max().unwrap_or(0))
    }

    /// The class of the job: the name of its function.
    pub(super) fn class(&self) -> Class {
        class_of(self.fields.get("data").map(Vec::as_slice).unwrap_or_default())
    }

    /// The retries of a job that has failed `spent` times; `None` if it was put without any. RQ's own intervals set the
    /// waits.
    pub(super) fn retry(&self, spent: u32) -> Option<Retry> {
        self.text("retries_left")?;
        let left = self.count("retries_left");
        let intervals = self.text("retry_intervals").and_then(|text| serde_json::from_str(text).ok());
        let intervals: Vec<f64> = intervals.unwrap_or_default();
        // RQ takes its waits from the end of the list.
        let next = intervals.get(intervals.len().saturating_sub(left as usize)).copied().unwrap_or(0.0);
        let wait = Duration::try_from_secs_f64(next).unwrap_or_default();
        // RQ keeps the retries that are left, the engine counts all of a job.
        Some(Retry { retries: spent.saturating_add(left), delay: wait, cap: wait })
    }

    /// The job in the form of the engine.
    pub(super) fn job(self, execution: &str, worker: &str, prefix: &str) -> Arc<Job> {
        let callback: Option<Json> = self.text(CALLBACK).and_then(|text| serde_json::from_str(text).ok());
        // Callbacks run after the function, each with a timeout of its own.
        let limit = self.timeout().map(|seconds| Duration::from_secs(seconds) + BEYOND + self.callbacks());
        let (spent, class) = (self.spent(), self.class());
        let [crashes, interrupted] =
            ["taskvisor_crashes", "taskvisor_interrupted"].map(|name| self.count(name));
        let fields = self.fields.iter().filter(|(name, _)| !name.0.starts_with(OURS));
        let fields = fields.map(|(name, bytes)| (name.0.as_str(), STANDARD.encode(bytes)));
        let data = Data {
            // An order to run a callback has an id of its own.
            id: callback.as_ref().and_then(|order| order["id"].as_str()).unwrap_or(self.id.as_str()),
            queue: self.queue.as_str(),
            execution,
            worker,
            prefix,
            fields: fields.collect(),
            callback: callback.as_ref(),
        };
        let data = serde_json::to_vec(&data).unwrap_or_default();
        Arc::new(Job {
            queue: self.queue.clone(),
            class,
            payload: Payload::Data(model::Bytes(data)),
            priority: 0,
            tags: self.tags(),
            attempt: spent + 1,
            crashes,
            interrupted,
            unknown: 0,
            retry: Some(self.retry(spent).unwrap_or(Retry::NONE)),
            time_limit: limit,
            id: self.id,
        })
    }
}

/// The class of the job with this data, or with data that begin this way.
pub(super) fn class_of(data: &[u8]) -> Class {
    Class::from(function(data).filter(|name| is_name(name)).unwrap_or_else(|| UNKNOWN.into()))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= NewJob::NAME_MAX && !text.contains(char::is_control)
}

/// The name of the function in a job's `data`: the first of four parts, pickled or JSON, compressed or not.
fn function(data: &[u8]) -> Option<String> {
    // The name comes first: the arguments behind it may take megabytes.
    const ENOUGH: u64 = 4096;
    let start = inflated(data, ENOUGH);
    of_pickle(&start).or_else(|| of_json(&start))
}

/// Reads the first text of a pickled tuple, in the form that every pickle protocol since 2 writes for four parts.
fn of_pickle(bytes: &[u8]) -> Option<String> {
    let rest = bytes.strip_prefix(&[0x80])?.get(1..)?;
    // From protocol 4 on a frame's opcode and its length of eight bytes come first.
    let rest = rest.strip_prefix(&[0x95]).map_or(Some(rest), |framed| framed.get(8..))?;
    let rest = rest.strip_prefix(b"(")?;
    let (long, rest) = match rest.split_first()? {
        (0x8c, rest) => (usize::from(*rest.first()?), rest.get(1..)?),
        (b'X', rest) => {
            let long = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?);
            (usize::try_from(long).ok()?, rest.get(4..)?)
        }
        _ => return None,
    };
    String::from_utf8(rest.get(..long)?.to_vec()).ok()
}

fn of_json(bytes: &[u8]) -> Option<String> {
    let rest = bytes.trim_ascii_start().strip_prefix(b"[")?;
    serde_json::Deserializer::from_slice(rest).into_iter::<String>().next()?.ok()
}

/// A text in the form of RQ's results.
pub(super) fn packed(text: &str) -> String {
    STANDARD.encode(deflated(text.as_bytes()))
}

/// Compresses bytes as RQ does.
pub(super) fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    // Reading from memory does not fail.
    let _ = ZlibEncoder::new(bytes, flate2::Compression::default()).read_to_end(&mut packed);
    packed
}

/// The beginning of what was compressed, at most this many bytes; the bytes themselves if they are not compressed. Data
/// that are cut off give what they have.
pub(super) fn inflated(bytes: &[u8], most: u64) -> Cow<'_, [u8]> {
    let mut whole = Vec::new();
    let _ = ZlibDecoder::new(bytes).take(most).read_to_end(&mut whole);
    if whole.is_empty() { Cow::Borrowed(bytes) } else { Cow::Owned(whole) }
}

/// The execution id for a fence: RQ's ids have 32 hexadecimal digits. The same instance and fence give the same id.
pub(super) fn execution(instance: &str, fence: Fence) -> String {
    // FNV-1a.
    let hash = instance.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}{:016x}", fence.0)
}

/// The fence of one of our executions.
pub(super) fn fence(execution: &str) -> Option<Fence> {
    u64::from_str_radix(execution.get(16..32)?, 16).ok().map(Fence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_name_is_read_without_executing_the_pickle() {
        let five = b"\x80\x05\x95\x1c\0\0\0\0\0\0\0(\x8c\x0ctasks.resize\x94NK\x01\x85\x94}\x94t\x94.";
        let two = b"\x80\x02(X\x08\0\0\0app.f \xc3\xa9Nq\0K\x01\x85}t.";
        for (data, name) in [
            (deflated(five), Some("tasks.resize")),
            (five.to_vec(), Some("tasks.resize")),
            (two.to_vec(), Some("app.f \u{e9}")),
            (deflated(br#"["tasks.send", null, [1], {}]"#), Some("tasks.send")),
            (br#" ["a\u0062c", null]"#.to_vec(), Some("abc")),
            (deflated(b"cos\nsystem\n(S'true'\ntR."), None),
            (b"\x80\x05\x95".to_vec(), None),
            (b"\x80\x04(X\xff\xff\xff\xffa".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(function(&data).as_deref(), name, "{data:?}");
        }
    }

    fn taken(fields: &[(&str, &str)]) -> Taken {
        let fields = fields.iter().map(|(name, value)| (Text((*name).to_owned()), value.as_bytes().to_vec()));
        Taken { queue: "q".into(), id: "j".into(), fields: fields.collect() }
    }

    #[test]
    fn time_limit_is_the_timeout_of_the_job_plus_its_callbacks() {
        let limit = |fields: &[(&str, &str)]| taken(fields).job("e", "w", "rq").time_limit;
        let seconds = |count| Some(Duration::from_secs(count));
        assert_eq!(limit(&[]), seconds(240));
        assert_eq!(limit(&[("timeout", "-1")]), None);
        assert_eq!(limit(&[("timeout", "5"), ("failure_callback_name", "")]), seconds(65));
        assert_eq!(limit(&[("timeout", "5"), ("success_callback_name", "f")]), seconds(125));
        let own = [("timeout", "5"), ("failure_callback_name", "f"), ("failure_callback_timeout", "7")];
        assert_eq!(limit(&own), seconds(72));
    }

    #[test]
    fn worker_gets_all_fields_in_base64() {
        let job = taken(&[("data", "\u{1}x"), ("status", "queued")]).job("e1", "host.1", "rq");
        let Payload::Data(data) = &job.payload else { panic!("{job:?}") };
        let data: serde_json::Value = serde_json::from_slice(&data.0).unwrap();
        let asked = serde_json::json!({
            "id": "j", "queue": "q", "execution": "e1", "worker": "host.1", "prefix": "rq",
            "fields": {"data": "AXg=", "status": "cXVldWVk"},
        });
        assert_eq!((data, job.class.as_str(), job.attempt), (asked, "rq", 1));
    }

    #[test]
    fn execution_id_contains_its_fence() {
        let (one, other) = (execution("a", Fence(7)), execution("b", Fence(7)));
        assert!(one != other && one.len() == 32 && fence(&one) == Some(Fence(7)));
        assert_eq!(fence("0123"), None);
        assert_eq!(fence(&execution("a", Fence(u64::MAX))), Some(Fence(u64::MAX)));
    }
}
