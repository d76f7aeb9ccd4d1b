//! The channel of one life: lines in, bytes out, without blocking.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::Serialize;

use super::output::Taken;
use model::JobId;
use wire::program::{BEGINS, Failed, Said};
use wire::worker::{FRAME_MAX, encode};

/// A worker that calls and does not read the answers is not read any more when this many bytes wait for it.
const CLOGGED: usize = 1 << 20;

/// How much memory to keep of a buffer after a large frame.
const KEPT: usize = 256 << 10;

/// The supervisor's end of a channel.
pub(super) struct Channel {
    pub(super) socket: OwnedFd,
    pub(super) inbox: Lines,
    /// Bytes to send; those from `sent` on are not sent yet.
    outbox: Vec<u8>,
    /// The job of the last frame, if that was a `run`.
    last_run: Option<JobId>,
    /// Whether the worker has ended before it had read everything.
    is_unread: bool,
    /// Number of bytes of the outbox that the socket has taken.
    sent: usize,
    /// The events for which the channel is in the epoll set.
    pub(super) watched: Watched,
}

/// The events for which a channel is in the epoll set.
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

    /// Adds a frame to be sent by the next [`Channel::flush`].
    pub(super) fn say<T: Serialize>(&mut self, frame: &T) {
        self.last_run = None;
        encode(frame, &mut self.outbox);
    }

    /// The same for the frame `run` of a job. One that is longer than a frame may be is not added: gives its size in bytes.
    pub(super) fn say_run<T: Serialize>(&mut self, frame: &T, job: &JobId) -> Result<(), usize> {
        let before = self.outbox.len();
        self.say(frame);
        let size = self.outbox.len() - before;
        if size > FRAME_MAX {
            self.outbox.truncate(before);
            return Err(size);
        }
        self.last_run = Some(job.clone());
        Ok(())
    }

    /// The job whose `run` a worker that has ended never read completely. Bytes are read in order and the kernel says
    /// whether any were left, so only the last frame is certain.
    pub(super) fn unread_run(&self) -> Option<&JobId> {
        self.last_run.as_ref().filter(|_| self.is_unread)
    }

    /// Adds a whole frame to be sent by the next [`Channel::flush`].
    pub(super) fn send(&mut self, frame: Vec<u8>) {
        self.last_run = None;
        match self.outbox.is_empty() {
            true => self.outbox = frame,
            false => self.outbox.extend_from_slice(&frame),
        }
    }

    /// Sends an order to a parked child, with its future stdin.
    pub(super) fn order(&mut self, order: Vec<u8>, stdin: Option<&OwnedFd>) -> io::Result<()> {
        let sent = send(&self.socket, &order, stdin)?;
        if sent < order.len() {
            (self.outbox, self.sent) = (order, sent);
        }
        Ok(())
    }

    /// Sends as much as the socket takes. Errors are ignored: the end of the process is on its way and says more.
    pub(super) fn flush(&mut self) {
        while self.sent < self.outbox.len() {
            match send(&self.socket, &self.outbox[self.sent..], None) {
                Ok(0) => break,
                Ok(len) => self.sent += len,
                Err(_) => {
                    // Nobody will read it, so it need not take memory until the life ends.
                    self.sent = self.outbox.len();
                    self.is_unread = true;
                }
            }
        }
        // This moves each byte at most once, however little the socket takes each time.
        if self.sent > self.outbox.len() / 2 {
            self.outbox.drain(..self.sent);
            self.sent = 0;
            give_back(&mut self.outbox);
        }
    }

    /// Whether bytes wait for room in the socket.
    pub(super) fn is_blocked(&self) -> bool {
        self.sent < self.outbox.len()
    }

    /// Whether nobody holds its other end any more: that of a parked child is closed when its program is executed.
    pub(super) fn is_left(&self) -> bool {
        // POLLHUP and POLLERR come without being asked for (poll(2)).
        let mut end = [PollFd::new(self.socket.as_fd(), PollFlags::empty())];
        poll(&mut end, PollTimeout::ZERO).is_ok_and(|_| end[0].any().unwrap_or(false))
    }

    /// Whether more than [`CLOGGED`] bytes wait: then the worker is not read until it reads.
    pub(super) fn is_clogged(&self) -> bool {
        self.outbox.len() - self.sent > CLOGGED
    }

    /// Whether a whole frame waits already: frames that a worker does not read must not pile up.
    pub(super) fn is_full(&self) -> bool {
        self.outbox.len() - self.sent > FRAME_MAX
    }

    /// Reads one chunk from the socket.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Taken {
        match nix::unistd::read(&self.socket, buffer) {
            Ok(0) => Taken::End,
            Ok(len) => {
                self.inbox.bytes.extend_from_slice(&buffer[..len]);
                Taken::of(len, buffer)
            }
            // Nothing was read, but something may be there.
            Err(nix::errno::Errno::EINTR) => Taken::Much,
            Err(nix::errno::Errno::EAGAIN) => Taken::Nothing,
            // The other end was closed before it had read everything (unix(7)); reported once.
            Err(nix::errno::Errno::ECONNRESET) => {
                self.is_unread = true;
                Taken::End
            }
            Err(_) => Taken::End,
        }
    }

    /// The answer of a parked child that could not become its program.
    pub(super) fn failed(&self) -> Option<Failed> {
        let bytes = &self.inbox.bytes;
        Failed::decode(bytes).filter(|_| bytes.len() == 8)
    }

    /// What a parked child has said to the end.
    pub(super) fn said(&self) -> Said {
        Said::decode(&self.inbox.bytes)
    }

    /// Somebody else has read what the parked child has said: it counts as begun.
    pub(super) fn assume_begun(&mut self) {
        self.inbox.bytes.push(BEGINS);
    }

    /// Whether the channel ended in the middle of a frame.
    pub(super) fn is_torn(&self) -> bool {
        !self.inbox.bytes.is_empty()
    }
}

/// The bytes that have arrived.
#[derive(Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// Number of bytes known to hold no newline.
    scanned: usize,
}

impl Lines {
    /// Passes on each whole line, until one is refused or is the last for now.
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
            // The newline counts as a part of the frame.
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

/// Frees the memory of a large frame that is gone.
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
    // A worker that is gone must not raise SIGPIPE here, nor a full socket hold the supervisor up.
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
    fn large_frame_is_sent_in_pieces_and_its_memory_is_freed() {
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
    fn frame_of_a_job_that_is_too_long_is_not_sent() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut channel = Channel::new(ours.into());
        let id: JobId = "a".into();
        channel.send(b"before\n".to_vec());
        // Two quotes and the newline belong to it.
        assert_eq!(channel.say_run(&"x".repeat(FRAME_MAX - 2), &id), Err(FRAME_MAX + 1));
        assert_eq!((channel.outbox.as_slice(), &channel.last_run), (b"before\n".as_slice(), &None));
        assert_eq!(channel.say_run(&"x".repeat(FRAME_MAX - 3), &id), Ok(()));
        assert_eq!((channel.outbox.len(), &channel.last_run), (FRAME_MAX + 7, &Some(id)));
    }

    #[test]
    fn frame_length_is_limited_exactly_as_in_the_protocol() {
        for (len, fits) in [(FRAME_MAX - 1, true), (FRAME_MAX, false)] {
            let bytes = [&vec![b'x'; len][..], b"\n"].concat();
            let mut lines = Lines { bytes, scanned: 0 };
            assert_eq!(lines.each(|_| Ok(ControlFlow::Continue(()))).is_ok(), fits, "{len}");
        }
    }

    #[test]
    fn memory_of_a_large_line_is_freed_and_later_bytes_are_kept() {
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
