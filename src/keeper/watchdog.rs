//! Whether the supervisor's loop turns, and systemd's watchdog, which is fed as long as it does.
//!
//! A supervisor shows its life by an order, or by having read all it was told: only its loop reads. Where systemd watches,
//! the keeper says something (`Ping`) at each look, so that there is something to read. Elsewhere it looks when it has said
//! something, and at rest it says a `Ping` once in a while: a service without work is woken seldom.

use std::ffi::OsString;
use std::time::Duration;

use crate::model::Instant;

/// When to look, and what was seen.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// From one look to the next one.
    pause: Duration,
    /// From a look that found silence to the one that ends it.
    patience: Duration,
    /// For how long nothing is said before the keeper asks for a sign of life.
    rest: Duration,
    /// Whether systemd waits to be fed.
    pub fed: bool,
    next: Instant,
    /// Whether something was said since the last look.
    told: bool,
    suspected: bool,
    /// Whether an order came since the last look.
    pub heard: bool,
}

/// At rest a supervisor is asked for a sign of life after so many times the silence that ends it.
const RESTS: u32 = 2;

/// What a look finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// The supervisor has read all, or there is none and all is up to the keeper.
    Read,
    /// It has ordered something, and something is unread as yet.
    Heard,
    /// It starts or ends: nobody can tell.
    Unknown,
    /// It has left something unread, and ordered nothing.
    Silence,
}

/// What follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Turns,
    Wait,
    Hangs,
}

impl Watchdog {
    /// After `silence` a supervisor hangs. Where systemd watches it is three quarters of its patience, so that the remedy
    /// comes before systemd does.
    pub fn new(silence: Duration, fed_within: Option<Duration>, now: Instant) -> Self {
        let (pause, patience, rest) = match fed_within {
            Some(within) => (within / 2, within / 4, within / 2),
            None => (silence / 3, silence * 2 / 3, silence * RESTS),
        };
        let fed = fed_within.is_some();
        Watchdog { pause, patience, rest, fed, next: now + rest, told: false, suspected: false, heard: false }
    }

    /// When to look, or to ask.
    pub fn due(&self) -> Instant {
        self.next
    }

    /// The supervisor is told something. Gives when to look whether it has read that, if that is sooner than before.
    pub fn said(&mut self, now: Instant) -> Option<Instant> {
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

    pub fn is_due(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// Whether nothing was said for long: then there is nothing to look for, and it is to be asked.
    pub fn asks(&mut self, now: Instant) -> bool {
        let asks = !self.fed && !self.told && !self.suspected;
        if asks {
            (self.told, self.next) = (true, now + self.pause);
        }
        asks
    }

    pub fn look(&mut self, now: Instant, sign: Sign) -> Finding {
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

    pub fn silence(&self) -> Duration {
        self.pause + self.patience
    }
}

/// How long systemd waits to be fed by this process, if it does.
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
    fn without_systemd_the_keeper_looks_soon_after_it_has_said_something_and_asks_seldom() {
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
    fn a_supervisor_that_hangs_at_rest_is_found_in_three_times_the_silence() {
        let mut watchdog = Watchdog::new(Duration::from_secs(30), None, START);
        assert!(watchdog.asks(at(60)));
        assert_eq!(watchdog.look(at(70), Sign::Silence), Finding::Wait);
        assert!(!watchdog.asks(at(90)));
        assert_eq!(watchdog.look(at(90), Sign::Silence), Finding::Hangs);
    }

    #[test]
    fn what_stays_unread_for_the_whole_time_is_a_hang() {
        let mut watchdog = Watchdog::new(Duration::from_secs(30), None, START);
        watchdog.said(at(0));
        assert_eq!(watchdog.look(at(10), Sign::Silence), Finding::Wait);
        assert_eq!(watchdog.due(), at(30));
        assert_eq!(watchdog.said(at(29)), None, "more that is unread postpones nothing");
        assert_eq!(watchdog.look(at(30), Sign::Silence), Finding::Hangs);
    }

    #[test]
    fn a_sign_of_life_between_two_looks_ends_the_suspicion() {
        let mut watchdog = Watchdog::new(Duration::from_secs(30), None, START);
        watchdog.said(at(0));
        for look in [10, 40, 70] {
            assert_eq!(watchdog.look(at(look), Sign::Silence), Finding::Wait);
            assert_eq!(watchdog.look(at(look + 20), Sign::Heard), Finding::Turns);
            assert_eq!(watchdog.due(), at(look + 30), "something is unread as yet");
        }
    }

    #[test]
    fn the_remedy_comes_before_systemd_loses_its_patience() {
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
    fn a_supervisor_that_starts_or_ends_is_neither_judged_nor_vouched_for() {
        let mut watchdog = Watchdog::new(Duration::from_secs(30), Some(Duration::from_secs(40)), START);
        for look in [20, 40, 60] {
            assert_eq!(watchdog.look(at(look), Sign::Unknown), Finding::Wait);
        }
    }

    #[test]
    fn systemd_may_mean_another_process() {
        let within = |usec: &str, pid: Option<&str>| wanted(Some(usec.into()), pid.map(Into::into), 7);
        assert_eq!(within("3000000", None), Some(Duration::from_secs(3)));
        assert_eq!(within("3000000", Some("7")), Some(Duration::from_secs(3)));
        for (usec, pid) in [("3000000", Some("8")), ("3000000", Some("x")), ("0", None), ("soon", None)] {
            assert_eq!(within(usec, pid), None, "{usec} {pid:?}");
        }
        assert_eq!(wanted(None, None, 7), None);
    }
}
