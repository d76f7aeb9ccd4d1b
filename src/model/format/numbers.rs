//! Durations in seconds, and modes of files in octal digits.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// For `with`: a duration as a number of seconds, with a fraction if it has one.
pub(crate) struct Seconds;

impl Seconds {
    pub(crate) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(value.as_secs_f64())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        of_seconds(f64::deserialize(from)?)
    }
}

fn of_seconds<E: Error>(seconds: f64) -> Result<Duration, E> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        // A large one in its short form: 1e300 has 301 digits.
        let typed = if seconds.abs() < 1e15 { seconds.to_string() } else { format!("{seconds:e}") };
        E::custom(format!("{typed} is no duration: it is a number of seconds, 0 or more"))
    })
}

impl JsonSchema for Seconds {
    fn schema_name() -> Cow<'static, str> {
        "Seconds".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "format": "double", "minimum": 0, "x-unit": "s" })
    }
}

/// For `with`: the same, or none. The field needs a default.
pub(crate) struct MaybeSeconds;

impl MaybeSeconds {
    pub(crate) fn serialize<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        value.map(|value| value.as_secs_f64()).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Option::<f64>::deserialize(from)?.map(of_seconds).transpose()
    }
}

impl JsonSchema for MaybeSeconds {
    fn schema_name() -> Cow<'static, str> {
        "MaybeSeconds".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["number", "null"], "format": "double", "minimum": 0, "x-unit": "s" })
    }
}

/// For `with`: a file mode creation mask as the shell writes it, e.g. `"022"`.
pub(crate) struct Octal;

impl Octal {
    const MAX: u32 = 0o777;

    pub(crate) fn serialize<S: Serializer>(value: &u32, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{value:03o}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        // `from_str_radix` would take a sign, too.
        let is_octal = !text.is_empty() && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
        let mask = if is_octal { u32::from_str_radix(&text, 8).ok() } else { None };
        mask.filter(|mask| *mask <= Self::MAX).ok_or_else(|| {
            D::Error::custom(format!(
                "'{text:.20}' is no umask: it is octal text from \"000\" to \"777\", e.g. \"022\""
            ))
        })
    }
}

impl JsonSchema for Octal {
    fn schema_name() -> Cow<'static, str> {
        "Octal".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-7]+$" })
    }
}
