//! The form in which values are stored.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value in its stored form.
pub struct Stored<T>(pub(super) T);

impl<T> Stored<T> {
    /// The value itself.
    pub fn value(self) -> T {
        self.0
    }
}

/// The JSON text to store for a value.
pub fn to_json<T>(value: &T) -> serde_json::Result<String>
where
    for<'a> Stored<&'a T>: Serialize,
{
    serde_json::to_string(&Stored(value))
}

/// Reads a stored value.
pub fn from_json<T>(text: &[u8]) -> serde_json::Result<T>
where
    Stored<T>: DeserializeOwned,
{
    serde_json::from_slice(text).map(Stored::value)
}

/// Declares in which form a type is stored.
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
pub(super) use kept;

/// For `with`: a value that may be absent or null.
pub(super) mod maybe {
    use super::*;

    pub(crate) fn serialize<T, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error>
    where
        for<'a> Stored<&'a T>: Serialize,
    {
        value.as_ref().map(Stored).serialize(to)
    }

    pub(crate) fn deserialize<'de, T, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error>
    where
        Stored<T>: Deserialize<'de>,
    {
        Ok(Option::<Stored<T>>::deserialize(from)?.map(|Stored(value)| value))
    }
}

/// For `with`: the same in a box.
pub(super) mod maybe_boxed {
    use super::*;

    pub(crate) fn serialize<T, S: Serializer>(value: &Option<Box<T>>, to: S) -> Result<S::Ok, S::Error>
    where
        for<'a> Stored<&'a T>: Serialize,
    {
        value.as_deref().map(Stored).serialize(to)
    }

    pub(crate) fn deserialize<'de, T, D: Deserializer<'de>>(from: D) -> Result<Option<Box<T>>, D::Error>
    where
        Stored<T>: Deserialize<'de>,
    {
        Ok(maybe::deserialize(from)?.map(Box::new))
    }
}

/// For `with`: values in a list.
pub(super) mod list {
    use super::*;

    pub(crate) fn serialize<T, S: Serializer>(values: &[T], to: S) -> Result<S::Ok, S::Error>
    where
        for<'a> Stored<&'a T>: Serialize,
    {
        to.collect_seq(values.iter().map(Stored))
    }

    pub(crate) fn deserialize<'de, T, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error>
    where
        Stored<T>: Deserialize<'de>,
    {
        Ok(Vec::<Stored<T>>::deserialize(from)?.into_iter().map(|Stored(value)| value).collect())
    }
}
