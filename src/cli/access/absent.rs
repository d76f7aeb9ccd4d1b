//! What a command does where there is no store yet.

use std::path::Path;

use boot::refuse_gone_store;
use config::{Config, private_dir};
use failure::{Failure, exit};

/// What to do where there is no store yet.
#[derive(Clone, Copy)]
pub(super) enum Absent {
    /// The store is made: the command has something to keep.
    Make,
    /// The command is refused, and makes nothing.
    Refuse,
}

impl Absent {
    /// Prepares the place of the store, if the broker is a file.
    pub(super) fn store(self, config: &Config) -> Result<(), Failure> {
        let Some(file) = config.broker.file() else { return Ok(()) };
        refuse_gone_store(config)?;
        match self {
            Absent::Make => {
                private_dir(&config.state_dir)?;
                has_directory(file)
            }
            Absent::Refuse => {
                is_there(config, file)?;
                // This makes nothing, as it is there: it refuses one that others may change.
                if config.state_dir.exists() {
                    private_dir(&config.state_dir)?;
                }
                Ok(())
            }
        }
    }
}

/// Refuses to make a directory beside the state directory: its name may be mistyped.
fn has_directory(file: &Path) -> Result<(), Failure> {
    let Some(dir) = file.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.exists()) else {
        return Ok(());
    };
    let what = format!("cannot make the store {}: there is no directory {}", file.display(), dir.display());
    Err(Failure::new(exit::UNAVAILABLE, what).hint("make it, or give another path"))
}

/// Refuses a store that is not there, unless something beside it shows that it was lost: the look says more of that.
fn is_there(config: &Config, file: &Path) -> Result<(), Failure> {
    config.broker.look()?;
    if file.exists() {
        return Ok(());
    }
    let (store, socket) = (file.display(), config.socket());
    let what = format!("there is no store {store}, and no supervisor listens on {}", socket.display());
    Err(Failure::new(exit::UNAVAILABLE, what)
        .hint("taskvisor start and put make one; another is found by --state-dir and --run-dir, or by -b"))
}
