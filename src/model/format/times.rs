//! Moments in public JSON: each is written twice, as RFC 3339 for people and in milliseconds since 1970 for programs.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serializer};

use crate::Millis;

/// A moment, or an optional one.
pub(crate) trait Moment: Sized {
    const IS_REQUIRED: bool;
    fn get(&self) -> Option<Millis>;
    fn of(moment: Option<Millis>) -> Option<Self>;
}

impl Moment for Millis {
    const IS_REQUIRED: bool = true;

    fn get(&self) -> Option<Millis> {
        Some(*self)
    }

    fn of(moment: Option<Millis>) -> Option<Self> {
        moment
    }
}

impl Moment for Option<Millis> {
    const IS_REQUIRED: bool = false;

    fn get(&self) -> Option<Millis> {
        *self
    }

    fn of(moment: Option<Millis>) -> Option<Self> {
        Some(moment)
    }
}

/// Declares a pair of fields, for `flatten` with `with`. It is read by its milliseconds.
macro_rules! pairs {
    ($($name:ident $text:literal $ms:literal $what:literal;)*) => {
        $(#[doc = concat!("The fields `", $text, "` and `", $ms, "`.")]
        pub(crate) struct $name<T>(PhantomData<T>);

        impl<T: Moment> $name<T> {
            pub(crate) fn serialize<S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
                pair(value.get(), $text, $ms, to)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
                #[derive(Deserialize)]
                struct Pair {
                    // Whether it may be missing depends on `T`, so it is checked below.
                    #[serde(rename = $ms, default)]
                    moment: Option<Millis>,
                }
                let Pair { moment } = Pair::deserialize(from)?;
                T::of(moment).ok_or_else(|| D::Error::missing_field($ms))
            }
        }

        impl<T: Moment> JsonSchema for $name<T> {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let required: &[&str] = if T::IS_REQUIRED { &[$text, $ms] } else { &[] };
                json_schema!({
                    "type": "object",
                    "properties": {
                        $text: { "type": "string", "format": "date-time", "description": $what },
                        $ms: { "type": "integer", "format": "int64", "description": "The same in milliseconds since 1970." },
                    },
                    "required": required,
                })
            }
        })*
    };
}

pairs! {
    At "at" "at_ms" "When it happened.";
    BeginBy "begin_by" "begin_by_ms" "By when it is to begin.";
    DueAt "due_at" "due_at_ms" "When it is due.";
    EndedAt "ended_at" "ended_at_ms" "When it ended.";
    ExpiresAt "expires_at" "expires_at_ms" "When the lease ends.";
    FromTime "from" "from_ms" "When it began.";
    MissedAt "missed_at" "missed_at_ms" "The last time that it missed and did not make up.";
    NewestAt "newest_at" "newest_at_ms" "When the newest of them ended.";
    NextAt "next_at" "next_at_ms" "When it is due next; left out if never again.";
    Now "now" "now_ms" "The broker's time.";
    OldestWaitingAt "oldest_waiting_at" "oldest_waiting_at_ms" "When the oldest waiting job was put.";
    PutAt "put_at" "put_at_ms" "When it was put.";
    RenewedAt "renewed_at" "renewed_at_ms" "When the lease was renewed last.";
    SeenAt "seen_at" "seen_at_ms" "When it was heard of last.";
    Since "since" "since_ms" "Since when that holds.";
    StartedAt "started_at" "started_at_ms" "When it started.";
}

fn pair<S: Serializer>(moment: Option<Millis>, text: &str, ms: &str, to: S) -> Result<S::Ok, S::Error> {
    let mut fields = to.serialize_map(None)?;
    if let Some(moment) = moment {
        fields.serialize_entry(text, &moment.rfc3339())?;
        fields.serialize_entry(ms, &moment)?;
    }
    fields.end()
}

/// The fields `then_at` and `then_at_ms`: moments in a list, left out when there are none.
pub(crate) struct ThenAt;

impl ThenAt {
    pub(crate) fn serialize<S: Serializer>(moments: &[Millis], to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_map(None)?;
        if !moments.is_empty() {
            let texts: Vec<String> = moments.iter().map(|moment| moment.rfc3339()).collect();
            fields.serialize_entry("then_at", &texts)?;
            fields.serialize_entry("then_at_ms", moments)?;
        }
        fields.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Millis>, D::Error> {
        #[derive(Deserialize)]
        struct Pair {
            #[serde(default)]
            then_at_ms: Vec<Millis>,
        }
        Pair::deserialize(from).map(|pair| pair.then_at_ms)
    }
}

impl JsonSchema for ThenAt {
    fn schema_name() -> Cow<'static, str> {
        "ThenAt".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "then_at": {
                    "type": "array",
                    "items": { "type": "string", "format": "date-time" },
                    "description": "When it is due after that: the next few times. Left out in lists.",
                },
                "then_at_ms": {
                    "type": "array",
                    "items": { "type": "integer", "format": "int64" },
                    "description": "The same in milliseconds since 1970.",
                },
            },
        })
    }
}

/// For `with`: a moment in a request, as RFC 3339 or in milliseconds since 1970. The field needs a default.
pub(crate) struct MaybeTime;

impl MaybeTime {
    pub(crate) fn serialize<S: Serializer>(value: &Option<Millis>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(moment) => to.serialize_str(&moment.rfc3339()),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Millis>, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Asked {
            Number(i64),
            Text(String),
        }
        Option::<Asked>::deserialize(from)?
            .map(|asked| match asked {
                Asked::Number(number) => Ok(Millis(number)),
                Asked::Text(text) => text.parse().map_err(D::Error::custom),
            })
            .transpose()
    }
}

impl JsonSchema for MaybeTime {
    fn schema_name() -> Cow<'static, str> {
        "MaybeTime".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer", "null"], "format": "date-time" })
    }
}
