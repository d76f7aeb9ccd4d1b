//! One life: its leader, its process tree, and what the keeper holds for it.

use std::os::fd::OwnedFd;
use std::time::Duration;

use super::fence::Fence;
use model::{Exit, ExitStatus, Follow, Instant, Usage, WorkerId};

/// A life is reported as stuck after this time without proof of death.
pub(super) const STUCK_AFTER: Duration = Duration::from_secs(1);

const FIRST_RETRY: Duration = Duration::from_micros(200);
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// The supervisor's ends of a child's socket and pipes.
pub(super) struct Ends {
    pub socket: OwnedFd,
    pub out: OwnedFd,
    pub err: OwnedFd,
    /// The other ends of the pipes. While they are open, `Exited` alone reports the end of a program; otherwise the end
    /// of each pipe would wake the supervisor once more for every job.
    pub writers: [OwnedFd; 2],
}

pub(super) struct Life {
    pub worker: WorkerId,
    /// Pid of the leader, safe to signal until it is reaped; 0 as long as the life is unborn.
    pub pid: i32,
    /// The keeper's duplicates, so that nothing the child wrote is lost if the supervisor dies.
    pub ends: Ends,
    pub fence: Option<Fence>,
    /// The lives that the keeper makes after this one without an order for each.
    pub follow: Option<Follow>,
    /// Whether the life has a cgroup of its own that still exists.
    pub cgroup: bool,
    /// Whether the keeper sent SIGKILL: then the exit status says nothing about the job.
    pub killed: bool,
    /// Whether an earlier supervisor ordered the life: the present one has none of its descriptors.
    pub is_earlier: bool,
    /// The child's end of the socket, as long as the life is unborn.
    pub child_socket: Option<OwnedFd>,
    /// Whether the life began without a process: its followers do too.
    pub placed: bool,
    pub state: State,
}

pub(super) enum State {
    /// The spawner has not started the program yet. If the life is to be ended, how, and the wait for the spawner.
    Unborn(Option<(i32, Wait)>),
    /// The leader runs, as far as we know.
    Alive,
    /// The leader was killed and is not dead yet.
    Killed(Wait),
    /// The leader is reaped, its tree not proven dead yet.
    Ended(End, Wait),
    /// All of it is proven dead; kept until the supervisor forgets it.
    Proven(Exit),
}

/// The wait for a death: when to check and kill again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub since: Instant,
    pub next: Instant,
    pause: Duration,
    pub stuck: bool,
}

/// The end of a leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub status: ExitStatus,
    pub usage: Usage,
    pub at: Instant,
    /// Number of this end, counted from 1: an unknown child seen before it does not belong to this life.
    pub number: u64,
    pub left_behind: u32,
    pub oom: bool,
    pub oom_at_bound: bool,
}

impl Life {
    pub(crate) fn new(worker: WorkerId, pid: i32, ends: Ends, cgroup: bool) -> Self {
        Life {
            worker,
            pid,
            ends,
            fence: None,
            follow: None,
            cgroup,
            killed: false,
            is_earlier: false,
            child_socket: None,
            placed: false,
            state: State::Alive,
        }
    }

    /// A life without a leader.
    pub(crate) fn unborn(worker: WorkerId, ends: Ends, child_socket: OwnedFd, cgroup: bool) -> Self {
        Life {
            child_socket: Some(child_socket),
            placed: true,
            state: State::Unborn(None),
            ..Life::new(worker, 0, ends, cgroup)
        }
    }

    /// Pid of the leader, until it is reaped.
    pub(crate) fn leader(&self) -> Option<i32> {
        match self.state {
            State::Alive | State::Killed(_) => Some(self.pid),
            State::Unborn(_) | State::Ended(..) | State::Proven(_) => None,
        }
    }

    /// Whether its fence can fall: it has a leader, or will have one.
    pub(crate) fn is_to_end(&self) -> bool {
        matches!(self.state, State::Unborn(None) | State::Alive)
    }

    /// When something must be done about this life.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        match &self.state {
            State::Alive | State::Unborn(None) => self.fence.map(|fence| fence.wakes(now)),
            State::Killed(wait) | State::Ended(_, wait) | State::Unborn(Some((_, wait))) => Some(wait.next),
            State::Proven(_) => None,
        }
    }

    /// Whether there is nothing more to wait for: it is proven dead, or known to be stuck.
    pub(crate) fn is_settled(&self) -> bool {
        match &self.state {
            State::Alive | State::Unborn(None) => false,
            State::Killed(wait) | State::Ended(_, wait) | State::Unborn(Some((_, wait))) => wait.stuck,
            State::Proven(_) => true,
        }
    }

    /// The exit report, once the whole process tree is proven dead.
    pub(crate) fn exit(&self) -> Option<&Exit> {
        match &self.state {
            State::Proven(exit) => Some(exit),
            State::Unborn(_) | State::Alive | State::Killed(_) | State::Ended(..) => None,
        }
    }

    /// Whether the life ended by itself: the end of one that the keeper killed tells the next supervisor nothing.
    pub(crate) fn ended_by_itself(&self) -> bool {
        let by_kill =
            |exit: &Exit| matches!(exit.status, ExitStatus::Signal { signal: libc::SIGKILL, core: _ });
        self.exit().is_some_and(|exit| !(self.killed && by_kill(exit)))
    }
}

impl Wait {
    pub(crate) fn new(now: Instant) -> Self {
        Wait { since: now, next: now + FIRST_RETRY, pause: FIRST_RETRY, stuck: false }
    }

    /// Sets the next try after twice the pause.
    pub(crate) fn again(&mut self, now: Instant) {
        self.pause = (self.pause * 2).min(LONGEST_RETRY);
        self.next = now + self.pause;
    }

    /// True once: when the wait has taken too long.
    pub(crate) fn becomes_stuck(&mut self, now: Instant) -> bool {
        let stuck = !self.stuck && now.since(self.since) >= STUCK_AFTER;
        self.stuck |= stuck;
        stuck
    }
}

impl End {
    /// Adds the resources used by a process that the leader left behind.
    pub(crate) fn add(&mut self, usage: &Usage) {
        self.usage.user += usage.user;
        self.usage.system += usage.system;
        self.usage.max_rss = self.usage.max_rss.max(usage.max_rss);
    }

    pub(crate) fn proven(&self, now: Instant) -> Exit {
        Exit {
            status: self.status,
            usage: self.usage,
            left_behind: self.left_behind,
            oom: self.oom,
            oom_at_bound: self.oom_at_bound,
            proof: now.since(self.at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_slow_down_to_one_a_second() {
        let (mut now, mut tries) = (Instant(0), 0);
        let mut wait = Wait::new(now);
        while now < Instant::from_millis(10_000) {
            now = wait.next;
            wait.again(now);
            tries += 1;
        }
        assert_eq!(wait.next.since(now), LONGEST_RETRY);
        assert!(tries < 25, "{tries}");
    }

    #[test]
    fn a_stuck_life_is_reported_once() {
        let mut wait = Wait::new(Instant(0));
        assert!(!wait.becomes_stuck(Instant::from_millis(999)));
        assert!(wait.becomes_stuck(Instant::from_millis(1000)));
        assert!(!wait.becomes_stuck(Instant::from_millis(2000)));
    }
}
