//! Reads the values in replies of Redis.

use redis::Value;
use serde::de::DeserializeOwned;

use crate::broker::Error;
use crate::broker::stored::{self, Stored};

/// The error for a reply of an unknown form.
pub(super) fn odd(what: &str) -> Error {
    Error::Failed(format!(
        "Redis answered something else than {what}: is another program's data under the keys ql:*?"
    ))
}

/// The parts of a list.
pub(super) fn array(value: Value) -> Result<Vec<Value>, Error> {
    if let Value::Array(values) = value {
        return Ok(values);
    }
    if value == Value::Nil { Ok(Vec::new()) } else { Err(odd("a list")) }
}

/// A list of exactly this many parts.
pub(super) fn parts<const N: usize>(value: Value) -> Result<[Value; N], Error> {
    let values = array(value)?;
    let count = values.len();
    values.try_into().map_err(|_| odd(&format!("a list of {N} ({count})")))
}

/// A text; `None` if there is none.
pub(super) fn text(value: &Value) -> Option<String> {
    if let Value::BulkString(bytes) = value {
        return Some(String::from_utf8_lossy(bytes).into_owned());
    }
    if let Value::Int(number) = value { Some(number.to_string()) } else { None }
}

/// A number; 0 if there is none.
pub(super) fn number<T: std::str::FromStr + Default>(value: &Value) -> T {
    some_number(value).unwrap_or_default()
}

/// A number, if there is one. Numbers of other programs may have a fraction.
pub(super) fn some_number<T: std::str::FromStr>(value: &Value) -> Option<T> {
    let text = text(value)?;
    text.parse().ok().or_else(|| text.split('.').next()?.parse().ok())
}

/// JSON text in a field. Text that cannot be read counts as missing: a field of another program does not hide the job.
pub(super) fn json<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_str(&text(value)?).ok()
}

/// The same for a value that is stored in a form of its own.
pub(super) fn kept<T>(value: &Value) -> Option<T>
where
    Stored<T>: DeserializeOwned,
{
    stored::from_json(text(value)?.as_bytes()).ok()
}
