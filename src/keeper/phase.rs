//! Phase of the keeper: it serves, or it is ending everything below it.

use model::Instant;

/// How far the keeper is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    /// The keeper makes lives.
    Serving,
    /// The supervisor is to end, and no life is made any more; then the keeper exits with this code.
    Closing(u8),
    /// The supervisor has ended and everything below is being ended. An unknown child that does not die delays the next
    /// step until this moment at most.
    Clearing(Next, Instant),
}

/// What the keeper does once everything below it has ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    Restart(Instant),
    Exit(u8),
}
