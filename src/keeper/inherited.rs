//! The supervisor's side of the socket.

use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{SockType, getsockopt, sockopt};

use super::{FD_VARIABLE, sys};

static TAKEN: AtomicBool = AtomicBool::new(false);

/// The socket to the keeper that started this process, close-on-exec and non-blocking. None if no keeper did, and
/// None when asked a second time.
pub fn inherited_socket() -> Option<OwnedFd> {
    let fd: RawFd = std::env::var(FD_VARIABLE).ok()?.parse().ok()?;
    if fd < 3 || TAKEN.swap(true, Ordering::SeqCst) {
        return None;
    }
    // SAFETY: the keeper's child put the descriptor there before exec, and the flag above hands it out only once. If
    // the variable is wrong, the check below fails and the descriptor stays open.
    let socket = unsafe { sys::own(fd) };
    if getsockopt(&socket, sockopt::SockType) != Ok(SockType::SeqPacket) {
        std::mem::forget(socket);
        return None;
    }
    fcntl(socket.as_fd(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).ok()?;
    Some(socket)
}
