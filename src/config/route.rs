//! `route`: rules that send new jobs to another broker.

use serde::Deserialize;
use serde_yaml::{Mapping, Value};

use super::class_names::classes;
use super::paths::from_here;
use super::{Error, Fault};
use broker::Address;
use model::ClassFilter;

/// A rule in the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSection {
    /// The classes, as in the setting `classes` of a pool.
    pub classes: Vec<String>,
    /// The share of their new jobs, in percent; None = all.
    pub percent: Option<u8>,
    /// The URL of the other broker.
    pub to: String,
}

/// A rule that sends some new jobs to another broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTo {
    /// The classes of the jobs.
    pub classes: ClassFilter,
    /// The share of them, 1 to 100 percent.
    pub percent: u8,
    /// The broker that gets them.
    pub to: Address,
}

impl RouteTo {
    /// The rule as the file has it.
    pub(super) fn shown(&self) -> Value {
        let classes: Vec<Value> = self.classes.only.iter().map(|class| class.as_str().into()).collect();
        let said = [
            ("classes".into(), classes.into()),
            ("percent".into(), self.percent.into()),
            ("to".into(), self.to.to_string().into()),
        ];
        Mapping::from_iter(said).into()
    }
}

impl RouteSection {
    /// Resolves the rule; the path of a file becomes absolute. An error comes with the key that it is about.
    pub(super) fn resolve(self) -> Result<RouteTo, (&'static str, Error)> {
        let wrong = |message: String| Error::new(Fault::Config, message);
        let only = classes("route.classes", self.classes);
        let only = only.map_err(|error| ("classes", wrong(error.to_string())))?;
        if only.is_empty() {
            let error = wrong("route.classes names no class".into());
            return Err(("classes", error.hint("classes: ['*'] stands for all")));
        }
        let percent = self.percent.unwrap_or(100);
        if !(1..=100).contains(&percent) {
            let error = wrong(format!("route.percent is {percent}: it is a number from 1 to 100"));
            return Err(("percent", error));
        }
        let to = brokers::address(&self.to)
            .map_err(|fault| ("to", wrong(format!("route.to: {}", fault.what)).hint(fault.hint)))?;
        if to.is_of_supervisor() {
            let why = "route.to is memory:, which nobody reaches but its own supervisor";
            return Err(("to", wrong(why.into()).hint("give a file, or a server")));
        }
        let to = match to.file() {
            Some(path) => brokers::in_file(from_here(path.to_owned()).map_err(|error| ("to", error))?),
            None => to,
        };
        Ok(RouteTo { classes: ClassFilter { only, except: Vec::new() }, percent, to })
    }
}
