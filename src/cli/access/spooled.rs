//! The way of members of `socket_group` while no supervisor runs: their puts wait in its spool.

use config::Config;
use failure::{Failure, exit};
use spool::Spool;

/// The spool of the supervisor that these settings lead to, if it is another user's.
pub(super) fn find(config: &Config) -> Option<Spool> {
    if config.broker_is_named {
        return None;
    }
    let named = config.state_dir_is_named.then_some(&config.state_dir);
    [Some(&config.run_dir), named].into_iter().flatten().find_map(|dir| Spool::find(dir, api::trusts))
}

/// The refusal of all that is no put.
pub(super) fn puts_only(spool: &Spool) -> Failure {
    let why = format!("no supervisor runs here, and its store is open to uid {} alone", spool.owner());
    let hint = format!("start it; what is put meanwhile waits in {}", spool.path().display());
    Failure::new(exit::NOT_RUNNING, why).hint(hint)
}

/// What a put says.
pub(in crate::cli) fn note(spool: &Spool) -> (String, String) {
    let dir = spool.path().display();
    let what = format!("no supervisor runs here: the put waits in {dir}, and the next start queues it");
    (what, "its job has no state until then; taskvisor job wait waits for it".into())
}
