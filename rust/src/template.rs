//! Mode `fork`: a process that has made its handlers and forks a child for each job.
//!
//! The child's parent is the keeper, which reaps and kills it. `docs/worker-protocol.md` gives the order of a child's
//! first steps.

use std::cell::RefCell;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::Worker;
use crate::pipe::Pipe;
use crate::protocol::{Empty, Said, ToWorker, decode};
use crate::sys::{self, Forked, Ready, Request};

struct Template<'a> {
    worker: &'a mut Worker,
    pipe: Pipe,
    requests: OwnedFd,
    keeper: i32,
}

/// Forks until the supervisor stops the template.
pub(crate) fn serve(worker: &mut Worker, channel: UnixStream, requests: OwnedFd) -> io::Result<()> {
    // Otherwise the second of two forks would become our own child again.
    sys::set_subreaper(false)?;
    let mut pipe = Pipe::new(channel);
    pipe.say(&Said::Hello(worker.hello(true)));
    pipe.say(&Said::Ready(Empty {}));
    let mut template = Template { worker, pipe, requests, keeper: sys::parent() };
    loop {
        match sys::wait(template.pipe.as_fd(), template.requests.as_fd())? {
            Ready::Requests => {
                let Some(request) = sys::receive(template.requests.as_fd())? else { return Ok(()) };
                template.fork(request)?;
            }
            Ready::Channel if !template.goes_on()? => return Ok(()),
            Ready::Channel => {}
        }
    }
}

impl Template<'_> {
    /// Reads the frames that have arrived; false if one says to stop.
    fn goes_on(&mut self) -> io::Result<bool> {
        loop {
            let Some(line) = self.pipe.next()? else { return Ok(false) };
            match decode::<ToWorker<'_>>(&line).map_err(io::Error::other)? {
                ToWorker::Shutdown(_) => return Ok(false),
                ToWorker::Ping(_) => self.pipe.say(&Said::Pong(Empty {})),
                ToWorker::Run(_) | ToWorker::Cancel(_) | ToWorker::Reply(_) => {}
            }
            if self.pipe.is_empty() {
                return Ok(true);
            }
        }
    }

    fn fork(&mut self, request: Request) -> io::Result<()> {
        // Otherwise each child would print the content of the buffer again.
        io::stdout().flush().ok();
        match sys::fork_sibling(self.keeper, request.cgroup.as_ref().map(AsFd::as_fd)) {
            Ok(Forked::Child) => {
                let code = match self.be_child(request) {
                    Ok(()) => 0,
                    Err(error) => {
                        eprintln!("{error}");
                        1
                    }
                };
                io::stdout().flush().ok();
                sys::exit_now(code)
            }
            Ok(Forked::Parent) => Ok(()),
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(0);
                sys::send(self.requests.as_fd(), &[&request.number[..], &errno.to_le_bytes()].concat())
            }
        }
    }

    fn be_child(&mut self, request: Request) -> io::Result<()> {
        sys::send(self.requests.as_fd(), &request.number)?;
        let templates = [self.pipe.as_fd().as_raw_fd(), self.requests.as_raw_fd()];
        let channel = sys::settle(self.keeper, templates, request)?;
        self.worker.serve_jobs(&RefCell::new(Pipe::new(channel)), 1)
    }
}
