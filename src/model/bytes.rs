//! Bytes that are nearly always text: file names, arguments, environment.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Any bytes. In JSON a string if they are UTF-8, so that the usual case is readable, else `{"b64": "…"}`. Text that
/// would consist mostly of escapes, and so become several times as long, is also written as `{"b64": "…"}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    /// Limit of the bytes that a job carries.
    pub const LONGEST: usize = 40 << 20;

    /// The bytes as the operating system takes them.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// The bytes as text for people: parts that are not UTF-8 are replaced.
    pub fn to_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl From<OsString> for Bytes {
    fn from(text: OsString) -> Self {
        Bytes(text.into_vec())
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Self {
        Bytes(text.as_bytes().to_vec())
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Form<'a> {
    /// Bytes that are UTF-8.
    Text(Cow<'a, str>),
    /// Any other bytes.
    Base64 {
        /// The bytes in base64.
        b64: String,
    },
}

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Form::json_schema(generator)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) if reads_well(text) => Form::Text(text.into()).serialize(serializer),
            Ok(_) | Err(_) => Form::Base64 { b64: STANDARD.encode(&self.0) }.serialize(serializer),
        }
    }
}

/// Whether the JSON string is at most twice as long as the text, or shorter than base64. JSON data always qualifies, as
/// each character to escape in it takes two bytes: so its form does not depend on how many quotes it has.
fn reads_well(text: &str) -> bool {
    let escaped: usize = text.bytes().map(length).sum();
    let base64 = r#"{"b64":""}"#.len() + text.len().div_ceil(3) * 4;
    escaped <= (2 * text.len()).max(base64)
}

/// Length of a byte in a JSON string.
fn length(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\t' | b'\r' | 0x08 | 0x0c => 2,
        0..0x20 => r"\u0000".len(),
        _ => 1,
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Either form is read, whichever would be written: people and other programs send both.
        match Form::deserialize(deserializer)? {
            Form::Text(text) => Ok(Bytes(text.into_owned().into_bytes())),
            Form::Base64 { b64 } => STANDARD.decode(b64).map(Bytes).map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_and_other_bytes_survive() {
        for (bytes, json) in [(&b"a b"[..], "\"a b\""), (&b"\xff\n"[..], "{\"b64\":\"/wo=\"}")] {
            let bytes = Bytes(bytes.to_vec());
            assert_eq!(serde_json::to_string(&bytes).unwrap(), json);
            assert_eq!(serde_json::from_str::<Bytes>(json).unwrap(), bytes);
        }
    }

    #[test]
    fn no_bytes_become_more_than_twice_as_long_and_json_stays_text() {
        const MANY: usize = 1000;
        for byte in 0..=u8::MAX {
            let bytes = Bytes(vec![byte; MANY]);
            let json = serde_json::to_string(&bytes).unwrap();
            assert!(json.len() <= 2 * MANY + 2, "{byte}: {}", json.len());
            assert_eq!(serde_json::from_str::<Bytes>(&json).unwrap(), bytes);
            assert_eq!(json.starts_with('"'), byte.is_ascii() && length(byte) <= 2, "{byte}");
            assert_eq!(
                serde_json::to_string(&[byte as char]).unwrap().len(),
                4 + length(byte).max((byte as char).len_utf8())
            );
        }
        let data = Bytes::from(format!("[{}]", vec![r#""\n""#; MANY].join(",\n")).as_str());
        assert!(serde_json::to_string(&data).unwrap().starts_with('"'));
        assert_eq!(serde_json::to_string(&Bytes::from("\u{1b}[0m\0")).unwrap(), r#""\u001b[0m\u0000""#);
        let once_stored = format!("\"{}\"", r"\u0000".repeat(MANY));
        assert_eq!(serde_json::from_str::<Bytes>(&once_stored).unwrap(), Bytes(vec![0; MANY]));
    }
}
