//! The way of members of `socket_group` while no supervisor runs: their puts wait in its spool.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::BETWEEN;
use config::Config;
use failure::{Failure, exit};
use spool::{Spool, dir_in};

/// How long a spool may be shut: it is for a moment while a service starts.
const PATIENCE: Duration = Duration::from_secs(10);

/// The spool of the supervisor that these settings lead to, if it is another user's. Where there is one that is shut, a
/// store of this user is no way around it.
pub(super) async fn find(config: &Config) -> Result<Option<Spool>, Failure> {
    if config.broker_is_named {
        return Ok(None);
    }
    let named = config.state_dir_is_named.then_some(&config.state_dir);
    let dirs: Vec<&PathBuf> = [Some(&config.run_dir), named].into_iter().flatten().collect();
    let end = clock::now() + PATIENCE;
    loop {
        if let Some(spool) = dirs.iter().find_map(|dir| Spool::find(dir, api::trusts)) {
            return Ok(Some(spool));
        }
        let Some(dir) = dirs.iter().find(|dir| is_promised(dir)) else { return Ok(None) };
        untrusted(dir)?;
        if clock::now() >= end {
            let why =
                format!("no supervisor runs here, and {} is not open to this user", dir_in(dir).display());
            let hint =
                "start the supervisor; its user lets others pass to the state directory (chmod o+x above it)";
            return Err(Failure::new(exit::NOT_RUNNING, why).hint(hint));
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

/// Refuses a directory that somebody else may have put there, as the socket in it would be.
fn untrusted(dir: &Path) -> Result<(), Failure> {
    let owner = dir.symlink_metadata()?.uid();
    if api::trusts(dir, owner) {
        return Ok(());
    }
    let why = format!(
        "no supervisor runs here, and {} belongs to uid {owner}, who is not trusted with jobs: others than root may have \
         put it there",
        dir.display()
    );
    let hint = "have its run directory below directories that root alone can change, as /run/taskvisor is";
    Err(Failure::new(exit::NOT_RUNNING, why).hint(hint))
}

/// Whether the supervisor of another user keeps a spool for this directory.
fn is_promised(dir: &Path) -> bool {
    let others = dir.symlink_metadata().is_ok_and(|found| found.uid() != nix::unistd::geteuid().as_raw());
    others && dir_in(dir).is_symlink()
}

/// The refusal of all that is no put.
pub(in crate::cli) fn puts_only(spool: &Spool) -> Failure {
    let why = format!("no supervisor runs here, and its store is open to uid {} alone", spool.owner());
    let hint = format!("start it; what is put meanwhile waits in {}", spool.path().display());
    Failure::new(exit::NOT_RUNNING, why).hint(hint)
}

/// Message and hint of a put that was spooled.
pub(in crate::cli) fn note(spool: &Spool) -> (String, String) {
    let dir = spool.path().display();
    let what = format!("no supervisor runs here: the put waits in {dir}, and the next start queues it");
    (what, "its job has no state until then; taskvisor job wait waits for it".into())
}
