//! Whether a pool takes the jobs of a class.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a pool runs a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// Its workers run it, as far as is known.
    #[default]
    Runs,
    /// The pool's settings do not let it through.
    Filtered,
    /// None of its workers knows it.
    Unknown,
}
