//! The public JSON: values of the model for programs, over HTTP, by `--json`, in the worker protocol and in the
//! packages, in one form for all. `format/` writes their fields. The stored form is separate from it (`common::stored` of the brokers).
//!
//! Durations are numbers of seconds. A moment has two fields: `NAME` (RFC 3339) and `NAME_ms` (milliseconds since 1970). Data
//! and results are JSON, and keep every digit. `docs/openapi.json` describes all of it, and a test holds it.

mod ends;
mod entry;
mod fits;
mod job;
mod new_job;
#[cfg(test)]
mod tests;

use ends::ExitStatusJson;
pub(super) use fits::Fits;
use job::JobJson;
use new_job::NewJobJson;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Declares the type by which another is written, read and described.
macro_rules! written {
    ($($model:ty as $json:ty;)*) => {
        $(impl Serialize for $model {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                <$json>::from(self.clone()).serialize(to)
            }
        }

        impl<'de> Deserialize<'de> for $model {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                <$json>::deserialize(from)?.try_into().map_err(D::Error::custom)
            }
        }

        impl JsonSchema for $model {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                <$json>::schema_name()
            }

            fn schema_id() -> std::borrow::Cow<'static, str> {
                <$json>::schema_id()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                <$json>::json_schema(generator)
            }
        })*
    };
}

written! {
    super::ExitStatus as ExitStatusJson;
    super::JobRecord as JobJson;
    super::NewJob as NewJobJson;
}
