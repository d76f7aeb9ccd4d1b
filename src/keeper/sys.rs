//! System calls that no safe wrapper offers.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};

use model::{ExitStatus, Usage};

pub(super) const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// A child that was waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reaped {
    pub pid: i32,
    pub status: ExitStatus,
    pub usage: Usage,
}

/// Forks; the child starts in `cgroup` if one is given. Returns 0 in the child.
///
/// # Safety
/// The process must have one thread only: the child goes on in a copy of its memory, and locks held by other threads
/// would never be released there.
pub(super) unsafe fn clone_into(cgroup: Option<BorrowedFd<'_>>) -> nix::Result<i32> {
    // SAFETY: all-zero is a valid clone_args: no flag, no pointer.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        args.flags = CLONE_INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: args outlives the call and its size is passed along. Without CLONE_VM this is a fork; the caller
    // promised a single thread.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    Errno::result(pid).map(|pid| pid as i32)
}

/// The plain fork, for kernels and sandboxes without clone3. Returns 0 in the child.
///
/// # Safety
/// As [`clone_into`].
pub(super) unsafe fn fork() -> nix::Result<i32> {
    // SAFETY: the caller promised a single thread.
    Errno::result(unsafe { libc::fork() })
}

/// A child that has ended, if there is one. It stays a zombie until [`wait_for`] reaps it.
pub(super) fn next_to_reap() -> Option<i32> {
    peek(libc::P_ALL, 0).filter(|&pid| pid != 0)
}

/// Whether a process is a child of ours, dead or alive. The kernel knows this until it is reaped.
pub(super) fn is_child(pid: i32) -> bool {
    u32::try_from(pid).is_ok_and(|pid| pid != 0 && peek(libc::P_PID, pid).is_some())
}

/// Whether a child of ours waits to be reaped.
pub(super) fn has_ended(pid: i32) -> bool {
    u32::try_from(pid).is_ok_and(|child| child != 0 && peek(libc::P_PID, child) == Some(pid))
}

/// A child that has ended, or 0. None when there is no such child.
fn peek(whose: libc::idtype_t, id: libc::id_t) -> Option<i32> {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: all-zero is a valid siginfo, it outlives the call, and the kernel fills in the part that si_pid reads, or
    // leaves it zero.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        (libc::waitid(whose, id, &raw mut info, flags) == 0).then(|| info.si_pid())
    }
}

/// Waits for one child of ours to end.
pub(super) fn wait_for(pid: i32) -> Option<Reaped> {
    let mut status = 0;
    // SAFETY: all-zero is a valid rusage; both pointers are to locals that outlive the call.
    let (pid, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(pid, &raw mut status, 0, &raw mut usage), usage)
    };
    (pid > 0).then(|| Reaped { pid, status: exit_status(status), usage: usage_of(&usage) })
}

fn exit_status(status: i32) -> ExitStatus {
    if libc::WIFSIGNALED(status) {
        ExitStatus::Signal { signal: libc::WTERMSIG(status), core: libc::WCOREDUMP(status) }
    } else {
        ExitStatus::Code(libc::WEXITSTATUS(status))
    }
}

fn usage_of(usage: &libc::rusage) -> Usage {
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    Usage { user: time(usage.ru_utime), system: time(usage.ru_stime), max_rss: usage.ru_maxrss as u64 * 1024 }
}

/// Makes the C library return each large block of memory to the kernel as soon as it is freed. By default it keeps
/// blocks of up to 32 MB once it has seen one of that size, so the memory of a few large frames would stay for ever.
pub fn give_back_large_blocks() {
    const LARGE: i32 = 1 << 20;
    // SAFETY: mallopt takes numbers only.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE)
    };
}

/// Sends a signal. Callers ignore the error of a target that is gone.
pub(super) fn kill(pid: i32, signal: i32) -> nix::Result<()> {
    // SAFETY: kill takes numbers only.
    Errno::result(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Exits at once, without running anything that the parent has set up.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Duplicates `from` to the number `to`, 0 to 3 of a new child, which nothing else uses.
pub(super) fn place(from: RawFd, to: RawFd, flags: i32) -> nix::Result<()> {
    if from == to {
        // SAFETY: fcntl with numbers only.
        return Errno::result(unsafe { libc::fcntl(to, libc::F_SETFD, close_on_exec(flags)) }).map(drop);
    }
    // SAFETY: dup3 takes numbers only; a new child owns all of its table.
    Errno::result(unsafe { libc::dup3(from, to, flags) }).map(drop)
}

fn close_on_exec(flags: i32) -> i32 {
    if flags & libc::O_CLOEXEC == 0 { 0 } else { libc::FD_CLOEXEC }
}

/// Closes every descriptor from `first` on. For a new child, which owns all of its table.
pub(super) fn close_from(first: u32) {
    // SAFETY: numbers only; nothing in the child uses the parent's descriptors after this.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
    if closed == -1 {
        // Kernels before 5.9: one by one.
        // SAFETY: as above.
        open_from(first).into_iter().for_each(|fd| unsafe { _ = libc::close(fd) });
    }
}

/// Has every descriptor from `first` on end with an exec.
pub(super) fn close_on_exec_from(first: u32) {
    const CLOSE_RANGE_CLOEXEC: u32 = 4;
    // SAFETY: numbers only; no descriptor is closed.
    let set = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, CLOSE_RANGE_CLOEXEC) };
    if set == -1 {
        // Kernels before 5.11: one by one.
        // SAFETY: as above.
        open_from(first).into_iter().for_each(|fd| unsafe {
            _ = libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        });
    }
}

/// The open descriptors from `first` on; of the descriptors below 4096 each, if /proc cannot be read.
fn open_from(first: u32) -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return (first as RawFd..4096).collect();
    };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
    numbers.filter(|fd| *fd >= first as RawFd).collect()
}

/// Takes all capabilities from this thread, and so from all that it makes.
pub(super) fn drop_capabilities() -> nix::Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    // The version and the pid, 0 = this thread; then two times effective, permitted and inheritable.
    let (header, none) = ([VERSION_3, 0], [0_u32; 6]);
    // SAFETY: both arrays are as long as this version says, and outlive the call.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) }).map(drop)
}

/// Empties a file that was passed to us as a descriptor. On failure the file stays as it is.
pub(super) fn truncate(fd: RawFd) {
    // SAFETY: ftruncate takes numbers only.
    unsafe { libc::ftruncate(fd, 0) };
}

/// Takes ownership of a descriptor that arrived by number.
///
/// # Safety
/// It must be open, and have no other owner.
pub(super) unsafe fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: promised by the caller.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Bytes sent on a socket that its other end has not read.
pub(super) fn unread(socket: BorrowedFd<'_>) -> i32 {
    let mut bytes = 0;
    // SAFETY: TIOCOUTQ writes one int to the pointer given.
    unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    bytes
}

/// The supplementary groups of the process that connected a socket, at the time it did.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0u32; 64];
    loop {
        let mut bytes = libc::socklen_t::try_from(size_of_val(&groups[..])).unwrap_or(0);
        let (fd, level, name) = (socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERGROUPS);
        // SAFETY: the kernel writes no more than the bytes of the buffer, whose length is passed along.
        let done = unsafe { libc::getsockopt(fd, level, name, groups.as_mut_ptr().cast(), &raw mut bytes) };
        let count = bytes as usize / size_of::<u32>();
        match (done, Errno::last()) {
            (0, _) => {
                groups.truncate(count);
                return Ok(groups);
            }
            // The kernel has given the number of groups.
            (_, Errno::ERANGE) if count > groups.len() => groups.resize(count, 0),
            (_, error) => return Err(error.into()),
        }
    }
}

/// Whether a file has an extended attribute of that name with the value 1.
pub(super) fn has_mark(path: &Path, name: &CStr) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    let mut value = [0u8; 1];
    // SAFETY: both strings end in NUL, and the kernel writes no more than the length that is passed along.
    let len = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    len == 1 && value == *b"1"
}

/// Whether this process was started with that signal ignored, or has it ignored.
pub(super) fn ignores(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction is a valid place for the answer, and nothing is set.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Sets every signal to its default action, none ignored, so that children inherit nothing unusual.
pub(super) fn default_signals() {
    // This is the kernel's sigaction; all zero is SIG_DFL without flags. libc's own call hides 32 and 33, which may
    // have been inherited as ignored.
    let default = [0u64; 4];
    for signal in 1..=64 {
        // SAFETY: the kernel reads a struct of at most that size and writes none. SIG_DFL runs no code of ours.
        // Signals that cannot be set answer with an error, which is fine.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null_mut::<u64>(), 8)
        };
    }
    // Sends no SIGCHLD when a child stops or continues. SAFETY: all-zero plus SIG_DFL is a valid sigaction; the old one
    // is not asked for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        action.sa_flags = libc::SA_NOCLDSTOP;
        libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut());
    }
}

/// Unblocks all signals again.
pub(super) fn unblock_all() {
    _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
}

/// `execve` with strings that end in NUL. Returns only the errno of its failure.
pub(super) fn exec(path: &[u8], argv: &[Vec<u8>], env: &[Vec<u8>]) -> Errno {
    let terminated = |text: &[u8]| text.iter().position(|&byte| byte == 0) == Some(text.len() - 1);
    let strings = || argv.iter().chain(env).map(Vec::as_slice).chain([path]);
    if !strings().all(|text| !text.is_empty() && terminated(text)) {
        return Errno::EINVAL;
    }
    let pointers = |list: &[Vec<u8>]| {
        let pointers = list.iter().map(|text| text.as_ptr().cast::<libc::c_char>());
        pointers.chain([std::ptr::null()]).collect::<Vec<_>>()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: every string was seen to end in its only NUL, both lists end in a null pointer, all outlive the call.
    unsafe { libc::execve(path.as_ptr().cast(), argv.as_ptr(), env.as_ptr()) };
    Errno::last()
}

#[cfg(test)]
mod tests {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    use super::*;

    #[test]
    fn every_open_descriptor_is_found_however_high_it_is() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
        let first = hard.min(5002) as RawFd - 2;
        // SAFETY: numbers only; the new descriptor is owned by nobody else.
        let high = unsafe { own(libc::fcntl(0, libc::F_DUPFD_CLOEXEC, first)) };
        assert!(open_from(first as u32).contains(&high.as_raw_fd()));
        assert!(open_from(0).contains(&0));
        assert!(!open_from(high.as_raw_fd() as u32 + 1).contains(&high.as_raw_fd()));
    }
}
