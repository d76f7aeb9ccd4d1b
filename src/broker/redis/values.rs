//! Writes arguments of scripts, and reads the values in replies of Redis.

use redis::{Cmd, ToRedisArgs, Value};
use serde::de::DeserializeOwned;

use crate::broker::Error;

/// Writes the number of words, then the words.
pub(in crate::broker) fn write_list<T: ToRedisArgs>(cmd: &mut Cmd, words: impl ExactSizeIterator<Item = T>) {
    cmd.arg(words.len());
    words.for_each(|word| _ = cmd.arg(word));
}

/// Reads a reply as a value of this type.
pub(in crate::broker) fn read<T: redis::FromRedisValue>(value: Value) -> Result<T, Error> {
    redis::from_redis_value(value).map_err(|error| odd(&format!("what was asked for ({error})")))
}

/// The error for a reply of an unknown form.
pub(in crate::broker) fn odd(what: &str) -> Error {
    Error::Failed(format!(
        "Redis answered something else than {what}: is another program's data under the broker's keys?"
    ))
}

/// The parts of a list.
pub(in crate::broker) fn array(value: Value) -> Result<Vec<Value>, Error> {
    if let Value::Array(values) = value {
        return Ok(values);
    }
    if value == Value::Nil { Ok(Vec::new()) } else { Err(odd("a list")) }
}

/// A list of exactly this many parts.
pub(in crate::broker) fn parts<const N: usize>(value: Value) -> Result<[Value; N], Error> {
    let values = array(value)?;
    let count = values.len();
    values.try_into().map_err(|_| odd(&format!("a list of {N} ({count})")))
}

/// A text; `None` if there is none.
pub(in crate::broker) fn text(value: &Value) -> Option<String> {
    if let Value::BulkString(bytes) = value {
        return Some(String::from_utf8_lossy(bytes).into_owned());
    }
    if let Value::Int(number) = value { Some(number.to_string()) } else { None }
}

/// A number; 0 if there is none.
pub(in crate::broker) fn number<T: std::str::FromStr + Default>(value: &Value) -> T {
    some_number(value).unwrap_or_default()
}

/// A number, if there is one. Numbers of other programs may have a fraction.
pub(in crate::broker) fn some_number<T: std::str::FromStr>(value: &Value) -> Option<T> {
    let text = text(value)?;
    text.parse().ok().or_else(|| text.split('.').next()?.parse().ok())
}

/// JSON text in a field. Text that cannot be read counts as missing: a field of another program does not hide the job.
pub(in crate::broker) fn json<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_str(&text(value)?).ok()
}
