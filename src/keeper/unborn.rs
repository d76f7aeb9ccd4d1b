//! Lives without a leader: the spawner starts their programs, and the keeper answers for them until then.
//!
//! An unborn life ends only by a word of the spawner, which has given its place back or has begun, or by the spawner's
//! proven death: what that had not begun is handed to the next spawner, and the one life that it was about to start ends
//! as if its process had been killed before its program began.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollTimeout, poll};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use super::life::{End, Life, State, Wait};
use super::spawn::{self, ends, fork_sockets};
use super::spawner::{self, Board, CANCEL};
use super::spawner_process::{Process, SLOT};
use super::state::Keeper;
use super::sys;
use super::template::Pending;
use failpoint::failpoint;
use model::{ExitStatus, Instant, Usage, WorkerId};
use wire::keeper::{Report, Step};

/// How long the spawner may stand still in one exec, or let a program wait, before it is killed.
pub(super) const HANGS: Duration = Duration::from_millis(250);
/// The same before the newborn has told the keeper of itself: to be killed there costs the life.
const HANGS_UNBORN: Duration = Duration::from_secs(2);

/// How long a killed spawner may take to die and still be given lives, which the next one then gets.
const DIES: Duration = Duration::from_millis(500);

/// How long the keeper waits for the end of a spawner that it has killed at its own end, and between two looks, in
/// milliseconds.
const LAST_WORDS: Duration = Duration::from_secs(1);
const MOMENT: u8 = 1;

impl Keeper {
    /// Makes a life that the spawner has, and no process; or else gives the pid of its parked child.
    pub(super) fn try_place(&mut self, worker: WorkerId) -> Result<Option<i32>, (Step, Errno)> {
        let (ends, child_socket) = ends()?;
        let made = self.cgroups.as_mut().map(|cgroups| cgroups.take_over(worker)).transpose();
        let cgroup = made.map_err(|errno| (Step::Cgroup, errno))?;
        let life = Life::unborn(worker, ends, child_socket, cgroup.is_some());
        let given = self.give(&life, cgroup.as_ref()).map_err(|errno| {
            self.cgroups.as_mut().map(|cgroups| cgroups.remove(worker));
            (Step::Fork, errno)
        })?;
        failpoint("keeper-1-forked");
        self.lives.insert(worker, life);
        self.reports.push(Report::Started(worker, 0));
        Ok(given)
    }

    /// Gives a life to the spawner. Where that cannot be, as its socket is full or it does not die, the life gets a parked
    /// child: the pid of that.
    pub(super) fn give(&mut self, life: &Life, cgroup: Option<&OwnedFd>) -> nix::Result<Option<i32>> {
        let given = self.start_spawner().and_then(|()| self.hand_to_spawner(life, cgroup));
        given.map(|()| None).or_else(|_| self.park(life, cgroup).map(Some))
    }

    /// Gives the child's ends of a life to the spawner. If that is dying, they go to the next one with its other lives.
    fn hand_to_spawner(&mut self, life: &Life, cgroup: Option<&OwnedFd>) -> nix::Result<()> {
        let process = self.spawner.process.as_ref().ok_or(Errno::ESRCH)?;
        let (id, is_dying) = (process.id, process.killed.is_some());
        let template = self.templates.living.get_mut(&id).ok_or(Errno::ESRCH)?;
        let [out, err] = &life.ends.writers;
        let child = life.child_socket.as_ref().ok_or(Errno::EBADF)?;
        let fds: Vec<_> = [child, out, err].into_iter().chain(cgroup).map(AsRawFd::as_raw_fd).collect();
        let control = [ControlMessage::ScmRights(&fds)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let number = life.worker.to_u64().to_le_bytes();
        if let Some(socket) = template.socket.as_ref().filter(|_| !is_dying) {
            match sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&number)], &control, flags, None) {
                Ok(_) | Err(Errno::EPIPE | Errno::ECONNRESET) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.templates.asked += 1;
        template
            .pending
            .insert(life.worker, Pending { ends: None, number: self.templates.asked, terminated: false });
        Ok(())
    }

    /// Makes a spawner, if there is none.
    pub(super) fn start_spawner(&mut self) -> nix::Result<()> {
        if self.spawner.is_refused {
            return Err(Errno::ENOSYS);
        }
        if self.spawner.deaths.forbid_another(clock::now()) {
            return Err(Errno::EAGAIN);
        }
        match &self.spawner.process {
            // It does not die: whoever is given to it would wait as long.
            Some(Process { killed: Some(at), .. }) if clock::now().since(*at) >= DIES => {
                return Err(Errno::EBUSY);
            }
            Some(_) => return Ok(()),
            None => {}
        }
        if self.strangers.are_alone() {
            let supervisor = self.supervisor.as_ref().map(|supervisor| supervisor.pid);
            self.strangers.before_a_life(self.children.read(), supervisor);
        }
        let (ours, theirs) = fork_sockets()?;
        let board = match self.spawner.board.take() {
            Some(board) => board,
            None => Board::new()?,
        };
        board.end();
        // Its newborns have its score. It may be killed for want of memory itself: that costs one start.
        self.oom_score.raise();
        // SAFETY: the keeper has one thread.
        let forked = unsafe { sys::fork() };
        if forked == Ok(0) {
            spawner::run(theirs.as_raw_fd(), &self.origin, &board);
        }
        self.oom_score.take_back();
        self.spawner.board = Some(board);
        let pid = forked?;
        self.spawner.count += 1;
        let id = WorkerId { slot: SLOT, generation: self.spawner.count };
        self.templates.add(id, pid, ours);
        self.spawner.process = Some(Process { id, pid, killed: None });
        self.spawner.suspect = None;
        Ok(())
    }

    /// An unborn life is to end as if by this signal: the spawner gives its place back, or has begun already.
    pub(super) fn doom(&mut self, worker: WorkerId, signal: i32) {
        let Some(life) = self.lives.get_mut(&worker) else { return };
        let State::Unborn(doom) = &mut life.state else { return };
        life.killed |= signal == libc::SIGKILL;
        let is_first = doom.is_none();
        let wait = doom.map_or_else(|| Wait::new(clock::now()), |(_, wait)| wait);
        *doom = Some((signal, wait));
        self.sources.wake_by(wait.next);
        if is_first && self.take_back(worker).is_err() {
            self.kill_spawner();
        }
    }

    fn take_back(&self, worker: WorkerId) -> nix::Result<()> {
        let Some(process) = &self.spawner.process else { return Ok(()) };
        let socket = self.templates.living.get(&process.id).and_then(|template| template.socket.as_ref());
        let mut word = [0; CANCEL];
        word[..8].copy_from_slice(&worker.to_u64().to_le_bytes());
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let socket = socket.ok_or(Errno::EPIPE)?;
        sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&word)], &[], flags, None).map(drop)
    }

    /// The spawner has given a life back, or it is dead and was about to start it: no process of it comes any more. What
    /// may have been born all the same is a stray.
    pub(super) fn never_began(&mut self, worker: WorkerId, now: Instant) {
        let Some(life) = self.lives.get_mut(&worker) else { return };
        let State::Unborn(doom) = &life.state else { return };
        let signal = doom.as_ref().map_or(libc::SIGKILL, |(signal, _)| *signal);
        self.endings += 1;
        let end = End {
            status: ExitStatus::Signal { signal, core: false },
            usage: Usage::default(),
            at: now,
            number: self.endings,
            left_behind: 0,
            oom: false,
            oom_at_bound: false,
        };
        life.child_socket = None;
        life.state = State::Ended(end, Wait::new(now));
        self.ended.push(worker);
    }

    pub(super) fn kill_spawner(&mut self) {
        if let Some(process) = &mut self.spawner.process {
            process.killed.get_or_insert_with(clock::now);
            _ = sys::kill(process.pid, libc::SIGKILL);
        }
    }

    /// Ends the spawner with the keeper: it is in the keeper's cgroup, which is removed then.
    pub(super) fn end_spawner(&mut self) {
        let Some(process) = self.spawner.process.take() else { return };
        _ = sys::kill(process.pid, libc::SIGKILL);
        let end = clock::now() + LAST_WORDS;
        while !sys::has_ended(process.pid) && clock::now() < end {
            _ = poll(&mut [], PollTimeout::from(MOMENT));
        }
        if sys::has_ended(process.pid) {
            sys::wait_for(process.pid);
        }
    }

    /// Forks a parked child for an unborn life.
    fn park(&self, life: &Life, cgroup: Option<&OwnedFd>) -> nix::Result<i32> {
        let child = life.child_socket.as_ref().ok_or(Errno::EBADF)?;
        let clone3 = !self.setup.without.clone3;
        let by_clone = clone3 && self.cgroups.as_ref().is_none_or(|cgroups| cgroups.by_clone);
        spawn::fork((&life.ends, child, None), cgroup, by_clone, (&self.origin, &self.oom_score))
    }

    /// Kills a spawner that stands still: in an exec that hangs, or because somebody has stopped it.
    pub(super) fn watch_spawner(&mut self, now: Instant) {
        let Some(board) = self.spawner.board.as_ref().filter(|_| self.spawner.process.is_some()) else {
            return;
        };
        let (current, count) = board.read();
        let waits =
            |life: &Life| matches!(life.state, State::Unborn(_)) && sys::unread(life.ends.socket.as_fd()) > 0;
        if current.is_none() && !self.lives.values().any(waits) {
            self.spawner.suspect = None;
            return;
        }
        let unborn =
            |worker| self.lives.get(&worker).is_some_and(|life| matches!(life.state, State::Unborn(_)));
        let patience = if current.is_some_and(unborn) { HANGS_UNBORN } else { HANGS };
        match self.spawner.suspect {
            Some((at, since)) if at == count => {
                if now.since(since) >= patience {
                    self.kill_spawner();
                }
            }
            _ => self.spawner.suspect = Some((count, now)),
        }
        self.sources.wake_by(now + HANGS);
    }
}
