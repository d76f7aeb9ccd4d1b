//! The client of a connection, and the places where clients connect.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::Problem;
use super::role::{Role, mark};
use model::JobRecord;

/// The client, and how it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A user of this machine, as the kernel reports it.
    User(u32),
    /// A client at this address.
    Remote {
        /// The address it connected from.
        address: SocketAddr,
        /// Whether clients may put programs through this port.
        programs: bool,
        /// The role of its token; None = it has yet to show one.
        role: Option<Role>,
    },
}

impl Peer {
    /// Whether it may have the places that are kept for the owner: root, the supervisor's own user, or who comes in by
    /// TCP, where there are no others.
    pub(super) fn is_owner(self) -> bool {
        match self {
            Peer::User(uid) => uid == 0 || uid == nix::unistd::geteuid().as_raw(),
            Peer::Remote { .. } => true,
        }
    }

    /// Refuses programs from clients that may not put any: a program could run anything as the supervisor's user.
    pub(super) fn judge_programs(self, brings: bool) -> Result<(), Problem> {
        match self {
            // Who may put a program can run `taskvisor stop` by it: that is no smaller role.
            Peer::Remote { role: Some(Role::Put), .. } if brings => {
                Err(Problem::new(403, "programs cannot be put with the put token")
                    .hint("put a job with a class"))
            }
            Peer::Remote { programs: false, .. } if brings => {
                Err(Problem::new(403, "programs cannot be put by TCP").hint("api.allow_exec: true allows it"))
            }
            Peer::User(_) | Peer::Remote { .. } => Ok(()),
        }
    }

    /// Whether it may see only some jobs.
    pub(super) fn sees_own_only(self) -> bool {
        matches!(self, Peer::Remote { role: None | Some(Role::Put), .. })
    }

    /// Refuses a job that this client may not see.
    pub(super) fn judge_job(self, job: &JobRecord) -> Result<(), Problem> {
        match self {
            // An unknown role shows what the least one does.
            Peer::Remote { role, .. } => role.unwrap_or(Role::Put).judge_job(job),
            Peer::User(_) => Ok(()),
        }
    }

    /// The client, for whom it asks if it says so, and the mark of its token. The mark stands last: by it the token finds
    /// its jobs again.
    pub(super) fn asking_for(self, name: Option<&str>) -> String {
        let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
        match self {
            Peer::User(uid) => format!("uid {uid}{name}"),
            Peer::Remote { address, role, .. } => {
                format!("{}{name}{}", address.ip(), role.map(mark).unwrap_or_default())
            }
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.asking_for(None))
    }
}

/// A place where clients connect. Each door has its own number of connections: a crowd at one keeps no one out at
/// another.
pub trait Door: Send + 'static {
    /// The stream of a connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection with its client, or the reason to refuse it.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Result<Peer, String>)>> + Send;
}

impl Door for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Result<Peer, String>)> {
        let (stream, _) = UnixListener::accept(self).await?;
        let who = allowed(&stream, None);
        Ok((stream, who))
    }
}

/// Allows the supervisor's own user, root, and the members of a group if one is configured.
fn allowed(stream: &UnixStream, members: Option<Members>) -> Result<Peer, String> {
    let own = nix::unistd::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == own || peer.uid() == 0 => Ok(Peer::User(peer.uid())),
        Ok(peer) if members.is_some_and(|members| members.have(peer.gid(), stream)) => {
            Ok(Peer::User(peer.uid()))
        }
        Ok(peer) => Err(Peer::User(peer.uid()).to_string()),
        Err(error) => Err(format!("a client without credentials ({error})")),
    }
}

/// Users that may use the socket besides its owner and root: the members of a group.
#[derive(Clone, Copy, Debug)]
pub struct Members {
    /// Id of the group.
    pub group: u32,
    /// Asks the kernel for the groups of the process that connected a socket, without its first group.
    pub groups_of: fn(BorrowedFd<'_>) -> io::Result<Vec<u32>>,
}

impl Members {
    /// Whether a client is a member; `first` is its first group.
    fn have(self, first: u32, stream: &UnixStream) -> bool {
        let others = || (self.groups_of)(stream.as_fd()).is_ok_and(|groups| groups.contains(&self.group));
        first == self.group || others()
    }
}

/// A socket that the members of a group may use.
pub struct SharedSocket {
    /// The listening socket.
    pub listener: UnixListener,
    /// The members of the group.
    pub members: Members,
}

impl Door for SharedSocket {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Result<Peer, String>)> {
        let (stream, _) = self.listener.accept().await?;
        let who = allowed(&stream, Some(self.members));
        Ok((stream, who))
    }
}

/// A TCP port. Behind it is a [`Gate`](super::Gate).
pub struct Port {
    /// The listening socket.
    pub listener: TcpListener,
    /// Whether programs can be put through it.
    pub programs: bool,
}

impl Door for Port {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Result<Peer, String>)> {
        let (stream, address) = self.listener.accept().await?;
        // An answer is written in one piece, so waiting for more gains nothing.
        stream.set_nodelay(true).ok();
        keep_alive(&stream).ok();
        Ok((stream, Ok(Peer::Remote { address, programs: self.programs, role: None })))
    }
}

/// Finds out within two minutes that the other host has vanished: a client that only listens would keep its place.
fn keep_alive(stream: &TcpStream) -> nix::Result<()> {
    setsockopt(stream, sockopt::TcpKeepIdle, &60)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &15)?;
    setsockopt(stream, sockopt::TcpKeepCount, &4)?;
    setsockopt(stream, sockopt::KeepAlive, &true)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::Router;
    use axum::routing::get;
    use nix::sys::socket::getsockopt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::{Limits, serve};

    #[tokio::test]
    async fn host_that_vanished_is_found_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = Port { listener, programs: false }.accept().await.unwrap();
        assert!(getsockopt(&stream, sockopt::KeepAlive).unwrap());
        let idle = getsockopt(&stream, sockopt::TcpKeepIdle).unwrap();
        let interval = getsockopt(&stream, sockopt::TcpKeepInterval).unwrap();
        let probes = interval * getsockopt(&stream, sockopt::TcpKeepCount).unwrap();
        assert_eq!(idle + probes, 120, "seconds");
    }

    #[tokio::test]
    async fn a_tcp_client_that_does_not_read_is_disconnected() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let long = Router::new().route("/", get(|| async { "x".repeat(64 << 20) }));
        let limits = Limits { connections: 1, stall_timeout: Duration::from_millis(50), ..Limits::default() };
        tokio::spawn(serve(Port { listener, programs: false }, long, limits, |_| ()));
        let ask = async || {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
            stream
        };
        let mut stalled = ask().await;
        // It waits for an answer, so only its stall frees the only place.
        let mut answer = Vec::new();
        while answer.len() < 64 << 20 {
            answer.clear();
            ask().await.read_to_end(&mut answer).await.ok();
        }
        let mut rest = Vec::new();
        stalled.read_to_end(&mut rest).await.ok();
        assert!(rest.len() < 64 << 20, "it was cut off");
    }
}
