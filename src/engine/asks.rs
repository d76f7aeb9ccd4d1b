//! Turns the signals that the keeper passes on into events.

use super::authors::PAUSING;
use model::{Change, Scale, Stop};
use supervisor::Event;
use wire::keeper::Ask;

/// Which stop signals have come so far. TERM, once or many times, is a drain; a second INT, or a second QUIT, goes a
/// stage further.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    interrupts: u32,
    quits: u32,
    /// Whether a signal has ordered a stop. systemd and `timeout` send CONT after TERM, to processes that are stopped:
    /// that is no order to take jobs again.
    stops: bool,
}

/// What to do about a signal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Pass the event to the supervisor; the text names the signal.
    Tell(Event, &'static str),
    /// Read the settings again.
    Reload,
    /// Open the log files again.
    Reopen,
    /// Do nothing about it.
    Ignore,
}

impl Asks {
    /// Handles one more signal.
    pub(crate) fn hear(&mut self, ask: Ask) -> Wish {
        self.stops |= matches!(ask, Ask::Terminate | Ask::Interrupt | Ask::Quit);
        let (event, by) = match ask {
            Ask::Terminate => (Event::Stop(Stop::Drain), "SIGTERM"),
            Ask::Interrupt => {
                self.interrupts += 1;
                (Event::Stop(stage(self.interrupts)), "SIGINT")
            }
            Ask::Quit => {
                self.quits += 1;
                // SIGQUIT begins where a second SIGINT stands.
                (Event::Stop(stage(self.quits + 1)), "SIGQUIT")
            }
            Ask::Hangup => return Wish::Reload,
            Ask::Reopen => return Wish::Reopen,
            Ask::Pause => (Event::Change(None, Change::Pause), PAUSING),
            Ask::Resume if self.stops => return Wish::Ignore,
            Ask::Resume => (Event::Change(None, Change::Resume), "SIGCONT"),
            Ask::Grow => (Event::Change(None, Change::Scale(Scale::By(1))), "SIGTTIN"),
            Ask::Shrink => (Event::Change(None, Change::Scale(Scale::By(-1))), "SIGTTOU"),
        };
        Wish::Tell(event, by)
    }
}

fn stage(count: u32) -> Stop {
    match count {
        0 | 1 => Stop::Drain,
        2 => Stop::Terminate,
        _ => Stop::Kill,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(stop: Stop, by: &'static str) -> Wish {
        Wish::Tell(Event::Stop(stop), by)
    }

    #[test]
    fn sigterm_drains_however_often_it_comes() {
        let mut asks = Asks::default();
        assert!((0..5).all(|_| asks.hear(Ask::Terminate) == told(Stop::Drain, "SIGTERM")));
    }

    #[test]
    fn sigcont_resumes_the_pools_until_a_stop_is_ordered() {
        let mut asks = Asks::default();
        let resumes = Wish::Tell(Event::Change(None, Change::Resume), "SIGCONT");
        assert_eq!(asks.hear(Ask::Resume), resumes);
        asks.hear(Ask::Terminate);
        assert_eq!(asks.hear(Ask::Resume), Wish::Ignore);
    }

    #[test]
    fn each_sigint_and_sigquit_escalates_the_stop() {
        let mut asks = Asks::default();
        let heard: Vec<_> = (0..3).map(|_| asks.hear(Ask::Interrupt)).collect();
        assert_eq!(heard, [Stop::Drain, Stop::Terminate, Stop::Kill].map(|stop| told(stop, "SIGINT")));
        let heard: Vec<_> = (0..2).map(|_| asks.hear(Ask::Quit)).collect();
        assert_eq!(heard, [Stop::Terminate, Stop::Kill].map(|stop| told(stop, "SIGQUIT")));
    }
}
