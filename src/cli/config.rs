//! `config show`: every setting with its value and its origin.

use super::args::{Args, ConfigShow};
use super::check::origins;
use super::term::screen::{escaped, print, print_json};
use config::{self, Config};
use failure::{Failure, exit};

/// Prints the resolved settings.
pub(super) fn show(config: &Config, args: &Args, how: &ConfigShow) -> Result<u8, Failure> {
    let mut shown = config::show(config, &origins(args)?, how.secrets);
    if let Some(name) = &how.only {
        shown = shown.only(name).ok_or_else(|| no_pool(config, name))?;
    }
    match how.json {
        true => print_json(&shown.to_document())?,
        false => print(&shown.to_yaml())?,
    }
    Ok(exit::OK)
}

fn no_pool(config: &Config, name: &str) -> Failure {
    let names: Vec<&str> = config.settings.pools.iter().map(|pool| pool.name.as_str()).collect();
    Failure::new(exit::NOTHING_MATCHED, format!("no pool has the name '{}'", escaped(name)))
        .hint(format!("the pools are {}", names.join(", ")))
}
