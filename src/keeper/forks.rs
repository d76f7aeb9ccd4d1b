//! Templates: loaded programs that fork lives for the keeper, as described in `docs/design/templates.md`.
//!
//! The keeper makes a life's socket, pipes and cgroup. It sends the children's ends to the template with the life's
//! number and the directory of the cgroup in which the child is to be born. The forked child is the keeper's own child.
//! Its first act is to send the number back, and the kernel attaches its pid. Then it leaves the template's session. So
//! an unknown child in the session of a template that is to fork is a newborn; one in no such session has reported, or
//! never will.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg, sendmsg};

use super::life::{Life, State};
use super::say::say;
use super::spawner_process::{MOST_DEATHS, Spawner};
use super::state::Keeper;
use super::template::Pending;
use super::unborn::HANGS;
use super::{spawn, spawner, sys};
use model::{Instant, WorkerId};
use wire::keeper::{Report, Step};

/// Limit of the packets read from a template's socket in one turn: a template that sends more floods it.
const FLOOD: usize = 4096;

/// Limit of the lines printed about one template.
const MOST_COMPLAINTS: u32 = 10;

/// A packet on a template's socket. No pid if the kernel did not say.
struct ForkReply {
    pid: i32,
    len: usize,
    bytes: [u8; 16],
}

impl Keeper {
    /// Asks a template to fork a life, which is pending until its child has reported.
    pub(super) fn fork(&mut self, worker: WorkerId, template: WorkerId) {
        if !self.is_wanted(worker) {
            return;
        }
        if let Err((step, errno)) = self.ask(worker, template) {
            self.reports.push(Report::SpawnFailed { worker, step, errno: errno as i32 });
        }
    }

    fn ask(&mut self, worker: WorkerId, template: WorkerId) -> Result<(), (Step, Errno)> {
        let alive = self.lives.get(&template).is_some_and(|life| matches!(life.state, State::Alive));
        let asked = self.templates.living.get_mut(&template).filter(|_| alive);
        let asked = asked.ok_or((Step::Template, Errno::ESRCH))?;
        let socket = asked.socket.as_ref().ok_or((Step::Template, Errno::EPIPE))?;
        let (ends, child_socket) = spawn::ends()?;
        let cgroups = self.cgroups.as_mut();
        let made = cgroups.as_ref().map(|cgroups| cgroups.make(worker)).transpose();
        let cgroup = made.map_err(|errno| (Step::Cgroup, errno))?;
        let is_born_there = cgroups.as_ref().is_some_and(|cgroups| cgroups.by_clone);
        let birthplace = cgroup.as_ref().filter(|_| is_born_there);
        let [out, err] = &ends.writers;
        let fds: Vec<RawFd> =
            [&child_socket, out, err].into_iter().chain(birthplace).map(AsRawFd::as_raw_fd).collect();
        let control = [ControlMessage::ScmRights(&fds)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let number = worker.to_u64().to_le_bytes();
        let sent = sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&number)], &control, flags, None);
        if let Err(errno) = sent {
            cgroups.map(|cgroups| cgroups.remove(worker));
            return Err((Step::Template, errno));
        }
        self.templates.asked += 1;
        asked
            .pending
            .insert(worker, Pending { ends: Some(ends), number: self.templates.asked, terminated: false });
        Ok(())
    }

    /// Reads the replies of templates that are to fork. Afterwards everything sent before the call is known.
    pub(super) fn hear(&mut self, now: Instant) {
        let living = self.templates.living.iter();
        let awaited = living.filter(|(_, template)| template.is_awaited());
        let awaited: Vec<WorkerId> = awaited.map(|(worker, _)| *worker).collect();
        for template in awaited {
            self.hear_one(template, now);
        }
    }

    pub(super) fn hear_one(&mut self, template: WorkerId, now: Instant) {
        for _ in 0..FLOOD {
            let socket = self.templates.living.get(&template).and_then(|template| template.socket.as_ref());
            match socket.map_or(Err(Errno::EAGAIN), receive) {
                Ok(word) => self.heard(template, &word, now),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                Err(errno) => return self.deafen(template, errno),
            }
        }
        self.complain(template, "is flooded with words");
        self.deafen(template, Errno::ENOBUFS);
    }

    fn heard(&mut self, template: WorkerId, word: &ForkReply, now: Instant) {
        let number =
            WorkerId::from_u64(word.bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)));
        let errno = i32::from_le_bytes([8, 9, 10, 11].map(|at: usize| word.bytes[at]));
        let leads = self.leaders.get(&word.pid);
        let ok = match word.len {
            8 => self.claim(template, number, word.pid, now),
            // In a template with threads a helper process reports the failure, so the pid is unknown.
            12 if leads.is_none_or(|leader| *leader == template) => {
                self.fork_failed(template, number, errno, now);
                true
            }
            _ => false,
        };
        if !ok {
            self.refuse(template, word.pid, now);
        }
    }

    /// The child of a pending life has reported, dead or alive. False if the reply is not true.
    fn claim(&mut self, template: WorkerId, worker: WorkerId, pid: i32, now: Instant) -> bool {
        if !sys::is_child(pid) || !self.is_unknown(pid) || self.strays.contains(pid) {
            return false;
        }
        let Some(pending) = self.take_pending(template, worker) else { return false };
        self.templates.newborns.remove(&pid);
        let Some(ends) = pending.ends else {
            self.born(worker, pid, now);
            return true;
        };
        let placed = self.cgroups.as_ref().map(|cgroups| cgroups.adopt(worker, pid)).transpose();
        match placed {
            Ok(cgroup) => {
                self.begin(Life::new(worker, pid, ends, cgroup.is_some()));
                if pending.terminated {
                    self.terminate(worker);
                }
            }
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                self.reports.push(Report::SpawnFailed { worker, step: Step::Cgroup, errno });
                self.kill_stray(pid);
                self.abandon(worker);
            }
        }
        true
    }

    /// The template could not fork. The life may have been given up meanwhile.
    fn fork_failed(&mut self, template: WorkerId, worker: WorkerId, errno: i32, now: Instant) {
        let Some(pending) = self.take_pending(template, worker) else {
            // The spawner says so of a newborn that it has tried to make.
            self.spawner.is_refused |= Spawner::is(template) && worker == spawner::TRIAL;
            return;
        };
        if pending.ends.is_none() {
            self.never_began(worker, now);
        } else {
            self.abandon(worker);
            self.reports.push(Report::SpawnFailed { worker, step: Step::Fork, errno });
        }
    }

    fn take_pending(&mut self, template: WorkerId, worker: WorkerId) -> Option<Pending> {
        self.templates.living.get_mut(&template)?.pending.remove(&worker)
    }

    /// Handles a reply that is not true: if the sender is a child of ours, it is killed.
    fn refuse(&mut self, template: WorkerId, pid: i32, now: Instant) {
        if let Some(&worker) = self.leaders.get(&pid) {
            self.complain(template, &format!("or {worker} has said a wrong word: killing {worker}"));
            self.kill_life(worker, now);
        } else if sys::is_child(pid) && self.is_unknown(pid) {
            self.complain(template, &format!("has a child ({pid}) that says a wrong word: killing it"));
            self.kill_stray(pid);
        } else {
            self.complain(template, &format!("is spoken for by a stranger ({pid})"));
        }
    }

    fn complain(&mut self, worker: WorkerId, what: &str) {
        let Some(template) = self.templates.living.get_mut(&worker) else { return };
        template.complaints += 1;
        if template.complaints <= MOST_COMPLAINTS {
            say(format_args!("the template {worker} {what}"));
        }
    }

    /// Closes a template's socket. Its pending lives fail.
    fn deafen(&mut self, template: WorkerId, errno: Errno) {
        let Some(deaf) = self.templates.living.get_mut(&template) else { return };
        deaf.socket = None;
        if Spawner::is(template) {
            // Its death settles what it has not begun.
            return self.kill_spawner();
        }
        let pending = std::mem::take(&mut deaf.pending);
        self.never_born(pending.into_keys(), errno);
    }

    /// The template is reaped: a process that has not reported by now never will.
    pub(super) fn template_ended(&mut self, worker: WorkerId, now: Instant) {
        self.hear_one(worker, now);
        let Some(template) = self.templates.living.remove(&worker) else { return };
        self.never_born(template.pending.into_keys(), Errno::ECHILD);
    }

    /// The program of an unborn life has a process.
    pub(super) fn born(&mut self, worker: WorkerId, pid: i32, now: Instant) {
        let Some(life) = self.lives.get_mut(&worker) else { return self.kill_stray(pid) };
        let State::Unborn(doom) = life.state else { return self.kill_stray(pid) };
        (life.pid, life.child_socket, life.state) = (pid, None, State::Alive);
        self.leaders.insert(pid, worker);
        self.reports.push(Report::Born(worker, pid));
        match doom {
            Some((libc::SIGTERM, _)) => self.terminate(worker),
            Some(_) => self.kill_life(worker, now),
            // Whether it gets through its exec.
            None => self.sources.wake_by(now + HANGS),
        }
    }

    /// The spawner is reaped: hands what it had not begun to another one.
    pub(super) fn spawner_ended(&mut self, now: Instant) {
        let Some(process) = self.spawner.process.take() else { return };
        self.hear_one(process.id, now);
        let (current, count) = self.spawner.board.as_ref().map_or((None, 0), spawner::Board::read);
        if self.spawner.deaths.add(count, now) && !self.spawner.is_refused {
            say(format_args!(
                "the process that starts programs (tv-spawner) died, or stood still and was killed, \
                 {MOST_DEATHS} times and started none: parked children take its place for a minute"
            ));
        }
        let pending = self.templates.living.remove(&process.id).map(|template| template.pending);
        for worker in pending.into_iter().flat_map(std::collections::BTreeMap::into_keys) {
            let waits = self.lives.get(&worker).is_some_and(|life| matches!(life.state, State::Unborn(None)));
            if current == Some(worker) || !waits || self.is_ending() || self.hand_over(worker, now).is_err() {
                self.never_began(worker, now);
            }
        }
    }

    fn hand_over(&mut self, worker: WorkerId, now: Instant) -> nix::Result<()> {
        let Some(life) = self.lives.remove(&worker) else { return Ok(()) };
        let cgroups = self.cgroups.as_ref().filter(|_| life.cgroup);
        let opened = cgroups.map(|cgroups| cgroups.open(worker)).transpose();
        let done = opened.and_then(|cgroup| self.give(&life, cgroup.as_ref()));
        self.lives.insert(worker, life);
        if let Some(pid) = done? {
            self.born(worker, pid, now);
        }
        Ok(())
    }

    /// A pending life is not wanted any more. If its child ever reports, it is killed.
    pub(super) fn give_up(&mut self, worker: WorkerId) {
        let pending = self.templates.living.values_mut().find_map(|template| template.give_up(worker));
        if pending.is_some() {
            self.never_born([worker], Errno::ETIMEDOUT);
        }
    }

    pub(super) fn give_up_all(&mut self) {
        let templates = self.templates.living.values();
        let pending: Vec<WorkerId> =
            templates.flat_map(|template| template.pending.keys().copied()).collect();
        pending.into_iter().for_each(|worker| self.give_up(worker));
    }

    fn never_born(&mut self, workers: impl IntoIterator<Item = WorkerId>, errno: Errno) {
        for worker in workers {
            self.templates.in_doubt = true;
            self.abandon(worker);
            self.reports.push(Report::SpawnFailed { worker, step: Step::Template, errno: errno as i32 });
        }
    }

    /// Removes the cgroup of a life that never began: at once if it is empty, else later.
    fn abandon(&mut self, worker: WorkerId) {
        if self.cgroups.as_mut().is_some_and(|cgroups| !cgroups.remove(worker)) {
            self.templates.in_doubt = true;
            self.templates.abandoned.push(worker);
        }
    }

    /// Kills the processes in the cgroups of lives that never began, and removes the empty ones. They are no newborns
    /// any more.
    pub(super) fn clear_abandoned(&mut self) {
        let Some(cgroups) = &mut self.cgroups else { return };
        self.templates.abandoned.retain(|&worker| {
            let occupied = !cgroups.remove(worker);
            if occupied {
                cgroups.kill(worker);
            }
            occupied
        });
    }
}

/// Receives one packet. There is no room for descriptors sent along, so the kernel drops them.
fn receive(socket: &OwnedFd) -> nix::Result<ForkReply> {
    let mut word = ForkReply { pid: 0, len: 0, bytes: [0; 16] };
    let mut space = nix::cmsg_space!(UnixCredentials);
    let mut parts = [IoSliceMut::new(&mut word.bytes)];
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_DONTWAIT)?;
    let credentials = message.cmsgs().ok().and_then(|mut controls| {
        controls.find_map(|control| {
            if let ControlMessageOwned::ScmCredentials(credentials) = control {
                Some(credentials.pid())
            } else {
                None
            }
        })
    });
    let len = message.bytes;
    // An empty packet comes with credentials; the end of the stream does not.
    if len == 0 && credentials.is_none() {
        return Err(Errno::EPIPE);
    }
    (word.pid, word.len) = (credentials.unwrap_or(0), len);
    Ok(word)
}
