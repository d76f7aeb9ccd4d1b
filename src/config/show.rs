//! Every setting with its value and its origin, in YAML that `start -c` reads again.
//!
//! The list of settings are the rows, which have all of them with their defaults. Over these come the values of the file,
//! and then what the rows show of the resolved settings.

use std::collections::BTreeMap;

use serde_yaml::{Mapping, Value};

use super::flow::flow;
use super::made::Made;
use super::section::Section;
use super::{Config, File, Origin, Origins, Pool, Row, Setting};
use model::{ConfigShown, SettingShown};

/// All settings, in the order of the rows.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The name of the file, if there is one.
    file: Option<String>,
    whole: Vec<ShownSetting>,
    /// Pools with their names.
    pools: Vec<(String, Vec<ShownSetting>)>,
}

/// A setting that has changed: the pool, the name, the values before and after.
pub(crate) type Difference = (Option<String>, String, String, String);

/// One setting with its value.
#[derive(Clone, Debug)]
struct ShownSetting {
    /// Its name, after those of its sections.
    path: Vec<String>,
    value: Value,
    origin: Origin,
    /// Whether its value is left out as a secret.
    hidden: bool,
}

/// Collects all settings. Secrets are left out unless `secrets`.
pub fn show(config: &Config, origins: &Origins, secrets: bool) -> Shown {
    let settings = |pool: Option<usize>, values: Mapping| {
        let mut found = Vec::new();
        leaves(&mut Vec::new(), values, &mut |path, value| found.push(setting(origins, pool, path, value)));
        found
    };
    let pools = config.settings.pools.iter().zip(&config.specs).enumerate().map(|(index, (pool, spec))| {
        let mut values = defaults(Pool::ROWS);
        overlay(&mut values, section(origins.written().get("pools").and_then(|pools| pools.get(index))));
        put(&mut values, Pool::ROWS, Pool::shown(&Made { pool: pool.clone(), spec: spec.clone() }));
        (pool.name.clone(), settings(Some(index), values))
    });
    let pools = pools.collect();
    let mut values = defaults(File::ROWS);
    overlay(&mut values, section(Some(origins.written())));
    put(&mut values, File::ROWS, File::shown(config));
    // They are shown apart. `shift_remove` keeps the order of the others.
    values.shift_remove("pools");
    let shown = Shown { file: origins.file().map(str::to_owned), whole: settings(None, values), pools };
    if secrets { shown } else { shown.without_secrets() }
}

/// The default of each row. The pools are not among them.
fn defaults(rows: &[Row]) -> Mapping {
    let own = |row: &Row| match row.docs {
        // Only a section has no text of its own.
        "" => Value::from(defaults(row.below)),
        _ => row.default().unwrap_or_default(),
    };
    rows.iter().filter(|row| row.name != "pools").map(|row| (row.name.into(), own(row))).collect()
}

fn section(of: Option<&Value>) -> Mapping {
    of.and_then(Value::as_mapping).cloned().unwrap_or_default()
}

/// Puts the values of one map over those of another; null counts as not set.
fn overlay(base: &mut Mapping, over: Mapping) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(_), Value::Null) => {}
            (Some(Value::Mapping(below)), Value::Mapping(over)) => overlay(below, over),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

/// Puts what the rows show over what the file says.
fn put(values: &mut Mapping, rows: &[Row], shown: Mapping) {
    for (key, value) in shown {
        let section = rows.iter().find(|row| row.docs.is_empty() && key == row.name);
        match (section, values.get_mut(&key), value) {
            (Some(row), Some(Value::Mapping(below)), Value::Mapping(shown)) => put(below, row.below, shown),
            (_, _, value) => drop(values.insert(key, value)),
        }
    }
}

fn leaves(path: &mut Vec<String>, values: Mapping, found: &mut impl FnMut(Vec<String>, Value)) {
    for (key, value) in values {
        path.push(key.as_str().unwrap_or_default().to_owned());
        match value.as_mapping().filter(|below| !below.is_empty()) {
            Some(below) => leaves(path, below.clone(), found),
            None => found(path.clone(), value),
        }
        path.pop();
    }
}

fn setting(origins: &Origins, pool: Option<usize>, path: Vec<String>, value: Value) -> ShownSetting {
    ShownSetting { origin: origins.of(pool, &path.join(".")), value, path, hidden: false }
}

/// Whether secrets may stand there: no guess by names finds all of them.
fn may_hold_secrets(path: &[String]) -> bool {
    match path {
        [env, set, _] => env == "env" && set == "set",
        // An argument may be a password.
        [program] => program == "run" || program == "command",
        _ => false,
    }
}

impl Shown {
    /// The same, with each secret left out.
    #[must_use]
    pub fn without_secrets(mut self) -> Shown {
        let pools = self.pools.iter_mut().flat_map(|(_, pool)| pool);
        for setting in self.whole.iter_mut().chain(pools) {
            if may_hold_secrets(&setting.path) && !setting.value.is_null() {
                (setting.value, setting.hidden) = (Value::Null, true);
            }
        }
        self
    }

    /// Only the pool of this name; None if it does not exist.
    #[must_use]
    pub fn only(mut self, pool: &str) -> Option<Shown> {
        self.whole.clear();
        self.pools.retain(|(name, _)| name == pool);
        (!self.pools.is_empty()).then_some(self)
    }

    /// The settings that differ in the other one; for a secret, only that it has changed. Both must contain their
    /// secrets.
    pub fn differences(&self, other: &Shown) -> Vec<Difference> {
        let of = |shown: &Shown, pool: &str| -> Vec<(String, String, bool)> {
            let found = shown.pools.iter().find(|(name, _)| name == pool).map(|(_, settings)| settings);
            named(if pool.is_empty() { Some(&shown.whole) } else { found })
        };
        // The empty name stands for the settings of the whole.
        let pools = std::iter::once("").chain(other.pools.iter().map(|(name, _)| name.as_str()));
        let mut all = Vec::new();
        for pool in pools {
            let (before, after) = (of(self, pool), of(other, pool));
            // A pool that was not there is told as one change, not as a list of all its settings.
            let is_new = !pool.is_empty() && before.is_empty();
            let gone = before.iter().filter(|(name, ..)| !after.iter().any(|(other, ..)| other == name));
            let gone = gone.map(|(name, _, secret)| (name.clone(), "null".to_owned(), *secret));
            for (name, to, secret) in after.iter().cloned().chain(gone).filter(|_| !is_new) {
                let from =
                    before.iter().find(|(other, ..)| *other == name).map_or("null", |(_, from, _)| from);
                if from != to {
                    let shown = |value: &str| if secret { "hidden".to_owned() } else { value.to_owned() };
                    all.push((
                        Some(pool.to_owned()).filter(|pool| !pool.is_empty()),
                        name,
                        shown(from),
                        shown(&to),
                    ));
                }
            }
        }
        all
    }

    /// As a settings file, with the origin beside each setting.
    pub fn to_yaml(&self) -> String {
        let mut out = String::new();
        block(&mut out, &self.whole, "", "");
        out += "pools:\n";
        for (_, pool) in &self.pools {
            block(&mut out, pool, "  - ", "    ");
        }
        out
    }

    /// The settings as a document in JSON.
    pub fn to_document(&self) -> ConfigShown {
        let all = |settings: &[ShownSetting]| -> BTreeMap<String, SettingShown> {
            let of = |setting: &ShownSetting| {
                // A key that is no text does not get this far: the file was refused.
                let value = serde_json::to_value(&setting.value).unwrap_or_default();
                let shown = SettingShown { value, from: setting.origin.to_string(), hidden: setting.hidden };
                (setting.path.join("."), shown)
            };
            settings.iter().map(of).collect()
        };
        let pools = self.pools.iter().map(|(_, pool)| all(pool)).collect();
        ConfigShown {
            schema: ConfigShown::SCHEMA.into(),
            file: self.file.clone(),
            settings: all(&self.whole),
            pools,
        }
    }
}

/// Each setting: its full name, its value on one line, and whether it is a secret.
fn named(settings: Option<&Vec<ShownSetting>>) -> Vec<(String, String, bool)> {
    let line = |setting: &ShownSetting| {
        let secret = may_hold_secrets(&setting.path) && !setting.value.is_null();
        (setting.path.join("."), flow(&setting.value), secret)
    };
    settings.into_iter().flatten().map(line).collect()
}

/// Writes a line for each setting, and one for each section that begins. The first line has another margin than the
/// others.
fn block(out: &mut String, settings: &[ShownSetting], first: &str, margin: &str) {
    let mut open: &[String] = &[];
    let mut lead = first;
    for ShownSetting { path, value, origin, hidden } in settings {
        let (name, sections) = path.split_last().map_or(("", &[][..]), |(name, of)| (name.as_str(), of));
        let shared = open.iter().zip(sections).take_while(|(open, own)| open == own).count();
        for (depth, section) in sections.iter().enumerate().skip(shared) {
            *out += &format!("{lead}{}{section}:\n", "  ".repeat(depth));
            lead = margin;
        }
        open = sections;
        let hidden = if *hidden { "hidden; " } else { "" };
        let (depth, name, value) = ("  ".repeat(sections.len()), flow(&name.into()), flow(value));
        *out += &format!("{lead}{depth}{name}: {value}  # {hidden}{}\n", one_line(&origin.to_string()));
        lead = margin;
    }
}

/// A comment must stay on its line.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
