//! A newborn of the spawner, from its birth to exec: it shares the spawner's memory, so it writes nothing but its own
//! stack, [`Plan::has_spoken`] and the room for its groups, and makes its calls by [`call`].

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use super::vfork::call;
use wire::fault::passes;
use wire::program::{BEGINS, Failed, Step, WAITS};

const SOCKET: usize = 3;

/// How long a step is tried again that fails for a reason that may pass, in tries of 20 ms.
const TRIES: u32 = 50;
static PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// All that a newborn does, prepared by the spawner. Every pointer is to memory that lives until exec, every string and
/// list ends in NUL.
pub(super) struct Plan {
    /// The number of the life, and the spawner's socket on which it is said.
    pub number: [u8; 8],
    pub spawner: RawFd,
    pub keeper: i32,
    pub subreaper: bool,
    pub nice_before: Option<i32>,
    /// Descriptors to place at 0, 1, 2 and 3.
    pub places: [RawFd; 4],
    /// Whether the program gets the socket.
    pub speaks: bool,
    pub nofile: Option<[u64; 2]>,
    pub open_files: Option<[u64; 2]>,
    pub nice: Option<i32>,
    /// The score for the out-of-memory killer: text and its length.
    pub score: Option<(*const u8, usize)>,
    /// Whether the spawner, and so the newborn, may be looked into by others of its user.
    pub is_open: bool,
    pub identity: Option<Ids>,
    pub umask: u32,
    pub cwd: *const u8,
    /// The files to execute: the first that is there.
    pub paths: *const *const u8,
    pub argv: *const *const u8,
    pub env: *const *const u8,
    /// Whether the files are looked for in the directories of PATH.
    pub is_searched: bool,
    /// Why the program cannot be started at all: only that is said.
    pub refused: Option<Failed>,
    /// Whether the newborn has told the keeper of itself.
    pub has_spoken: AtomicBool,
}

/// A user, with the groups sorted, and room for one more of them than there are.
pub(super) struct Ids {
    pub uid: u32,
    pub gid: u32,
    pub groups: *const u32,
    pub count: usize,
    pub room: *mut u32,
}

/// A newborn that ends at once.
///
/// # Safety
/// It runs in a child of [`super::vfork::spawn`].
pub(super) unsafe extern "C" fn try_out(_: *const Plan) -> ! {
    // SAFETY: as for all of its calls.
    unsafe { exit(0) }
}

/// The way of the newborn. Never returns.
///
/// # Safety
/// It runs in a child of [`super::vfork::spawn`], and the pointers of the plan are valid.
pub(super) unsafe extern "C" fn run(plan: *const Plan) -> ! {
    // SAFETY: the spawner, which has made the plan, stands still.
    let plan = unsafe { &*plan };
    // SAFETY: all pointers are to the plan, and to what it points to.
    unsafe {
        // First of all: until the keeper knows it, it is an unknown child in the spawner's session.
        let said = call(
            libc::SYS_sendto,
            [
                plan.spawner as usize,
                plan.number.as_ptr() as usize,
                plan.number.len(),
                libc::MSG_NOSIGNAL as usize,
                0,
                0,
            ],
        );
        if said < 0 {
            exit(126);
        }
        plan.has_spoken.store(true, Ordering::Release);
        // For people: there is one spawner.
        call(libc::SYS_prctl, [libc::PR_SET_NAME as usize, c"tv-starting".as_ptr() as usize, 0, 0, 0]);
        if settle(plan).is_err() {
            exit(126);
        }
        let failed = match plan.refused {
            Some(failed) => failed,
            None => become_program(plan),
        };
        say(&failed.encode());
        exit(failed.exit_code())
    }
}

unsafe fn exit(code: i32) -> ! {
    loop {
        // SAFETY: numbers only. It ends this process alone, not the spawner.
        unsafe { call(libc::SYS_exit_group, [code as usize]) };
    }
}

/// The result of a call, or the error's number.
fn result(result: isize) -> Result<usize, i32> {
    if result < 0 { Err(-result as i32) } else { Ok(result as usize) }
}

unsafe fn say(bytes: &[u8]) {
    // SAFETY: the kernel reads that many bytes.
    unsafe {
        call(
            libc::SYS_sendto,
            [SOCKET, bytes.as_ptr() as usize, bytes.len(), libc::MSG_NOSIGNAL as usize, 0, 0],
        )
    };
}

/// Session, bond to the keeper, descriptors, limits and signals, as `parked` has them.
unsafe fn settle(plan: &Plan) -> Result<(), i32> {
    // SAFETY: numbers, and pointers to the plan.
    unsafe {
        result(call(libc::SYS_setsid, []))?;
        if plan.subreaper {
            result(call(libc::SYS_prctl, [libc::PR_SET_CHILD_SUBREAPER as usize, 1, 0, 0, 0]))?;
        }
        bind(plan.keeper)?;
        if let Some(nice) = plan.nice_before {
            call(libc::SYS_setpriority, [libc::PRIO_PROCESS as usize, 0, nice as usize]);
        }
        for (to, from) in plan.places.into_iter().enumerate() {
            // The socket is closed by exec, which shows that exec has happened.
            let flags = if to == SOCKET && !plan.speaks { libc::O_CLOEXEC as usize } else { 0 };
            result(call(libc::SYS_dup3, [from as usize, to, flags]))?;
        }
        result(call(libc::SYS_close_range, [SOCKET + 1, u32::MAX as usize, 0]))?;
        if let Some(limits) = &plan.nofile {
            limit_files(limits)?;
        }
        let nobody = 0u64;
        let (set, bytes) = (libc::SIG_SETMASK as usize, size_of::<u64>());
        result(call(libc::SYS_rt_sigprocmask, [set, &raw const nobody as usize, 0, bytes]))?;
    }
    Ok(())
}

/// Makes this process die with the keeper. The kernel forgets this when a process changes its user.
unsafe fn bind(keeper: i32) -> Result<(), i32> {
    // SAFETY: numbers only.
    unsafe {
        result(call(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, libc::SIGKILL as usize, 0, 0, 0]))?;
        if call(libc::SYS_getppid, []) != keeper as isize {
            exit(0);
        }
    }
    Ok(())
}

unsafe fn limit_files(limits: &[u64; 2]) -> Result<usize, i32> {
    // SAFETY: the kernel reads one rlimit64, which is these two numbers.
    result(unsafe {
        call(libc::SYS_prlimit64, [0, libc::RLIMIT_NOFILE as usize, limits.as_ptr() as usize, 0])
    })
}

/// Returns only on failure.
unsafe fn become_program(plan: &Plan) -> Failed {
    let failed = |step, errno| Failed { step, errno };
    // SAFETY: pointers to the plan, and to what it points to.
    unsafe {
        if let Some(Err(errno)) = plan.open_files.as_ref().map(|limits| limit_files(limits)) {
            return failed(Step::OpenFiles, errno);
        }
        if let Some(nice) = plan.nice
            && let Err(errno) =
                result(call(libc::SYS_setpriority, [libc::PRIO_PROCESS as usize, 0, nice as usize]))
        {
            return failed(Step::Nice, errno);
        }
        if let Some(text) = plan.score
            && let Err(errno) = set_score(text, plan.is_open)
        {
            return failed(Step::OomScore, errno);
        }
        if let Some(ids) = &plan.identity
            && let Err(errno) = patiently(|| become_user(ids, plan.keeper))
        {
            return failed(Step::Identity, errno);
        }
        call(libc::SYS_umask, [plan.umask as usize]);
        if let Err(errno) = patiently(|| result(call(libc::SYS_chdir, [plan.cwd as usize])).map(drop)) {
            return failed(Step::Chdir, errno);
        }
        let executed = patiently(|| {
            // A worker says by itself that it has begun.
            if !plan.speaks {
                say(&[BEGINS]);
            }
            let errno = execute(plan);
            if !plan.speaks {
                say(&[WAITS]);
            }
            Err(errno)
        });
        failed(Step::Exec, executed.err().unwrap_or(libc::EIO))
    }
}

/// Sets the score of the out-of-memory killer, which the kernel leaves as it is for the spawner (`vfork_done`). While a
/// process is closed to others of its user, the file belongs to root: another user opens both for that moment.
unsafe fn set_score(text: (*const u8, usize), is_open: bool) -> Result<(), i32> {
    let open_to_others = |open: bool| {
        // SAFETY: numbers only.
        unsafe { call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as usize, usize::from(open), 0, 0, 0]) }
    };
    // SAFETY: as promised for the plan.
    let first = unsafe { write_score(text) };
    if is_open || first != Err(libc::EACCES) {
        return first;
    }
    open_to_others(true);
    // SAFETY: as above.
    let second = unsafe { write_score(text) };
    open_to_others(false);
    second
}

unsafe fn write_score((text, len): (*const u8, usize)) -> Result<(), i32> {
    let (here, path) = (libc::AT_FDCWD as usize, c"/proc/self/oom_score_adj".as_ptr() as usize);
    // SAFETY: the path ends in NUL, and the kernel reads that many bytes of the text.
    unsafe {
        let file = result(call(libc::SYS_openat, [here, path, libc::O_WRONLY as usize, 0]))?;
        let written = result(call(libc::SYS_write, [file, text as usize, len])).map(drop);
        call(libc::SYS_close, [file]);
        written
    }
}

/// Tries a step again while it fails for a reason that may pass.
fn patiently(mut step: impl FnMut() -> Result<(), i32>) -> Result<(), i32> {
    let mut tries = 0;
    loop {
        match step() {
            Err(errno) if tries < TRIES && passes(nix::errno::Errno::from_raw(errno)) => {
                tries += 1;
                // SAFETY: the kernel reads one timespec.
                unsafe { call(libc::SYS_nanosleep, [&raw const PAUSE as usize, 0]) };
            }
            result => return result,
        }
    }
}

/// Groups before the user, who may not change them; then only what the kernel says counts.
unsafe fn become_user(ids: &Ids, keeper: i32) -> Result<(), i32> {
    let (uid, gid) = (ids.uid as usize, ids.gid as usize);
    // SAFETY: the lists are as long as they say; the kernel writes three ids.
    unsafe {
        for output in [1, 2] {
            // Best effort: with them a program may open /dev/stdout and /dev/stderr by name.
            call(libc::SYS_fchown, [output, uid, gid]);
        }
        result(call(libc::SYS_setgroups, [ids.count, ids.groups as usize]))?;
        result(call(libc::SYS_setresgid, [gid; 3]))?;
        result(call(libc::SYS_setresuid, [uid; 3]))?;
        // With `fs.suid_dumpable` = 1 that user could look into the memory, which is the spawner's, until exec.
        call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as usize, 0, 0, 0, 0]);
        for (number, wanted) in [(libc::SYS_getresuid, ids.uid), (libc::SYS_getresgid, ids.gid)] {
            let mut have = [u32::MAX; 3];
            let at = have.as_mut_ptr() as usize;
            result(call(number, [at, at + 4, at + 8]))?;
            if have != [wanted; 3] {
                return Err(libc::EPERM);
            }
        }
        let have = result(call(libc::SYS_getgroups, [ids.count + 1, ids.room as usize]))?;
        let is_other = |at| *ids.room.add(at) != *ids.groups.add(at);
        if have != ids.count || (0..have).any(is_other) {
            return Err(libc::EPERM);
        }
        bind(keeper)
    }
}

/// Executes the first of the files that is there, as `execvp` does.
unsafe fn execute(plan: &Plan) -> i32 {
    let mut worst = libc::ENOENT;
    let mut path = plan.paths;
    // SAFETY: the list ends in a null pointer, and its strings in NUL.
    unsafe {
        while !(*path).is_null() {
            let file = *path as usize;
            match -call(libc::SYS_execve, [file, plan.argv as usize, plan.env as usize]) as i32 {
                errno if !plan.is_searched => return errno,
                // Either the file is not executable, and another directory may have one that is; or we may not search
                // the directory, which says nothing of the program.
                libc::EACCES => {
                    let at = libc::AT_FDCWD as usize;
                    if call(libc::SYS_faccessat, [at, file, libc::F_OK as usize]) == 0 {
                        worst = libc::EACCES;
                    }
                }
                libc::ENOENT | libc::ENOTDIR => {}
                errno => return errno,
            }
            path = path.add(1);
        }
    }
    worst
}
