//! System calls that no safe wrapper offers: the inherited descriptors, forks that are the keeper's children, SIGTERM.
#![expect(unsafe_code, reason = "the only file of this crate that calls the C library")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::parent_id;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::protocol::{CHANNEL, FORKS};

/// The number of a fork request, in bytes.
const NUMBER: usize = 8;
/// Number of descriptors that come with a request: channel, stdout, stderr; then the cgroup's directory, if there is
/// one.
const ENDS: usize = 3;
/// Lowest number above the descriptors of the protocol.
const OUT_OF_THE_WAY: RawFd = 5;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

fn check(result: impl Into<i64>) -> io::Result<i64> {
    match result.into() {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// The channel of this process, close-on-exec. An error if no supervisor started the process.
pub(crate) fn channel() -> io::Result<UnixStream> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let given = std::env::var("TASKVISOR_FD").is_ok_and(|fd| fd == CHANNEL.to_string());
    if !given || TAKEN.swap(true, Ordering::SeqCst) {
        let name = std::env::args().next().unwrap_or_default();
        return Err(io::Error::other(format!(
            "this program is a worker and is started by taskvisor: taskvisor start -w 2 -- {name}"
        )));
    }
    // SAFETY: the supervisor passes the descriptor, and the flag above hands it out only once; if the variable is
    // wrong, the first use of the descriptor fails.
    let socket = unsafe { OwnedFd::from_raw_fd(CHANNEL) };
    // A duplicate is close-on-exec, so that programs a handler starts do not hold the channel.
    Ok(UnixStream::from(out_of_the_way(&socket)?))
}

/// The socket for fork requests, in a template only. Must be called once, after [`channel`].
pub(crate) fn fork_requests() -> Option<OwnedFd> {
    std::env::var("TASKVISOR_FORK_FD").ok().filter(|fd| *fd == FORKS.to_string())?;
    // SAFETY: the keeper passes the descriptor, and this is called once.
    let socket = unsafe { OwnedFd::from_raw_fd(FORKS) };
    out_of_the_way(&socket).ok()
}

fn out_of_the_way(descriptor: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: no pointer; nothing else owns the new descriptor.
    let moved = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) };
    let moved = check(moved)?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(moved as RawFd) })
}

/// The pid of the parent.
pub(crate) fn parent() -> i32 {
    parent_id() as i32
}

/// Sets whether orphans below this process become its children.
pub(crate) fn set_subreaper(wanted: bool) -> io::Result<()> {
    // SAFETY: no pointer.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, libc::c_ulong::from(wanted), 0, 0, 0) })
        .map(drop)
}

/// Seconds of CPU time that this process and its ended children have used.
pub(crate) fn cpu_seconds() -> f64 {
    let of = |whom| {
        // SAFETY: `usage` is plain numbers, for which zeroes are valid, and the kernel only writes to it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(whom, &raw mut usage);
            usage
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}

/// Exits at once, without destructors or exit handlers.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: it does not return.
    unsafe { libc::_exit(code) }
}

/// Which of the two can be read.
pub(crate) enum Ready {
    Channel,
    Requests,
}

/// Waits until one of the two can be read.
pub(crate) fn wait(channel: BorrowedFd<'_>, requests: BorrowedFd<'_>) -> io::Result<Ready> {
    let on = |fd: BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut polled = [on(channel), on(requests)];
    loop {
        // SAFETY: the array outlives the call and has the given number of entries.
        match check(unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) }) {
            Ok(_) if polled[1].revents != 0 => return Ok(Ready::Requests),
            Ok(_) => return Ok(Ready::Channel),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A request to fork a child.
pub(crate) struct Request {
    pub(crate) number: [u8; NUMBER],
    channel: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    pub(crate) cgroup: Option<OwnedFd>,
}

/// The next request; None when the keeper is gone.
pub(crate) fn receive(requests: BorrowedFd<'_>) -> io::Result<Option<Request>> {
    let mut number = [0_u8; NUMBER];
    // Aligned for a cmsghdr, with room for one more descriptor than expected.
    let mut space = [0_u64; 8];
    let mut part = libc::iovec { iov_base: number.as_mut_ptr().cast(), iov_len: NUMBER };
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = space.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&space) as _;
    // SAFETY: everything to which the message points outlives the call, with the given lengths.
    let length = unsafe { libc::recvmsg(requests.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let length = check(length as i64)?;
    let mut descriptors = descriptors(&message).into_iter();
    if length == 0 {
        return Ok(None);
    }
    let wrong = || io::Error::other("a request to fork that is not 8 bytes with 3 or 4 descriptors");
    let mut next = || descriptors.next().map(|descriptor| out_of_the_way(&descriptor));
    match (length as usize, next(), next(), next(), next()) {
        (NUMBER, Some(channel), Some(stdout), Some(stderr), cgroup) => Ok(Some(Request {
            number,
            channel: channel?,
            stdout: stdout?,
            stderr: stderr?,
            cgroup: cgroup.transpose()?,
        })),
        _ => Err(wrong()),
    }
}

fn descriptors(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut found = Vec::new();
    // SAFETY: the kernel has filled the message in; the macros stay within its control length, and each descriptor is
    // new and owned by nothing else.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if ((*header).cmsg_level, (*header).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                for index in 0..(bytes / size_of::<RawFd>()).min(ENDS + 2) {
                    found.push(OwnedFd::from_raw_fd(data.add(index).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    found
}

/// Sends a packet.
pub(crate) fn send(to: BorrowedFd<'_>, packet: &[u8]) -> io::Result<()> {
    // SAFETY: the bytes outlive the call.
    let sent =
        unsafe { libc::send(to.as_raw_fd(), packet.as_ptr().cast(), packet.len(), libc::MSG_NOSIGNAL) };
    check(sent as i64).map(drop)
}

/// The side of a fork.
pub(crate) enum Forked {
    Child,
    Parent,
}

/// Forks a child of our own parent, in that cgroup if the system allows it; else it is in ours.
///
/// With one thread this is a bare clone. Other threads may hold locks of the C library, so with more threads it is two
/// of the library's own forks: the child becomes `keeper`'s when the process in the middle ends.
pub(crate) fn fork_sibling(keeper: i32, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Forked> {
    match has_one_thread().then(thread_id_address).flatten() {
        Some(address) => {
            let born_there = cgroup.map(|cgroup| clone3(address, Some(cgroup)));
            // Another user than the keeper may not do this.
            match born_there.filter(Result::is_ok).unwrap_or_else(|| clone3(address, None)) {
                // Some sandboxes have no clone3.
                Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => fork_twice(keeper),
                other => other,
            }
        }
        None => fork_twice(keeper),
    }
}

fn clone3(address: u64, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Forked> {
    // SAFETY: all-zero is a valid clone_args. With CLONE_PARENT the child has our own exit signal.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = (libc::CLONE_PARENT | libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID) as u64;
    args.child_tid = address;
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: the arguments outlive the call. Without CLONE_VM this is a fork, of a process with one thread. The
    // address is where the C library keeps that thread's id, and belongs to the child from then on.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    Ok(if check(pid)? == 0 { Forked::Child } else { Forked::Parent })
}

fn fork_twice(keeper: i32) -> io::Result<Forked> {
    // SAFETY: the C library keeps its own locks consistent; the child calls nothing of ours that another thread may
    // have locked, as the documentation of `Worker` requires of its user.
    let middle = check(unsafe { libc::fork() })?;
    if middle == 0 {
        // SAFETY: the same, with one thread.
        match check(unsafe { libc::fork() }) {
            Ok(0) => {
                let own = parent();
                // The kernel changes our parent when the process in the middle is gone.
                while parent() == own && own != keeper {
                    std::thread::sleep(Duration::from_micros(200));
                }
                return if parent() == keeper { Ok(Forked::Child) } else { exit_now(1) };
            }
            Ok(_) => exit_now(0),
            Err(error) => exit_now(error.raw_os_error().unwrap_or(libc::EAGAIN)),
        }
    }
    let mut status = 0;
    // SAFETY: the number outlives the call.
    check(unsafe { libc::waitpid(middle as i32, &raw mut status, 0) })?;
    match libc::WEXITSTATUS(status) {
        0 => Ok(Forked::Parent),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn has_one_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// Where the C library keeps the id of this thread; None if that is not known.
fn thread_id_address() -> Option<u64> {
    const PR_GET_TID_ADDRESS: libc::c_int = 40;
    let mut address: *const libc::c_int = std::ptr::null();
    // SAFETY: the pointer outlives the call; the kernel gives the address that the C library gave it for this thread, which is
    // valid for as long as the thread lives.
    unsafe {
        let asked = libc::prctl(PR_GET_TID_ADDRESS, &raw mut address);
        let known = asked == 0 && !address.is_null();
        (known && libc::c_long::from(*address) == libc::syscall(libc::SYS_gettid)).then_some(address as u64)
    }
}

/// In a forked child, after its report: closes the template's descriptors, and takes those that came with the request.
/// Gives its channel.
pub(crate) fn settle(keeper: i32, templates: [RawFd; 2], request: Request) -> io::Result<UnixStream> {
    let nothing = out_of_the_way(&std::fs::File::open("/dev/null")?.into())?;
    // SAFETY: no pointers. The template's descriptors are closed only in this child, which ends by `exit_now` and so
    // never drops their owners; 0 to 3 are replaced as the protocol says.
    unsafe {
        for descriptor in templates {
            libc::close(descriptor);
        }
        check(libc::setsid())?;
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0))?;
        if parent() != keeper {
            exit_now(1);
        }
        set_subreaper(true)?;
        check(libc::dup3(request.channel.as_raw_fd(), CHANNEL, libc::O_CLOEXEC))?;
        check(libc::dup2(nothing.as_raw_fd(), 0))?;
        check(libc::dup2(request.stdout.as_raw_fd(), 1))?;
        check(libc::dup2(request.stderr.as_raw_fd(), 2))?;
        Ok(UnixStream::from_raw_fd(CHANNEL))
    }
}

static HEARD: AtomicBool = AtomicBool::new(false);
static LISTENS: AtomicBool = AtomicBool::new(false);

extern "C" fn hear(_: libc::c_int) {
    HEARD.store(true, Ordering::SeqCst);
}

fn on_term(handler: libc::sighandler_t) {
    // SAFETY: all-zero is a valid sigaction; the handler only stores a flag.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGTERM, &raw const action, std::ptr::null_mut());
    }
}

/// Whether SIGTERM has come. From the first call until [`forget_term`] it does not end the process.
pub(crate) fn term_is_heard() -> bool {
    if !LISTENS.swap(true, Ordering::SeqCst) {
        on_term(hear as extern "C" fn(libc::c_int) as libc::sighandler_t);
    }
    HEARD.load(Ordering::SeqCst)
}

/// Lets SIGTERM end the process again. Gives whether one has come.
pub(crate) fn forget_term() -> bool {
    if !LISTENS.swap(false, Ordering::SeqCst) {
        return false;
    }
    on_term(libc::SIG_DFL);
    HEARD.swap(false, Ordering::SeqCst)
}
