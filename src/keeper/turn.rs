//! What the loop waits for: signals, one timer, the supervisor's socket, and the sockets of templates that are to fork.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use model::Instant;
use wire::keeper::Ask;

/// The sources of all events.
pub(super) struct Sources {
    signals: SignalFd,
    timer: TimerFd,
    /// Whether the end of its terminal ends this service: unless it was told to ignore SIGHUP, as by `nohup`.
    ends_with_terminal: bool,
    armed: Option<Instant>,
}

/// What one wait has found.
#[derive(Clone, Debug, Default)]
pub(super) struct Ready {
    pub deaths: bool,
    /// The child whose death the signal names, if it names one. Others may have died since.
    pub died: Option<i32>,
    pub asks: Vec<Ask>,
    pub timer: bool,
    /// How late the timer is noticed: long after it has fired, if this process did not run.
    pub late: Duration,
    pub readable: bool,
    pub writable: bool,
    pub born: bool,
}

/// The sockets to wait for.
pub(super) struct Interest<'a> {
    pub socket: Option<BorrowedFd<'a>>,
    pub read: bool,
    pub write: bool,
    /// Sockets of templates that were asked to fork and have not replied.
    pub forks: Vec<BorrowedFd<'a>>,
}

/// The origin of a signal that the kernel sends by itself, as SIGHUP when a terminal is closed.
const SI_KERNEL: i32 = 0x80;

/// What the keeper takes each signal for.
const SIGNALS: [(Signal, Ask); 9] = [
    (Signal::SIGTERM, Ask::Terminate),
    (Signal::SIGINT, Ask::Interrupt),
    (Signal::SIGQUIT, Ask::Quit),
    (Signal::SIGHUP, Ask::Hangup),
    (Signal::SIGUSR1, Ask::Reopen),
    (Signal::SIGUSR2, Ask::Pause),
    (Signal::SIGCONT, Ask::Resume),
    (Signal::SIGTTIN, Ask::Grow),
    (Signal::SIGTTOU, Ask::Shrink),
];

impl Sources {
    /// Blocks the signals that arrive by descriptor from here on.
    pub(crate) fn open(ends_with_terminal: bool) -> nix::Result<Self> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        SIGNALS.iter().for_each(|(signal, _)| mask.add(*signal));
        let mut blocked = mask;
        // A closed stderr, one that is a file of the longest size, and a soft limit of CPU time must not end the keeper;
        // ignoring the signals would reach the children.
        for signal in [Signal::SIGPIPE, Signal::SIGXFSZ, Signal::SIGXCPU] {
            blocked.add(signal);
        }
        blocked.thread_set_mask()?;
        Ok(Sources {
            signals: SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?,
            timer: TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?,
            ends_with_terminal,
            armed: None,
        })
    }

    /// Makes the loop turn at `at` or earlier.
    pub(crate) fn wake_by(&mut self, at: Instant) {
        if self.armed.is_some_and(|armed| armed <= at) {
            return;
        }
        // Zero would disarm the timer.
        let time = TimeSpec::nanoseconds(i64::try_from(at.0.max(1)).unwrap_or(i64::MAX));
        if self.timer.set(Expiration::OneShot(time), TimerSetTimeFlags::TFD_TIMER_ABSTIME).is_ok() {
            self.armed = Some(at);
        }
    }

    /// Waits for the next thing to do.
    pub(crate) fn wait(&mut self, interest: &Interest<'_>) -> Ready {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::POLLIN, interest.read);
        flags.set(PollFlags::POLLOUT, interest.write);
        let socket = interest.socket.filter(|_| !flags.is_empty());
        let always =
            [self.signals.as_fd(), self.timer.as_fd()].into_iter().chain(interest.forks.iter().copied());
        let mut fds: Vec<_> = always.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        fds.extend(socket.map(|socket| PollFd::new(socket, flags)));
        if poll(&mut fds, PollTimeout::NONE).is_err() {
            return Ready::default();
        }
        let events = |fd: &PollFd<'_>| fd.revents().unwrap_or(PollFlags::empty());
        let (signals, timer) = (events(&fds[0]), events(&fds[1]));
        let forks = &fds[2..2 + interest.forks.len()];
        let socket = fds.last().filter(|_| socket.is_some()).map_or(PollFlags::empty(), events);
        let ended = PollFlags::POLLHUP | PollFlags::POLLERR;
        let mut ready = Ready {
            timer: !timer.is_empty(),
            readable: interest.read && socket.intersects(PollFlags::POLLIN | ended),
            writable: interest.write && socket.intersects(PollFlags::POLLOUT | ended),
            born: forks.iter().any(|fork| !events(fork).is_empty()),
            ..Ready::default()
        };
        if !signals.is_empty() {
            self.take_signals(&mut ready);
        }
        if ready.timer {
            ready.late = self.armed.take().map_or(Duration::ZERO, |armed| clock::now().since(armed));
            _ = self.timer.wait();
        }
        ready
    }

    fn take_signals(&mut self, ready: &mut Ready) {
        // Each signal is pending once at most, so this ends.
        while let Ok(Some(info)) = self.signals.read_signal() {
            let Ok(signal) = Signal::try_from(info.ssi_signo as i32) else { continue };
            if signal == Signal::SIGHUP && info.ssi_code == SI_KERNEL {
                // No person has sent it: the terminal is gone, and with it all that this service says.
                ready.asks.extend(self.ends_with_terminal.then_some(Ask::Terminate));
                continue;
            }
            ready.asks.extend(SIGNALS.iter().filter(|(known, _)| *known == signal).map(|(_, ask)| *ask));
            // Usually one child has died; another read would only say that there is no more.
            if signal == Signal::SIGCHLD {
                ready.deaths = true;
                ready.died = i32::try_from(info.ssi_pid).ok();
                break;
            }
        }
    }
}

/// When to try again to send. None if that can never work.
pub(super) fn retry_after(errno: Errno) -> Option<Duration> {
    // Too many descriptors are in flight, or no memory is left: poll does not report when that is over.
    let passes = matches!(errno, Errno::ETOOMANYREFS | Errno::ENOBUFS | Errno::ENOMEM);
    passes.then_some(Duration::from_millis(10))
}
