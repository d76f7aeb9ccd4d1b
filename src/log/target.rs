//! The destination of the supervisor's own log.

use std::fmt;
use std::io::{self, Stderr, Write};

use super::journal_socket::Journal;
use super::rotated::{Rotated, write};

pub(super) enum Target {
    Stderr,
    File(Rotated),
    Journal(Journal),
}

impl Target {
    /// Writes, and removes the written part from `bytes`. May block for ever, as stderr does when it is not read.
    pub(crate) fn write(&mut self, bytes: &mut &[u8]) -> io::Result<()> {
        match self {
            Target::Stderr => write(&mut Unlocked(io::stderr()), bytes),
            Target::File(file) => file.write(bytes),
            Target::Journal(journal) => journal.send(bytes),
        }
    }

    /// Opens the file that has the name by then.
    pub(crate) fn reopen(&mut self) {
        match self {
            // A file that cannot be opened is reported at the next write.
            Target::File(file) => drop(file.reopen()),
            Target::Journal(_) | Target::Stderr => {}
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Stderr => f.write_str("stderr"),
            Target::File(file) => write!(f, "{}", file.path().display()),
            Target::Journal(journal) => write!(f, "the journal at {}", journal.path().display()),
        }
    }
}

/// Writes without a lock: a thread that blocks in a write to stderr does not block others that write to it.
struct Unlocked(Stderr);

impl Write for Unlocked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(nix::unistd::write(&self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
