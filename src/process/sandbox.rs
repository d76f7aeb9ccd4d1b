//! A directory of its own for each slot, empty when a job begins.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::model::Identity;

/// Makes the directory anew. What was in it is moved aside at once and removed by a thread: a job may have left a million
/// files, and the next one must not wait for them.
pub(super) fn empty(dir: &Path, owner: Option<&Identity>) -> io::Result<PathBuf> {
    clear(dir)?;
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    if let Some(who) = owner {
        chown(dir, Some(who.uid), Some(who.gid))?;
        // The way to it must be open to that user: the directory of all slots' directories, and that of the state, in which
        // everything else is closed by itself.
        dir.ancestors().skip(1).take(2).try_for_each(let_pass)?;
    }
    Ok(dir.to_owned())
}

/// Others may pass through, and see nothing.
fn let_pass(dir: &Path) -> io::Result<()> {
    let mode = fs::metadata(dir)?.mode() & 0o7777;
    if mode & 0o011 == 0o011 {
        return Ok(());
    }
    fs::set_permissions(dir, Permissions::from_mode(mode | 0o011))
}

/// Moves the directory aside, if it is there, and has it removed.
pub(super) fn clear(dir: &Path) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let aside = dir.with_extension(format!("gone-{}-{number}", std::process::id()));
    match fs::rename(dir, &aside) {
        Ok(()) => {
            std::thread::Builder::new().name("tv-sandbox".into()).stack_size(256 << 10).spawn(move || {
                if let Err(error) = fs::remove_dir_all(&aside) {
                    tracing::warn!(%error, path = %aside.display(), "failed to remove what a job left");
                }
            })?;
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
