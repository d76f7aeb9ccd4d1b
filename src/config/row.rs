//! A setting as a row: its name, default, flags, and what people read about it.

use std::ffi::OsStr;

use serde::Deserializer;
use serde_yaml::Value;

use super::flow::flow;

/// A setting, except for its type and place. Texts may use Markdown in `docs` alone.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name in its section of the file.
    pub name: &'static str,
    /// The default, in YAML, where it is not that of the service's settings.
    pub default: &'static str,
    /// The value in the service's settings where nothing is set.
    pub unset: Option<fn() -> Value>,
    /// An example, in YAML, where the default depends on the user.
    pub example: &'static str,
    /// What docs/configuration.md says instead of `default`.
    pub default_in_docs: &'static str,
    /// The flags and variables that set it.
    pub flags: &'static [Flag],
    /// What docs/configuration.md says instead of the flags.
    pub how: &'static str,
    /// The last column of docs/configuration.md. Empty for a section.
    pub docs: &'static str,
    /// The comment in conf/taskvisor.yaml; empty if the one above stands for this setting, too.
    pub conf: &'static str,
    /// Whether an empty line stands above it in conf/taskvisor.yaml.
    pub apart: bool,
    /// Whether `reload` refuses another value, as only a restart takes it.
    pub restart: bool,
    /// The rows of a section.
    pub below: &'static [Row],
}

impl Row {
    /// To take what a row does not say from.
    pub(super) const NONE: Row = Row {
        name: "",
        default: "",
        unset: None,
        example: "",
        default_in_docs: "",
        flags: &[],
        how: "",
        docs: "",
        conf: "",
        apart: false,
        restart: false,
        below: &[],
    };

    /// The default. None for a section, and for a default that depends on the user.
    pub fn default(&self) -> Option<Value> {
        match (self.default, self.unset) {
            _ if self.docs.is_empty() || !self.example.is_empty() => None,
            ("", unset) => unset.map(|unset| unset()),
            // A test ensures that each is valid.
            (text, _) => Some(serde_yaml::from_str(text).unwrap_or_default()),
        }
    }

    /// The default as one line of YAML; empty if there is none.
    pub fn default_text(&self) -> String {
        self.default().as_ref().map(flow).unwrap_or_default()
    }
}

/// A flag for a setting of `start`, and the variable beside it.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The full name of the setting, or of its part, that it sets: `workers.min`.
    pub setting: &'static str,
    /// The long name; empty for the words after `--`.
    pub long: &'static str,
    /// The short name.
    pub short: Option<char>,
    /// The environment variable.
    pub env: Option<&'static str>,
    /// What stands for its value in the help.
    pub value: &'static str,
    /// What can be typed.
    pub kind: Kind,
    /// What the help says. `{}` stands for the default.
    pub help: &'static str,
    /// Whether every command takes it.
    pub everywhere: bool,
    /// The setting whose flag cannot be typed beside it.
    pub not_with: Option<&'static str>,
}

/// What can be typed as the value of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number from the first to the second.
    Number(u64, u64),
    /// A duration with its unit.
    Duration,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A text in UTF-8.
    Text,
    /// The same; this one where the flag stands alone.
    TextOr(&'static str),
    /// A text; the flag may be given several times.
    Texts,
    /// A path of a file.
    Path,
    /// All words after `--`.
    Command,
    /// No value at all.
    Switch,
}

impl Flag {
    /// A flag with a long name alone, of `start`.
    pub(super) const fn new(
        setting: &'static str,
        long: &'static str,
        value: &'static str,
        kind: Kind,
        help: &'static str,
    ) -> Flag {
        let (short, env, not_with) = (None, None, None);
        Flag { setting, long, short, env, value, kind, help, everywhere: false, not_with }
    }

    pub(super) const fn short(self, letter: char) -> Flag {
        Flag { short: Some(letter), ..self }
    }

    pub(super) const fn env(self, variable: &'static str) -> Flag {
        Flag { env: Some(variable), ..self }
    }

    pub(super) const fn everywhere(self) -> Flag {
        Flag { everywhere: true, ..self }
    }

    pub(super) const fn not_with(self, setting: &'static str) -> Flag {
        Flag { not_with: Some(setting), ..self }
    }
}

/// A type of settings: how it is read, typed, and put over another value.
pub trait Setting: Sized {
    /// The rows below it, if it is a section.
    const ROWS: &'static [Row] = &[];

    /// Reads it from the file; `null` is None.
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Self>, D::Error>;

    /// The value of a flag, which may have been given several times.
    fn typed(words: &[&OsStr]) -> Result<Self, String> {
        Err(format!("no flag gives this setting: {words:?}"))
    }

    /// This value, where `other` was set as well, elsewhere.
    #[must_use]
    fn over(self, other: Self) -> Self {
        drop(other);
        self
    }

    /// Whether the setting of this name below it is set; the empty name stands for itself.
    fn says(&self, _name: &str) -> bool {
        true
    }

    /// Sets the part of this name by a flag.
    fn set_part(_slot: &mut Option<Self>, name: &str, _words: &[&OsStr]) -> Result<(), String> {
        Err(format!("there is no setting {name}"))
    }
}

/// Reads a setting, for `deserialize_with`.
pub(super) fn read<'de, T: Setting, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::read(from)
}

/// The first of two values that is set, or both of them together.
pub(super) fn over<T: Setting>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.over(other)),
        (one, other) => one.or(other),
    }
}

/// Sets a value, or the part of it that `name` names, by a flag.
pub(super) fn set<T: Setting>(slot: &mut Option<T>, name: &str, words: &[&OsStr]) -> Result<(), String> {
    match name {
        "" => T::typed(words).map(|value| *slot = Some(value)),
        part => T::set_part(slot, part, words),
    }
}

/// Whether `value` is set, or below it the setting `name`.
pub(super) fn says<T: Setting>(value: Option<&T>, name: &str) -> bool {
    value.is_some_and(|value| value.says(name))
}

/// Whether each row has what the pages need: its text, and a default or an example.
pub(super) const fn complete(rows: &[Row]) -> bool {
    // A `const fn` has no iterators.
    let mut at = 0;
    while at < rows.len() {
        let row = rows[at];
        let has_default = !row.default.is_empty() || row.unset.is_some() || !row.example.is_empty();
        let good =
            if row.docs.is_empty() { !row.below.is_empty() && complete(row.below) } else { has_default };
        if !good {
            return false;
        }
        at += 1;
    }
    true
}
