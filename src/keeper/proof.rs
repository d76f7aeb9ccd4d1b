//! Reaping, killing, and the proof that nothing is left of a life.
//!
//! Every leader is a subreaper, so an unknown child of the keeper belongs to a dead leader: it is killed on sight (but
//! see `strangers`). A
//! tree is dead when the keeper's list of children, zombies included, has no unknown child left that was there after
//! the leader was reaped, and its cgroup (if it has one) could be removed.
//!
//! A child that a template has forked is unknown until it has reported (see `forks`): the keeper leaves it running, and
//! no proof waits for it.

use std::collections::HashSet;
use std::time::Duration;

use super::cgroup::Cgroups;
use super::children::{descendants, is_dead, session_of};
use super::life::{End, Life, STUCK_AFTER, State, Wait};
use super::phase::Phase;
use super::state::Keeper;
use super::sys::{self, Reaped};
use super::template::Kin;
use super::unborn::HANGS;
use failpoint::failpoint;
use model::{ExitStatus, Instant, WorkerId};
use wire::keeper::Report;

/// More strays than this at a time are treated as a fork bomb.
const SWARM: usize = 64;

/// How long the keeper may go on stopping processes in one turn.
const STOPPING_PER_TURN: Duration = Duration::from_millis(200);

/// About the time to see whether a leader is dead; this many leaders take next to none.
const LOOK_AT_ONE: Duration = Duration::from_micros(10);
const FEW_LEADERS: usize = 64;

/// Limit of the processes reaped in one turn: a storm of deaths must not keep orders waiting.
const REAPED_PER_TURN: usize = 1024;

impl Keeper {
    /// Reaps processes that have ended, up to the limit of a turn; `died` may be one of them.
    pub(super) fn reap(&mut self, now: Instant, mut died: Option<i32>) {
        let mut supervisors_end = None;
        for count in 0.. {
            if count == REAPED_PER_TURN {
                self.sources.wake_by(now);
                break;
            }
            let Some(reaped) = self.reap_one(now, died.take()) else {
                self.number_strays(now);
                break;
            };
            if self.supervisor.as_ref().is_some_and(|supervisor| supervisor.pid == reaped.pid) {
                supervisors_end = Some(reaped.status);
            } else if let Some(worker) = self.leaders.remove(&reaped.pid) {
                self.leader_ended(worker, &reaped, now);
            } else if self.spawner.pid() == Some(reaped.pid) {
                self.spawner_ended(now);
            } else if !self.strangers.reaped(reaped.pid) {
                self.stray_ended(&reaped);
            }
        }
        // The supervisor's end comes last, so that lives that ended before it count as ended by themselves.
        if let Some(status) = supervisors_end {
            self.supervisor_ended(now, status);
        }
    }

    /// Numbers the strays, once all leaders that were dead have been reaped. With many leaders that takes long to see,
    /// so a stray that was killed first has about as long to die. Until then more lives than need be wait for its death.
    fn number_strays(&mut self, now: Instant) {
        if !self.strays.have_unnumbered() {
            self.unnumbered_since = None;
            return;
        }
        let since = *self.unnumbered_since.get_or_insert(now);
        let many = self.leaders.len().saturating_sub(FEW_LEADERS);
        if now.since(since) >= LOOK_AT_ONE * many as u32 && !self.a_leader_waits_for_its_tracer() {
            self.strays.all_reaped(self.endings);
            self.unnumbered_since = None;
        }
    }

    fn reap_one(&mut self, now: Instant, died: Option<i32>) -> Option<Reaped> {
        // To find one that has ended, the kernel looks at each child; a pid it finds at once. A stray keeps its place
        // behind the leaders that have ended: one of them may have left it.
        let is_leader = |pid: &i32| self.leaders.contains_key(pid) && sys::has_ended(*pid);
        if let Some(pid) = died.filter(is_leader) {
            return sys::wait_for(pid);
        }
        // The reply and the session of a child must be read before it is reaped: afterwards another process may get its pid.
        let (pid, are_awaited) = (sys::next_to_reap()?, self.templates.are_awaited());
        if are_awaited && self.is_unknown(pid) {
            self.hear(now);
        }
        if self.is_unknown(pid) && !self.strays.contains(pid) {
            let is_kin = are_awaited && self.templates.kin(pid) != Kin::None;
            if is_kin || self.is_of_the_supervisor(pid) {
                self.strays.seen_of_no_life(pid);
            }
        }
        sys::wait_for(pid)
    }

    /// Whether a dead supervisor has left this child, such as the page for browsers: it is in the supervisor's session,
    /// which no life can enter. While the supervisor lives, a storm of orphans costs no look at each.
    fn is_of_the_supervisor(&self, pid: i32) -> bool {
        let has_ended = self.supervisor.as_ref().is_none_or(|supervisor| sys::has_ended(supervisor.pid));
        has_ended && self.supervisors_session.is_some_and(|session| session_of(pid) == Some(session))
    }

    /// Whether a dead leader cannot be reaped because a process that traces it lives. Its orphans are seen before it is
    /// reaped.
    fn a_leader_waits_for_its_tracer(&self) -> bool {
        self.leaders.keys().any(|pid| is_dead(*pid))
    }

    /// Whether a child of ours is neither the supervisor nor a leader nor a stranger.
    pub(super) fn is_unknown(&self, pid: i32) -> bool {
        !self.leaders.contains_key(&pid)
            && self.spawner.pid() != Some(pid)
            && !self.strangers.contains(pid)
            && self.supervisor.as_ref().is_none_or(|supervisor| supervisor.pid != pid)
    }

    fn leader_ended(&mut self, worker: WorkerId, reaped: &Reaped, now: Instant) {
        self.endings += 1;
        let Some(life) = self.lives.get_mut(&worker) else { return };
        let end = End {
            status: reaped.status,
            usage: reaped.usage,
            at: now,
            number: self.endings,
            left_behind: 0,
            oom: false,
            oom_at_bound: false,
        };
        life.state = State::Ended(end, Wait::new(now));
        self.ended.push(worker);
        failpoint("keeper-6-reaped");
        self.template_ended(worker, now);
    }

    /// Counts a stray that we killed for the latest life to which it can belong.
    fn stray_ended(&mut self, reaped: &Reaped) {
        let last = self.strays.reaped(reaped.pid, self.endings);
        let killed = matches!(reaped.status, ExitStatus::Signal { signal: libc::SIGKILL, core: _ });
        for worker in self.ended.iter().rev() {
            let Some(life) = self.lives.get_mut(worker) else { continue };
            if let State::Ended(end, _) = &mut life.state
                && end.number <= last
            {
                end.left_behind += u32::from(killed);
                end.add(&reaped.usage);
                return;
            }
        }
    }

    /// Kills a life's tree. The proof begins when its leader has ended.
    pub(super) fn kill_life(&mut self, worker: WorkerId, now: Instant) {
        let Some(life) = self.lives.get_mut(&worker) else { return };
        life.follow = None;
        if matches!(life.state, State::Unborn(_)) {
            return self.doom(worker, libc::SIGKILL);
        }
        if !matches!(life.state, State::Alive) {
            return;
        }
        let wait = Wait::new(now);
        self.sources.wake_by(wait.next);
        life.state = State::Killed(wait);
        life.killed = true;
        let (pid, cgroup) = (life.pid, life.cgroup);
        // If the life is a template: children that have reported are lives of their own and go on.
        self.hear_one(worker, now);
        _ = sys::kill(pid, libc::SIGKILL);
        if let Some(cgroups) = self.cgroups.as_ref().filter(|_| cgroup) {
            cgroups.kill(worker);
        }
    }

    /// Kills every life.
    pub(super) fn kill_all(&mut self, now: Instant) {
        self.give_up_all();
        let workers: Vec<WorkerId> = self.lives.keys().copied().collect();
        for worker in workers {
            self.kill_life(worker, now);
        }
    }

    /// Kills leaders again that were killed and are not dead, and the processes below them: these become our children
    /// only when the leader dies.
    pub(super) fn strike_again(&mut self, now: Instant) {
        let (mut is_late, spawner) = (false, self.spawner.pid().unwrap_or(0));
        for life in self.lives.values_mut() {
            if let State::Unborn(Some((_, wait))) = &mut life.state
                && wait.next <= now
            {
                wait.again(now);
                is_late |= now.since(wait.since) >= HANGS;
                if wait.becomes_stuck(now) {
                    self.reports.push(Report::Stuck(life.worker, spawner));
                }
            }
            let State::Killed(wait) = &mut life.state else { continue };
            if wait.next > now {
                continue;
            }
            wait.again(now);
            self.undead = true;
            if wait.becomes_stuck(now) {
                self.reports.push(Report::Stuck(life.worker, life.pid));
            }
            if let Some(cgroups) = self.cgroups.as_ref().filter(|_| life.cgroup) {
                cgroups.kill(life.worker);
            }
            for pid in descendants(life.pid) {
                _ = sys::kill(pid, libc::SIGKILL);
            }
            _ = sys::kill(life.pid, libc::SIGKILL);
        }
        if is_late {
            self.kill_spawner();
        }
    }

    /// One round of proof: kills the strays, and reports which of the ended lives are proven dead.
    pub(super) fn prove(&mut self, now: Instant, again: bool) {
        // A leader traced by its own child is a zombie that we cannot reap before that child, a stray, is dead.
        let undead = std::mem::take(&mut self.undead);
        let idle = self.ended.is_empty() && self.strays.is_empty() && !self.is_ending() && !undead;
        if (idle && self.templates.are_clear()) || !self.kill_strays(again, now) {
            return;
        }
        self.clear_abandoned();
        let last_left = self.strays.last_left();
        let mut ended = std::mem::take(&mut self.ended);
        ended.retain(|&worker| !self.prove_life(worker, last_left, now));
        self.ended = ended;
        self.make_followers(now);
    }

    /// Kills strays. False when the list of children could not be read: then nothing is known.
    fn kill_strays(&mut self, again: bool, now: Instant) -> bool {
        let Some(unknown) = self.strays_there() else { return false };
        // An unknown child that is no newborn any more has reported before: read that first.
        if unknown.iter().any(|pid| !self.strays.contains(*pid)) {
            self.hear(now);
        }
        if unknown.len() > SWARM {
            self.stop_swarm();
        }
        for pid in unknown {
            if self.is_unknown(pid) && (again || !self.strays.contains(pid)) {
                self.kill_stray(pid);
            }
        }
        true
    }

    /// Stops all strays and their descendants until no new one is found. In a fork bomb each process that is killed
    /// makes room for another fork; a stopped one does not.
    fn stop_swarm(&mut self) {
        let (end, mut stopped) = (clock::now() + STOPPING_PER_TURN, HashSet::new());
        loop {
            let before = stopped.len();
            for stray in self.strays_there().unwrap_or_default() {
                for pid in std::iter::once(stray).chain(descendants(stray)) {
                    if self.is_unknown(stray) && stopped.insert(pid) {
                        _ = sys::kill(pid, libc::SIGSTOP);
                    }
                }
            }
            if stopped.len() == before || clock::now() >= end {
                return;
            }
        }
    }

    /// The children that belong to dead leaders. None when the list cannot be read.
    fn strays_there(&mut self) -> Option<Vec<i32>> {
        let supervisor = self.supervisor.as_ref().map(|supervisor| supervisor.pid);
        let spawner = self.spawner.pid();
        let unknown =
            |pid: &&i32| ![supervisor, spawner].contains(&Some(**pid)) && !self.leaders.contains_key(*pid);
        let mut unknown: Vec<i32> = self.children.read()?.iter().filter(unknown).copied().collect();
        unknown.retain(|pid| self.strays.contains(*pid) || !self.strangers.recognize(*pid));
        self.templates.still_unknown(&unknown);
        unknown.retain(|pid| self.strays.contains(*pid) || self.templates.kin(*pid) != Kin::Newborn);
        Some(unknown)
    }

    /// Kills an unknown child. What the supervisor has left, or was forked for a life that was given up, belongs to no
    /// life.
    pub(super) fn kill_stray(&mut self, pid: i32) {
        if !self.strays.contains(pid) {
            match self.templates.kin(pid) {
                Kin::None if !self.is_of_the_supervisor(pid) => self.strays.seen(pid),
                Kin::None | Kin::Newborn | Kin::GivenUp => self.strays.seen_of_no_life(pid),
            }
        }
        _ = sys::kill(pid, libc::SIGKILL);
    }

    /// Checks whether a life is proven dead; true if it is. An unknown child that was there before the leader ended
    /// does not belong to its tree.
    fn prove_life(&mut self, worker: WorkerId, last_left: u64, now: Instant) -> bool {
        let Some(life) = self.lives.get_mut(&worker) else { return true };
        let State::Ended(end, wait) = &mut life.state else { return true };
        // If the proof takes long, the cgroups tell to which life a doubtful child belongs.
        let is_late = now.since(wait.since) >= STUCK_AFTER;
        let mut doubtful = self.strays.of(end.number);
        let is_of_another = |cgroups: &Cgroups| doubtful.all(|pid| cgroups.is_of_another(pid, worker));
        let clear = last_left < end.number || is_late && self.cgroups.as_ref().is_some_and(is_of_another);
        let serves = matches!(self.phase, Phase::Serving) && !life.is_earlier;
        let follow = life.follow.filter(|follow| serves && follow.lives > 0);
        if let Some(cgroups) = self.cgroups.as_mut().filter(|_| life.cgroup) {
            let (oom, at_bound) = cgroups.oom(worker);
            (end.oom, end.oom_at_bound) = (end.oom | oom, end.oom_at_bound | at_bound);
            // What has left nothing behind hands its cgroup on to the next life of the slot.
            let is_clean = follow.is_some() && clear && end.left_behind == 0 && !end.oom;
            life.cgroup = !(is_clean && cgroups.hand_on(worker) || cgroups.remove(worker));
            if life.cgroup {
                cgroups.kill(worker);
            }
        }
        if clear && !life.cgroup {
            let exit = end.proven(now);
            failpoint("keeper-7-proven");
            life.state = State::Proven(exit.clone());
            self.reports.push(match life.is_earlier {
                true => Report::Left(worker, exit),
                false => Report::Exited { worker, exit, followed: follow.is_some() },
            });
            if let Some(follow) = follow {
                self.followers.push((worker.next(), follow, life.placed));
            }
            return true;
        }
        if wait.next <= now {
            wait.again(now);
        }
        let (becomes_stuck, next) = (wait.becomes_stuck(now), wait.next);
        if becomes_stuck && let Some(life) = self.lives.get(&worker) {
            self.reports.push(Report::Stuck(worker, self.who_lives_on(life)));
        }
        self.sources.wake_by(next);
        false
    }

    /// Pid of a process of a life that is not proven dead; 0 if none is known.
    pub(super) fn who_lives_on(&self, life: &Life) -> i32 {
        let end = match &life.state {
            State::Ended(end, _) => end,
            // Nobody knows whether the spawner starts it, as long as that lives.
            State::Unborn(_) => return self.spawner.pid().unwrap_or(0),
            State::Alive | State::Killed(_) | State::Proven(_) => return life.pid,
        };
        let stray = self.strays.of(end.number).next();
        let someone = || self.cgroups.as_ref().and_then(|cgroups| cgroups.someone(life.worker));
        stray.or_else(someone).unwrap_or(0)
    }
}
