//! The origin of each setting.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_yaml::Value;

use super::Error;
use super::file::read;
use super::positions::{Source, rest_of};

/// Where a setting was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Not set: the default holds.
    Default,
    /// In the file: `FILE:LINE:COLUMN`.
    File(String),
    /// By this flag or variable.
    Typed(String),
}

/// The origins of all settings.
#[derive(Debug, Default)]
pub struct Origins {
    source: Option<Source>,
    /// The content of the file.
    written: Value,
    /// The flag or variable of each setting that was typed.
    typed: BTreeMap<String, String>,
}

impl Origins {
    /// Reads the file again. `typed` names the flag or variable of each setting that was typed.
    pub fn read(file: Option<&Path>, typed: BTreeMap<String, String>) -> Result<Origins, Error> {
        let Some(path) = file else { return Ok(Origins { typed, ..Origins::default() }) };
        let (_, source) = read(path, None)?;
        // The file was valid a moment ago; if it is no YAML any more it counts as empty.
        let written = serde_yaml::from_str(&source.text).unwrap_or_default();
        Ok(Origins { source: Some(source), written, typed })
    }

    /// For settings that were read before. `typed` as of [`read`](Origins::read).
    pub fn of_source(source: Option<&Source>, typed: BTreeMap<String, String>) -> Origins {
        let written = source.and_then(|source| serde_yaml::from_str(&source.text).ok()).unwrap_or_default();
        Origins { source: source.cloned(), written, typed }
    }

    /// The origin of a setting of a pool, or of the whole supervisor. `env.pass` is the key `pass` below `env`.
    pub fn of(&self, pool: Option<usize>, name: &str) -> Origin {
        // The flag of a section sets what is below it, and one of a part this setting.
        let of_this = |typed: &str| rest_of(name, typed).is_some() || rest_of(typed, name).is_some();
        if let Some((_, how)) = self.typed.iter().find(|(typed, _)| of_this(typed)) {
            return Origin::Typed(how.clone());
        }
        match (self.in_file(pool, name), &self.source) {
            (Some(value), Some(source)) if !value.is_null() => Origin::File(source.of(pool, name)),
            _ => Origin::Default,
        }
    }

    /// The value of a setting in the file, whatever was typed.
    pub(super) fn in_file(&self, pool: Option<usize>, name: &str) -> Option<&Value> {
        let within = match pool {
            Some(index) => self.written.get("pools")?.get(index)?,
            None => &self.written,
        };
        below(within, name)
    }

    /// Whether the setting was set.
    pub fn says(&self, pool: Option<usize>, name: &str) -> bool {
        self.of(pool, name) != Origin::Default
    }

    /// The file's name, if settings were read from one.
    pub fn file(&self) -> Option<&str> {
        self.source.as_ref().map(|source| source.name.as_str())
    }

    /// The content of the file.
    pub(super) fn written(&self) -> &Value {
        &self.written
    }
}

/// The value of a setting below a map.
fn below<'a>(within: &'a Value, name: &str) -> Option<&'a Value> {
    within.as_mapping()?.iter().find_map(|(key, value)| match rest_of(name, key.as_str()?)? {
        "" => Some(value),
        rest => below(value, rest),
    })
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(how) | Origin::Typed(how) => f.write_str(how),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_settings_come_before_the_file_and_null_counts_as_unset() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.yaml");
        let text = "lease: 1m\nstop_deadline: null\nlog:\n  level: warn\npools:\n- name: a\n- {name: b, workers: 2}\n";
        std::fs::write(&path, text).unwrap();
        let typed = BTreeMap::from([("lease".to_owned(), "--lease".to_owned())]);
        let origins = Origins::read(Some(&path), typed).unwrap();
        let of =
            |pool, name| origins.of(pool, name).to_string().replace(&dir.path().display().to_string(), "D");
        assert_eq!(of(None, "lease"), "--lease");
        assert_eq!(of(None, "stop_deadline"), "default");
        assert_eq!(of(None, "log.level"), "D/t.yaml:4:3");
        assert_eq!(of(Some(0), "name"), "D/t.yaml:6:3");
        assert_eq!(of(Some(1), "workers"), "D/t.yaml:7:13");
        assert_eq!(of(Some(0), "workers"), "default");
        assert_eq!(of(Some(7), "workers"), "default");
    }
}
