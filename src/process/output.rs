//! What one life prints: to the log up to a cap, and the last of its stderr for the person who asks why.

use std::io;
use std::os::fd::OwnedFd;

use super::logs::Logs;
use crate::model::JobId;

/// Kept of stderr.
const TAIL: usize = 64 << 10;

/// Read from one pipe before the others get their turn.
pub(super) const CHUNK: usize = 64 << 10;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

/// What one read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Some,
    Nothing,
    End,
}

/// The read ends of a life's stdout and stderr.
pub(super) struct Output {
    out: Option<OwnedFd>,
    err: Option<OwnedFd>,
    tail: Vec<u8>,
    written: u64,
    dropped: u64,
    marked: bool,
}

impl Output {
    pub(super) fn new(out: OwnedFd, err: OwnedFd) -> Output {
        Output { out: Some(out), err: Some(err), tail: Vec::new(), written: 0, dropped: 0, marked: false }
    }

    pub(super) fn pipe(&self, stream: Stream) -> Option<&OwnedFd> {
        match stream {
            Stream::Out => self.out.as_ref(),
            Stream::Err => self.err.as_ref(),
        }
    }

    /// Takes one chunk off a pipe.
    pub(super) fn take(&mut self, stream: Stream, buffer: &mut [u8], sink: &mut Sink<'_>) -> Taken {
        let Some(pipe) = self.pipe(stream) else { return Taken::End };
        match nix::unistd::read(pipe, buffer) {
            Ok(0) => Taken::End,
            Ok(len) => {
                self.keep(stream, &buffer[..len], sink);
                Taken::Some
            }
            Err(nix::errno::Errno::EINTR) => Taken::Some,
            Err(nix::errno::Errno::EAGAIN) => Taken::Nothing,
            Err(_) => Taken::End,
        }
    }

    /// Reads both pipes until they have nothing more at the moment; not to their end, which a process that escaped may hold off.
    pub(super) fn drain(&mut self, buffer: &mut [u8], sink: &mut Sink<'_>) {
        for stream in [Stream::Out, Stream::Err] {
            // A pipe holds 1 MB at most; whoever refills it after the proof of death is none of ours.
            let most = (1 << 20) / CHUNK + 1;
            for _ in 0..most {
                if self.take(stream, buffer, sink) != Taken::Some {
                    break;
                }
            }
        }
    }

    /// The last of stderr as text, and the bytes that were not written to the log.
    pub(super) fn into_tail(self) -> (String, u64) {
        let start = self.tail.len().saturating_sub(TAIL);
        (String::from_utf8_lossy(&self.tail[start..]).into_owned(), self.dropped)
    }

    fn keep(&mut self, stream: Stream, bytes: &[u8], sink: &mut Sink<'_>) {
        if stream == Stream::Err {
            self.tail.extend_from_slice(bytes);
            if self.tail.len() > 2 * TAIL {
                self.tail.drain(..self.tail.len() - TAIL);
            }
        }
        let room = usize::try_from(sink.cap.saturating_sub(self.written)).unwrap_or(usize::MAX);
        let kept = &bytes[..bytes.len().min(room)];
        let cut = (bytes.len() - kept.len()) as u64;
        self.dropped += cut;
        if !kept.is_empty() {
            self.written += kept.len() as u64;
            if !sink.write(kept) {
                self.dropped += kept.len() as u64;
            }
        }
        if cut > 0 && !std::mem::replace(&mut self.marked, true) {
            sink.remark(format!("\n[taskvisor: output over {} bytes was dropped]\n", sink.cap));
        }
    }

    /// Whether anything of it went to the log.
    pub(super) fn has_written(&self) -> bool {
        self.written > 0
    }

    /// The end of the pipe was read.
    pub(super) fn close(&mut self, stream: Stream) {
        match stream {
            Stream::Out => self.out = None,
            Stream::Err => self.err = None,
        }
    }
}

/// Where the output of a life goes: its job's log.
pub(super) struct Sink<'a> {
    pub(super) logs: &'a Logs,
    pub(super) job: Option<&'a JobId>,
    pub(super) cap: u64,
}

impl Sink<'_> {
    fn remark(&self, text: String) {
        if let Some(job) = self.job {
            self.logs.remark(job, text);
        }
    }

    fn write(&self, bytes: &[u8]) -> bool {
        self.job.is_none_or(|job| self.logs.output(job, bytes))
    }
}

/// Reads what a parked child answered on its socket before it ended, if anything.
pub(super) fn last_words(socket: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut buffer = [0; 64];
    let len = nix::unistd::read(socket, &mut buffer)?;
    Ok(buffer[..len].to_vec())
}
