//! Names of slots and workers for people: with the name of the pool, which stays the same when the pool's internal
//! number changes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{SlotId, WorkerId};

/// A slot as people know it: `mail.1`. It keeps this name through every recycle and reload.
///
/// ```
/// use taskvisor_model::SlotName;
/// let slot = SlotName::new("mail", 1);
/// assert_eq!(slot.to_string(), "mail.1");
/// assert_eq!("mail.1".parse(), Ok(slot));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotName {
    /// The name of its pool.
    pub pool: Arc<str>,
    /// The index within the pool, starting at 1; 0 is the template's.
    pub index: u16,
}

impl SlotName {
    /// The slot with this index in the pool.
    pub fn new(pool: impl Into<Arc<str>>, index: u16) -> SlotName {
        SlotName { pool: pool.into(), index }
    }
}

/// One life in a slot as people know it: `mail.1#7` is the worker of generation 7 in slot mail.1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct WorkerName {
    /// The slot it lives in.
    pub slot: SlotName,
    /// Number of the life in that slot. It goes up with each new worker, also when the pool is recycled.
    pub generation: u32,
}

impl WorkerName {
    /// The name of a worker of that pool.
    pub fn new(pool: impl Into<Arc<str>>, worker: WorkerId) -> WorkerName {
        WorkerName { slot: SlotName::new(pool, worker.slot.index), generation: worker.generation }
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.pool, self.index)
    }
}

impl fmt::Display for WorkerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.slot, self.generation)
    }
}

impl FromStr for SlotName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // From the right: the index comes last, whatever the name before it contains.
        let parts = text.rsplit_once('.').filter(|(pool, _)| !pool.is_empty());
        let named = parts.and_then(|(pool, index)| Some(SlotName::new(pool, index.parse().ok()?)));
        named.ok_or_else(|| format!("'{text}' is no slot: POOL.N, e.g. mail.1"))
    }
}

impl FromStr for WorkerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no worker: POOL.N#GENERATION, e.g. mail.1#7");
        let (slot, generation) = text.rsplit_once('#').ok_or_else(wrong)?;
        Ok(WorkerName { slot: slot.parse()?, generation: generation.parse().map_err(|_| wrong())? })
    }
}

impl Serialize for SlotName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The current form, and that of earlier versions, which has the number of a pool whose name is not known any more.
/// Such a slot is called `#0.1`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Name(String),
    Number(SlotId),
}

impl<'de> Deserialize<'de> for SlotName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Name(name) => name.parse().map_err(serde::de::Error::custom),
            Written::Number(SlotId { pool, index }) => Ok(SlotName::new(format!("#{pool}"), index)),
        }
    }
}

impl JsonSchema for SlotName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SlotName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "description": "A slot as POOL.N, e.g. `mail.1`; N is 0 for a template. It stays the same through every recycle and reload.",
            "type": "string",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_name_has_the_pool_name_and_old_records_are_read() {
        let slot = SlotId { pool: 3, index: 1 };
        let worker = WorkerName::new("mail.eu", WorkerId { slot, generation: 7 });
        assert_eq!(worker.to_string().parse().as_ref(), Ok(&worker));
        let json = serde_json::to_string(&worker).unwrap();
        assert_eq!(json, r#"{"slot":"mail.eu.1","generation":7}"#);
        assert_eq!(serde_json::from_str::<WorkerName>(&json).unwrap(), worker);
        let old = r#"{"slot":{"pool":2,"index":1},"generation":7}"#;
        assert_eq!(serde_json::from_str::<WorkerName>(old).unwrap().to_string(), "#2.1#7");
        for wrong in ["mail", ".1", "mail.", "mail.x", "mail.70000", ""] {
            assert!(wrong.parse::<SlotName>().is_err(), "{wrong}");
        }
    }
}
