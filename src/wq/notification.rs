//! A notification of a context broker (FIWARE NGSI), and the data of the job made from it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::time_index::{TIME_INDEX, time_index};
use model::{JobId, json_depth};

/// The data of a task's job: what its worker gets. Entities are as they came, with every digit.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskInput {
    /// The tenant; empty for the default one.
    pub fiware_service: String,
    /// The service path.
    pub fiware_service_path: String,
    /// What the client calls the exchange; null if it said nothing.
    pub fiware_correlator: Option<String>,
    /// The entities of the notification.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub payload: Box<RawValue>,
}

/// A notification that was taken in: its job is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Taken {
    /// The id of the job.
    pub task_id: JobId,
    /// Whether the job waits in the state directory of the supervisor, as the broker is away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
}

/// Deeper notifications are refused: they would make the lists of their tenant unreadable for most clients.
const DEEPEST: usize = 100;

/// The entities of a notification, or the error in it. Each has its time in `time_index`: from the attribute `named` or
/// from those that FIWARE knows, else `now`.
pub fn entities(body: &[u8], named: Option<&str>, now: Timestamp) -> Result<Box<RawValue>, String> {
    #[derive(Deserialize)]
    struct Notification {
        data: Option<Box<RawValue>>,
    }
    if json_depth(body) > DEEPEST {
        return Err(format!(
            "the body nests more than {DEEPEST} levels deep: many programs cannot read such JSON"
        ));
    }
    // serde would read a list as the fields of a notification, in order.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err("the body is no notification: it is no JSON object".into());
    }
    let notification: Notification =
        serde_json::from_slice(body).map_err(|error| format!("the body is no notification: {error}"))?;
    let data = notification.data.ok_or("the notification has no `data`: a list of entities")?;
    let list: Vec<Box<RawValue>> = serde_json::from_str(data.get())
        .map_err(|_| "`data` of the notification is no list of entities".to_owned())?;
    let timed = list.iter().enumerate().map(|(at, entity)| with_time(at, entity, named, now));
    let timed = timed.collect::<Result<Vec<String>, String>>()?;
    RawValue::from_string(format!("[{}]", timed.join(","))).map_err(|error| error.to_string())
}

/// An entity as it was written, with its time at its end. It has an id and a type; its attributes are checked by the
/// worker.
fn with_time(at: usize, entity: &RawValue, named: Option<&str>, now: Timestamp) -> Result<String, String> {
    let text = entity.get();
    if !text.starts_with('{') {
        return Err(format!("entity {at} of `data` is no object"));
    }
    let members: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| format!("entity {at} of `data`: {error}"))?;
    for name in ["id", "type"] {
        if members.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(format!("entity {at} of `data` has no `{name}`, a text"));
        }
    }
    let time = Value::from(time_index(&members, named, now));
    // Without the attribute the entity stays as it came, byte for byte.
    let written = match members.contains_key(TIME_INDEX) {
        false => text.to_owned(),
        true => without_time(text).map_err(|error| format!("entity {at} of `data`: {error}"))?,
    };
    // An entity has an id at least, so there is something before the comma.
    let open = written.strip_suffix('}').unwrap_or(&written).trim_ascii_end();
    Ok(format!("{open},\"{TIME_INDEX}\":{time}}}"))
}

/// The other members of an entity that brings a time of its own, which is replaced.
fn without_time(text: &str) -> serde_json::Result<String> {
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text)?;
    let others: BTreeMap<_, _> = members.iter().filter(|(name, _)| *name != TIME_INDEX).collect();
    serde_json::to_string(&others)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn entities_are_kept_as_written_and_have_their_time_at_the_end() {
        let body = r#"{"subscriptionId":"s","data":[ {"id":"r","type":"Room","t":{"value":1.10e1} },
            {"time_index":"x","type":"Room","id":"s","a":{"value":"2024-01-01"}} ]}"#;
        assert_eq!(
            entities(body.as_bytes(), Some("a"), NOW).unwrap().get(),
            r#"[{"id":"r","type":"Room","t":{"value":1.10e1},"time_index":"1970-01-01T00:00:00+00:00"},{"a":{"value":"2024-01-01"},"id":"s","type":"Room","time_index":"2024-01-01T00:00:00"}]"#
        );
        assert_eq!(entities(br#"{"data":[]}"#, None, NOW).unwrap().get(), "[]");
    }

    #[test]
    fn invalid_notifications_are_refused_with_the_reason() {
        for (body, why) in [
            ("", "no notification"),
            ("[1]", "no notification"),
            ("{}", "has no `data`"),
            (r#"{"data":{}}"#, "no list of entities"),
            (r#"{"data":[{"id":"r","type":"Room"},7]}"#, "entity 1 of `data` is no object"),
            (r#"{"data":[["r","Room"]]}"#, "entity 0 of `data` is no object"),
            (r#"{"data":[{"type":"Room"}]}"#, "has no `id`"),
            (r#"{"data":[{"id":"r","type":""}]}"#, "has no `type`"),
        ] {
            let said = entities(body.as_bytes(), None, NOW).unwrap_err();
            assert!(said.contains(why), "{body}: {said}");
        }
    }
}
