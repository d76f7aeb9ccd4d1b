//! Values in YAML, on one line.

use serde::Serialize;
use serde_yaml::Value;

/// The value as the file would have it.
pub(super) fn yaml<T: Serialize + ?Sized>(value: &T) -> Value {
    serde_yaml::to_value(value).unwrap_or_default()
}

/// A value on one line. A map outside of a list gets lines of its own, unless it is empty.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::Null | Value::Tagged(_) => "null".into(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if is_plain(text) => text.clone(),
        Value::String(text) => quoted(text),
        Value::Sequence(all) => format!("[{}]", all.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Mapping(map) => {
            let entry = |(key, value): (&Value, &Value)| format!("{}: {}", flow(key), flow(value));
            format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A JSON string is also a YAML string.
fn quoted(text: &str) -> String {
    // JSON lets DEL stand in a string as it is, and YAML does not.
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Whether it needs no quotes: YAML would read it as exactly this text.
fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./+-:@".contains(&byte);
    let begins = text.starts_with(|first: char| first.is_ascii_alphanumeric() || "/-".contains(first));
    begins
        && !text.ends_with(':')
        && text.bytes().all(plain)
        // YAML reads true, null and 1e3 as something other than text.
        && serde_yaml::from_str::<Value>(text).is_ok_and(|read| read.as_str() == Some(text))
}
