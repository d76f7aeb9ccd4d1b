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

/// What is kept allocated of a buffer that a large frame has gone through.
const KEPT: usize = 256 << 10;

/// The supervisor's end.
pub(super) struct Channel {
    pub(super) socket: OwnedFd,
    pub(super) inbox: Lines,
    /// What was not sent yet stands in it from `sent` on.
    outbox: Vec<u8>,
    /// The job whose `run` was the last frame said.
    last_run: Option<JobId>,
    /// Whether the worker has ended before it had read all that was said.
    is_unread: bool,
    /// So much of the outbox the socket has taken.
    sent: usize,
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
            sent: 0,
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

    /// Notes a whole frame for the next [`Channel::flush`].
    pub(super) fn send(&mut self, frame: Vec<u8>) {
        self.last_run = None;
        match self.outbox.is_empty() {
            true => self.outbox = frame,
            false => self.outbox.extend_from_slice(&frame),
        }
    }

    /// Sends an order to a parked child, with what is to be its stdin.
    pub(super) fn order(&mut self, order: Vec<u8>, stdin: Option<&OwnedFd>) -> io::Result<()> {
        let sent = send(&self.socket, &order, stdin)?;
        if sent < order.len() {
            (self.outbox, self.sent) = (order, sent);
        }
        Ok(())
    }

    /// Sends what the socket takes. An error is no news: the end of the process is on its way and says more.
    pub(super) fn flush(&mut self) {
        while self.sent < self.outbox.len() {
            match send(&self.socket, &self.outbox[self.sent..], None) {
                Ok(0) => break,
                Ok(len) => self.sent += len,
                Err(_) => {
                    self.sent = self.outbox.len();
                    self.is_unread = true;
                }
            }
        }
        // Each byte is moved once at most, however small the pieces are that the socket takes.
        if self.sent > self.outbox.len() / 2 {
            self.outbox.drain(..self.sent);
            self.sent = 0;
            give_back(&mut self.outbox);
        }
    }

    /// Whether something waits for room in the socket.
    pub(super) fn is_blocked(&self) -> bool {
        self.sent < self.outbox.len()
    }

    /// Whether so much waits that the worker is not heard before it reads.
    pub(super) fn is_clogged(&self) -> bool {
        self.outbox.len() - self.sent > CLOGGED
    }

    /// Whether a whole frame waits already: what a worker does not read is not to pile up.
    pub(super) fn is_full(&self) -> bool {
        self.outbox.len() - self.sent > FRAME_MAX
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
            if line.len() >= FRAME_MAX {
                return Err(too_long());
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                result = hear(line);
            }
        }
        self.bytes.drain(..start);
        give_back(&mut self.bytes);
        match result? {
            ControlFlow::Break(()) => return Ok(()),
            ControlFlow::Continue(()) => self.scanned = self.bytes.len(),
        }
        if self.bytes.len() >= FRAME_MAX {
            return Err(too_long());
        }
        Ok(())
    }
}

fn too_long() -> String {
    format!("a frame is longer than {FRAME_MAX} bytes")
}

/// Gives back the memory of a large frame that is gone.
fn give_back(bytes: &mut Vec<u8>) {
    if bytes.capacity() > KEPT && bytes.len() <= KEPT / 2 {
        bytes.shrink_to(KEPT / 2);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_frame_is_sent_in_pieces_and_its_memory_given_back() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut channel = Channel::new(ours.into());
        let frame: Vec<u8> = (0..FRAME_MAX as u32).map(|n| (n % 251) as u8).collect();
        channel.send(frame.clone());
        channel.send(b"more".to_vec());
        let (mut got, mut buffer) = (Vec::new(), vec![0; 100 << 10]);
        channel.flush();
        while channel.is_blocked() {
            let len = nix::unistd::read(&theirs, &mut buffer).unwrap();
            got.extend_from_slice(&buffer[..len]);
            channel.flush();
        }
        drop(channel.socket);
        std::io::Read::read_to_end(&mut &theirs, &mut got).unwrap();
        assert!(got[..FRAME_MAX] == frame && &got[FRAME_MAX..] == b"more");
        assert!(channel.outbox.capacity() <= KEPT);
    }

    #[test]
    fn a_frame_is_as_long_as_the_protocol_says_and_no_byte_longer() {
        for (len, fits) in [(FRAME_MAX - 1, true), (FRAME_MAX, false)] {
            let bytes = [&vec![b'x'; len][..], b"\n"].concat();
            let mut lines = Lines { bytes, scanned: 0 };
            assert_eq!(lines.each(|_| Ok(ControlFlow::Continue(()))).is_ok(), fits, "{len}");
        }
    }

    #[test]
    fn the_memory_of_a_large_line_is_given_back_and_what_follows_it_is_kept() {
        let bytes = [&vec![b'x'; 8 << 20][..], b"\nshort\npart"].concat();
        let mut lines = Lines { bytes, scanned: 0 };
        let mut seen = Vec::new();
        lines
            .each(|line| {
                seen.push(line.len());
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
        assert_eq!((seen, lines.bytes.as_slice()), (vec![8 << 20, 5], b"part".as_slice()));
        assert!(lines.bytes.capacity() <= KEPT);
    }
}
