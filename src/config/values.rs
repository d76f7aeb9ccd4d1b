//! Settings with several parts, as the YAML for them.

use serde_yaml::{Mapping, Value};

use super::RouteTo;
use model::PoolSettings;

/// A rule of `route`.
pub(super) fn route(route: &RouteTo) -> Value {
    let classes: Vec<Value> = route.classes.only.iter().map(|class| class.as_str().into()).collect();
    let said = [
        ("classes".into(), classes.into()),
        ("percent".into(), route.percent.into()),
        ("to".into(), route.to.to_string().into()),
    ];
    Mapping::from_iter(said).into()
}

/// A number, or a map if there is more to say.
pub(super) fn workers(pool: &PoolSettings) -> Value {
    if pool.min_workers.is_none() && pool.sizes.is_empty() {
        return pool.workers.into();
    }
    let mut said = Mapping::new();
    if let Some(min) = pool.min_workers {
        said.insert("min".into(), min.into());
    }
    said.insert("max".into(), pool.workers.into());
    if let Some(rule) = pool.sizes.first() {
        let at: Mapping =
            pool.sizes.iter().map(|rule| (rule.at.to_string().into(), rule.workers.into())).collect();
        said.insert("at".into(), at.into());
        said.insert("zone".into(), rule.zone.iana_name().unwrap_or("UTC").into());
    }
    said.into()
}
