//! Why a call to a supervisor came back without its answer.

use std::io;

use super::{Place, Problem};

/// Why a call came back without its answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody listens: no socket, or one that its supervisor left behind.
    #[error("no supervisor listens on {0}")]
    NotRunning(Place),
    /// The place is there and cannot be used.
    #[error("failed to connect to {0}")]
    Connect(Place, #[source] io::Error),
    /// Another user listens there: no word was said to it.
    #[error("the socket {0} belongs to uid {1}: what listens there is not yours, and was told nothing")]
    Stranger(Place, u32),
    /// The supervisor went away in the middle.
    #[error("lost the supervisor on {0} before it answered")]
    Lost(Place, #[source] hyper::Error),
    /// It is there and says nothing.
    #[error("the supervisor on {0} does not answer: {1}")]
    Silent(Place, String),
    /// It said no.
    #[error(transparent)]
    Problem(#[from] Problem),
    /// Something else answers there.
    #[error("the answer of {0} makes no sense: {1}")]
    Odd(Place, String),
}
