//! The channel, from the worker's end, in calls that wait.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::value::RawValue;

use super::end::End;
use crate::wire::worker::{CHANNEL, Call, Said, Told, decode, encode};

static TAKEN: AtomicBool = AtomicBool::new(false);

/// The channel this process was started with, close-on-exec. An error when no supervisor started it.
pub(super) fn channel() -> io::Result<UnixStream> {
    let given = std::env::var("TASKVISOR_FD").is_ok_and(|fd| fd == CHANNEL.to_string());
    if !given || TAKEN.swap(true, Ordering::SeqCst) {
        let name = std::env::args().next().unwrap_or_default();
        return Err(io::Error::other(format!(
            "this program is a worker and is started by taskvisor: taskvisor start -w 2 -- {name}"
        )));
    }
    #[expect(
        unsafe_code,
        reason = "the number is handed over by the supervisor, and the flag above gives it out once"
    )]
    // SAFETY: as said; if the variable lies, the first use of the descriptor fails.
    let socket = unsafe { OwnedFd::from_raw_fd(CHANNEL) };
    // A duplicate is close-on-exec, so that programs a handler starts do not hold the channel.
    Ok(UnixStream::from(socket.try_clone()?))
}

/// Lines in, frames out.
pub(super) struct Pipe {
    reader: BufReader<UnixStream>,
    /// Frames that came while the answer to a call was waited for.
    later: VecDeque<Vec<u8>>,
    calls: u64,
    out: Vec<u8>,
}

impl Pipe {
    pub(super) fn new(stream: UnixStream) -> Pipe {
        Pipe {
            reader: BufReader::with_capacity(64 << 10, stream),
            later: VecDeque::new(),
            calls: 0,
            out: Vec::new(),
        }
    }

    /// Sends a frame. If the supervisor is gone, the next read says so.
    pub(super) fn say(&mut self, frame: &Said<'_>) {
        self.out.clear();
        encode(frame, &mut self.out);
        self.reader.get_mut().write_all(&self.out).ok();
    }

    /// The next line; None when the supervisor is gone.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
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

    /// Asks the supervisor for something and waits for the answer.
    pub(super) fn call(&mut self, verb: &str, args: &str) -> Result<Box<RawValue>, End> {
        self.calls += 1;
        let n = self.calls;
        let args: &RawValue = serde_json::from_str(args)?;
        self.say(&Said::Call(Call { n, verb: verb.into(), args }));
        loop {
            let Some(line) = self.read()? else {
                return Err(io::Error::other("the supervisor is gone").into());
            };
            match decode::<Told<'_>>(&line) {
                Ok(Told::Reply(reply)) if reply.n == n => return answered(reply.ok, reply.error),
                Ok(_) | Err(_) => self.later.push_back(line),
            }
        }
    }
}

/// What an answer says.
pub(super) fn answered(ok: Option<&RawValue>, error: Option<String>) -> Result<Box<RawValue>, End> {
    match (ok, error) {
        (_, Some(why)) => Err(End::Failed { group: "refused".into(), message: why }),
        (Some(ok), None) => Ok(ok.to_owned()),
        (None, None) => Ok(RawValue::NULL.to_owned()),
    }
}
