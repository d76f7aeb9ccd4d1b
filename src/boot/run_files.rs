//! The files beside the API's socket in the run directory, which a cleaner of temporary files may remove, and the lock of
//! the state directory.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;

use super::{kept_at, locks, noted};
use broker::Complaints;
use config::Config;
use spool::dir_in;

/// What the path of the store is written there for: a state directory that was renamed is refused.
const UNKEPT: &str = "the next start does not notice that the state directory was renamed";
/// What the broker is noted for.
const UNNOTED: &str = "commands that name no broker do not find it while no supervisor runs";
/// What the lock is for.
const UNLOCKED: &str = "another supervisor may take the run directory";
/// What the lock of the state directory is for.
const UNOWNED: &str = "the state directory is not locked for this supervisor";
/// What the link is for.
const UNLINKED: &str = "members of socket_group can leave no puts while no supervisor runs";

/// Has the run directory, which is all that members know, lead to the spool. It stays when the supervisor ends.
fn link_spool(config: &Config) -> io::Result<()> {
    let (link, spool) = (dir_in(&config.run_dir), dir_in(&fs::canonicalize(&config.state_dir)?));
    let is_there = fs::read_link(&link).is_ok_and(|leads| leads == spool);
    if is_there == config.socket_group.is_some() {
        return Ok(());
    }
    match fs::remove_file(&link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    if config.socket_group.is_some() { symlink(spool, link) } else { Ok(()) }
}

/// Puts back the locks of the run directory and of the state directory, the notes of store and broker and the link to the
/// spool, if one is missing. False: that failed, and the health says so until it works.
pub(super) fn put_back(config: &Config, complaints: &Complaints) -> bool {
    let locked = locks::hold_again(config).map_err(|failure| failure.in_a_line());
    let owned = locks::hold_state_again(config).map_err(|failure| failure.in_a_line());
    let dir = config.run_dir.display();
    let kept = kept_at::keep(config).map_err(|error| format!("cannot write {dir}/store: {error}"));
    let noted = noted::note(config)
        .map_err(|error| format!("cannot note the broker in {dir} and the state directory: {error}"));
    let linked = link_spool(config).map_err(|error| format!("cannot link {dir}/spool: {error}"));
    let results =
        [(UNLOCKED, locked), (UNOWNED, owned), (UNKEPT, kept), (UNNOTED, noted), (UNLINKED, linked)];
    for (what, result) in &results {
        match result {
            Ok(()) => complaints.well(what, clock::now()),
            Err(why) => complaints.stands(what, why, clock::now()),
        }
    }
    results.iter().all(|(_, result)| result.is_ok())
}
