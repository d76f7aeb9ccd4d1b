//! Registers descriptors with tokio.

use std::io;
use std::os::fd::OwnedFd;

use nix::sys::epoll::Epoll;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor of ours for one kind of readiness: others must not wake us.
#[expect(
    deprecated,
    reason = "its replacement is unsafe for types that may close the descriptor while it is registered; an OwnedFd \
              cannot, and unsafe code belongs to keeper/ alone"
)]
pub fn watched(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, interest)
}

/// Must be called before a descriptor is closed: the keeper holds a duplicate, so closing alone would leave it in the
/// epoll set for ever.
pub(super) fn unwatch(epoll: &Epoll, descriptor: Option<&OwnedFd>) {
    if let Some(descriptor) = descriptor {
        epoll.delete(descriptor).ok();
    }
}
