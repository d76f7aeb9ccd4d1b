//! Makes a parked child, and the sockets and pipes of any child.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt};
use nix::unistd::pipe2;

use super::cgroup::Cgroups;
use super::life::{Ends, Life};
use super::oom::OomScore;
use super::parked::{self, ChildEnds, Origin};
use super::sys;
use model::WorkerId;
use wire::keeper::Step;

/// Makes a parked child, or says which step failed and leaves nothing behind. `forks` is the child's end of a
/// template's socket.
pub(super) fn spawn(
    worker: WorkerId,
    mut cgroups: Option<&mut Cgroups>,
    clone3: bool,
    (origin, oom_score): (&Origin, &OomScore),
    forks: Option<&OwnedFd>,
) -> Result<Life, (Step, Errno)> {
    let (ends, child_socket) = ends()?;
    let placed = cgroups.as_mut().map(|cgroups| cgroups.take_over(worker)).transpose();
    let cgroup = placed.map_err(|errno| (Step::Cgroup, errno))?;
    let by_clone = clone3 && cgroups.as_ref().is_none_or(|cgroups| cgroups.by_clone);
    match fork((&ends, &child_socket, forks), cgroup.as_ref(), by_clone, (origin, oom_score)) {
        Ok(pid) => Ok(Life::new(worker, pid, ends, cgroup.is_some())),
        Err(errno) => {
            if let Some(cgroups) = cgroups {
                cgroups.remove(worker);
            }
            Err((Step::Fork, errno))
        }
    }
}

/// Forks a parked child with its ends of a life.
pub(super) fn fork(
    (ends, child_socket, forks): (&Ends, &OwnedFd, Option<&OwnedFd>),
    cgroup: Option<&OwnedFd>,
    by_clone: bool,
    (origin, oom_score): (&Origin, &OomScore),
) -> nix::Result<i32> {
    let [out, err] = &ends.writers;
    let child_ends = ChildEnds {
        socket: child_socket.as_raw_fd(),
        out: out.as_raw_fd(),
        err: err.as_raw_fd(),
        forks: forks.map(AsRawFd::as_raw_fd),
    };
    oom_score.raise();
    let forked = if by_clone {
        // SAFETY: the keeper has one thread.
        unsafe { sys::clone_into(cgroup.map(AsFd::as_fd)) }
    } else {
        // SAFETY: as above.
        unsafe { sys::fork() }
    };
    if forked == Ok(0) {
        parked::run(child_ends, cgroup.filter(|_| !by_clone), origin);
    }
    oom_score.take_back();
    forked
}

/// Makes the socket and the pipes between supervisor and child. Gives the keeper's copies and the child's end of the
/// socket.
pub(super) fn ends() -> Result<(Ends, OwnedFd), (Step, Errno)> {
    let (socket, child_socket) = socket_pair().map_err(|errno| (Step::Socket, errno))?;
    let (out, child_out) = output_pipe().map_err(|errno| (Step::Pipe, errno))?;
    let (err, child_err) = output_pipe().map_err(|errno| (Step::Pipe, errno))?;
    Ok((Ends { socket, out, err, writers: [child_out, child_err] }, child_socket))
}

/// Makes the socket by which the keeper asks a template to fork and its children reply. The second end is the
/// template's.
pub(super) fn fork_sockets() -> nix::Result<(OwnedFd, OwnedFd)> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
    nonblocking(&ours)?;
    // Set before anyone can send: the kernel then adds the sender's pid to each packet.
    setsockopt(&ours, sockopt::PassCred, &true)?;
    Ok((ours, theirs))
}

/// Makes a socket pair: the supervisor's end does not block, the child's does.
fn socket_pair() -> nix::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
    nonblocking(&ours)?;
    Ok((ours, theirs))
}

fn output_pipe() -> nix::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
    nonblocking(&read)?;
    Ok((read, write))
}

fn nonblocking(fd: &OwnedFd) -> nix::Result<()> {
    // A new descriptor has no other flags that this could clear.
    fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map(drop)
}
