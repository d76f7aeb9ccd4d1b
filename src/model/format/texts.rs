//! JSON that is passed on as it was written.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::Bytes;

/// A text as JSON on one line, each token as it was written: JSON has newlines only between tokens.
pub(crate) fn json(text: &[u8]) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(text).ok()?;
    let is_newline = |letter| matches!(letter, '\n' | '\r');
    let line = if text.contains(is_newline) { text.replace(is_newline, " ") } else { text.to_owned() };
    // JSON allows no newline inside a string: such a text is refused.
    serde_json::from_str::<&RawValue>(text).ok()?;
    RawValue::from_string(line).ok()
}

/// The nesting depth of lists and objects in a JSON text.
pub fn json_depth(text: &[u8]) -> usize {
    let (mut deepest, mut depth, mut in_string, mut is_escaped) = (0, 0_usize, false, false);
    for byte in text {
        match byte {
            // First: a quote or a bracket behind a backslash is a letter of the string.
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            // The text may be no JSON at all, and close more than it opens.
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// The deepest nesting that is shown as JSON: most parsers would refuse the whole job for more.
pub(crate) const DEEPEST: usize = 100;

/// A worker's result as JSON on one line with every digit. Text that is no JSON, which another program may have
/// written, becomes a string, and so does what is nested deeper than 100 levels. `None` only if it cannot be written at
/// all.
///
/// ```
/// use taskvisor_model::json_text;
/// assert_eq!(json_text("{\"n\":\n1.50}").unwrap().get(), "{\"n\": 1.50}");
/// assert_eq!(json_text("done!").unwrap().get(), "\"done!\"");
/// ```
pub fn json_text(text: &str) -> Option<Box<RawValue>> {
    let flat = json(text.as_bytes()).filter(|_| json_depth(text.as_bytes()) <= DEEPEST);
    flat.or_else(|| serde_json::value::to_raw_value(text).ok())
}

/// For `with`: bytes that are JSON.
pub(crate) struct JsonText;

impl JsonText {
    pub(crate) fn serialize<S: Serializer>(value: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        json(&value.0).ok_or_else(|| S::Error::custom("the data is no JSON"))?.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        Box::<RawValue>::deserialize(from).map(bytes)
    }
}

/// The bytes as they are stored.
pub(crate) fn bytes(json: Box<RawValue>) -> Bytes {
    Bytes(String::from(Box::<str>::from(json)).into_bytes())
}

/// Any JSON, in a schema.
impl JsonSchema for JsonText {
    fn schema_name() -> Cow<'static, str> {
        "Json".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}

#[cfg(test)]
mod tests {
    use super::{json_depth, json_text};

    #[test]
    fn result_that_is_nested_too_deep_is_shown_as_text() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert_eq!(json_text(&deep(100)).unwrap().get(), deep(100));
        assert_eq!(json_text(&deep(101)).unwrap().get(), format!("\"{}\"", deep(101)));
    }

    #[test]
    fn depth_counts_lists_and_objects_but_not_brackets_in_strings() {
        for (text, deep) in
            [("1", 0), ("[]", 1), (r#"{"a":[1,[2]]}"#, 3), (r#"["[[[", "\"[["]"#, 1), ("[[],[]]", 2)]
        {
            assert_eq!(json_depth(text.as_bytes()), deep, "{text}");
        }
    }
}
