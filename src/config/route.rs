//! `route`: which new jobs go to another broker.

use serde::Deserialize;

use super::class_names::classes;
use super::paths::from_here;
use super::{Error, Fault};
use crate::broker::Address;
use crate::model::ClassFilter;

/// A rule as the file has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSection {
    /// Of which classes, as in the setting `classes` of a pool.
    pub classes: Vec<String>,
    /// How many of a hundred of their new jobs; None = all.
    pub percent: Option<u8>,
    /// The URL of the broker that they go to.
    pub to: String,
}

/// Some of the new jobs go to another broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTo {
    /// Of which classes.
    pub classes: ClassFilter,
    /// How many of a hundred of them, 1 to 100.
    pub percent: u8,
    /// The broker that they go to.
    pub to: Address,
}

impl RouteSection {
    /// The rule, with the whole path of a file.
    pub(super) fn resolve(self) -> Result<RouteTo, Error> {
        let wrong = |message: String| Error::new(Fault::Config, message);
        let only = classes("route.classes", Some(self.classes)).map_err(|error| wrong(error.to_string()))?;
        if only.is_empty() {
            return Err(wrong("route.classes names no class".into()).hint("classes: ['*'] stands for all"));
        }
        let percent = self.percent.unwrap_or(100);
        if !(1..=100).contains(&percent) {
            return Err(wrong(format!("route.percent is {percent}: it is a number from 1 to 100")));
        }
        let to = Address::parse(&self.to)
            .map_err(|fault| wrong(format!("route.to: {}", fault.what)).hint(fault.hint))?;
        if to.is_of_supervisor() {
            let why = "route.to is memory:, which nobody reaches but its own supervisor";
            return Err(wrong(why.into()).hint("give a file, or a server"));
        }
        let to = match to.file() {
            Some(path) => Address::of_file(from_here(path.to_owned())?),
            None => to,
        };
        Ok(RouteTo { classes: ClassFilter { only, except: Vec::new() }, percent, to })
    }
}
