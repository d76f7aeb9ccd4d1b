//! The types of settings that more than one section has.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::IntoDeserializer;
use serde::de::value::Error;
use serde::{Deserialize, Deserializer};
use serde_yaml::Value;

use super::duration::duration;
use super::flow::yaml;
use super::paths::from_here;
use super::purpose::Reading;
use super::row::Setting;
use super::section::Gives;
use super::size::{Size, format_size};
use super::wrong::Wrong;
use super::{format_duration, parse_duration};
use model::{CutOff, Leftovers, LogFormat, LogLevel, Order};
use wq::WhenAway;

/// Types that serde reads as they are, and how they are typed.
macro_rules! plain {
    ($($kind:ty: $typed:expr),* $(,)?) => {
        $(impl Setting for $kind {
            fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Self>, D::Error> {
                Option::deserialize(from)
            }

            fn typed(words: &[&OsStr]) -> Result<Self, String> {
                let typed: fn(&[&OsStr]) -> Result<Self, String> = $typed;
                typed(words)
            }
        })*
    };
}

plain!(u32: number, u64: number, i32: number, String: |words| text(words).map(str::to_owned));
plain!(Order: word, CutOff: word, Leftovers: word, LogFormat: word, LogLevel: word, WhenAway: word);
// A switch has no value: it is true where it was given at all.
plain!(bool: |_| Ok(true), PathBuf: |words| Ok(last(words)?.into()));
plain!(Vec<String>: |words| words.iter().map(|word| text(&[word]).map(str::to_owned)).collect());

/// Types that no flag gives.
macro_rules! of_file {
    ($($kind:ty: $rows:expr),*) => {
        $(impl crate::row::Setting for $kind {
            const ROWS: &'static [crate::row::Row] = $rows;

            fn read<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Self>, D::Error> {
                serde::Deserialize::deserialize(from)
            }
        })*
    };
}

pub(super) use of_file;

impl Setting for Duration {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Self>, D::Error> {
        duration(from)
    }

    fn typed(words: &[&OsStr]) -> Result<Self, String> {
        parse_duration(text(words)?)
    }
}

/// How values become those of the service's settings, and are shown.
macro_rules! gives {
    ($($kind:ty => $field:ty: $put:expr, $shown:expr;)*) => {
        $(impl Gives<$field> for $kind {
            fn put(self, key: &'static str, field: &mut $field, _: &Reading<'_>) -> Result<(), Wrong> {
                let put: fn($kind) -> Result<$field, super::Error> = $put;
                put(self).map(|value| *field = value).map_err(|error| Wrong::at(key, error))
            }

            fn shown(field: &$field) -> Value {
                let shown: fn(&$field) -> Value = $shown;
                shown(field)
            }
        })*
    };
}

gives! {
    bool => bool: Ok, yaml;
    i32 => i32: Ok, yaml;
    u32 => u32: Ok, yaml;
    u64 => u64: Ok, yaml;
    String => String: Ok, yaml;
    Order => Order: Ok, yaml;
    CutOff => CutOff: Ok, yaml;
    Leftovers => Leftovers: Ok, yaml;
    LogFormat => LogFormat: Ok, yaml;
    LogLevel => LogLevel: Ok, yaml;
    WhenAway => WhenAway: Ok, yaml;
    Duration => Duration: Ok, |duration| format_duration(*duration).into();
    Size => u64: |size| Ok(size.bytes()), |bytes| format_size(*bytes).into();
    PathBuf => PathBuf: from_here, |path| path.display().to_string().into();
}

fn last<'a>(words: &[&'a OsStr]) -> Result<&'a OsStr, String> {
    // Of a flag that was given several times the last one counts.
    words.last().copied().ok_or_else(|| "a value is missing".to_owned())
}

pub(super) fn text<'a>(words: &[&'a OsStr]) -> Result<&'a str, String> {
    last(words)?.to_str().ok_or_else(|| "this is no text in UTF-8".to_owned())
}

pub(super) fn number<T: std::str::FromStr<Err = std::num::ParseIntError>>(
    words: &[&OsStr],
) -> Result<T, String> {
    text(words)?.parse().map_err(|error: std::num::ParseIntError| error.to_string())
}

/// One of the words of a type that the file spells so.
pub(super) fn word<T: for<'de> Deserialize<'de>>(words: &[&OsStr]) -> Result<T, String> {
    let text = text(words)?;
    let word: serde::de::value::StrDeserializer<'_, Error> = text.into_deserializer();
    T::deserialize(word).map_err(|error| error.to_string())
}
