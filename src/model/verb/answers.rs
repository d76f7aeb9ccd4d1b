//! Answers that several verbs share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::JobState;

/// Nothing to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {}

/// What a job is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct State {
    /// Its state.
    pub state: JobState,
}

/// How many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Number {
    /// So many.
    pub count: u64,
}
