//! Reports to the supervisor that it has not read yet.

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, send, sendmsg};

use super::life::Life;
use failpoint::failpoint;
use model::WorkerId;
use wire::keeper::{Ask, Report};

/// With this many unread reports no more orders are taken. Beyond it the queue grows by a few reports for each life at
/// most.
const ROOM: usize = 64;

/// Reports in order. An `Exited` waits here as long as the supervisor does not read; its tree is dead all the same.
#[derive(Default)]
pub(super) struct ReportQueue {
    queue: VecDeque<Report>,
    blocked: bool,
    /// Whether the kernel has refused the latest bounds of a life, as far as was said.
    unbounded: bool,
}

impl ReportQueue {
    pub(crate) fn push(&mut self, report: Report) {
        self.queue.push_back(report);
    }

    /// Adds a signal. The same signal twice is one order.
    pub(crate) fn push_ask(&mut self, ask: Ask) {
        if !self.queue.contains(&Report::Asked(ask)) {
            self.push(Report::Asked(ask));
        }
    }

    /// Adds that the kernel has taken or refused bounds of a life, if that is news: taken is the rule.
    pub(crate) fn push_bounded(&mut self, refused: Option<i32>) {
        if refused.is_some() != self.unbounded {
            self.push(Report::Bounded(refused));
        }
        self.unbounded = refused.is_some();
    }

    pub(crate) fn clear(&mut self) {
        *self = ReportQueue::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.queue.len() < ROOM
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    pub(crate) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Sends the reports that the socket takes without waiting, and gives their number. The error is that of the first
    /// report that could not be sent; a full socket is no error.
    pub(crate) fn send(
        &mut self,
        socket: &OwnedFd,
        lives: &BTreeMap<WorkerId, Life>,
        stat: Option<&OwnedFd>,
    ) -> (usize, nix::Result<()>) {
        let mut packet = Vec::with_capacity(64);
        let mut sent = 0;
        while let Some(report) = self.queue.front().filter(|_| !self.blocked) {
            packet.clear();
            report.encode(&mut packet);
            match send_report(socket, &packet, &descriptors(report, lives, stat)) {
                Ok(()) => {
                    if matches!(report, Report::Started(..)) {
                        failpoint("keeper-2-started-said");
                    }
                    self.queue.pop_front();
                    sent += 1;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.blocked = true,
                Err(errno) => return (sent, Err(errno)),
            }
        }
        (sent, Ok(()))
    }
}

/// The descriptors that go with the report.
fn descriptors(report: &Report, lives: &BTreeMap<WorkerId, Life>, stat: Option<&OwnedFd>) -> Vec<RawFd> {
    match report {
        Report::Hello(_) => stat.iter().map(|stat| stat.as_raw_fd()).collect(),
        Report::Started(worker, _) | Report::Left(worker, _) => {
            let ends = lives.get(worker).map(|life| [&life.ends.socket, &life.ends.out, &life.ends.err]);
            ends.into_iter().flatten().map(|end| end.as_fd().as_raw_fd()).collect()
        }
        Report::Born(..)
        | Report::SpawnFailed { .. }
        | Report::Exited { .. }
        | Report::Stuck(..)
        | Report::Asked(_)
        | Report::Bounded(_)
        | Report::Ping => Vec::new(),
    }
}

fn send_report(socket: &OwnedFd, packet: &[u8], fds: &[RawFd]) -> nix::Result<()> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    if fds.is_empty() {
        return send(socket.as_raw_fd(), packet, flags).map(drop);
    }
    let control = [ControlMessage::ScmRights(fds)];
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(packet)], &control, flags, None).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_reported_when_they_are_refused_and_when_they_are_taken_again() {
        let mut reports = ReportQueue::default();
        for refused in [None, Some(22), Some(22), None, None, Some(22)] {
            reports.push_bounded(refused);
        }
        assert_eq!(reports.queue, [Some(22), None, Some(22)].map(Report::Bounded));
        reports.clear();
        reports.push_bounded(None);
        assert!(reports.is_empty(), "the next supervisor has heard of nothing");
    }
}
