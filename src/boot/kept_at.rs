//! A file in the run directory with the path of the store that the last supervisor used. Without it a state directory that
//! was renamed, or whose disk is not mounted, looks like a first start.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use broker::Error;
use config::Config;
use log::write_private;

fn note(config: &Config) -> PathBuf {
    config.run_dir.join("store")
}

/// Writes the path of the store, if the broker is a file and that is not written there already.
pub(super) fn keep(config: &Config) -> io::Result<()> {
    if is_kept(config) {
        return Ok(());
    }
    config.broker.file().map_or(Ok(()), |file| write_private(&note(config), file.as_os_str().as_bytes()))
}

fn is_kept(config: &Config) -> bool {
    let file = config.broker.file();
    file.is_some_and(|file| fs::read(note(config)).is_ok_and(|noted| noted == file.as_os_str().as_bytes()))
}

/// Removes the file, before a new store is begun.
pub(super) fn forget(config: &Config) -> io::Result<()> {
    match fs::remove_file(note(config)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Refuses to begin a new store in the place of one that is gone.
pub fn refuse_gone_store(config: &Config) -> Result<(), Error> {
    let Some(file) = config.broker.file() else { return Ok(()) };
    if !is_kept(config) || fs::symlink_metadata(file).is_ok() {
        return Ok(());
    }
    Err(Error::Lost(format!(
        "cannot open the store {0}: it is missing, and {1} says that the last supervisor kept jobs in it: put its directory back \
         (was it renamed? is its disk mounted?), or begin a new store on purpose: taskvisor start --new-store",
        file.display(),
        note(config).display()
    )))
}
