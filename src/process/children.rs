//! The living: for each life its socket and pipes, all watched through one epoll descriptor.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, getrlimit};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use super::logs::Logs;
use super::output::{CHUNK, Output, Sink, Stream, Taken, last_words};
use super::program::{base_environment, outcome, program};
use super::watched::watched;
use crate::model::{Exec, Exit, Failure, Fence, Job, Outcome, Payload, WorkerId};
use crate::wire::program::Failed;

/// Descriptors handled before the event loop gets its turn again.
const TURN: usize = 64;

/// All lives the keeper told us of and nobody has buried.
pub struct Children {
    lives: HashMap<WorkerId, Life>,
    epoll: Epoll,
    readiness: AsyncFd<OwnedFd>,
    logs: Logs,
    cap: u64,
    environment: Vec<Vec<u8>>,
    buffer: Vec<u8>,
}

struct Life {
    pid: i32,
    socket: OwnedFd,
    output: Output,
    job: Option<(Arc<Job>, Fence)>,
    /// The rest of an order longer than the socket's buffer.
    unsent: Vec<u8>,
}

/// What is left of a life: the worker's word, if its end is one, and its last words.
#[derive(Debug, Default)]
pub struct Remains {
    /// The job it had, with what its end says of it; None inside = it says nothing, a crash.
    pub job: Option<(Arc<Job>, Fence, Option<Outcome>)>,
    /// The last of its stderr.
    pub stderr_tail: String,
    /// Bytes of output that are not in the log.
    pub output_dropped: u64,
    /// Answers when the job's output is written, if it printed anything, with the bytes that could not be.
    pub written: Option<oneshot::Receiver<u64>>,
}

/// Which descriptor of a life; travels in the two top bits of the epoll token, which no worker id uses (pools are few).
#[derive(Clone, Copy)]
enum Kind {
    Out = 0,
    Err = 1,
    Socket = 2,
}

impl Children {
    /// No child yet. A job's output goes to `logs`, at most `cap` bytes of it.
    pub fn new(logs: Logs, cap: u64) -> io::Result<Children> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let readiness = watched(epoll.0.try_clone()?, Interest::READABLE)?;
        let environment = base_environment();
        Ok(Children {
            lives: HashMap::new(),
            epoll,
            readiness,
            logs,
            cap,
            environment,
            buffer: vec![0; CHUNK],
        })
    }

    /// A child was made; its descriptors are its socket, stdout and stderr. On an error nothing of it is kept.
    pub fn started(&mut self, worker: WorkerId, pid: i32, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        // What does not fit under the limit the kernel leaves out.
        let [socket, out, err] = <[OwnedFd; 3]>::try_from(descriptors).map_err(|_| scarce())?;
        if !leaves_room(&[&socket, &out, &err], self.lives.len()) {
            return Err(scarce());
        }
        let watched = self
            .watch(worker, Kind::Out, &out, EpollFlags::EPOLLIN)
            .and_then(|()| self.watch(worker, Kind::Err, &err, EpollFlags::EPOLLIN));
        if let Err(error) = watched {
            unwatch(&self.epoll, Some(&out));
            return Err(error);
        }
        let output = Output::new(out, err);
        self.lives.insert(worker, Life { pid, socket, output, job: None, unsent: Vec::new() });
        Ok(())
    }

    /// A life that ran this job already when it was taken over.
    pub fn adopt(&mut self, worker: WorkerId, job: Arc<Job>, fence: Fence) {
        if let Some(life) = self.lives.get_mut(&worker) {
            life.job = Some((job, fence));
        }
    }

    /// The pid of a life, for people.
    pub fn pid(&self, worker: WorkerId) -> Option<i32> {
        self.lives.get(&worker).map(|life| life.pid)
    }

    /// Hands a job to a parked child.
    pub fn assign(&mut self, worker: WorkerId, job: &Arc<Job>, fence: Fence) -> Result<(), Outcome> {
        let Some(life) = self.lives.get_mut(&worker) else { return Ok(()) };
        let Payload::Exec(exec) = &job.payload else { return Err(no_worker_for(job)) };
        life.job = Some((job.clone(), fence));
        let order = program(exec, job, worker, &self.environment).encode();
        let sent = stdin(exec).and_then(|stdin| send(&life.socket, &order, stdin.as_ref()));
        match sent {
            Ok(len) if len == order.len() => return Ok(()),
            Ok(len) => life.unsent = order[len..].to_vec(),
            // A child that died meanwhile: its exit is on the way, and says so.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(cannot_assign(&error)),
        }
        let life = &self.lives[&worker];
        self.watch(worker, Kind::Socket, &life.socket, EpollFlags::EPOLLOUT)
            .map_err(|error| cannot_assign(&error))
    }

    /// Waits until some child has something to say or can hear more. Cancel-safe.
    pub async fn ready(&self) -> io::Result<()> {
        self.readiness.readable().await.map(drop)
    }

    /// One bounded round of reading output and writing orders.
    pub fn turn(&mut self) -> io::Result<()> {
        let mut events = [EpollEvent::empty(); TURN];
        let count = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
            Ok(count) => count,
            Err(nix::errno::Errno::EINTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if count == 0 {
            // Edge-triggered above, level-triggered below: only an empty round may clear the edge.
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            if let std::task::Poll::Ready(Ok(mut guard)) = self.readiness.poll_read_ready(&mut context) {
                guard.clear_ready();
            }
            return Ok(());
        }
        for event in &events[..count] {
            let worker = WorkerId::from_u64(event.data() & !(3 << 62));
            match event.data() >> 62 {
                0 => self.read(worker, Stream::Out),
                1 => self.read(worker, Stream::Err),
                _ => self.write(worker),
            }
        }
        Ok(())
    }

    /// The life has ended and nothing of it lives: what is in its pipes is read, then it is judged.
    pub fn ended(&mut self, worker: WorkerId, exit: &Exit) -> Remains {
        let Some(mut life) = self.lives.remove(&worker) else { return Remains::default() };
        let mut sink =
            Sink { logs: &self.logs, job: life.job.as_ref().map(|(job, _)| &job.id), cap: self.cap };
        life.output.drain(&mut self.buffer, &mut sink);
        unwatch(&self.epoll, life.output.pipe(Stream::Out));
        unwatch(&self.epoll, life.output.pipe(Stream::Err));
        if !life.unsent.is_empty() {
            unwatch(&self.epoll, Some(&life.socket));
        }
        let printed = life.job.as_ref().filter(|_| life.output.has_written());
        let written = printed.map(|(job, _)| self.logs.end(&job.id));
        let (stderr_tail, output_dropped) = life.output.into_tail();
        let failed = last_words(&life.socket).ok().and_then(|words| Failed::decode(&words));
        let job = life.job.map(|(job, fence)| {
            let said = match &job.payload {
                Payload::Exec(exec) => outcome(exec, exit, failed, &stderr_tail),
                Payload::Data(_) => None,
            };
            (job, fence, said)
        });
        Remains { job, stderr_tail, output_dropped, written }
    }

    fn read(&mut self, worker: WorkerId, stream: Stream) {
        let Some(life) = self.lives.get_mut(&worker) else { return };
        let mut sink =
            Sink { logs: &self.logs, job: life.job.as_ref().map(|(job, _)| &job.id), cap: self.cap };
        if life.output.take(stream, &mut self.buffer, &mut sink) == Taken::End {
            unwatch(&self.epoll, life.output.pipe(stream));
            life.output.close(stream);
        }
    }

    fn write(&mut self, worker: WorkerId) {
        let Some(life) = self.lives.get_mut(&worker) else { return };
        match send(&life.socket, &life.unsent, None) {
            Ok(len) => drop(life.unsent.drain(..len)),
            Err(_) => life.unsent.clear(),
        }
        if life.unsent.is_empty() {
            unwatch(&self.epoll, Some(&life.socket));
        }
    }

    fn watch(
        &self,
        worker: WorkerId,
        kind: Kind,
        descriptor: &OwnedFd,
        interest: EpollFlags,
    ) -> io::Result<()> {
        let token = worker.to_u64() | (kind as u64) << 62;
        Ok(self.epoll.add(descriptor, EpollEvent::new(interest, token))?)
    }
}

/// Before a descriptor is closed: the keeper holds a duplicate, so closing alone would leave it in the epoll set for ever.
fn unwatch(epoll: &Epoll, descriptor: Option<&OwnedFd>) {
    if let Some(descriptor) = descriptor {
        epoll.delete(descriptor).ok();
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

/// The data as a sealed file in memory: no pipe to feed, and the program may seek in it but not change it.
fn stdin(exec: &Exec) -> io::Result<Option<OwnedFd>> {
    use nix::fcntl::{FcntlArg, SealFlag, fcntl};
    if exec.stdin.0.is_empty() {
        return Ok(None);
    }
    let mut file =
        File::from(memfd_create("taskvisor-stdin", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
    file.write_all(&exec.stdin.0)?;
    io::Seek::rewind(&mut file)?;
    let seals =
        SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(Some(file.into()))
}

fn no_worker_for(job: &Job) -> Outcome {
    let message = format!(
        "no worker of this pool knows the class '{}': the pool runs programs (class 'exec')",
        job.class
    );
    Outcome::FailedForGood(Failure { group: "unknown class".into(), message, trace: None })
}

/// What the machine is short of is not the job's fault: it waits a moment, unspent.
fn cannot_assign(error: &io::Error) -> Outcome {
    const SHORT: [i32; 6] =
        [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS, libc::ENOSPC, libc::EAGAIN];
    if error.raw_os_error().is_some_and(|errno| SHORT.contains(&errno)) {
        tracing::warn!(%error, "failed to hand a job to its worker; it waits a second");
        return Outcome::Snoozed(Duration::from_secs(1));
    }
    let message = format!("failed to hand the job to its worker: {error}");
    Outcome::FailedForGood(Failure { group: "cannot start".into(), message, trace: None })
}

/// Kept free for clients, the store and /proc.
const SPARE: u64 = 8;

/// Descriptors are given out lowest first, so the newest tells how many there are. Each life may need one more, for its
/// log.
fn leaves_room(newest: &[&OwnedFd], lives: usize) -> bool {
    let highest = newest.iter().map(|descriptor| descriptor.as_raw_fd() as u64).max().unwrap_or(0);
    highest + SPARE + lives as u64 <= limit()
}

fn limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft)
}

fn scarce() -> io::Error {
    io::Error::other(format!("too few descriptors (EMFILE): the limit is {}, see ulimit -n", limit()))
}
