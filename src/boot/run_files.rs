//! The files beside the API's socket in the run directory, which a cleaner of temporary files may remove.

use super::{kept_at, locks};
use broker::Complaints;
use config::Config;

/// What the path of the store is written there for: a state directory that was renamed is refused.
const UNNOTED: &str = "the next start does not notice that the state directory was renamed";
/// What the lock is for.
const UNLOCKED: &str = "another supervisor may take the run directory";

/// Puts back the lock of the run directory and the note of the store, if one is missing. False: that failed, and the health
/// says so until it works.
pub(super) fn put_back(config: &Config, complaints: &Complaints) -> bool {
    let locked = locks::hold_again(config).map_err(|failure| failure.in_a_line());
    let dir = config.run_dir.display();
    let noted = kept_at::keep(config).map_err(|error| format!("cannot write {dir}/store: {error}"));
    let results = [(UNLOCKED, locked), (UNNOTED, noted)];
    for (what, result) in &results {
        match result {
            Ok(()) => complaints.well(what, clock::now()),
            Err(why) => complaints.stands(what, why, clock::now()),
        }
    }
    results.iter().all(|(_, result)| result.is_ok())
}
