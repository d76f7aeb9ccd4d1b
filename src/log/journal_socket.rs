//! The socket of systemd's journal.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// The journal's socket. It is looked up for each entry, so that a restarted journal is found.
pub(super) struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Journal {
    pub(crate) fn new(path: &Path) -> io::Result<Journal> {
        Ok(Journal { socket: UnixDatagram::unbound()?, path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the journal listens.
    pub(crate) fn check(&self) -> io::Result<()> {
        UnixDatagram::unbound()?.connect(&self.path)
    }

    /// Sends an entry whole, or not at all.
    pub(crate) fn send(&self, entry: &mut &[u8]) -> io::Result<()> {
        self.socket.send_to(entry, &self.path)?;
        *entry = &[];
        Ok(())
    }
}
