//! The parked child, from fork to exec. It runs in a copy of the keeper's memory and touches little of it.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recv, recvmsg, send};
use nix::unistd::{
    Gid, Uid, chdir, fchown, getgroups, getppid, getresgid, getresuid, setgroups, setresgid, setresuid,
    setsid,
};

use super::sys;
use model::ProcessLimits;
use wire::fault::passes;
use wire::program::{BEGINS, Failed, Identity, PROGRAM_MAX, Program, Step, WAITS};

const SOCKET: RawFd = 3;
const FORKS: RawFd = 4;
const PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// How long a step is tried again that fails for a reason that may pass.
const PATIENCE: Duration = Duration::from_secs(1);
/// The wait between two tries. The system tells nobody when a program is written or memory is free, so nothing else can
/// be waited for; this process has one thread and nothing else to do.
const PAUSE: Duration = Duration::from_millis(20);

/// Facts about the keeper that a child needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub keeper: i32,
    pub null: RawFd,
    pub subreaper: bool,
    /// The limits on descriptors as they were before the keeper raised its own.
    pub nofile: Option<(u64, u64)>,
    /// The keeper's nice value before it raised its priority.
    pub nice: Option<i32>,
}

/// The child's ends of the socket and the pipes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChildEnds {
    pub socket: RawFd,
    pub out: RawFd,
    pub err: RawFd,
    /// The socket by which a template is asked to fork.
    pub forks: Option<RawFd>,
}

/// A panic must not unwind into the keeper's loop: the child runs the same code.
pub(super) struct NoReturn;

impl Drop for NoReturn {
    fn drop(&mut self) {
        sys::exit_now(126);
    }
}

/// Runs the parked child. Never returns.
pub(super) fn run(ends: ChildEnds, cgroup: Option<&OwnedFd>, origin: &Origin) -> ! {
    let _guard = NoReturn;
    if cgroup.is_some_and(|cgroup| super::cgroup::enter(cgroup).is_err()) || settle(ends, origin).is_err() {
        sys::exit_now(126);
    }
    let Ok(first) = wait_for_order(SOCKET) else { sys::exit_now(126) };
    // The supervisor went away or does not need this child.
    let Some((len, stdin)) = first else { sys::exit_now(0) };
    let (step, errno) = match read_program(SOCKET, len) {
        Ok(program) => become_program(program, stdin, ends.forks.is_some(), origin.keeper),
        Err(errno) => (Step::Order, errno),
    };
    let failed = Failed { step, errno: errno as i32 };
    say(&failed.encode());
    sys::exit_now(failed.exit_code());
}

/// Sets up session, bond to the keeper, descriptors and signals. The mask comes last, so that no signal finds the child
/// half set up.
fn settle(ends: ChildEnds, origin: &Origin) -> nix::Result<()> {
    setsid()?;
    if origin.subreaper {
        prctl::set_child_subreaper(true)?;
    }
    bind_to(origin.keeper)?;
    if let Some(nice) = origin.nice {
        super::priority::take_back(nice);
    }
    // The keeper holds descriptors 0 to 4 open all its life (null, signals and timer come before any child), so no end
    // is overwritten before it is placed.
    sys::place(origin.null, 0, 0)?;
    sys::place(ends.out, 1, 0)?;
    sys::place(ends.err, 2, 0)?;
    sys::place(ends.socket, SOCKET, libc::O_CLOEXEC)?;
    match ends.forks {
        Some(forks) => {
            sys::place(forks, FORKS, libc::O_CLOEXEC)?;
            sys::close_from(FORKS as u32 + 1);
        }
        None => sys::close_from(SOCKET as u32 + 1),
    }
    if let Some((soft, hard)) = origin.nofile {
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
    }
    prctl::set_name(c"tv-parked")?;
    sys::unblock_all();
    Ok(())
}

/// Makes this process die with the keeper. The kernel forgets this when a process changes its user.
pub(super) fn bind_to(keeper: i32) -> nix::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    // If the keeper died before the line above, no signal will come any more.
    if getppid().as_raw() != keeper {
        sys::exit_now(0);
    }
    Ok(())
}

/// The length of the order, and the descriptor that came with it. None at end of file.
pub(super) fn wait_for_order(socket: RawFd) -> nix::Result<Option<(usize, Option<OwnedFd>)>> {
    let mut head = [0; 4];
    let mut space = nix::cmsg_space!([RawFd; 1]);
    let (len, stdin) = loop {
        let mut parts = [IoSliceMut::new(&mut head)];
        match recvmsg::<()>(socket, &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC) {
            Ok(message) => {
                let fds = message.cmsgs()?.find_map(|control| {
                    if let ControlMessageOwned::ScmRights(fds) = control {
                        fds.first().copied()
                    } else {
                        None
                    }
                });
                // SAFETY: the kernel has just made this descriptor for us.
                break (message.bytes, fds.map(|fd| unsafe { sys::own(fd) }));
            }
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    };
    if len == 0 || !read_exactly(socket, &mut head[len..])? {
        return Ok(None);
    }
    Ok(Some((u32::from_le_bytes(head) as usize, stdin)))
}

pub(super) fn read_program(socket: RawFd, len: usize) -> nix::Result<Program> {
    if len > PROGRAM_MAX {
        return Err(Errno::E2BIG);
    }
    let mut message = vec![0; len];
    if !read_exactly(socket, &mut message)? {
        return Err(Errno::EPIPE);
    }
    Program::decode(&message).filter(|program| !program.argv.is_empty()).ok_or(Errno::EBADMSG)
}

/// False at end of file.
fn read_exactly(socket: RawFd, mut rest: &mut [u8]) -> nix::Result<bool> {
    while !rest.is_empty() {
        match recv(socket, rest, MsgFlags::MSG_WAITALL) {
            Ok(0) => return Ok(false),
            Ok(len) => rest = &mut rest[len..],
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(true)
}

/// Sets up and executes the program. Returns only on failure.
fn become_program(
    mut program: Program,
    stdin: Option<OwnedFd>,
    template: bool,
    keeper: i32,
) -> (Step, Errno) {
    // First the steps that need the rights of the keeper's own user.
    if let Err(failed) = take_limits(program.process_limits) {
        return failed;
    }
    // After the change of user: a directory, or the file to execute, may be open to that user alone.
    let identity = program.identity.as_ref();
    if let Err(errno) = patiently(|| identity.map_or(Ok(()), |identity| become_user(identity, keeper))) {
        return (Step::Identity, errno);
    }
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(program.umask));
    if let Err(errno) = patiently(|| chdir(program.cwd.as_slice())) {
        return (Step::Chdir, errno);
    }
    if let Err(errno) = place_descriptors(&program, stdin, template) {
        return (Step::Descriptors, errno);
    }
    let mut files = files(&program);
    program.argv.iter_mut().chain(&mut program.env).chain(&mut files.0).for_each(|text| text.push(0));
    // A worker says by itself that it has begun.
    let mark = |mark: u8| {
        if !program.speaks {
            say(&[mark])
        }
    };
    let executed = patiently(|| {
        mark(BEGINS);
        let errno = exec_by_path(&program, &files);
        mark(WAITS);
        Err::<(), Errno>(errno)
    });
    (Step::Exec, executed.err().unwrap_or(Errno::UnknownErrno))
}

/// Tries a step again while it fails for a reason that may pass.
fn patiently(mut step: impl FnMut() -> nix::Result<()>) -> nix::Result<()> {
    let until = clock::now() + PATIENCE;
    loop {
        match step() {
            Err(errno) if passes(errno) && clock::now() < until => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
}

/// Reports to the supervisor, if it is still there.
fn say(words: &[u8]) {
    _ = send(SOCKET, words, MsgFlags::MSG_NOSIGNAL);
}

fn take_limits(process_limits: ProcessLimits) -> Result<(), (Step, Errno)> {
    if let Some(files) = process_limits.open_files {
        setrlimit(Resource::RLIMIT_NOFILE, files, files).map_err(|errno| (Step::OpenFiles, errno))?;
    }
    if let Some(nice) = process_limits.nice {
        rustix::process::setpriority_process(None, nice)
            .map_err(|errno| (Step::Nice, Errno::from_raw(errno.raw_os_error())))?;
    }
    if let Some(score) = process_limits.oom_score_adj {
        let errno = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
        set_oom_score(score).map_err(|error| (Step::OomScore, errno(error)))?;
    }
    Ok(())
}

/// Sets the score of the out-of-memory killer. While this process is closed to others of its user, the file belongs to
/// root, so the process is opened to them for that moment.
fn set_oom_score(score: i32) -> std::io::Result<()> {
    let is_open = prctl::get_dumpable()?;
    prctl::set_dumpable(true)?;
    let written = std::fs::write("/proc/self/oom_score_adj", score.to_string());
    prctl::set_dumpable(is_open)?;
    written
}

/// Sets the groups before the user, who may not change them. Only what the kernel reports afterwards counts, not the
/// success of a call: an unnoticed failure would run the job as root.
fn become_user(identity: &Identity, keeper: i32) -> nix::Result<()> {
    let (user, group) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    if is_impossible(identity) {
        return Err(Errno::EINVAL);
    }
    if is_user(identity)? {
        return Ok(());
    }
    // Best effort: with them a program may open /dev/stdout and /dev/stderr by name.
    _ = fchown(std::io::stdout(), Some(user), Some(group));
    _ = fchown(std::io::stderr(), Some(user), Some(group));
    take_ids(identity)?;
    bind_to(keeper)
}

/// Whether one of its numbers means "leave it as it is" to the kernel.
pub(super) fn is_impossible(identity: &Identity) -> bool {
    identity.groups.iter().chain([&identity.uid, &identity.gid]).any(|number| *number == u32::MAX)
}

/// Takes the groups, then the user.
pub(super) fn take_ids(identity: &Identity) -> nix::Result<()> {
    let (user, group) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    let groups: Vec<Gid> = identity.groups.iter().copied().map(Gid::from_raw).collect();
    setgroups(&groups)?;
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    if is_user(identity)? { Ok(()) } else { Err(Errno::EPERM) }
}

/// Whether this process has that user in all of its ids, and exactly those groups.
pub(super) fn is_user(identity: &Identity) -> nix::Result<bool> {
    let sorted = |mut groups: Vec<u32>| {
        groups.sort_unstable();
        groups.dedup();
        groups
    };
    let (users, groups) = (getresuid()?, getresgid()?);
    let users = [users.real, users.effective, users.saved].map(Uid::as_raw);
    let first = [groups.real, groups.effective, groups.saved].map(Gid::as_raw);
    let others = sorted(getgroups()?.into_iter().map(Gid::as_raw).collect());
    Ok(users == [identity.uid; 3] && first == [identity.gid; 3] && others == sorted(identity.groups.clone()))
}

fn place_descriptors(program: &Program, stdin: Option<OwnedFd>, template: bool) -> nix::Result<()> {
    match (program.stdin, stdin) {
        (true, Some(stdin)) => sys::place(stdin.as_raw_fd(), 0, 0)?,
        (true, None) => return Err(Errno::EBADF),
        (false, _) => {}
    }
    // Otherwise exec closes the socket, which shows the supervisor that exec has happened.
    if program.speaks {
        sys::place(SOCKET, SOCKET, 0)?;
    }
    if program.speaks && template { sys::place(FORKS, FORKS, 0) } else { Ok(()) }
}

/// The files to execute, the first that is there, and whether they are those of a search as by `execvp`, in the
/// program's own PATH.
pub(super) fn files(program: &Program) -> (Vec<Vec<u8>>, bool) {
    let Some(name) = program.argv.first().filter(|name| !name.is_empty()) else { return (Vec::new(), true) };
    if name.contains(&b'/') {
        return (vec![name.clone()], false);
    }
    let path = program.env.iter().find_map(|entry| entry.strip_prefix(b"PATH=")).unwrap_or(PATH);
    let dirs = path.split(|&byte| byte == b':').map(|dir| if dir.is_empty() { b".".as_slice() } else { dir });
    (dirs.map(|dir| [dir, b"/", name].concat()).collect(), true)
}

/// Executes the first of the files that is there.
fn exec_by_path(program: &Program, (files, is_searched): &(Vec<Vec<u8>>, bool)) -> Errno {
    let mut worst = Errno::ENOENT;
    for file in files {
        let errno = sys::exec(file, &program.argv, &program.env);
        if !is_searched {
            return errno;
        }
        if errno == Errno::EACCES {
            // Either the file is not executable, and another directory may have one that is; or we may not search the
            // directory, which says nothing of the program.
            let is_there = nix::sys::stat::stat(&file[..file.len() - 1]).is_ok();
            worst = if is_there { errno } else { worst };
        } else if !matches!(errno, Errno::ENOENT | Errno::ENOTDIR) {
            return errno;
        }
    }
    worst
}
