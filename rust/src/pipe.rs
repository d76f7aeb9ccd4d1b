//! The channel at the worker's end, with blocking calls.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use serde_json::value::RawValue;

use crate::End;
use crate::protocol::{Call, Said, ToWorker, decode, encode};

/// Reads lines and writes frames.
pub(crate) struct Pipe {
    reader: BufReader<UnixStream>,
    /// Frames that came during the wait for the answer to a call.
    later: VecDeque<Vec<u8>>,
    calls: u64,
    out: Vec<u8>,
}

impl Pipe {
    pub(crate) fn new(stream: UnixStream) -> Pipe {
        Pipe {
            reader: BufReader::with_capacity(64 << 10, stream),
            later: VecDeque::new(),
            calls: 0,
            out: Vec::new(),
        }
    }

    /// The descriptor for reading.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.get_ref().as_fd()
    }

    /// Whether there is no unread line here.
    pub(crate) fn is_empty(&self) -> bool {
        self.later.is_empty() && self.reader.buffer().is_empty()
    }

    /// Sends a frame. If the supervisor is gone, the next read reports it.
    pub(crate) fn say(&mut self, frame: &Said<'_>) {
        self.out.clear();
        encode(frame, &mut self.out);
        self.reader.get_mut().write_all(&self.out).ok();
    }

    /// The next line; None when the supervisor is gone.
    pub(crate) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self.later.pop_front() {
            Some(line) => Ok(Some(line)),
            None => self.read(),
        }
    }

    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        loop {
            self.reader.read_until(b'\n', &mut line)?;
            match line.pop() {
                None => return Ok(None),
                Some(_) if line.is_empty() => {}
                Some(_) => return Ok(Some(line)),
            }
        }
    }

    /// Makes a call to the supervisor and waits for the answer.
    pub(crate) fn call(&mut self, verb: &str, args: &str) -> Result<Box<RawValue>, End> {
        self.calls += 1;
        let n = self.calls;
        let args: &RawValue = serde_json::from_str(args)?;
        self.say(&Said::Call(Call { n, verb: verb.into(), args }));
        loop {
            let Some(line) = self.read()? else {
                return Err(io::Error::other("the supervisor is gone").into());
            };
            match decode::<ToWorker<'_>>(&line) {
                Ok(ToWorker::Reply(reply)) if reply.n == n => return answered(reply.ok, reply.error),
                Ok(_) | Err(_) => self.later.push_back(line),
            }
        }
    }
}

/// The content of an answer.
pub(crate) fn answered(ok: Option<&RawValue>, error: Option<String>) -> Result<Box<RawValue>, End> {
    match (ok, error) {
        (_, Some(why)) => Err(End::Failed { group: "refused".into(), message: why }),
        (Some(ok), None) => Ok(ok.to_owned()),
        (None, None) => Ok(RawValue::NULL.to_owned()),
    }
}
