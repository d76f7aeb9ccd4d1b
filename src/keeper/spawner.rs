//! The spawner: a process beside the keeper that starts the programs of jobs without a copy of anything.
//!
//! It is a template that is built in: it has one thread and few pages, its newborns are the keeper's own children and
//! report as those of any template do (see `forks`). The keeper hands it the child's ends of each life when the life is
//! made. When the program has arrived there, the spawner reads it, prepares all that the newborn needs, and stands still
//! until that has executed it. What hangs in an exec hangs the spawner alone: the keeper kills it and makes another.

use std::collections::HashMap;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, send};

use super::newborn::{self, Ids, Plan};
use super::parked::{self, Origin};
use super::sys;
use super::vfork::{self, Stack};
use model::WorkerId;
use wire::fault::passes;
use wire::program::{Failed, Program, Step};

/// The spawner's end of its socket, and its /dev/null.
const CONTROL: RawFd = 3;
const NULL: RawFd = 4;

/// A packet with this length takes a life back; one with its number alone, and descriptors, hands one over.
pub(super) const CANCEL: usize = 9;

/// Names no life: the newborn by which the spawner tries whether the system lets it.
pub(super) const TRIAL: WorkerId = WorkerId { slot: model::SlotId { pool: 0, index: 0 }, generation: 0 };

/// How often a clone is tried again that fails for a reason that may pass, in milliseconds from the first one.
const PATIENCE: u64 = 1000;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// The page by which the keeper sees, also after the spawner's death, which life it was about to start.
pub(super) struct Board(NonNull<[AtomicU64; 2]>);

impl Board {
    pub(crate) fn new() -> nix::Result<Board> {
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping of a page, which the value owns for good. Zeros are two numbers.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, access, shared, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        NonNull::new(page.cast()).map(Board).ok_or(Errno::ENOMEM)
    }

    fn words(&self) -> &[AtomicU64; 2] {
        // SAFETY: the mapping is never given back, and both sides use it by atomic calls alone.
        unsafe { self.0.as_ref() }
    }

    /// The life that is being started, if one is, and the number of starts so far.
    pub(crate) fn read(&self) -> (Option<WorkerId>, u64) {
        let [current, count] = self.words();
        let worker = current.load(Ordering::SeqCst);
        ((worker != 0).then(|| WorkerId::from_u64(worker)), count.load(Ordering::SeqCst))
    }

    pub(crate) fn begin(&self, worker: WorkerId) {
        let [current, count] = self.words();
        count.fetch_add(1, Ordering::SeqCst);
        current.store(worker.to_u64(), Ordering::SeqCst);
    }

    pub(crate) fn end(&self) {
        self.words()[0].store(0, Ordering::SeqCst);
    }
}

/// The child's ends of a life without a process.
struct Place {
    socket: OwnedFd,
    out: OwnedFd,
    err: OwnedFd,
    cgroup: Option<OwnedFd>,
}

struct Spawner<'a> {
    origin: &'a Origin,
    board: &'a Board,
    epoll: Epoll,
    stack: Stack,
    /// Whether this process may be looked into by others of its user.
    is_open: bool,
    places: HashMap<u64, Place>,
}

/// Becomes the spawner. Never returns.
pub(super) fn run(control: RawFd, origin: &Origin, board: &Board) -> ! {
    let _guard = parked::NoReturn;
    let Ok(mut spawner) = Spawner::settle(control, origin, board) else { sys::exit_now(126) };
    loop {
        if spawner.turn().is_err() {
            sys::exit_now(0);
        }
    }
}

impl Spawner<'_> {
    fn settle<'a>(control: RawFd, origin: &'a Origin, board: &'a Board) -> nix::Result<Spawner<'a>> {
        nix::unistd::setsid()?;
        parked::bind_to(origin.keeper)?;
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)?;
        prctl::set_name(c"tv-spawner")?;
        // Neither is below 5: the keeper holds those.
        sys::place(control, CONTROL, libc::O_CLOEXEC)?;
        sys::place(origin.null, NULL, libc::O_CLOEXEC)?;
        for standard in 0..3 {
            sys::place(NULL, standard, 0)?;
        }
        // As each newborn will do it. Before Linux 5.9 there is no such call.
        // SAFETY: numbers only; nothing here uses the keeper's descriptors after this.
        let closed = unsafe { vfork::call(libc::SYS_close_range, [NULL as usize + 1, u32::MAX as usize, 0]) };
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        // SAFETY: the descriptor is open as long as this process lives.
        let control = unsafe { std::os::fd::BorrowedFd::borrow_raw(CONTROL) };
        epoll.add(control, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        let mut stack = Stack::new()?;
        // SAFETY: this process has one thread and blocks all signals; the newborn ends at once.
        let born = unsafe { vfork::spawn(&mut stack, None, newborn::try_out, std::ptr::null::<Plan>()) };
        let tried = born.and(if closed < 0 { Err(Errno::from_raw(-closed as i32)) } else { Ok(()) });
        // That there is no room for a process now says nothing of the calls.
        if let Some(errno) = tried.err().filter(|errno| !passes(*errno)) {
            never_began(TRIAL.to_u64(), errno);
            return Err(errno);
        }
        let is_open = prctl::get_dumpable()?;
        Ok(Spawner { origin, board, epoll, stack, is_open, places: HashMap::new() })
    }

    /// One round. An error when the keeper does not want this spawner any more.
    fn turn(&mut self) -> nix::Result<()> {
        let mut events = [EpollEvent::empty(); 16];
        let count = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
            Err(Errno::EINTR) => 0,
            count => count?,
        };
        // The keeper first: it may take back a life whose program has arrived.
        while self.hear()? {}
        for event in &events[..count] {
            if let Some(place) = self.places.remove(&event.data()) {
                _ = self.epoll.delete(&place.socket);
                self.start(WorkerId::from_u64(event.data()), place);
            }
        }
        Ok(())
    }

    /// Takes one packet of the keeper. False if there is none.
    fn hear(&mut self) -> nix::Result<bool> {
        let mut bytes = [0; CANCEL + 1];
        let mut space = nix::cmsg_space!([RawFd; 4]);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
        let (len, fds) = match recvmsg::<()>(CONTROL, &mut parts, Some(&mut space), flags) {
            Ok(message) => (message.bytes, descriptors(message.cmsgs()?)),
            Err(Errno::EAGAIN) => return Ok(false),
            Err(Errno::EINTR) => return Ok(true),
            Err(errno) => return Err(errno),
        };
        let number = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        match len {
            0 => return Err(Errno::EPIPE),
            CANCEL => {
                if let Some(place) = self.places.remove(&number) {
                    _ = self.epoll.delete(&place.socket);
                    never_began(number, Errno::ECANCELED);
                }
            }
            _ => self.take(number, fds),
        }
        Ok(true)
    }

    fn take(&mut self, number: u64, fds: Vec<OwnedFd>) {
        let mut fds = fds.into_iter();
        let (Some(socket), Some(out), Some(err)) = (fds.next(), fds.next(), fds.next()) else {
            return never_began(number, Errno::EMFILE);
        };
        if let Err(errno) = self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, number)) {
            return never_began(number, errno);
        }
        self.places.insert(number, Place { socket, out, err, cgroup: fds.next() });
    }

    /// The program of a life has arrived, or nobody is there any more to send it.
    fn start(&mut self, worker: WorkerId, place: Place) {
        self.board.begin(worker);
        let socket = place.socket.as_raw_fd();
        match parked::wait_for_order(socket) {
            Ok(None) => never_began(worker.to_u64(), Errno::ECANCELED),
            Ok(Some((len, stdin))) => {
                let program = parked::read_program(socket, len);
                if let Err(errno) = self.spawn(worker, &place, program, stdin) {
                    // The life has no process that could say it.
                    _ = send(
                        socket,
                        &Failed { step: Step::Fork, errno: errno as i32 }.encode(),
                        MsgFlags::MSG_NOSIGNAL,
                    );
                    never_began(worker.to_u64(), errno);
                }
            }
            Err(errno) => never_began(worker.to_u64(), errno),
        }
        self.board.end();
    }

    fn spawn(
        &mut self,
        worker: WorkerId,
        place: &Place,
        program: nix::Result<Program>,
        stdin: Option<OwnedFd>,
    ) -> nix::Result<()> {
        let stdin = stdin.as_ref().map(AsRawFd::as_raw_fd);
        let mut prepared = Prepared::of(program, stdin.is_some());
        let ends = [&place.out, &place.err, &place.socket].map(AsRawFd::as_raw_fd);
        let plan = prepared.plan(worker, (self.origin, self.is_open), (stdin, ends));
        let cgroup = place.cgroup.as_ref().map(AsFd::as_fd);
        let end = clock::now() + std::time::Duration::from_millis(PATIENCE);
        loop {
            // SAFETY: this process has one thread and blocks all signals; `newborn::run` and what it calls neither
            // allocate nor use the C library, and the plan with all that it points to lives until the end of this call.
            let born = unsafe { vfork::spawn(&mut self.stack, cgroup, newborn::run, &raw const plan) };
            if plan.score.is_some() || plan.identity.is_some() {
                // The newborn has changed it for both, and may have been killed before it took that back.
                _ = prctl::set_dumpable(self.is_open);
            }
            match born {
                // It was killed before it could tell the keeper.
                Ok(_) if !plan.has_spoken.load(Ordering::Acquire) => {
                    never_began(worker.to_u64(), Errno::ESRCH);
                    return Ok(());
                }
                Ok(_) => return Ok(()),
                Err(errno) if passes(errno) && clock::now() < end => std::thread::sleep(PAUSE),
                Err(errno) => return Err(errno),
            }
        }
    }
}

/// Tells the keeper that a life has no process and gets none.
fn never_began(number: u64, errno: Errno) {
    let mut word = [0; 12];
    word[..8].copy_from_slice(&number.to_le_bytes());
    word[8..].copy_from_slice(&(errno as i32).to_le_bytes());
    if send(CONTROL, &word, MsgFlags::MSG_NOSIGNAL).is_err() {
        // The life would wait for ever. The keeper settles it when this process is dead.
        sys::exit_now(126);
    }
}

fn descriptors(controls: impl Iterator<Item = ControlMessageOwned>) -> Vec<OwnedFd> {
    let rights =
        controls.filter_map(
            |control| {
                if let ControlMessageOwned::ScmRights(fds) = control { Some(fds) } else { None }
            },
        );
    // SAFETY: the kernel has just made these descriptors for us.
    rights.flatten().map(|fd| unsafe { sys::own(fd) }).collect()
}

/// All that the plan of a newborn points to.
struct Prepared {
    program: Program,
    texts: Texts,
    /// Sorted, each once.
    groups: Vec<u32>,
    /// For the groups that the kernel reports, to compare: one more than there should be shows that there are others.
    room: Vec<u32>,
    /// The score for the out-of-memory killer, as text.
    score: Option<Vec<u8>>,
    refused: Option<Failed>,
}

impl Prepared {
    /// Allocates all that the newborn needs: it shares our memory and may not allocate.
    fn of(program: nix::Result<Program>, has_stdin: bool) -> Prepared {
        let (program, refused) = match program {
            Ok(program) => {
                let refused = refusal(&program, has_stdin);
                (program, refused)
            }
            Err(errno) => (Program::default(), Some((Step::Order, errno))),
        };
        let refused = refused.map(|(step, errno)| Failed { step, errno: errno as i32 });
        let mut groups =
            program.identity.as_ref().map(|identity| identity.groups.clone()).unwrap_or_default();
        groups.sort_unstable();
        groups.dedup();
        let room = vec![0; groups.len() + 1];
        let score = program.process_limits.oom_score_adj.map(|score| score.to_string().into_bytes());
        Prepared { texts: Texts::of(&program), program, groups, room, score, refused }
    }

    fn plan(
        &mut self,
        worker: WorkerId,
        (origin, is_open): (&Origin, bool),
        (stdin, ends): (Option<RawFd>, [RawFd; 3]),
    ) -> Plan {
        let Program { identity, umask, process_limits, .. } = &self.program;
        // Who is that user already need not change anything, and may not be allowed to.
        let identity = identity.as_ref().filter(|identity| parked::is_user(identity) != Ok(true));
        let [out, err, socket] = ends;
        Plan {
            number: worker.to_u64().to_le_bytes(),
            spawner: CONTROL,
            keeper: origin.keeper,
            subreaper: origin.subreaper,
            nice_before: origin.nice,
            places: [stdin.filter(|_| self.program.stdin).unwrap_or(NULL), out, err, socket],
            speaks: self.program.speaks,
            nofile: origin.nofile.map(|(soft, hard)| [soft, hard]),
            open_files: process_limits.open_files.map(|most| [most; 2]),
            nice: process_limits.nice,
            is_open,
            score: self.score.as_ref().map(|score| (score.as_ptr(), score.len())),
            identity: identity.map(|identity| Ids {
                uid: identity.uid,
                gid: identity.gid,
                groups: self.groups.as_ptr(),
                count: self.groups.len(),
                room: self.room.as_mut_ptr(),
            }),
            umask: *umask,
            cwd: self.texts.cwd.as_ptr(),
            paths: self.texts.path_list.as_ptr(),
            argv: self.texts.argv_list.as_ptr(),
            env: self.texts.env_list.as_ptr(),
            is_searched: self.texts.is_searched,
            refused: self.refused,
            has_spoken: AtomicBool::new(false),
        }
    }
}

/// What makes a program impossible, in the order in which a parked child finds it.
fn refusal(program: &Program, has_stdin: bool) -> Option<(Step, Errno)> {
    let Program { identity, cwd, stdin, argv, env, .. } = program;
    [
        (identity.as_ref().is_some_and(parked::is_impossible), Step::Identity, Errno::EINVAL),
        (cwd.contains(&0), Step::Chdir, Errno::EINVAL),
        (*stdin && !has_stdin, Step::Descriptors, Errno::EBADF),
        (argv.iter().chain(env).any(|text| text.contains(&0)), Step::Exec, Errno::EINVAL),
    ]
    .into_iter()
    .find(|(is, ..)| *is)
    .map(|(_, step, errno)| (step, errno))
}

/// The strings of a program as `execve` wants them: each ends in NUL, each list in a null pointer.
struct Texts {
    cwd: Vec<u8>,
    path_list: Vec<*const u8>,
    argv_list: Vec<*const u8>,
    env_list: Vec<*const u8>,
    is_searched: bool,
    /// What the lists point to.
    _strings: [Vec<Vec<u8>>; 3],
}

impl Texts {
    fn of(program: &Program) -> Texts {
        let ended = |text: &[u8]| [text, b"\0"].concat();
        let all = |texts: &[Vec<u8>]| texts.iter().map(|text| ended(text)).collect::<Vec<_>>();
        let list = |texts: &[Vec<u8>]| {
            texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
        };
        let (files, is_searched) = parked::files(program);
        let strings = [all(&files), all(&program.argv), all(&program.env)];
        Texts {
            cwd: ended(&program.cwd),
            path_list: list(&strings[0]),
            argv_list: list(&strings[1]),
            env_list: list(&strings[2]),
            is_searched,
            _strings: strings,
        }
    }
}
