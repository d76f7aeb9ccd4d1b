//! sd_notify: one datagram.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixDatagram;

use nix::sys::socket::{MsgFlags, UnixAddr, sendto};
use std::os::fd::AsRawFd;

/// The socket of systemd, if there is one.
pub(super) struct Notify {
    target: Option<(UnixDatagram, UnixAddr)>,
}

impl Notify {
    /// From `$NOTIFY_SOCKET`: a path, or an abstract name behind `@`.
    pub(crate) fn new(address: Option<OsString>) -> Self {
        let address = address.map(OsString::into_vec).unwrap_or_default();
        let address = match address.split_first() {
            Some((b'@', name)) => UnixAddr::new_abstract(name).ok(),
            Some((b'/', _)) => UnixAddr::new(address.as_slice()).ok(),
            Some(_) | None => None,
        };
        Notify { target: UnixDatagram::unbound().ok().zip(address) }
    }

    /// Whether somebody listens for notifications.
    pub(crate) fn is_heard(&self) -> bool {
        self.target.is_some()
    }

    /// Best effort, as the protocol has it: never blocks, never fails.
    pub(crate) fn send(&self, text: &str) {
        let Some((socket, address)) = &self.target else { return };
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        _ = sendto(socket.as_raw_fd(), text.as_bytes(), address, flags);
    }
}
