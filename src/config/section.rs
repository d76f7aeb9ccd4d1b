//! A section of the file, made of rows that know their place in the service's settings.
//!
//! `settings!` makes of the rows the struct, its parser, how flags and file come together, how they are written into the
//! service's settings and shown from there, and [`Setting::ROWS`], from which the flags and the pages are made.

use serde_yaml::{Mapping, Value};

use super::purpose::Reading;
use super::row::Setting;
use super::wrong::Wrong;

/// A setting whose value becomes an `F` in the service's settings.
pub(super) trait Gives<F> {
    /// Writes the value of the setting `key`.
    fn put(self, key: &'static str, field: &mut F, with: &Reading<'_>) -> Result<(), Wrong>;

    /// The value in YAML.
    fn shown(field: &F) -> Value;
}

impl<S: Gives<F>, F: Default> Gives<Option<F>> for S {
    fn put(self, key: &'static str, field: &mut Option<F>, with: &Reading<'_>) -> Result<(), Wrong> {
        S::put(self, key, field.insert(F::default()), with)
    }

    fn shown(field: &Option<F>) -> Value {
        field.as_ref().map_or(Value::Null, S::shown)
    }
}

/// A section of the file, of which each row knows its place in the service's settings.
pub(super) trait Section: Setting {
    /// The settings that its rows write. Their `Default` has the defaults.
    type Made: Default;

    /// Writes what is set, in the order of the rows.
    fn write(self, made: &mut Self::Made, with: &Reading<'_>) -> Result<(), Wrong>;

    /// The settings that rows show from what was made, as the file has them.
    fn shown(made: &Self::Made) -> Mapping;

    /// The first row that differs and that only a restart takes.
    fn needs_restart(known: &Self::Made, read: &Self::Made) -> Option<&'static str>;
}

/// Declares a section of the file: its name with a dot, what its rows write, and the rows. Each is
/// `name: Type => (PLACE) { field: value, … }` with fields of [`Row`]. The place says
///
/// * `at PATH`: the field of the service's settings, which a [`Gives`] writes and shows;
/// * `set FUNCTION`: what writes the value in its stead, as there is something to check;
/// * `show FUNCTION`: what shows it in its stead. A row with `show` and without `set` is written together with others.
macro_rules! settings {
    (
        $(#[$outer:meta])*
        pub struct $Section:ident($prefix:literal) => $Made:ty {
            $($(#[$doc:meta])* $name:ident: $kind:ty $(=> $place:tt)? { $($field:ident: $value:expr),* $(,)? })*
        }
    ) => {
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
        $(#[$outer])*
        pub struct $Section {
            $($(#[$doc])* #[serde(default, deserialize_with = "crate::row::read")] pub $name: Option<$kind>,)*
        }

        impl crate::row::Setting for $Section {
            const ROWS: &'static [crate::row::Row] = &[$(crate::row::Row {
                name: stringify!($name),
                below: <$kind as crate::row::Setting>::ROWS,
                $(unset: crate::section::unset_row!($place, $kind, $Made),)?
                $($field: $value,)*
                ..crate::row::Row::NONE
            }),*];

            fn read<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Self>, D::Error> {
                serde::Deserialize::deserialize(from)
            }

            fn over(self, other: Self) -> Self {
                $Section { $($name: crate::row::over(self.$name, other.$name)),* }
            }

            fn says(&self, name: &str) -> bool {
                $(if let Some(part) = crate::positions::rest_of(name, stringify!($name)) {
                    return crate::row::says(self.$name.as_ref(), part);
                })*
                name.is_empty() && *self != Self::default()
            }

            fn set_part(slot: &mut Option<Self>, name: &str, words: &[&std::ffi::OsStr]) -> Result<(), String> {
                let section = slot.get_or_insert_with(Self::default);
                $(if let Some(part) = crate::positions::rest_of(name, stringify!($name)) {
                    return crate::row::set(&mut section.$name, part, words);
                })*
                Err(format!("there is no setting {name}"))
            }
        }

        impl crate::section::Section for $Section {
            type Made = $Made;

            fn write(self, made: &mut $Made, with: &crate::purpose::Reading<'_>) -> Result<(), crate::wrong::Wrong> {
                $($(if let Some(said) = self.$name {
                    let key = concat!($prefix, stringify!($name));
                    crate::section::write_row!($place, $kind, $Made, said, key, made, with);
                })?)*
                Ok(())
            }

            fn shown(made: &$Made) -> serde_yaml::Mapping {
                let shown: [Option<(&str, serde_yaml::Value)>; _] =
                    [$($(crate::section::show_row!($place, $kind, $Made, made).map(|value| (stringify!($name), value)),)?)*];
                shown.into_iter().flatten().map(|(name, value)| (name.into(), value)).collect()
            }

            fn needs_restart(known: &$Made, read: &$Made) -> Option<&'static str> {
                let differ = [$((
                    concat!($prefix, stringify!($name)),
                    // `false` stands for a row without a place, which cannot differ.
                    [false, $(crate::section::differ_row!($place, known, read))?].contains(&true),
                )),*];
                let rows = <Self as crate::row::Setting>::ROWS.iter().zip(differ);
                let mut found = rows.filter(|(row, (_, differs))| row.restart && *differs);
                found.next().map(|(_, (name, _))| name)
            }
        }

        impl crate::section::Gives<$Made> for $Section {
            fn put(self, _: &'static str, field: &mut $Made, with: &crate::purpose::Reading<'_>) -> Result<(), crate::wrong::Wrong> {
                crate::section::Section::write(self, field, with)
            }

            fn shown(field: &$Made) -> serde_yaml::Value {
                <Self as crate::section::Section>::shown(field).into()
            }
        }
    };
}
pub(super) use settings;

/// Writes the value that was set.
macro_rules! write_row {
    ((at $($path:ident).+), $kind:ty, $Made:ty, $said:ident, $key:ident, $made:ident, $with:ident) => {
        crate::section::Gives::put($said, $key, &mut $made.$($path).+, $with)?
    };
    (($(at $($path:ident).+,)? set $set:expr $(, show $show:expr)?), $kind:ty, $Made:ty, $said:ident, $key:ident, $made:ident, $with:ident) => {{
        // With this type a row can have a closure without types.
        let set: fn($kind, &'static str, &mut $Made, &crate::purpose::Reading<'_>) -> Result<(), crate::wrong::Wrong> = $set;
        set($said, $key, $made, $with)?
    }};
    (($($together:tt)*), $kind:ty, $Made:ty, $said:ident, $key:ident, $made:ident, $with:ident) => {
        // What is written together with others was taken out before.
        _ = ($said, $key)
    };
}
pub(super) use write_row;

/// The value in what was made, if the row shows it.
macro_rules! show_row {
    ((at $($path:ident).+ $(, set $set:expr)?), $kind:ty, $Made:ty, $made:expr) => {
        Some(<$kind as crate::section::Gives<_>>::shown(&$made.$($path).+))
    };
    ((set $set:expr), $kind:ty, $Made:ty, $made:expr) => {
        None::<serde_yaml::Value>
    };
    (($(at $($path:ident).+,)? $(set $set:expr,)? show $show:expr), $kind:ty, $Made:ty, $made:expr) => {{
        let show: fn(&$Made) -> serde_yaml::Value = $show;
        Some(show($made))
    }};
}
pub(super) use show_row;

/// The value where nothing is set, if the row shows it.
macro_rules! unset_row {
    ((set $set:expr), $kind:ty, $Made:ty) => {
        None
    };
    ($place:tt, $kind:ty, $Made:ty) => {
        Some(|| {
            let made = &<$Made>::default();
            crate::section::show_row!($place, $kind, $Made, made).unwrap_or_default()
        })
    };
}
pub(super) use unset_row;

/// Whether the values of a row differ. What has no field of its own does not.
macro_rules! differ_row {
    ((at $($path:ident).+ $(, $($rest:tt)*)?), $known:ident, $read:ident) => {
        $known.$($path).+ != $read.$($path).+
    };
    (($($rest:tt)*), $known:ident, $read:ident) => {
        false
    };
}
pub(super) use differ_row;
