//! The settings, each with its value and its source, as they are shown.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// All settings by their full names, such as `log.level`. The schema's name goes up when a field changes its meaning or
/// disappears.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigShown {
    /// Schema of this document, always `taskvisor.config/1`.
    pub schema: String,
    /// The file from which they were read, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Those of the whole supervisor.
    pub settings: BTreeMap<String, SettingShown>,
    /// Those of each pool, in the order of the file.
    pub pools: Vec<BTreeMap<String, SettingShown>>,
}

/// A setting with its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SettingShown {
    /// The value as the file has it; null if there is none, or in place of a secret.
    pub value: Value,
    /// Where it was set: `default`, a flag, a variable, or `FILE:LINE:COLUMN`.
    pub from: String,
    /// Whether its value is left out, as it may be a secret.
    pub hidden: bool,
}

impl ConfigShown {
    /// The name of the schema.
    pub const SCHEMA: &'static str = "taskvisor.config/1";
}

impl SettingShown {
    /// Whether somebody has set it.
    pub fn is_set(&self) -> bool {
        self.from != "default"
    }
}
