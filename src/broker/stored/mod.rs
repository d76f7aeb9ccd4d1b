//! How values of the model are kept: the JSON in columns of SQLite and in fields of Redis. It is apart from the public JSON,
//! so that neither follows the other, nor the names of fields in Rust. Samples in `tests.rs` hold it byte for byte.
//!
//! Each row describes a type of the model for serde; the compiler asks for a row's field when the type gets one.

mod ends;
mod history;
mod jobs;
#[cfg(test)]
mod tests;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::{Entry, Exec, Failure, Forensics, Pause, Progress, Recurring, Retry, Schedule};

/// A value as it is kept.
pub(super) struct Stored<T>(T);

impl<T> Stored<T> {
    /// What it is.
    pub(super) fn value(self) -> T {
        self.0
    }
}

/// The JSON text that a store keeps of it.
pub(super) fn to_json<T>(value: &T) -> serde_json::Result<String>
where
    for<'a> Stored<&'a T>: Serialize,
{
    serde_json::to_string(&Stored(value))
}

/// What a store has kept.
pub(super) fn from_json<T>(text: &[u8]) -> serde_json::Result<T>
where
    Stored<T>: DeserializeOwned,
{
    serde_json::from_slice(text).map(Stored::value)
}

/// Declares which row a type is kept as.
macro_rules! kept {
    ($($model:ty as $row:ty;)*) => {
        $(impl Serialize for Stored<&$model> {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                <$row>::serialize(self.0, to)
            }
        }

        impl<'de> Deserialize<'de> for Stored<$model> {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                <$row>::deserialize(from).map(Stored)
            }
        })*
    };
}
use kept;

kept! {
    Entry as history::EntryRow;
    Exec as jobs::ExecRow;
    Failure as ends::FailureRow;
    Forensics as ends::ForensicsRow;
    Pause as jobs::PauseRow;
    Progress as jobs::ProgressRow;
    Recurring as jobs::RecurringRow;
    Retry as jobs::RetryRow;
    Schedule as jobs::ScheduleRow;
}

/// For `with`: a value that may be absent or null.
mod maybe {
    use super::*;

    pub fn serialize<T, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error>
    where
        for<'a> Stored<&'a T>: Serialize,
    {
        value.as_ref().map(Stored).serialize(to)
    }

    pub fn deserialize<'de, T, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error>
    where
        Stored<T>: Deserialize<'de>,
    {
        Ok(Option::<Stored<T>>::deserialize(from)?.map(|Stored(value)| value))
    }
}

/// For `with`: the same in a box.
mod maybe_boxed {
    use super::*;

    pub fn serialize<T, S: Serializer>(value: &Option<Box<T>>, to: S) -> Result<S::Ok, S::Error>
    where
        for<'a> Stored<&'a T>: Serialize,
    {
        value.as_deref().map(Stored).serialize(to)
    }

    pub fn deserialize<'de, T, D: Deserializer<'de>>(from: D) -> Result<Option<Box<T>>, D::Error>
    where
        Stored<T>: Deserialize<'de>,
    {
        Ok(maybe::deserialize(from)?.map(Box::new))
    }
}

/// For `with`: values in a list.
mod list {
    use super::*;

    pub fn serialize<T, S: Serializer>(values: &[T], to: S) -> Result<S::Ok, S::Error>
    where
        for<'a> Stored<&'a T>: Serialize,
    {
        to.collect_seq(values.iter().map(Stored))
    }

    pub fn deserialize<'de, T, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error>
    where
        Stored<T>: Deserialize<'de>,
    {
        Ok(Vec::<Stored<T>>::deserialize(from)?.into_iter().map(|Stored(value)| value).collect())
    }
}
