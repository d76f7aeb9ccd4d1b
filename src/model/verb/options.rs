//! Verbs about options.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Options, QueueName};

/// Shows the options in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowOptions {}

/// An option in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OptionShown {
    /// The option's name.
    pub name: String,
    /// The queue; none = all queues.
    pub queue: Option<QueueName>,
    /// The value in force.
    pub value: String,
    /// Whether it was set explicitly.
    pub is_set: bool,
    /// The effect of the option, in a sentence.
    pub does: String,
}

/// Sets an option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetOption {
    /// The option's name.
    pub name: String,
    /// To what: a number, or a length of time like `10s`.
    pub value: String,
    /// The queue; none = all queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
}

/// Puts an option back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnsetOption {
    /// The option's name.
    pub name: String,
    /// The queue; none = all queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
}

/// Sets many options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadOptions {
    /// The values to set.
    pub options: Options,
    /// Whether what is not named goes back to its default.
    #[serde(default)]
    pub clear: bool,
}
