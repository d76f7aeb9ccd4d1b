//! Why a call to a supervisor has no answer.

use std::io;

use super::{Place, Problem};

/// Why a call to a supervisor has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No supervisor listens: there is no socket, or one that a dead supervisor left.
    #[error("no supervisor listens on {0}")]
    NotRunning(Place),
    /// The place exists but cannot be used.
    #[error("failed to connect to {0}")]
    Connect(Place, #[source] io::Error),
    /// Another user listens there: nothing was sent.
    #[error("the socket {0} belongs to uid {1}: what listens there is not yours, and was told nothing")]
    Stranger(Place, u32),
    /// The connection broke during the call.
    #[error("lost the supervisor on {0} before it answered")]
    Lost(Place, #[source] hyper::Error),
    /// The supervisor is there but does not answer.
    #[error("the supervisor on {0} does not answer: {1}")]
    Silent(Place, String),
    /// The supervisor refused.
    #[error(transparent)]
    Problem(#[from] Problem),
    /// Another program answers there.
    #[error("the answer of {0} makes no sense: {1}")]
    Odd(Place, String),
}
