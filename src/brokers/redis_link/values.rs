//! Writes arguments of scripts, and reads the values in replies of Redis.

use std::borrow::Borrow;

use redis::{Cmd, FromRedisValue, ParsingError, ToRedisArgs, Value};
use serde::de::DeserializeOwned;

use broker::Error;

/// Writes the number of words, then the words.
pub fn write_list<T: ToRedisArgs>(cmd: &mut Cmd, words: impl ExactSizeIterator<Item = T>) {
    cmd.arg(words.len());
    words.for_each(|word| _ = cmd.arg(word));
}

/// A text in a reply, whatever its bytes are: those of another program hide no other text of the reply. Nil is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(pub String);

impl FromRedisValue for Text {
    fn from_redis_value_ref(value: &Value) -> Result<Text, ParsingError> {
        Ok(Text(text(value).unwrap_or_default()))
    }

    fn from_redis_value(value: Value) -> Result<Text, ParsingError> {
        Text::from_redis_value_ref(&value)
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Escapes the letters that have a meaning in a pattern of Redis.
pub fn escaped(text: &str) -> String {
    let is_special = |letter: char| "*?[]\\^".contains(letter);
    let escape = |letter| is_special(letter).then_some('\\').into_iter().chain([letter]);
    text.chars().flat_map(escape).collect()
}

/// Reads a reply as a value of this type.
pub fn read<T: FromRedisValue>(value: Value) -> Result<T, Error> {
    redis::from_redis_value(value).map_err(|error| odd(&format!("what was asked for ({error})")))
}

/// The error for a reply of an unknown form.
pub fn odd(what: &str) -> Error {
    Error::Failed(format!(
        "Redis answered something else than {what}: is another program's data under the broker's keys?"
    ))
}

/// The parts of a list.
pub fn array(value: Value) -> Result<Vec<Value>, Error> {
    if let Value::Array(values) = value {
        return Ok(values);
    }
    if value == Value::Nil { Ok(Vec::new()) } else { Err(odd("a list")) }
}

/// A list of exactly this many parts.
pub fn parts<const N: usize>(value: Value) -> Result<[Value; N], Error> {
    let values = array(value)?;
    let count = values.len();
    values.try_into().map_err(|_| odd(&format!("a list of {N} ({count})")))
}

/// A text; `None` if there is none.
pub fn text(value: &Value) -> Option<String> {
    if let Value::BulkString(bytes) = value {
        return Some(String::from_utf8_lossy(bytes).into_owned());
    }
    if let Value::Int(number) = value { Some(number.to_string()) } else { None }
}

/// A number; 0 if there is none.
pub fn number<T: std::str::FromStr + Default>(value: &Value) -> T {
    some_number(value).unwrap_or_default()
}

/// A number, if there is one. Numbers of other programs may have a fraction.
pub fn some_number<T: std::str::FromStr>(value: &Value) -> Option<T> {
    let text = text(value)?;
    text.parse().ok().or_else(|| text.split('.').next()?.parse().ok())
}

/// JSON text in a field. Text that cannot be read counts as missing: a field of another program does not hide the job.
pub fn json<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_str(&text(value)?).ok()
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn pattern_of_a_text_matches_that_text_alone() {
        assert_eq!(escaped("rq:pubsub:host[1]-*"), r"rq:pubsub:host\[1\]-\*");
    }
}
