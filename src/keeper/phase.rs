//! How far the keeper is: it serves, or all below it is being ended.

use crate::model::Instant;

/// How far the keeper is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    /// Lives are made and end.
    Serving,
    /// The supervisor is to end, and no life is made any more; then the keeper exits with this code.
    Closing(u8),
    /// The supervisor has ended and all below is being ended. An unknown child that does not die holds up what comes
    /// next for no longer than this.
    Clearing(Next, Instant),
}

/// What follows once all below the keeper has ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    Restart(Instant),
    Exit(u8),
}
