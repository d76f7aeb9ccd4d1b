//! The supervisor's process: started, watched, and started again.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

use super::life::{Life, STUCK_AFTER};
use super::phase::{Next, Phase};
use super::say::say;
use super::state::{Keeper, Supervisor};
use super::turn::retry_after;
use super::{EXIT_CRASHES, EXIT_STALLED, sys};
use model::{ExitStatus, Instant, oom_kills_in, who_sent_it};
use wire::fault::passes;
use wire::keeper::{Ask, Hello, Report};

/// Exit codes of a supervisor that could not get its store, its directories, disk space, memory or threads for now.
const MAY_PASS: [i32; 2] = [69, 74];

/// Exit codes of a supervisor that cannot use its settings. The first one could: what the settings name, a user or the
/// file of a token, is away.
const WERE_GOOD: [i32; 2] = [77, 78];

/// How long a supervisor may take to end once it is done.
const LAST_WORDS: Duration = Duration::from_secs(5);

impl Keeper {
    /// Tells the supervisor what happened to the lives, in order, as far as that can be sent without waiting.
    pub(super) fn say(&mut self, now: Instant) {
        let Some(supervisor) = self.supervisor.as_ref().filter(|supervisor| supervisor.open) else {
            return;
        };
        let (sent, result) = self.reports.send(&supervisor.socket, &self.lives, self.stat.as_ref());
        if sent > 0
            && let Some(at) = self.watchdog.said(now)
        {
            self.sources.wake_by(at);
        }
        let Err(errno) = result else { return };
        match retry_after(errno) {
            Some(pause) => self.sources.wake_by(now + pause),
            None => self.supervisor_closed(now),
        }
    }

    /// Starts the supervisor, says hello, and hands over what the one before has left.
    pub(super) fn start_supervisor(&mut self, now: Instant) -> nix::Result<()> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let (socket, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        // SAFETY: the keeper has one thread.
        let pid = match unsafe { sys::fork() }? {
            0 => self.launch.become_supervisor(theirs.as_raw_fd()),
            pid => pid,
        };
        self.supervisors_session = Some(pid);
        self.supervisor = Some(Supervisor {
            pid,
            socket,
            open: true,
            spoke: false,
            kill_at: None,
            stop_by: None,
            killed: false,
            oom_kills: oom_kills(),
        });
        self.phase = Phase::Serving;
        self.reports.clear();
        self.lives.retain(|_, life| life.exit().is_none() || life.ended_by_itself());
        self.lives.values_mut().for_each(|life| life.is_earlier = true);
        let (left, stuck): (Vec<&Life>, Vec<&Life>) =
            self.lives.values().partition(|life| life.exit().is_some());
        self.reports.push(Report::Hello(Hello {
            pid: std::process::id() as i32,
            restarts: self.crashes.total,
            ended: self.crashes.last,
            oom_kills: self.crashes.oom_kills,
            generation: self.generation,
            cgroup: self.cgroups.is_some(),
            bounds: self.cgroups.as_ref().is_some_and(|cgroups| cgroups.controllers.is_ok()),
            notify: self.notify.is_heard(),
            left: left.len() as u32,
            stuck: stuck.len() as u32,
        }));
        for life in left {
            if let Some(exit) = life.exit() {
                self.reports.push(Report::Left(life.worker, exit.clone()));
            }
        }
        for life in stuck {
            self.reports.push(Report::Stuck(life.worker, self.who_lives_on(life)));
        }
        if let Some(ask) = self.ending {
            self.asked(now, ask);
        }
        self.say(now);
        Ok(())
    }

    /// The supervisor is reaped. Everything it had started ends before anything else happens.
    pub(super) fn supervisor_ended(&mut self, now: Instant, status: ExitStatus) {
        self.take_last_orders(now);
        let supervisor = self.supervisor.take();
        let spoke = supervisor.as_ref().is_some_and(|supervisor| supervisor.spoke);
        self.reports.clear();
        self.crashes.last = Some(status);
        self.crashes.oom_kills = supervisor.and_then(|supervisor| supervisor.killed_meanwhile(status));
        let next = match (self.phase, status) {
            (Phase::Closing(code) | Phase::Clearing(Next::Exit(code), _), _) => Next::Exit(code),
            (_, ExitStatus::Code(code)) if !spoke => self.refused(now, code),
            (_, status) => self.crashed(now, status),
        };
        let patience = now + STUCK_AFTER;
        self.phase = Phase::Clearing(next, patience);
        self.sources.wake_by(patience);
        self.kill_all(now);
    }

    /// The supervisor ended without sending an order. If it was the first one, that is final. The cause of a later
    /// failure may pass, as the store and the settings were good before: the keeper waits for a full disk, or for a user
    /// whose directory server is away, as long as it takes.
    fn refused(&mut self, now: Instant, code: i32) -> Next {
        let again = match self.crashes.total {
            0 => None,
            _ if MAY_PASS.contains(&code) || WERE_GOOD.contains(&code) => Some(self.crashes.unavailable(now)),
            _ => self.crashes.crashed(now),
        };
        let Some(at) = again else { return Next::Exit(code as u8) };
        let wait = at.since(now).as_secs_f64();
        say(format_args!("the new supervisor could not start (exit code {code}), trying again in {wait} s"));
        Next::Restart(at)
    }

    /// The supervisor ended at work. If it says that it lacked something, that is no crash.
    fn crashed(&mut self, now: Instant, status: ExitStatus) -> Next {
        if matches!(status, ExitStatus::Code(code) if MAY_PASS.contains(&code)) {
            let at = self.crashes.unavailable(now);
            let wait = at.since(now).as_secs_f64();
            say(format_args!("the supervisor ended by {status}, starting it again in {wait} s"));
            return Next::Restart(at);
        }
        let again = self.crashes.crashed(now);
        let then = if again.is_some() { "starting it again" } else { "too often: giving up" };
        say(format_args!("the supervisor ended by {status}, {then}"));
        if let Some(kills) = self.crashes.oom_kills {
            say(format_args!("nobody here sent that SIGKILL: {}", who_sent_it(kills)));
        }
        again.map_or(Next::Exit(EXIT_CRASHES), Next::Restart)
    }

    /// The supervisor could not even be forked.
    fn not_forked(&mut self, now: Instant, errno: Errno) -> Next {
        let again = match passes(errno) {
            true => Some(self.crashes.unavailable(now)),
            false => self.crashes.crashed(now),
        };
        let Some(at) = again else {
            say(format_args!("failed to start the supervisor: {errno}, too often: giving up"));
            return Next::Exit(EXIT_CRASHES);
        };
        let wait = at.since(now).as_secs_f64();
        say(format_args!("failed to start the supervisor: {errno}, trying again in {wait} s"));
        Next::Restart(at)
    }

    /// The supervisor's end of the socket is closed, or it sends nonsense: it gets some time to end, and is then
    /// killed.
    pub(super) fn supervisor_closed(&mut self, now: Instant) {
        if let Some(supervisor) = &mut self.supervisor {
            supervisor.open = false;
        }
        self.let_supervisor_end(now);
        // The supervisor gives no orders any more. The kernel may take a while to end it; its jobs need not wait for
        // that.
        self.kill_all(now);
    }

    pub(super) fn let_supervisor_end(&mut self, now: Instant) {
        if let Some(supervisor) = &mut self.supervisor {
            let at = *supervisor.kill_at.get_or_insert(now + LAST_WORDS);
            self.sources.wake_by(at);
        }
    }

    /// The keeper got a signal: passes it on to the supervisor.
    pub(super) fn asked(&mut self, now: Instant, ask: Ask) {
        if let Some(supervisor) = &mut self.supervisor {
            self.reports.push_ask(ask);
            if ask.ends() {
                self.ending = Some(ask);
                let at = supervisor.stop_by.get_or_insert(now + self.setup.stop_deadline);
                self.sources.wake_by(*at);
            }
        } else if let Phase::Clearing(next @ Next::Restart(_), _) = &mut self.phase
            && ask.ends()
        {
            // No supervisor runs that could be asked, and no job runs.
            *next = Next::Exit(0);
        }
    }

    pub(super) fn supervisors_deadline(&self) -> Option<Instant> {
        let restart = match self.phase {
            Phase::Clearing(Next::Restart(at), _) => Some(at),
            Phase::Clearing(Next::Exit(_), _) | Phase::Closing(_) | Phase::Serving => None,
        };
        let supervisor = self.supervisor.as_ref();
        let own = supervisor.map_or([None; 2], |supervisor| [supervisor.kill_at, supervisor.stop_by]);
        own.into_iter().chain([restart]).flatten().min()
    }

    pub(super) fn keep_supervisors_deadlines(&mut self, now: Instant) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if let Some(supervisor) = self.supervisor.as_mut().filter(|supervisor| due(supervisor.stop_by)) {
            supervisor.stop_by = None;
            self.judge_silence();
        }
        if let Some(supervisor) = self.supervisor.as_mut().filter(|supervisor| due(supervisor.kill_at)) {
            supervisor.kill_at = Some(now + LAST_WORDS);
            supervisor.killed = true;
            _ = sys::kill(supervisor.pid, libc::SIGKILL);
        }
    }

    /// The supervisor was asked to stop long ago and has sent no order since: if it has not even read the request,
    /// kills it.
    fn judge_silence(&mut self) {
        let Some(supervisor) = &mut self.supervisor else { return };
        if self.reports.is_empty() && sys::unread(supervisor.socket.as_fd()) == 0 {
            return;
        }
        say(format_args!("the supervisor does not read its order to stop: ending everything"));
        self.phase = Phase::Closing(EXIT_STALLED);
        supervisor.killed = true;
        _ = sys::kill(supervisor.pid, libc::SIGKILL);
    }

    /// Whether everything below is being ended, or is about to be.
    pub(super) fn is_ending(&self) -> bool {
        !matches!(self.phase, Phase::Serving)
    }

    /// Goes on once everything below has ended: gives the exit code, or starts a new supervisor.
    pub(super) fn go_on(&mut self, now: Instant) -> Option<u8> {
        let Phase::Clearing(next, patience) = self.phase else { return None };
        let held_up = !self.strays.is_empty() && now < patience;
        if held_up || !self.lives.values().all(|life| life.is_settled()) {
            return None;
        }
        match next {
            Next::Exit(code) => {
                self.end_spawner();
                self.remove_traces();
                self.let_waiters_go();
                return Some(code);
            }
            Next::Restart(at) if at > now => self.sources.wake_by(at),
            Next::Restart(_) => {
                if let Err(errno) = self.start_supervisor(now) {
                    self.phase = Phase::Clearing(self.not_forked(now, errno), patience);
                    self.sources.wake_by(clock::now() + self.setup.restarts.first);
                }
            }
        }
        None
    }
}

impl Supervisor {
    /// How many processes the kernel has killed for want of memory while this one ran, if it ended by a SIGKILL that the
    /// keeper did not send.
    fn killed_meanwhile(&self, status: ExitStatus) -> Option<u64> {
        let is_killed = matches!(status, ExitStatus::Signal { signal: libc::SIGKILL, .. }) && !self.killed;
        let (before, now) = (self.oom_kills.filter(|_| is_killed)?, oom_kills()?);
        Some(now.saturating_sub(before))
    }
}

/// The kernel's count of processes that it has killed for want of memory, for this machine since it booted.
fn oom_kills() -> Option<u64> {
    oom_kills_in(&std::fs::read_to_string("/proc/vmstat").ok()?)
}

impl Keeper {
    /// Once everything is proven dead, the next start has nothing to look for.
    fn remove_traces(&self) {
        let is_proven = self.strays.is_empty() && self.lives.values().all(|life| life.exit().is_some());
        for &lock in self.setup.lock_fds.iter().filter(|_| is_proven) {
            sys::truncate(lock);
        }
    }
}
