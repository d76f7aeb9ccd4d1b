//! Carries out the orders of the supervisor.

use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use super::fence::Fence;
use super::life::{Life, State};
use super::phase::Phase;
use super::say::say;
use super::spawn::{fork_sockets, spawn};
use super::state::Keeper;
use super::{sys, vfork};
use failpoint::failpoint;
use model::{Bounds, Follow, Instant, WorkerId};
use wire::keeper::{Order, PACKET_MAX, Report, Step};

/// Limit of the packets taken in one turn, so that deaths and deadlines do not wait.
const PACKETS_PER_TURN: usize = 32;

impl Keeper {
    /// Takes the orders that have arrived.
    pub(super) fn take_orders(&mut self, now: Instant) {
        for _ in 0..PACKETS_PER_TURN {
            if !self.reports.has_room() || !self.take_packet(now) {
                return;
            }
        }
    }

    /// Takes the last orders of a dead supervisor: lives that it has settled must not be handed to the next one.
    pub(super) fn take_last_orders(&mut self, now: Instant) {
        while self.take_packet(now) {}
    }

    fn take_packet(&mut self, now: Instant) -> bool {
        let Some(supervisor) = self.supervisor.as_mut().filter(|supervisor| supervisor.open) else {
            return false;
        };
        let mut packet = [0; PACKET_MAX];
        match recv(supervisor.socket.as_raw_fd(), &mut packet, MsgFlags::MSG_DONTWAIT) {
            Ok(0) => {
                self.supervisor_closed(now);
                false
            }
            Ok(len) => {
                supervisor.spoke = true;
                // A supervisor that sends orders has a loop that turns.
                supervisor.stop_by = None;
                self.watchdog.heard = true;
                self.obey_all(now, &packet[..len])
            }
            // The kernel reports a reset once, when the supervisor ended with reports unread. Its earlier orders can
            // still be read.
            Err(Errno::EINTR | Errno::ECONNRESET) => true,
            Err(Errno::EAGAIN) => false,
            Err(_) => {
                self.supervisor_closed(now);
                false
            }
        }
    }

    fn obey_all(&mut self, now: Instant, mut packet: &[u8]) -> bool {
        loop {
            match Order::decode(&mut packet) {
                Ok(Some(order)) => self.obey(now, order),
                Ok(None) => return true,
                Err(bad) => {
                    say(format_args!("the supervisor does not speak the protocol: {bad}"));
                    self.supervisor_closed(now);
                    return false;
                }
            }
        }
    }

    fn obey(&mut self, now: Instant, order: Order) {
        match order {
            Order::Spawn(worker) => self.spawn(worker, false),
            Order::Template(worker) => self.spawn(worker, true),
            Order::Place(worker) => self.place(worker),
            Order::Hurry => self.watch_spawner(now),
            Order::Fork(worker, template) => self.fork(worker, template),
            Order::KillAt(worker, at) => {
                let Some(life) = self.lives.get_mut(&worker) else { return };
                life.fence = at.map(Fence::new);
                if let Some(fence) = life.fence {
                    self.sources.wake_by(fence.wakes(now));
                }
            }
            Order::Follow(worker, follow) => {
                if let Some(life) = self.lives.get_mut(&worker) {
                    life.follow = Some(follow);
                }
            }
            Order::Bound(worker, bounds) => self.bound(worker, bounds),
            Order::Terminate(worker) => self.terminate(worker),
            Order::KillTree(worker) => {
                self.give_up(worker);
                self.kill_life(worker, now);
            }
            Order::Forget(worker) => self.forget(worker),
            Order::Notify(text) => self.notify.send(&text),
            Order::StopDeadline(deadline) => self.setup.stop_deadline = deadline,
            Order::Shutdown(code) => {
                if !self.is_ending() {
                    self.phase = Phase::Closing(code);
                }
                self.let_supervisor_end(now);
                self.kill_all(now);
            }
        }
    }

    fn bound(&mut self, worker: WorkerId, bounds: Bounds) {
        let Some(cgroups) = &self.cgroups else { return };
        // A follower may live in the cgroup of a life that is proven dead.
        let lives = self.lives.get(&worker).is_some_and(|life| life.exit().is_none());
        let refused = if lives { cgroups.bound(worker, bounds).err() } else { None };
        self.reports.push_bounded(refused.map(|error| error.raw_os_error().unwrap_or(libc::EIO)));
    }

    pub(super) fn spawn(&mut self, worker: WorkerId, template: bool) {
        if !self.is_wanted(worker) {
            return;
        }
        match self.try_spawn(worker, template) {
            Ok(life) => {
                failpoint("keeper-1-forked");
                self.begin(life);
            }
            Err((step, errno)) => {
                self.reports.push(Report::SpawnFailed { worker, step, errno: errno as i32 })
            }
        }
    }

    /// Makes a life without a process, or with a parked child where the spawner cannot be.
    pub(super) fn place(&mut self, worker: WorkerId) {
        let by_clone = self.cgroups.as_ref().is_none_or(|cgroups| cgroups.by_clone);
        self.spawner.is_refused |= !vfork::IS_KNOWN || self.setup.without.clone3 || !by_clone;
        if self.start_spawner().is_err() {
            return self.spawn(worker, false);
        }
        if !self.is_wanted(worker) {
            return;
        }
        match self.try_place(worker) {
            Ok(pid) => pid.map_or((), |pid| self.born(worker, pid, clock::now())),
            Err((step, errno)) => {
                self.reports.push(Report::SpawnFailed { worker, step, errno: errno as i32 })
            }
        }
    }

    /// Makes the lives that follow those just proven dead.
    pub(super) fn make_followers(&mut self, now: Instant) {
        for (worker, follow, is_placed) in std::mem::take(&mut self.followers) {
            if is_placed {
                self.place(worker)
            } else {
                self.spawn(worker, false)
            }
            let Some(life) = self.lives.get_mut(&worker) else {
                self.cgroups.as_mut().map(|cgroups| cgroups.remove(worker));
                continue;
            };
            life.follow = Some(Follow { lives: follow.lives - 1, ..follow });
            life.fence = follow.fence.map(|fence| Fence::new(now + fence));
            if let Some(fence) = life.fence {
                self.sources.wake_by(fence.wakes(now));
            }
        }
    }

    fn try_spawn(&mut self, worker: WorkerId, template: bool) -> Result<Life, (Step, Errno)> {
        if self.strangers.are_alone() {
            let supervisor = self.supervisor.as_ref().map(|supervisor| supervisor.pid);
            self.strangers.before_a_life(self.children.read(), supervisor);
        }
        let sockets = template.then(fork_sockets).transpose().map_err(|errno| (Step::Socket, errno))?;
        let clone3 = !self.setup.without.clone3;
        let theirs = sockets.as_ref().map(|(_, theirs)| theirs);
        let life = spawn(worker, self.cgroups.as_mut(), clone3, (&self.origin, &self.oom_score), theirs)?;
        if let Some((ours, _)) = sockets {
            self.templates.add(worker, life.pid, ours);
        }
        Ok(life)
    }

    /// Whether a life of that name can be made now. If not, reports why to the supervisor.
    pub(super) fn is_wanted(&mut self, worker: WorkerId) -> bool {
        // While everything is being ended, a new life would not be killed.
        if self.is_ending() {
            return false;
        }
        let exists = self.lives.contains_key(&worker) || self.templates.are_to_fork(worker);
        if exists {
            self.reports.push(Report::SpawnFailed { worker, step: Step::Fork, errno: libc::EEXIST });
        }
        self.generation = self.generation.max(worker.generation);
        !exists
    }

    /// Adds a life that has a leader.
    pub(super) fn begin(&mut self, life: Life) {
        self.reports.push(Report::Started(life.worker, life.pid));
        self.leaders.insert(life.pid, life.worker);
        self.lives.insert(life.worker, life);
    }

    /// Sends TERM. A life that its template is still to report gets it then.
    pub(super) fn terminate(&mut self, worker: WorkerId) {
        if let Some(pending) = self.templates.pending(worker) {
            pending.terminated = true;
        }
        let Some(life) = self.lives.get_mut(&worker) else { return };
        life.follow = None;
        if matches!(life.state, State::Unborn(_)) {
            return self.doom(worker, libc::SIGTERM);
        }
        let Some(pid) = life.leader() else { return };
        for signal in [libc::SIGTERM, libc::SIGCONT] {
            // A child just forked may not lead its process group yet.
            if sys::kill(-pid, signal) == Err(Errno::ESRCH) {
                _ = sys::kill(pid, signal);
            }
        }
    }

    /// Forgets a life. One that has not ended stays: its proof is still owed.
    fn forget(&mut self, worker: WorkerId) {
        if self.lives.get(&worker).is_some_and(|life| life.exit().is_some()) {
            self.lives.remove(&worker);
        }
    }
}
