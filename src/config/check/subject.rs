//! The input of rules, and their result.

use std::borrow::Cow;

use crate::facts::PoolFacts;
use crate::{Config, Facts, Origins};
use model::{PoolSettings, SpawnSpec};

/// The result of a rule.
pub(super) struct Advice {
    /// The setting to look at, by its full name.
    pub(super) setting: Cow<'static, str>,
    pub(super) message: String,
    pub(super) hint: String,
}

pub(super) fn advice(
    setting: impl Into<Cow<'static, str>>,
    message: impl Into<String>,
    hint: impl Into<String>,
) -> Advice {
    Advice { setting: setting.into(), message: message.into(), hint: hint.into() }
}

/// Everything that rules can look at.
#[derive(Clone, Copy)]
pub(super) struct Whole<'a> {
    pub(super) config: &'a Config,
    pub(super) facts: &'a Facts,
    pub(super) origins: &'a Origins,
}

/// One pool of the settings.
#[derive(Clone, Copy)]
pub(super) struct Pool<'a> {
    pub(super) whole: Whole<'a>,
    pub(super) index: usize,
    pub(super) settings: &'a PoolSettings,
    pub(super) spec: &'a SpawnSpec,
    pub(super) facts: &'a PoolFacts,
}

impl Pool<'_> {
    /// Whether the setting was set.
    pub(super) fn says(&self, setting: &str) -> bool {
        self.whole.origins.says(Some(self.index), setting)
    }
}
