//! A client's connection to a supervisor, and the error when it breaks.

use std::io;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use tokio::task::JoinHandle;

use super::Place;
use super::client_error::Error;

/// A connection for one call after another.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) sender: http1::SendRequest<Full<Bytes>>,
    /// Ends when the sender is dropped, or when the connection is lost.
    pub(super) connection: JoinHandle<hyper::Result<()>>,
}

/// The error when an answer does not come, or breaks off: the connection may know more than the call.
pub(super) async fn broken(place: &Place, Line { sender, connection }: Line, error: hyper::Error) -> Error {
    // The task of the connection ends once its sender is gone, and knows why the connection did.
    drop(sender);
    let odd = |why: &hyper::Error| Error::Odd(place.clone(), why.to_string());
    match connection.await {
        Ok(Err(cause)) if is_nonsense(&cause) => odd(&cause),
        Ok(_) | Err(_) if is_nonsense(&error) => odd(&error),
        Ok(_) | Err(_) => Error::Lost(place.clone(), error),
    }
}

/// Whether the bytes are no HTTP answer, or one without a request.
fn is_nonsense(error: &hyper::Error) -> bool {
    use std::error::Error as _;
    // What the connection has not caused, nor this side, comes from the parser.
    let is_io = error.source().is_some_and(|source| source.is::<io::Error>());
    !(is_io || error.is_incomplete_message() || error.is_closed() || error.is_canceled())
}
