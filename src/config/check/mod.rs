//! What `start` would do, and what a person may not have meant: facts in, findings out.
//!
//! Every rule is a row of one of five tables. A rule finds nothing about a setting with its default value, unless the
//! machine cannot support it.

mod limits;
mod logs;
mod pair;
mod pool;
mod subject;
mod whole;

use std::borrow::Cow;

use serde::Serialize;

use self::subject::{Advice, Pool, Whole};
use super::{Config, Facts, Origin, Origins};

/// A finding of `check`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static str,
    /// The pool, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The setting to look at.
    pub setting: Cow<'static, str>,
    /// The origin of that setting: `FILE:LINE:COLUMN`, a flag or a variable; None for a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The problem that was found.
    pub message: String,
    /// What to do.
    pub hint: String,
}

/// Applies all rules.
pub fn check(config: &Config, facts: &Facts, origins: &Origins) -> Vec<Finding> {
    let whole = Whole { config, facts, origins };
    let pools: Vec<Pool> = (config.settings.pools.iter().zip(&config.specs).zip(&facts.pools).enumerate())
        .map(|(index, ((settings, spec), facts))| Pool { whole, index, settings, spec, facts })
        .collect();
    let of_whole = whole::RULES.iter().chain(&logs::RULES);
    let of_whole = of_whole.filter_map(|(rule, look)| Some(whole.finding(rule, look(&whole)?)));
    let of_pools = pools.iter().flat_map(|pool| {
        let rules = pool::RULES.iter().chain(&limits::RULES);
        rules.filter_map(|(rule, look)| Some(pool.finding(rule, look(pool)?)))
    });
    // For each pool only the first other one that a rule finds: a thousand pools have half a million pairs.
    let of_pairs = pools.iter().enumerate().flat_map(|(index, second)| {
        let (before, rules) = (&pools[..index], pair::RULES.iter());
        let found = |look: &pair::Rule| before.iter().find_map(|first| look(first, second));
        rules.filter_map(move |(rule, look)| Some(second.finding(rule, found(look)?)))
    });
    of_whole.chain(of_pools).chain(of_pairs).collect()
}

impl Whole<'_> {
    fn finding(&self, rule: &'static str, advice: Advice) -> Finding {
        let place = match &*advice.setting {
            // The file itself.
            "config" => self.origins.file().map(str::to_owned),
            setting => place(self.origins, None, setting),
        };
        let Advice { setting, message, hint } = advice;
        Finding { rule, pool: None, setting, place, message, hint }
    }
}

impl Pool<'_> {
    fn finding(&self, rule: &'static str, advice: Advice) -> Finding {
        let place = place(self.whole.origins, Some(self.index), &advice.setting);
        let Advice { setting, message, hint } = advice;
        Finding { rule, pool: Some(self.settings.name.clone()), setting, place, message, hint }
    }
}

/// The origin of a setting, or else of the section around it.
fn place(origins: &Origins, pool: Option<usize>, setting: &str) -> Option<String> {
    match origins.of(pool, setting) {
        Origin::Default => place(origins, pool, setting.rsplit_once('.')?.0),
        origin @ (Origin::File(_) | Origin::Typed(_)) => Some(origin.to_string()),
    }
}

#[cfg(test)]
mod tests;
