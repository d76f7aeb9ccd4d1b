//! The directories of a supervisor started by RQ's command line: `rq worker` may be started many times on a machine.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, FdFlag, Flock, FlockArg, fcntl};

use crate::cli::args::Common;
use config::{Flags, Purpose, Surroundings, resolve};
use failure::{Failure, exit};

/// The directories of a supervisor.
#[derive(Debug)]
pub(super) struct Place {
    pub state: PathBuf,
    pub run: PathBuf,
}

/// Most such supervisors on one machine: more are a mistake.
const MOST: u32 = 1000;

/// The directories that were set; else those for its name; else the first that are free. The returned lock keeps others
/// away, also while this process becomes another program.
pub(super) fn place(common: &Common, name: Option<&str>) -> Result<(Option<Flock<File>>, Place), Failure> {
    let mut flags = Flags { purpose: Purpose::Find, ..common.flags() };
    let (state_is_said, run_is_said) = (flags.whole.state_dir.is_some(), flags.whole.run_dir.is_some());
    flags.whole.broker = None;
    let config = resolve(flags, &Surroundings::of_process())?;
    let (state, run) = (config.state_dir, config.run_dir);
    if state_is_said || run_is_said {
        return Ok((None, Place { state, run }));
    }
    let below = |which: &str| Place { state: state.join("rq").join(which), run: run.join("rq").join(which) };
    if let Some(name) = name {
        // Of two with one name the lock of `start` refuses the second.
        return Ok((None, below(&format!("name-{}", plain(name)))));
    }
    for number in 1..=MOST {
        let place = below(&number.to_string());
        if let Some(claim) = claim(&place.state)? {
            return Ok((Some(claim), place));
        }
    }
    let what = format!("{MOST} supervisors of RQ run below {}", state.join("rq").display());
    Err(Failure::new(exit::UNAVAILABLE, what)
        .hint("--state-dir and --run-dir give this one directories of its own"))
}

/// A name in the form of a directory name.
fn plain(name: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => (byte as char).to_string(),
        // Escaped and not replaced, so that two names never share a directory.
        other => format!("%{other:02X}"),
    };
    name.bytes().map(escape).collect()
}

/// Takes a directory, unless it is in use by a supervisor that runs or is about to start.
fn claim(dir: &Path) -> Result<Option<Flock<File>>, Failure> {
    let failed = |error: std::io::Error| Failure::from(error).of(format!("failed to make {}", dir.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    let open = |name: &str| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            // A supervisor that runs has written into its lock whose it is.
            .truncate(false)
            .mode(0o600)
            .open(dir.join(name))
    };
    let Ok(claim) = Flock::lock(open("claim").map_err(failed)?, FlockArg::LockExclusiveNonblock) else {
        return Ok(None);
    };
    // The keeper has closed the claim: once it runs, its own lock says that the place is taken.
    if Flock::lock(open("lock").map_err(failed)?, FlockArg::LockExclusiveNonblock).is_err() {
        return Ok(None);
    }
    // The lock must outlive exec: `start` has taken its own lock before the keeper closes descriptors that it does not
    // know.
    fcntl(&*claim, FcntlArg::F_SETFD(FdFlag::empty())).map_err(|error| failed(error.into()))?;
    Ok(Some(claim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_claimed_once() {
        let dir = tempfile::tempdir().unwrap();
        let first = claim(&dir.path().join("1")).unwrap();
        assert!(first.is_some());
        assert!(claim(&dir.path().join("1")).unwrap().is_none());
        drop(first);
        let _running =
            Flock::lock(File::open(dir.path().join("1/lock")).unwrap(), FlockArg::LockExclusive).unwrap();
        assert!(claim(&dir.path().join("1")).unwrap().is_none(), "a supervisor runs there");
    }

    #[test]
    fn a_name_is_a_directory() {
        assert_eq!(plain("web.1/../x"), "web%2E1%2F%2E%2E%2Fx");
    }
}
