//! The output of a change to one job: its id and its state.

use crate::cli::term::screen::{escaped, print, print_json};
use failure::Failure;
use model::{JobId, JobState};

/// Prints one line, or one JSON object.
pub(super) fn print_state(id: &JobId, state: JobState, json: bool) -> Result<(), Failure> {
    match json {
        true => print_json(&serde_json::json!({ "id": id, "state": state })),
        false => print(&format!("{} {state}\n", escaped(id.as_str()))),
    }
}
