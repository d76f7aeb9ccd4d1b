//! Watches whether the supervisor's loop turns, and feeds systemd's watchdog as long as it does.
//!
//! A supervisor shows that it lives by sending an order, or by having read all its reports: only its loop reads. Under
//! systemd's watchdog the keeper sends a `Ping` at each check, so that there is something to read. Otherwise it checks
//! after it has sent a report, and while idle it sends a `Ping` once in a while: this wakes an idle service seldom.

use std::ffi::OsString;
use std::time::Duration;

use model::Instant;

/// When to check next, and what the last check found.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// Time from one check to the next.
    pause: Duration,
    /// Time from a check that found silence to the one that ends the supervisor.
    patience: Duration,
    /// How long nothing is sent before the keeper sends a `Ping`.
    rest: Duration,
    /// Whether systemd waits to be fed.
    pub fed: bool,
    next: Instant,
    /// Whether a report was sent since the last check.
    told: bool,
    suspected: bool,
    /// Whether an order came since the last look.
    pub heard: bool,
}

/// While idle, the keeper sends a `Ping` after this multiple of the allowed silence.
const RESTS: u32 = 2;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// The supervisor has read all reports, or there is no supervisor and it is the keeper's turn.
    Read,
    /// The supervisor has sent an order, and has reports unread.
    Heard,
    /// The supervisor starts or ends, so the check cannot decide.
    Unknown,
    /// The supervisor has reports unread, and has sent no order.
    Silence,
}

/// What follows from a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Turns,
    Wait,
    Hangs,
}

impl Watchdog {
    /// A supervisor hangs after `silence`. Under systemd's watchdog that is three quarters of its interval, so that the
    /// keeper acts before systemd does.
    pub(crate) fn new(silence: Duration, fed_within: Option<Duration>, now: Instant) -> Self {
        let (pause, patience, rest) = match fed_within {
            Some(within) => (within / 2, within / 4, within / 2),
            None => (silence / 3, silence * 2 / 3, silence * RESTS),
        };
        let fed = fed_within.is_some();
        Watchdog { pause, patience, rest, fed, next: now + rest, told: false, suspected: false, heard: false }
    }

    /// When to check, or to send a `Ping`.
    pub(crate) fn due(&self) -> Instant {
        self.next
    }

    /// A report was sent to the supervisor. Gives when to check whether it was read, if that is earlier than planned.
    pub(crate) fn said(&mut self, now: Instant) -> Option<Instant> {
        let at = now + self.pause;
        if self.fed || self.told || self.suspected {
            return None;
        }
        self.told = true;
        (at < self.next).then(|| {
            self.next = at;
            at
        })
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// Whether nothing was sent for long, so that there is nothing to check and a `Ping` must be sent.
    pub(crate) fn asks(&mut self, now: Instant) -> bool {
        let asks = !self.fed && !self.told && !self.suspected;
        if asks {
            (self.told, self.next) = (true, now + self.pause);
        }
        asks
    }

    pub(crate) fn look(&mut self, now: Instant, sign: Sign) -> Finding {
        let finding = match (sign, self.suspected) {
            (Sign::Read | Sign::Heard, _) => Finding::Turns,
            (Sign::Unknown, _) | (Sign::Silence, false) => Finding::Wait,
            (Sign::Silence, true) => Finding::Hangs,
        };
        self.suspected = sign == Sign::Silence && finding == Finding::Wait;
        self.told = sign == Sign::Heard;
        self.next = now
            + match (self.suspected, self.told) {
                (true, _) => self.patience,
                (false, true) => self.pause,
                (false, false) => self.rest,
            };
        finding
    }

    /// This process has not run, so perhaps the supervisor has not either: what was found before counts no more, and
    /// the supervisor has the whole time to show that it turns.
    pub(crate) fn begin_again(&mut self, now: Instant) {
        (self.suspected, self.told) = (false, true);
        self.next = now + self.pause;
    }

    pub(crate) fn silence(&self) -> Duration {
        self.pause + self.patience
    }
}

/// Interval at which systemd expects this process to feed its watchdog, if it does.
pub(super) fn fed_within() -> Option<Duration> {
    let variable = std::env::var_os;
    wanted(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), std::process::id())
}

/// `$WATCHDOG_USEC`, unless `$WATCHDOG_PID` means another process.
fn wanted(usec: Option<OsString>, pid: Option<OsString>, own: u32) -> Option<Duration> {
    let number = |text: OsString| text.to_str()?.parse::<u64>().ok();
    let ours = pid.is_none_or(|pid| number(pid) == Some(own.into()));
    let usec = usec.and_then(number).filter(|usec| *usec > 0 && ours)?;
    Some(Duration::from_micros(usec))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant(0);

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1_000)
    }

    #[test]
    fn keeper_without_systemd_checks_soon_after_a_report_and_pings_seldom() {
        let mut watchdog = Watchdog::new(Duration::from_secs(30), None, START);
        assert_eq!(watchdog.due(), at(60));
        assert_eq!(watchdog.said(at(5)), Some(at(15)));
        assert_eq!(watchdog.said(at(6)), None, "the look is set already");
        assert!(!watchdog.is_due(at(14)) && watchdog.is_due(at(15)));
        assert!(!watchdog.asks(at(15)), "it has something to look for");
        assert_eq!(watchdog.look(at(15), Sign::Read), Finding::Turns);
        assert_eq!(watchdog.due(), at(75), "an idle service is left alone");
        assert!(watchdog.asks(at(75)));
        assert_eq!(watchdog.said(at(75)), None, "the question itself");
        assert_eq!(watchdog.due(), at(85));
        assert_eq!(watchdog.look(at(85), Sign::Read), Finding::Turns);
        assert_eq!(watchdog.due(), at(145));
    }

    #[test]
    fn idle_supervisor_that_hangs_is_found_within_three_silence_periods() {
        let mut watchdog = Watchdog::new(Duration::from_secs(30), None, START);
        assert!(watchdog.asks(at(60)));
        assert_eq!(watchdog.look(at(70), Sign::Silence), Finding::Wait);
        assert!(!watchdog.asks(at(90)));
        assert_eq!(watchdog.look(at(90), Sign::Silence), Finding::Hangs);
    }

    #[test]
    fn report_unread_for_the_whole_silence_period_is_a_hang() {
        let mut watchdog = Watchdog::new(Duration::from_secs(30), None, START);
        watchdog.said(at(0));
        assert_eq!(watchdog.look(at(10), Sign::Silence), Finding::Wait);
        assert_eq!(watchdog.due(), at(30));
        assert_eq!(watchdog.said(at(29)), None, "more that is unread postpones nothing");
        assert_eq!(watchdog.look(at(30), Sign::Silence), Finding::Hangs);
    }

    #[test]
    fn sign_of_life_between_two_checks_ends_the_suspicion() {
        let mut watchdog = Watchdog::new(Duration::from_secs(30), None, START);
        watchdog.said(at(0));
        for look in [10, 40, 70] {
            assert_eq!(watchdog.look(at(look), Sign::Silence), Finding::Wait);
            assert_eq!(watchdog.look(at(look + 20), Sign::Heard), Finding::Turns);
            assert_eq!(watchdog.due(), at(look + 30), "something is unread as yet");
        }
    }

    #[test]
    fn keeper_kills_the_supervisor_before_the_systemd_watchdog_fires() {
        let mut watchdog = Watchdog::new(Duration::from_secs(30), Some(Duration::from_secs(40)), START);
        assert_eq!(watchdog.due(), at(20));
        assert!(!watchdog.asks(at(20)), "each feeding asks");
        assert_eq!(watchdog.look(at(20), Sign::Read), Finding::Turns);
        assert_eq!(watchdog.look(at(40), Sign::Silence), Finding::Wait);
        assert_eq!(watchdog.due(), at(50));
        assert_eq!(watchdog.look(at(50), Sign::Silence), Finding::Hangs);
        assert_eq!(watchdog.due(), at(70), "systemd was fed at 50 and waits until 90");
    }

    #[test]
    fn starting_or_ending_supervisor_is_not_judged() {
        let mut watchdog = Watchdog::new(Duration::from_secs(30), Some(Duration::from_secs(40)), START);
        for look in [20, 40, 60] {
            assert_eq!(watchdog.look(at(look), Sign::Unknown), Finding::Wait);
        }
    }

    #[test]
    fn watchdog_pid_of_another_process_is_ignored() {
        let within = |usec: &str, pid: Option<&str>| wanted(Some(usec.into()), pid.map(Into::into), 7);
        assert_eq!(within("3000000", None), Some(Duration::from_secs(3)));
        assert_eq!(within("3000000", Some("7")), Some(Duration::from_secs(3)));
        for (usec, pid) in [("3000000", Some("8")), ("3000000", Some("x")), ("0", None), ("soon", None)] {
            assert_eq!(within(usec, pid), None, "{usec} {pid:?}");
        }
        assert_eq!(wanted(None, None, 7), None);
    }
}
