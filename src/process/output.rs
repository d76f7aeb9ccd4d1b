//! The output of one life: to the log up to a limit, and the end of its stderr for the person who asks why.

use std::os::fd::OwnedFd;

use tracing::info;

use log::{Mark, Outputs, Source, WORKER_LINES};
use model::{Excess, Flood, Job, WorkerId, WorkerName};

/// Bytes of stderr to keep.
const TAIL: usize = 64 << 10;

/// How many bytes that a life prints outside of jobs go to the supervisor's own log, where slots have no files.
const STRAY_CAP: u64 = 64 << 10;

/// Limit of the bytes read from one pipe before the others get their turn.
pub(super) const CHUNK: usize = 64 << 10;

/// One of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

/// The result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The buffer is full: there may be more.
    Much,
    /// All that was there was read.
    Some,
    Nothing,
    End,
}

impl Taken {
    /// The result of a read of this length.
    pub(super) fn of(len: usize, buffer: &[u8]) -> Taken {
        if len == buffer.len() { Taken::Much } else { Taken::Some }
    }
}

/// The read ends of a life's stdout and stderr.
pub(super) struct Output {
    out: Option<OwnedFd>,
    err: Option<OwnedFd>,
}

impl Output {
    pub(super) fn new(out: OwnedFd, err: OwnedFd) -> Output {
        Output { out: Some(out), err: Some(err) }
    }

    pub(super) fn pipe(&self, stream: Stream) -> Option<&OwnedFd> {
        match stream {
            Stream::Out => self.out.as_ref(),
            Stream::Err => self.err.as_ref(),
        }
    }

    /// Reads one chunk from a pipe.
    pub(super) fn take(&self, stream: Stream, buffer: &mut [u8], sink: &mut Sink<'_>) -> Taken {
        let Some(pipe) = self.pipe(stream) else { return Taken::End };
        match nix::unistd::read(pipe, buffer) {
            Ok(0) => Taken::End,
            Ok(len) => {
                sink.keep(stream, &buffer[..len]);
                Taken::of(len, buffer)
            }
            // Nothing was read, but something may be there.
            Err(nix::errno::Errno::EINTR) => Taken::Much,
            Err(nix::errno::Errno::EAGAIN) => Taken::Nothing,
            Err(_) => Taken::End,
        }
    }

    /// Reads both pipes until they are empty for the moment; not to their end, which an escaped process may delay.
    pub(super) fn drain(&self, buffer: &mut [u8], sink: &mut Sink<'_>) {
        for stream in [Stream::Out, Stream::Err] {
            // A pipe holds 1 MB at most; if it is refilled after the proof of death, that process does not belong to
            // this life.
            let most = (1 << 20) / CHUNK + 1;
            for _ in 0..most {
                if self.take(stream, buffer, sink) != Taken::Much {
                    break;
                }
            }
        }
    }

    /// Closes a pipe that was read to its end.
    pub(super) fn close(&mut self, stream: Stream) {
        match stream {
            Stream::Out => self.out = None,
            Stream::Err => self.err = None,
        }
    }
}

/// Output printed for one job, or outside of jobs.
#[derive(Debug, Default)]
pub(super) struct Printed {
    tail: Vec<u8>,
    written: u64,
    dropped: u64,
    marked: bool,
    /// Whether somebody was told that output is dropped.
    told: bool,
    /// Limit of the bytes of output; None once it was exceeded.
    limit: Option<u64>,
}

impl Printed {
    /// For a job with this limit on its output.
    pub(super) fn up_to(limit: Option<u64>) -> Printed {
        Printed { limit, ..Printed::default() }
    }

    /// The excess to report, once, when it is over the limit.
    pub(super) fn overflow(&mut self) -> Option<Excess> {
        let printed = self.written + self.dropped;
        let limit = self.limit.take_if(|limit| printed > *limit)?;
        Some(Excess::Output(limit, printed))
    }

    /// Whether it has begun to drop output; true once.
    pub(super) fn begins_to_flood(&mut self) -> bool {
        self.marked && !std::mem::replace(&mut self.told, true)
    }

    /// How much it has printed, once some of it was dropped for being too much.
    pub(super) fn flood(&self) -> Option<Flood> {
        let (printed, dropped) = (self.written + self.dropped, self.dropped);
        self.marked.then_some(Flood { printed, dropped })
    }

    /// The last of stderr as text.
    pub(super) fn tail(&self) -> String {
        let start = self.tail.len().saturating_sub(TAIL);
        String::from_utf8_lossy(&self.tail[start..]).into_owned()
    }

    /// Bytes that were not written to the log.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether any of it went to the log.
    pub(super) fn has_written(&self) -> bool {
        self.written > 0
    }
}

/// Where output goes: to a job's file; or, if no single job has printed it, to the slot's file or the supervisor's own
/// log.
pub(super) struct Sink<'a> {
    pub(super) logs: &'a Outputs,
    pub(super) worker: WorkerId,
    pub(super) pool: &'a str,
    pub(super) job: Option<&'a Job>,
    pub(super) printed: &'a mut Printed,
    pub(super) cap: u64,
}

impl Sink<'_> {
    fn name(&self) -> WorkerName {
        WorkerName::new(self.pool, self.worker)
    }

    /// Takes a piece of output.
    pub(super) fn keep(&mut self, stream: Stream, bytes: &[u8]) {
        let printed = &mut *self.printed;
        if stream == Stream::Err {
            printed.tail.extend_from_slice(bytes);
            // Not at each piece, as the whole tail would be moved each time.
            if printed.tail.len() > 2 * TAIL {
                printed.tail.drain(..printed.tail.len() - TAIL);
            }
        }
        let cap = match self.job {
            Some(_) => self.cap,
            // A slot's file is rotated when it is large.
            None if self.logs.keeps_slots() => u64::MAX,
            None => STRAY_CAP,
        };
        let room = usize::try_from(cap.saturating_sub(printed.written)).unwrap_or(usize::MAX);
        let kept = &bytes[..bytes.len().min(room)];
        let cut = (bytes.len() - kept.len()) as u64;
        printed.dropped += cut;
        if !kept.is_empty() {
            printed.written += kept.len() as u64;
            if !self.write(stream, kept) {
                self.printed.dropped += kept.len() as u64;
            }
        }
        if cut > 0 && !std::mem::replace(&mut self.printed.marked, true) {
            let remark = format!("\n[taskvisor: output over {cap} bytes was dropped]\n");
            match self.job {
                Some(job) => self.logs.remark(&job.id, mark(job, stream), remark),
                None => {
                    info!(target: WORKER_LINES, worker = %self.name(), pool = self.pool, "{}", remark.trim())
                }
            }
        }
    }

    fn write(&self, stream: Stream, bytes: &[u8]) -> bool {
        if let Some(job) = self.job {
            return self.logs.output(&job.id, mark(job, stream), bytes);
        }
        if self.logs.keeps_slots() {
            let slot = format!("slot-{}.{}.log", self.pool, self.worker.slot.index);
            return self.logs.slot(&slot, bytes);
        }
        for line in String::from_utf8_lossy(bytes).lines().filter(|line| !line.trim().is_empty()) {
            // Control characters must never reach a terminal.
            let line: String =
                line.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect();
            info!(target: WORKER_LINES, worker = %self.name(), pool = self.pool, "{line}");
        }
        true
    }
}

/// The mark for output that was read just now.
fn mark(job: &Job, stream: Stream) -> Mark {
    let source = match stream {
        Stream::Out => Source::Stdout,
        Stream::Err => Source::Stderr,
    };
    Mark::now(job.attempt, source)
}
