//! Connections of the unix socket: who may connect, how many, and for how long they may say nothing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::guests::{Doing, Guests};
use super::patience::Patient;

/// Who is at the other end, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its user id.
    pub uid: u32,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid {}", self.uid)
    }
}

/// What one client may take from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time. For one more the oldest is closed that has asked nothing for a second; if there is none, the new one
    /// is told so and closed.
    pub connections: usize,
    /// A connection that has sent no whole request head for this long is closed.
    pub header_timeout: Duration,
    /// A connection that takes nothing of its answer for this long is closed.
    pub stall_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 256,
            header_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
        }
    }
}

/// Serves the socket for ever. Dropping the future closes every connection.
pub async fn serve(listener: UnixListener, router: Router, limits: Limits) {
    let mut guests = Guests::new(limits.connections);
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection; trying again in 100 ms");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        match allowed(&stream) {
            Err(who) => {
                let refusal = format!("this socket is not for {who}");
                connections.spawn(refuse(stream, "403 Forbidden", refusal, limits.header_timeout));
            }
            Ok(_) if !guests.has_room() => {
                let refusal = format!("{} clients are connected already", limits.connections);
                connections.spawn(refuse(stream, "503 Service Unavailable", refusal, limits.header_timeout));
            }
            Ok(peer) => {
                let doing = Arc::new(Doing::new());
                let task = connections.spawn(converse(stream, router.clone(), peer, limits, doing.clone()));
                guests.add(task, doing);
            }
        }
    }
}

/// The supervisor's own user, and root.
fn allowed(stream: &UnixStream) -> Result<Peer, String> {
    let own = nix::unistd::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == own || peer.uid() == 0 => Ok(Peer { uid: peer.uid() }),
        Ok(peer) => Err(Peer { uid: peer.uid() }.to_string()),
        Err(error) => Err(format!("a client without credentials ({error})")),
    }
}

async fn converse(stream: UnixStream, router: Router, peer: Peer, limits: Limits, doing: Arc<Doing>) {
    let routes = TowerToHyperService::new(router);
    let stream = Patient::new(stream, limits.stall_timeout, doing.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        doing.asked(true);
        let (answer, doing) = (routes.call(request), doing.clone());
        async move {
            let answer = answer.await;
            doing.asked(false);
            answer
        }
    });
    let ended = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "a connection ended early");
    }
}

/// Answers without reading a word: the client may be one that never says any.
async fn refuse(mut stream: UnixStream, code: &'static str, error: String, deadline: Duration) {
    let body = serde_json::json!({ "error": error }).to_string();
    let answer = format!(
        "HTTP/1.1 {code}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = tokio::time::timeout(deadline, async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    })
    .await;
}
