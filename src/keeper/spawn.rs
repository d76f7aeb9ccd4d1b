//! Making a parked child.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::pipe2;

use super::cgroup::Cgroups;
use super::life::{Ends, Life};
use super::parked::{self, ChildEnds, Origin};
use super::sys;
use crate::model::WorkerId;
use crate::wire::keeper::Step;

/// Makes one, or says which step failed. Nothing is left of a failure.
pub(super) fn spawn(
    worker: WorkerId,
    cgroups: Option<&Cgroups>,
    clone3: bool,
    origin: &Origin,
) -> Result<Life, (Step, Errno)> {
    let at = |step| move |errno| (step, errno);
    let (socket, child_socket) = socket_pair().map_err(at(Step::Socket))?;
    let (out, child_out) = output_pipe().map_err(at(Step::Pipe))?;
    let (err, child_err) = output_pipe().map_err(at(Step::Pipe))?;
    let cgroup = cgroups.map(|cgroups| cgroups.make(worker)).transpose().map_err(at(Step::Cgroup))?;
    let ends = ChildEnds {
        socket: child_socket.as_raw_fd(),
        out: child_out.as_raw_fd(),
        err: child_err.as_raw_fd(),
    };
    let by_clone = cgroups.is_none_or(|cgroups| cgroups.by_clone);
    let forked = if clone3 && by_clone {
        // SAFETY: the keeper has one thread.
        unsafe { sys::clone_into(cgroup.as_ref().map(AsFd::as_fd)) }
    } else {
        // SAFETY: as above.
        unsafe { sys::fork() }
    };
    match forked {
        Ok(0) => parked::run(ends, cgroup.as_ref().filter(|_| !(clone3 && by_clone)), origin),
        Ok(pid) => {
            let ends = Ends { socket, out, err, writers: [child_out, child_err] };
            Ok(Life::new(worker, pid, ends, cgroup.is_some()))
        }
        Err(errno) => {
            if let Some(cgroups) = cgroups {
                cgroups.remove(worker);
            }
            Err((Step::Fork, errno))
        }
    }
}

/// The supervisor's end, which must not block it, and the child's, which blocks.
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
    // A new descriptor has no other flag that could be lost.
    fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map(drop)
}
