//! Tries whether processes of another user, as pools have them, can be made and ended here. Capabilities do not tell all of it:
//! a security module or a user namespace may refuse what they allow.

use std::fmt;
use std::fs::File;
use std::io::{Read, Write};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::pipe2;

use super::{parked, sys};
use model::Identity;
use wire::program::Identity as Ids;

/// What the kernel refuses with a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// To become the user.
    Start(Errno),
    /// To signal a process of the user.
    End(Errno),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Start(errno) => {
                write!(f, "the kernel refuses to start a process of it: {}", errno.desc())
            }
            Refused::End(errno) => {
                write!(
                    f,
                    "a process of it can be started, and the kernel refuses to end it: {}",
                    errno.desc()
                )
            }
        }
    }
}

/// Starts a process of this user for a moment and kills it. What fails for a reason that may pass proves nothing. Only for a
/// process with one thread.
pub fn try_user(user: &Identity) -> Result<(), Refused> {
    let ids = Ids { uid: user.uid, gid: user.gid, groups: user.groups.clone() };
    let (Ok(told), Ok(held)) = (pipe2(OFlag::O_CLOEXEC), pipe2(OFlag::O_CLOEXEC)) else { return Ok(()) };
    // SAFETY: this process has one thread.
    let Ok(child) = (unsafe { sys::fork() }) else { return Ok(()) };
    if child == 0 {
        drop(held.1);
        let errno = parked::take_ids(&ids).err().map_or(0, |errno| errno as i32);
        File::from(told.1).write_all(&errno.to_le_bytes()).ok();
        // It lives until it is killed, or until the other end is closed.
        File::from(held.0).read_exact(&mut [0]).ok();
        sys::exit_now(0);
    }
    drop(told.1);
    let mut errno = [0; 4];
    let said = File::from(told.0).read_exact(&mut errno);
    let tried = match (said, i32::from_le_bytes(errno)) {
        // It was ended by somebody else, who had the right to.
        (Err(_), _) => Ok(()),
        (Ok(()), 0) => sys::kill(child, libc::SIGKILL).map_err(Refused::End),
        (Ok(()), errno) => Err(Refused::Start(Errno::from_raw(errno))),
    };
    drop(held);
    sys::wait_for(child);
    tried.or_else(|refused| match refused {
        Refused::Start(Errno::EPERM | Errno::EACCES | Errno::EINVAL)
        | Refused::End(Errno::EPERM | Errno::EACCES) => Err(refused),
        Refused::Start(_) | Refused::End(_) => Ok(()),
    })
}
