//! A finding of the doctor.

use serde::Serialize;

/// The weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// As it should be.
    Ok,
    /// Something is missing, but taskvisor works without it.
    Less,
    /// Something cannot work, or promises are not kept.
    Bad,
}

/// The result of one check.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) state: State,
    pub(super) found: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) effect: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) remedy: &'static str,
}

impl Check {
    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Check { name, state: State::Ok, found: found.into(), effect: "", remedy: "" }
    }

    pub(super) fn less(
        name: &'static str,
        found: impl Into<String>,
        effect: &'static str,
        remedy: &'static str,
    ) -> Self {
        Check { state: State::Less, effect, remedy, ..Check::ok(name, found) }
    }

    pub(super) fn bad(
        name: &'static str,
        found: impl Into<String>,
        effect: &'static str,
        remedy: &'static str,
    ) -> Self {
        Check { state: State::Bad, effect, remedy, ..Check::ok(name, found) }
    }
}
