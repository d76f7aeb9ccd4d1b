//! Why a call to a supervisor has no answer.

use std::io;
use std::os::unix::fs::FileTypeExt;

use super::{Place, Problem};

/// Why a call to a supervisor has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No supervisor listens: there is no socket, or one that a dead supervisor left.
    #[error("no supervisor listens on {0}{other}", other = other_file(.0))]
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

/// What is wrong if the place has no socket but another file. A supervisor that runs leaves it: it may be somebody's.
fn other_file(place: &Place) -> &'static str {
    let Place::Socket(path) = place else { return "" };
    let is_other = path.symlink_metadata().is_ok_and(|found| !found.file_type().is_socket());
    if is_other { ": another file is in its place, remove it" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_is_no_socket_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let said = Error::NotRunning(Place::Socket(file.path().into())).to_string();
        assert!(said.ends_with(": another file is in its place, remove it"), "{said}");
        let said = Error::NotRunning(Place::Socket("/no/such".into())).to_string();
        assert_eq!(said, "no supervisor listens on /no/such");
    }
}
