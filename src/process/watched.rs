//! A descriptor in tokio's care.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

/// Registers a descriptor of ours.
#[expect(
    deprecated,
    reason = "its replacement is unsafe for types that may close the descriptor while it is registered; an OwnedFd \
              cannot, and unsafe code belongs to keeper/ alone"
)]
pub(super) fn watched(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(descriptor)
}
