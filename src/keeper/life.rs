//! One life: a leader, its tree, and what is kept of it.

use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::model::{Exit, ExitStatus, Follow, Instant, Usage, WorkerId};

/// Without proof for so long, a life is said to be stuck.
pub(super) const STUCK_AFTER: Duration = Duration::from_secs(1);

const FIRST_RETRY: Duration = Duration::from_micros(200);
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// The supervisor's ends of a child's socket and pipes.
pub(super) struct Ends {
    pub socket: OwnedFd,
    pub out: OwnedFd,
    pub err: OwnedFd,
    /// The pipes' other ends: while they are open, the end of a program is said once, by `Exited`, and not before by its
    /// pipes, which would wake the supervisor twice more for every job.
    pub writers: [OwnedFd; 2],
}

pub(super) struct Life {
    pub worker: WorkerId,
    /// Ours to signal until it is reaped.
    pub pid: i32,
    /// The keeper's duplicates, so that no word is lost if the supervisor is.
    pub ends: Ends,
    pub kill_at: Option<Instant>,
    /// Who comes after it without being asked for.
    pub follow: Option<Follow>,
    /// Whether it has a cgroup of its own that is still there.
    pub cgroup: bool,
    /// Whether the keeper sent SIGKILL: such an end says nothing about the job.
    pub killed: bool,
    /// Whether an earlier supervisor ordered it: the present one has none of its descriptors.
    pub is_earlier: bool,
    pub state: State,
}

pub(super) enum State {
    /// The leader runs, as far as we know.
    Alive,
    /// The leader was killed and is not dead yet.
    Killed(Wait),
    /// The leader is reaped, its tree not proven dead yet.
    Ended(End, Wait),
    /// All is over; kept until it is forgotten.
    Proven(Exit),
}

/// The wait for a death: when to look and strike again.
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
    /// Which end this was, counted from 1: an unknown child seen before it is not of this life.
    pub number: u64,
    pub left_behind: u32,
    pub oom: bool,
    pub oom_at_bound: bool,
}

impl Life {
    pub fn new(worker: WorkerId, pid: i32, ends: Ends, cgroup: bool) -> Self {
        Life {
            worker,
            pid,
            ends,
            kill_at: None,
            follow: None,
            cgroup,
            killed: false,
            is_earlier: false,
            state: State::Alive,
        }
    }

    /// The leader, while it is ours to signal.
    pub fn leader(&self) -> Option<i32> {
        match self.state {
            State::Alive | State::Killed(_) => Some(self.pid),
            State::Ended(..) | State::Proven(_) => None,
        }
    }

    /// When something has to be done about it.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Alive => self.kill_at,
            State::Killed(wait) | State::Ended(_, wait) => Some(wait.next),
            State::Proven(_) => None,
        }
    }

    /// Nothing more to wait for: proven dead, or known to be stuck.
    pub fn is_settled(&self) -> bool {
        match &self.state {
            State::Alive => false,
            State::Killed(wait) | State::Ended(_, wait) => wait.stuck,
            State::Proven(_) => true,
        }
    }

    /// The word for its end, once proven.
    pub fn exit(&self) -> Option<&Exit> {
        match &self.state {
            State::Proven(exit) => Some(exit),
            State::Alive | State::Killed(_) | State::Ended(..) => None,
        }
    }

    /// Whether it ended by itself: a life that the keeper killed tells a next supervisor nothing.
    pub fn ended_by_itself(&self) -> bool {
        let by_kill =
            |exit: &Exit| matches!(exit.status, ExitStatus::Signal { signal: libc::SIGKILL, core: _ });
        self.exit().is_some_and(|exit| !(self.killed && by_kill(exit)))
    }
}

impl Wait {
    pub fn new(now: Instant) -> Self {
        Wait { since: now, next: now + FIRST_RETRY, pause: FIRST_RETRY, stuck: false }
    }

    /// One more try was made: the next one comes after twice the pause.
    pub fn again(&mut self, now: Instant) {
        self.pause = (self.pause * 2).min(LONGEST_RETRY);
        self.next = now + self.pause;
    }

    /// True once: when it has taken too long.
    pub fn becomes_stuck(&mut self, now: Instant) -> bool {
        let stuck = !self.stuck && now.since(self.since) >= STUCK_AFTER;
        self.stuck |= stuck;
        stuck
    }
}

impl End {
    /// The resources of a process that was left behind are the life's too.
    pub fn add(&mut self, usage: &Usage) {
        self.usage.user += usage.user;
        self.usage.system += usage.system;
        self.usage.max_rss = self.usage.max_rss.max(usage.max_rss);
    }

    pub fn proven(&self, now: Instant) -> Exit {
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
