//! Checks whether the supervisor's loop turns, and acts on the result.

use std::os::fd::AsFd;

use super::say::say;
use super::state::{Keeper, Supervisor};
use super::sys;
use super::watchdog::{Finding, Sign};
use model::Instant;
use wire::keeper::Report;

impl Keeper {
    /// Checks whether the supervisor's loop turns, if that is due. The keeper's own does.
    pub(super) fn watch(&mut self, now: Instant) {
        if !self.watchdog.is_due(now) {
            return;
        }
        if self.supervisor.is_some() && self.watchdog.asks(now) {
            self.reports.push(Report::Ping);
            return;
        }
        let sign = self.sign();
        match self.watchdog.look(now, sign) {
            Finding::Turns => self.feed(),
            Finding::Wait => {}
            Finding::Hangs => {
                self.end_hung_supervisor(now);
                // The supervisor is being ended. If that fails, systemd is not fed again.
                self.feed();
            }
        }
    }

    fn sign(&mut self) -> Sign {
        let heard = std::mem::take(&mut self.watchdog.heard);
        let all_read =
            |supervisor: &Supervisor| self.reports.is_empty() && sys::unread(supervisor.socket.as_fd()) == 0;
        match &self.supervisor {
            None => Sign::Read,
            Some(supervisor) if !supervisor.spoke || supervisor.kill_at.is_some() => Sign::Unknown,
            Some(supervisor) if all_read(supervisor) => Sign::Read,
            Some(_) if heard => Sign::Heard,
            Some(_) => Sign::Silence,
        }
    }

    pub(super) fn feed(&mut self) {
        if self.watchdog.fed {
            self.notify.send("WATCHDOG=1");
            self.reports.push(Report::Ping);
        }
    }

    /// Ends the supervisor like a crash: everything below is ended, and its jobs are released, unspent.
    fn end_hung_supervisor(&mut self, now: Instant) {
        let Some(supervisor) = &mut self.supervisor else { return };
        let silence = self.watchdog.silence().as_secs_f64();
        say(format_args!("the supervisor has read and ordered nothing for {silence} s: ending it"));
        supervisor.kill_at = Some(now);
    }
}
