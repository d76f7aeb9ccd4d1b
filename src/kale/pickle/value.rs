//! The values in a pickle.

use serde_json::{Map, Value as Json};

/// A value of Python.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Python's `None` object.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer of at most 64 bits.
    Int(i64),
    /// A larger integer: two's complement, the lowest byte first, in as few bytes as possible.
    Big(Vec<u8>),
    /// A float of 64 bits.
    Float(f64),
    /// A text: Python's `str`.
    Str(String),
    /// Bytes: Python's `bytes`.
    Bytes(Vec<u8>),
    /// A list, in its order.
    List(Vec<Value>),
    /// A tuple, in its order.
    Tuple(Vec<Value>),
    /// A dict, in its order.
    Dict(Vec<(Value, Value)>),
    /// A set: its items.
    Set(Vec<Value>),
    /// A frozenset: its items.
    FrozenSet(Vec<Value>),
    /// Anything that only Python can make: the name of its class or function, as `module.name`. It is never made here.
    Object(String),
}

impl Value {
    /// Whether it contains no [`Value::Object`]: then it can be written again.
    pub fn is_plain(&self) -> bool {
        match self {
            Value::Object(_) => false,
            Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
                items.iter().all(Value::is_plain)
            }
            Value::Dict(entries) => entries.iter().all(|(key, value)| key.is_plain() && value.is_plain()),
            Value::None
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Big(_)
            | Value::Float(_)
            | Value::Str(_)
            | Value::Bytes(_) => true,
        }
    }

    /// The value of a text key in a dict; if the key appears twice the last one, as in Python.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let Value::Dict(entries) = self else { return None };
        entries
            .iter()
            .rev()
            .find(|(name, _)| matches!(name, Value::Str(name) if name == key))
            .map(|(_, value)| value)
    }

    /// The value as JSON for display. Values that JSON lacks are shown as text: bytes, large integers, NaN, objects.
    pub fn to_json(&self) -> Json {
        match self {
            Value::None => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::Big(bytes) => Json::String(format!("<integer of {} bytes>", bytes.len())),
            Value::Float(value) => serde_json::Number::from_f64(*value)
                .map_or_else(|| Json::String(format!("<{value}>")), Json::Number),
            Value::Str(text) => Json::String(text.clone()),
            Value::Bytes(bytes) => Json::String(String::from_utf8_lossy(bytes).into_owned()),
            Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
                Json::Array(items.iter().map(Value::to_json).collect())
            }
            Value::Dict(entries) => {
                Json::Object(entries.iter().map(|(key, value)| (key.to_key(), value.to_json())).collect())
            }
            Value::Object(name) => Json::String(format!("<{name}>")),
        }
    }

    fn to_key(&self) -> String {
        match self.to_json() {
            Json::String(text) => text,
            other @ (Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => {
                other.to_string()
            }
        }
    }
}

impl From<&Json> for Value {
    fn from(json: &Json) -> Value {
        match json {
            Json::Null => Value::None,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => Value::Int(value),
                // 2^63 to 2^64 - 1: the ninth byte shows that it is not negative.
                (None, Some(value)) => Value::Big([&value.to_le_bytes()[..], &[0]].concat()),
                (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::Str(text.clone()),
            Json::Array(items) => Value::List(items.iter().map(Value::from).collect()),
            Json::Object(entries) => Value::from(entries),
        }
    }
}

impl From<&Map<String, Json>> for Value {
    fn from(entries: &Map<String, Json>) -> Value {
        Value::Dict(
            entries.iter().map(|(key, value)| (Value::Str(key.clone()), Value::from(value))).collect(),
        )
    }
}
