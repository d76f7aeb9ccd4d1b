//! An answer that is made while it is sent. Its maker waits for the reader, so that little of it is in memory.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::Frame;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use super::Problem;

/// The next piece to send. A problem breaks the connection, so that the client does not take the part for the whole.
pub(super) type Piece = Result<Vec<u8>, Problem>;

/// An answer, and the sender of its pieces, which is closed when the reader has gone.
pub(super) fn stream() -> (Sender<Piece>, Gone, Body) {
    // One piece ahead: for a slow reader no more is kept in memory.
    let (sender, pieces) = channel(1);
    // `here` is dropped with the body, for which `Gone` waits.
    let (here, gone) = oneshot::channel();
    (sender, Gone(gone), Body::new(Stream { pieces, _here: here }))
}

/// Reports when the answer is over.
pub(super) struct Gone(oneshot::Receiver<()>);

impl Gone {
    /// Waits until the reader has got everything, or has gone.
    pub(super) async fn wait(self) {
        let _ = self.0.await;
    }
}

struct Stream {
    pieces: Receiver<Piece>,
    _here: oneshot::Sender<()>,
}

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = Problem;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Problem>>> {
        let piece = self.pieces.poll_recv(context);
        piece.map(|piece| piece.map(|piece| piece.map(|bytes| Frame::data(bytes.into()))))
    }
}
