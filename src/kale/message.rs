//! The dict in a body of kale: a task, its arguments and its counters.

use super::pickle::{self, Limits, PickleError, Value};

/// A task in the form of its message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// `id`: the same for every retry.
    pub id: String,
    /// `task`: the class as `module.Class`.
    pub task: String,
    /// `payload.args`: a list or a tuple.
    pub args: Value,
    /// `payload.kwargs`: a dict.
    pub kwargs: Value,
    /// `payload.app_data`: any value at all.
    pub app_data: Value,
    /// `_enqueued_time`: seconds since 1970.
    pub enqueued_time: f64,
    /// `_publisher`: who sent it, `host[pid]`.
    pub publisher: String,
    /// `retry_num`: how many messages of this task came before.
    pub retry_num: u64,
    /// `failure_num`: how many of them failed.
    pub failure_num: u64,
}

/// Why a pickle is no message of kale.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EnvelopeError {
    /// The pickle itself is invalid.
    #[error(transparent)]
    Pickle(#[from] PickleError),
    /// A field is missing or of another type.
    #[error("its {field} is {found}: a message of kale has {wanted} there")]
    Field {
        /// The name of the field.
        field: &'static str,
        /// The type that was found.
        found: String,
        /// The type that a message of kale has in this field.
        wanted: &'static str,
    },
}

impl Message {
    /// Reads a pickle. Nothing in it is executed.
    pub fn read(pickle: &[u8]) -> Result<Message, EnvelopeError> {
        Message::from_value(&pickle::read(pickle, Limits::default())?)
    }

    /// Its pickle, with the keys in the order of kale. `None` if an argument is an object of Python.
    pub fn pickle(&self) -> Option<Vec<u8>> {
        let count = |value: u64| Value::Int(i64::try_from(value).unwrap_or(i64::MAX));
        pickle::write(&dict([
            ("id", Value::Str(self.id.clone())),
            ("task", Value::Str(self.task.clone())),
            (
                "payload",
                dict([
                    ("args", self.args.clone()),
                    ("kwargs", self.kwargs.clone()),
                    ("app_data", self.app_data.clone()),
                ]),
            ),
            ("_enqueued_time", Value::Float(self.enqueued_time)),
            ("_publisher", Value::Str(self.publisher.clone())),
            ("retry_num", count(self.retry_num)),
            ("failure_num", count(self.failure_num)),
        ]))
    }

    fn from_value(value: &Value) -> Result<Message, EnvelopeError> {
        if !matches!(value, Value::Dict(_)) {
            return Err(EnvelopeError::Field { field: "pickle", found: kind(Some(value)), wanted: "a dict" });
        }
        let payload = match value.get("payload") {
            Some(payload @ Value::Dict(_)) => payload,
            other => {
                return Err(EnvelopeError::Field { field: "payload", found: kind(other), wanted: "a dict" });
            }
        };
        let args = match payload.get("args") {
            Some(args @ (Value::List(_) | Value::Tuple(_))) => args.clone(),
            other => {
                return Err(EnvelopeError::Field {
                    field: "payload.args",
                    found: kind(other),
                    wanted: "a list or a tuple",
                });
            }
        };
        let kwargs = match payload.get("kwargs") {
            Some(kwargs @ Value::Dict(_)) => kwargs.clone(),
            other => {
                return Err(EnvelopeError::Field {
                    field: "payload.kwargs",
                    found: kind(other),
                    wanted: "a dict",
                });
            }
        };
        Ok(Message {
            id: text(value, "id")?,
            task: text(value, "task")?,
            args,
            kwargs,
            app_data: payload.get("app_data").cloned().unwrap_or(Value::None),
            enqueued_time: seconds(value, "_enqueued_time")?,
            publisher: text(value, "_publisher")?,
            retry_num: counter(value, "retry_num")?,
            failure_num: counter(value, "failure_num")?,
        })
    }
}

fn dict<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Dict(entries.into_iter().map(|(key, value)| (Value::Str(key.to_owned()), value)).collect())
}

fn text(of: &Value, key: &'static str) -> Result<String, EnvelopeError> {
    match of.get(key) {
        Some(Value::Str(text)) => Ok(text.clone()),
        other => Err(EnvelopeError::Field { field: key, found: kind(other), wanted: "a text" }),
    }
}

fn seconds(of: &Value, key: &'static str) -> Result<f64, EnvelopeError> {
    match of.get(key) {
        Some(Value::Float(value)) if value.is_finite() => Ok(*value),
        // A TIMESTAMP_FUNC of the user may give an integer of seconds, which a float holds exactly.
        #[allow(clippy::cast_precision_loss)]
        Some(Value::Int(value)) => Ok(*value as f64),
        other => Err(EnvelopeError::Field { field: key, found: kind(other), wanted: "a time" }),
    }
}

fn counter(of: &Value, key: &'static str) -> Result<u64, EnvelopeError> {
    match of.get(key) {
        Some(Value::Int(value)) => u64::try_from(*value).map_err(|_| EnvelopeError::Field {
            field: key,
            found: value.to_string(),
            wanted: "a count",
        }),
        other => Err(EnvelopeError::Field { field: key, found: kind(other), wanted: "a count" }),
    }
}

fn kind(value: Option<&Value>) -> String {
    match value {
        None => "missing",
        Some(Value::None) => "None",
        Some(Value::Bool(_)) => "a bool",
        Some(Value::Int(_) | Value::Big(_)) => "an integer",
        Some(Value::Float(_)) => "a float",
        Some(Value::Str(_)) => "a text",
        Some(Value::Bytes(_)) => "bytes",
        Some(Value::List(_)) => "a list",
        Some(Value::Tuple(_)) => "a tuple",
        Some(Value::Dict(_)) => "a dict",
        Some(Value::Set(_) | Value::FrozenSet(_)) => "a set",
        Some(Value::Object(name)) => return format!("an object ({name})"),
    }
    .to_owned()
}
