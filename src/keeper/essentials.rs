//! System calls and files without which neither keeper nor supervisor can start, found out by trying.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::SigSet;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::timerfd::{ClockId, TimerFd, TimerFlags};

/// What cannot be done here.
#[derive(Debug)]
pub struct Missing {
    what: String,
    error: io::Error,
    /// What to do about it.
    pub remedy: &'static str,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.error)
    }
}

impl Missing {
    /// Whether it is refused, rather than not there.
    pub fn is_refused(&self) -> bool {
        self.error.kind() == io::ErrorKind::PermissionDenied
    }
}

const SECCOMP: &str = "a seccomp profile refuses it, as of an old container engine: use a newer one, or a profile that lets it \
                       pass (docker run --security-opt seccomp=FILE; systemd: SystemCallFilter=@system-service)";
const PROC: &str =
    "mount the whole of it: mount -t proc proc /proc, without subset=pid; in a unit ProcSubset=all";
const DEV: &str = "a /dev with null in it: mknod -m 666 /dev/null c 1 3";

/// Tries all of them, and gives the first that cannot be done. It starts a thread for a moment.
pub fn essentials() -> Result<(), Missing> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let pair = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags);
    let calls = [
        ("prlimit64", getrlimit(Resource::RLIMIT_NOFILE).map(drop)),
        ("signalfd4", SignalFd::with_flags(&SigSet::empty(), SfdFlags::SFD_CLOEXEC).map(drop)),
        ("timerfd_create", TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC).map(drop)),
        ("socketpair", pair.map(drop)),
    ];
    for (call, tried) in calls {
        tried.map_err(|errno| refused(call, errno.into()))?;
    }
    let thread = std::thread::Builder::new().spawn(|| ()).map(|thread| thread.join().ok());
    thread.map_err(|error| refused("clone3, for a thread,", error))?;
    let children = format!("/proc/self/task/{}/children", std::process::id());
    for path in ["/proc/self/stat", &children, "/proc/sys/kernel/random/boot_id"] {
        File::open(path).map_err(|error| missing(path, error, PROC))?;
    }
    let null = OpenOptions::new().read(true).write(true).open("/dev/null");
    null.map(drop).map_err(|error| missing("/dev/null", error, DEV))
}

fn refused(call: &str, error: io::Error) -> Missing {
    let is_refusal = matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EPERM | Errno::ENOSYS));
    let remedy = if is_refusal { SECCOMP } else { "see the limits of this user: ulimit -a" };
    Missing { what: format!("the system call {call} fails"), error, remedy }
}

fn missing(path: &str, error: io::Error, remedy: &'static str) -> Missing {
    Missing { what: format!("cannot open {path}"), error, remedy }
}
