//! Connections: their number, and how long they may be silent.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::connections::{Activity, Asking, OpenConnections};
use super::limits::Limits;
use super::patience::Patient;
use super::peer::{Door, Peer};
use super::trouble::{NoteAccepting, Trouble};

/// Pause after a failed accept.
const AGAIN: Duration = Duration::from_millis(100);

/// Limit of the refused clients at a time whose request is waited for, so that they read why. More of them are cut off.
const REFUSALS: usize = 64;
/// Limit of the clients at a time that wait for a place while the owner's come in. More of them are refused.
const LINE: usize = 64;

/// Serves a door for ever; `note` learns when it cannot accept, and when it can again. Dropping the future closes every
/// connection.
pub async fn serve(door: impl Door, router: Router, limits: Limits, note: impl NoteAccepting) {
    let mut guests = OpenConnections::new(limits);
    let mut host = Host::new(router, limits);
    let (mut line, mut trouble) = (VecDeque::new(), Trouble::new(note));
    loop {
        // Results of ended connections would pile up in the set.
        while host.connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            accepted = door.accept() => accepted,
            has_room = guests.room(false), if !line.is_empty() => {
                if let Some((stream, peer)) = line.pop_front() {
                    host.seat(&mut guests, stream, peer, has_room);
                }
                continue;
            }
            () = trouble.over() => continue,
        };
        let (stream, who) = match accepted {
            Ok(client) => client,
            Err(error) => {
                trouble.again(&error);
                // For want of a descriptor, most likely: an idle client has one.
                guests.close_idle(true);
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        };
        match who {
            Err(who) => host.refuse(stream, StatusCode::FORBIDDEN, format!("this socket is not for {who}")),
            Ok(peer) if peer.is_owner() => {
                let has_room = guests.room(true).await;
                host.seat(&mut guests, stream, peer, has_room);
            }
            Ok(peer) if line.len() >= LINE => host.seat(&mut guests, stream, peer, false),
            // It waits in a line, for the owner is not to wait behind it.
            Ok(peer) => line.push_back((stream, peer)),
        }
    }
}

/// What serves and refuses the clients of a door.
struct Host {
    router: Router,
    limits: Limits,
    connections: JoinSet<()>,
    refusals: Arc<Semaphore>,
}

impl Host {
    fn new(router: Router, limits: Limits) -> Host {
        Host { router, limits, connections: JoinSet::new(), refusals: Arc::new(Semaphore::new(REFUSALS)) }
    }

    /// Serves a client if there is room, or refuses it.
    fn seat<S>(&mut self, guests: &mut OpenConnections, stream: S, peer: Peer, has_room: bool)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if !has_room {
            let why = format!("{} clients are served already; ask again", self.limits.connections);
            return self.refuse(stream, StatusCode::SERVICE_UNAVAILABLE, why);
        }
        let doing = guests.activity(matches!(peer, Peer::Remote { .. }));
        let talk = converse(stream, self.router.clone(), peer, self.limits, doing.clone());
        guests.add(self.connections.spawn(talk), doing);
    }

    fn refuse<S>(&mut self, stream: S, code: StatusCode, why: String)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Ok(place) = self.refusals.clone().try_acquire_owned() else { return };
        let deadline = self.limits.header_timeout;
        self.connections.spawn(async move {
            refuse(stream, code, why, deadline).await;
            drop(place);
        });
    }
}

async fn converse<S>(stream: S, router: Router, peer: Peer, limits: Limits, doing: Arc<Activity>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let routes = TowerToHyperService::new(router);
    let stream = Patient::new(stream, limits.stall_timeout, doing.clone());
    let guest = doing.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(doing.clone());
        let (answer, asking) = (routes.call(request), doing.ask());
        // It counts as waiting until the last byte of the answer, not only until the first.
        async move { answer.await.map(|answer| answer.map(|body| Awaited { body, _asking: asking })) }
    });
    let ended = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    guest.is_over();
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "a connection ended early");
    }
}

/// The rest of an answer for a waiting client.
struct Awaited {
    body: Body,
    _asking: Asking,
}

impl HttpBody for Awaited {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Refuses a client once it has sent its request: an answer before that makes no sense to it, and it may not read one.
async fn refuse<S>(stream: S, code: StatusCode, error: String, deadline: Duration)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let body = serde_json::json!({ "error": error }).to_string();
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = Response::builder().status(code).header("content-type", "application/json");
        let answer = answer.body(Body::from(body.clone()));
        async move {
            let mut rest = request.into_body();
            // A client that still sends when the connection closes would meet a reset, not the answer.
            while let Some(Ok(_)) = rest.frame().await {}
            answer
        }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(deadline).keep_alive(false);
    let _ = tokio::time::timeout(deadline, server.serve_connection(TokioIo::new(stream), service)).await;
}
