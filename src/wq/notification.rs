//! A notification of a context broker (FIWARE NGSI), and the data of the job made from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::model::{JobId, json_depth};

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

/// The entities of a notification, or the error in it.
pub fn entities(body: &[u8]) -> Result<Box<RawValue>, String> {
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
    if list.is_empty() {
        return Err("`data` of the notification is empty: it has no entity".into());
    }
    list.iter().enumerate().try_for_each(|(at, entity)| check(at, entity))?;
    Ok(data)
}

/// Checks that an entity has an id and a type; its attributes are checked by the worker.
fn check(at: usize, entity: &RawValue) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Entity {
        id: Option<serde_json::Value>,
        #[serde(rename = "type")]
        kind: Option<serde_json::Value>,
    }
    let entity: Entity = match entity.get().starts_with('{') {
        true => {
            serde_json::from_str(entity.get()).map_err(|error| format!("entity {at} of `data`: {error}"))?
        }
        false => return Err(format!("entity {at} of `data` is no object")),
    };
    let is_said = |value: &Option<serde_json::Value>| {
        value.as_ref().and_then(serde_json::Value::as_str).is_some_and(|text| !text.is_empty())
    };
    match (is_said(&entity.id), is_said(&entity.kind)) {
        (true, true) => Ok(()),
        (false, _) => Err(format!("entity {at} of `data` has no `id`, a text")),
        (true, false) => Err(format!("entity {at} of `data` has no `type`, a text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_kept_as_written() {
        let body = r#"{"subscriptionId":"s","data":[ {"id":"r","type":"Room","t":{"value":1.10e1}} ]}"#;
        assert_eq!(
            entities(body.as_bytes()).unwrap().get(),
            r#"[ {"id":"r","type":"Room","t":{"value":1.10e1}} ]"#
        );
    }

    #[test]
    fn invalid_notifications_are_refused_with_the_reason() {
        for (body, why) in [
            ("", "no notification"),
            ("[1]", "no notification"),
            ("{}", "has no `data`"),
            (r#"{"data":{}}"#, "no list of entities"),
            (r#"{"data":[]}"#, "it has no entity"),
            (r#"{"data":[{"id":"r","type":"Room"},7]}"#, "entity 1 of `data` is no object"),
            (r#"{"data":[["r","Room"]]}"#, "entity 0 of `data` is no object"),
            (r#"{"data":[{"type":"Room"}]}"#, "has no `id`"),
            (r#"{"data":[{"id":"r","type":""}]}"#, "has no `type`"),
        ] {
            let said = entities(body.as_bytes()).unwrap_err();
            assert!(said.contains(why), "{body}: {said}");
        }
    }
}
