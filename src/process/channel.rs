//! The channel of one life: lines in, bytes out, never waiting.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::Serialize;

use super::output::Taken;
use crate::model::JobId;
use crate::wire::program::Failed;
use crate::wire::worker::{FRAME_MAX, encode};

/// A worker that asks and does not read the answers is not listened to when so much waits for it.
const CLOGGED: usize = 1 << 20;

/// The supervisor's end.
pub(super) struct Channel {
    pub(super) socket: OwnedFd,
    pub(super) inbox: Lines,
    /// What the socket has not taken yet.
    outbox: Vec<u8>,
    /// The job whose `run` was the last frame said.
    last_run: Option<JobId>,
    /// Whether the worker has ended before it had read all that was said.
    is_unread: bool,
    /// What is watched for in the epoll set.
    pub(super) watched: Watched,
}

/// What a channel is in the epoll set for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Watched {
    pub(super) reads: bool,
    pub(super) writes: bool,
}

impl Channel {
    pub(super) fn new(socket: OwnedFd) -> Channel {
        Channel {
            socket,
            inbox: Lines::default(),
            outbox: Vec::new(),
            last_run: None,
            is_unread: false,
            watched: Watched::default(),
        }
    }

    /// Notes a frame for the next [`Channel::flush`].
    pub(super) fn say<T: Serialize>(&mut self, frame: &T) {
        self.last_run = None;
        encode(frame, &mut self.outbox);
    }

    /// The same for the `run` of a job.
    pub(super) fn say_run<T: Serialize>(&mut self, frame: &T, job: &JobId) {
        self.say(frame);
        self.last_run = Some(job.clone());
    }

    /// The job of which a worker that has ended never read the whole `run`. Bytes are read in order and the kernel tells
    /// whether any were left, so it is certain of the last frame only.
    pub(super) fn unread_run(&self) -> Option<&JobId> {
        self.last_run.as_ref().filter(|_| self.is_unread)
    }

    /// Sends an order to a parked child, with what is to be its stdin.
    pub(super) fn order(&mut self, order: Vec<u8>, stdin: Option<&OwnedFd>) -> io::Result<()> {
        let sent = send(&self.socket, &order, stdin)?;
        if sent < order.len() {
            self.outbox = order;
            self.outbox.drain(..sent);
        }
        Ok(())
    }

    /// Sends what the socket takes. An error is no news: the end of the process is on its way and says more.
    pub(super) fn flush(&mut self) {
        while !self.outbox.is_empty() {
            match send(&self.socket, &self.outbox, None) {
                Ok(0) => return,
                Ok(len) => drop(self.outbox.drain(..len)),
                Err(_) => {
                    self.outbox.clear();
                    self.is_unread = true;
                }
            }
        }
    }

    /// Whether something waits for room in the socket.
    pub(super) fn is_blocked(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Whether so much waits that the worker is not heard before it reads.
    pub(super) fn is_clogged(&self) -> bool {
        self.outbox.len() > CLOGGED
    }

    /// Takes one chunk off the socket.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Taken {
        match nix::unistd::read(&self.socket, buffer) {
            Ok(0) => Taken::End,
            Ok(len) => {
                self.inbox.bytes.extend_from_slice(&buffer[..len]);
                Taken::of(len, buffer)
            }
            Err(nix::errno::Errno::EINTR) => Taken::Much,
            Err(nix::errno::Errno::EAGAIN) => Taken::Nothing,
            // The other end was closed with something unread in it (unix(7)); told once.
            Err(nix::errno::Errno::ECONNRESET) => {
                self.is_unread = true;
                Taken::End
            }
            Err(_) => Taken::End,
        }
    }

    /// What a parked child answered before it ended, if it could not become its program.
    pub(super) fn failed(&self) -> Option<Failed> {
        let bytes = &self.inbox.bytes;
        Failed::decode(bytes).filter(|_| bytes.len() == 8)
    }

    /// Whether it ended in the middle of a frame.
    pub(super) fn is_torn(&self) -> bool {
        !self.inbox.bytes.is_empty()
    }
}

/// What has come.
#[derive(Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// So much of it is known to hold no newline.
    scanned: usize,
}

impl Lines {
    /// Hands over each whole line, until one is refused or is the last for now.
    pub(super) fn each(
        &mut self,
        mut hear: impl FnMut(&[u8]) -> Result<ControlFlow<()>, String>,
    ) -> Result<(), String> {
        let (mut start, mut result) = (0, Ok(ControlFlow::Continue(())));
        while result == Ok(ControlFlow::Continue(()))
            && let Some(len) = self.bytes[start + self.scanned..].iter().position(|&byte| byte == b'\n')
        {
            let line = &self.bytes[start..start + self.scanned + len];
            start += line.len() + 1;
            self.scanned = 0;
            if !line.iter().all(u8::is_ascii_whitespace) {
                result = hear(line);
            }
        }
        self.bytes.drain(..start);
        match result? {
            ControlFlow::Break(()) => return Ok(()),
            ControlFlow::Continue(()) => self.scanned = self.bytes.len(),
        }
        if self.bytes.len() >= FRAME_MAX {
            return Err(format!("a frame is longer than {FRAME_MAX} bytes"));
        }
        Ok(())
    }
}

fn send(socket: &OwnedFd, bytes: &[u8], descriptor: Option<&OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|descriptor| [descriptor.as_fd()]);
    if let Some(descriptors) = &descriptors {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    match sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
        Ok(len) => Ok(len),
        Err(rustix::io::Errno::AGAIN) => Ok(0),
        Err(error) => Err(error.into()),
    }
}
