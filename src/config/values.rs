//! Settings with several parts, as the YAML for them.

use serde_yaml::{Mapping, Value};

use super::flow::yaml;
use super::made::Made;
use super::section::Section;
use model::{Bytes, Work};

/// A section that may be absent as a whole.
pub(super) fn of_section<S: Section>(made: Option<&S::Made>) -> Value {
    made.map(S::shown).unwrap_or_default().into()
}

/// The program of its workers, if they speak the worker protocol.
pub(super) fn shown_command(made: &Made) -> Value {
    match &made.spec.work {
        Work::Command(program) => words(program),
        Work::Programs | Work::Run(_) => Value::Null,
    }
}

/// The program of each of its jobs.
pub(super) fn shown_run(made: &Made) -> Value {
    match &made.spec.work {
        Work::Run(program) => words(program),
        Work::Programs | Work::Command(_) => Value::Null,
    }
}

fn words(words: &[Bytes]) -> Value {
    yaml(&words.iter().map(|word| word.to_text()).collect::<Vec<_>>())
}

/// The additions to the environment.
pub(super) fn shown_env(made: &Made) -> Value {
    let set = made.spec.env_set.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into()));
    let set: Mapping = set.collect();
    Mapping::from_iter([("pass".into(), yaml(&made.spec.env_pass)), ("set".into(), set.into())]).into()
}

/// A number, or a map if there is more to say.
pub(super) fn shown_workers(Made { pool, .. }: &Made) -> Value {
    if pool.min_workers.is_none() && pool.sizes.is_empty() {
        return pool.workers.into();
    }
    let mut said = Mapping::new();
    if let Some(min) = pool.min_workers {
        said.insert("min".into(), min.into());
    }
    said.insert("max".into(), pool.workers.into());
    // All rules of a pool have one zone.
    if let Some(rule) = pool.sizes.first() {
        let at: Mapping =
            pool.sizes.iter().map(|rule| (rule.at.to_string().into(), rule.workers.into())).collect();
        said.insert("at".into(), at.into());
        said.insert("zone".into(), rule.zone.iana_name().unwrap_or("UTC").into());
    }
    said.into()
}
