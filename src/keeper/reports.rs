//! What the supervisor is to be told, until it reads.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, send, sendmsg};

use super::life::Life;
use super::main_loop::Keeper;
use super::turn::retry_after;
use crate::failpoint::failpoint;
use crate::model::Instant;
use crate::wire::keeper::{Ask, Report};

/// With so much unread no more orders are taken. Beyond it the queue grows by a few words for each life at most.
const ROOM: usize = 64;

/// Reports in order. An `Exited` waits here however long the supervisor does not read; its tree is dead all the same.
#[derive(Default)]
pub(super) struct ReportQueue {
    queue: VecDeque<Report>,
    blocked: bool,
}

impl ReportQueue {
    pub fn push(&mut self, report: Report) {
        self.queue.push_back(report);
    }

    /// The same signal twice is one order.
    pub fn push_ask(&mut self, ask: Ask) {
        if !self.queue.contains(&Report::Asked(ask)) {
            self.push(Report::Asked(ask));
        }
    }

    pub fn clear(&mut self) {
        *self = ReportQueue::default();
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn has_room(&self) -> bool {
        self.queue.len() < ROOM
    }

    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    pub fn unblock(&mut self) {
        self.blocked = false;
    }
}

impl Keeper {
    /// Says what can be said without waiting.
    pub(super) fn say(&mut self, now: Instant) {
        let mut packet = Vec::with_capacity(64);
        while let Some(report) = self.unsaid.queue.front().filter(|_| !self.unsaid.blocked) {
            let Some(supervisor) = self.supervisor.as_ref().filter(|supervisor| supervisor.open) else {
                return;
            };
            packet.clear();
            report.encode(&mut packet);
            let life = match report {
                Report::Started(worker, _) | Report::Left(worker, _) => self.lives.get(worker),
                Report::Hello(_)
                | Report::SpawnFailed(..)
                | Report::Exited { .. }
                | Report::Stuck(..)
                | Report::Asked(_)
                | Report::Ping => None,
            };
            match send_report(&supervisor.socket, &packet, life) {
                Ok(()) => {
                    if matches!(report, Report::Started(..)) {
                        failpoint("keeper-2-started-said");
                    }
                    self.unsaid.queue.pop_front();
                    if let Some(at) = self.watchdog.said(now) {
                        self.sources.wake_by(at);
                    }
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.unsaid.blocked = true,
                Err(errno) => match retry_after(errno) {
                    Some(pause) => {
                        self.sources.wake_by(now + pause);
                        return;
                    }
                    None => self.supervisor_closed(now),
                },
            }
        }
    }
}

fn send_report(socket: &OwnedFd, packet: &[u8], life: Option<&Life>) -> nix::Result<()> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let Some(life) = life else { return send(socket.as_raw_fd(), packet, flags).map(drop) };
    let fds = [&life.ends.socket, &life.ends.out, &life.ends.err].map(|fd| fd.as_fd().as_raw_fd());
    let control = [ControlMessage::ScmRights(&fds)];
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(packet)], &control, flags, None).map(drop)
}
