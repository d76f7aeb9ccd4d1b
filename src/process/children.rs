//! The living children: for each life its channel and pipes, all watched by one epoll descriptor.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{Resource, getrlimit};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::channel::{Channel, Watched};
use super::gauge::Gauge;
use super::life::{Handshake, Life, LifeContext, Running, WorkerEvent};
use super::orphans::earlier;
use super::output::{CHUNK, Output, Printed, Stream, Taken};
use super::plan::{Plan, Role};
use super::program::{outcome, stillborn};
use super::remains::Remains;
use super::sandbox::{Removed, Sandboxes};
use super::told::Told;
use super::watched::{unwatch, watched};
use log::Outputs;
use model::{Exit, Fence, Instant, Job, Outcome, WorkerId, WorkerName};
use wire::worker::FRAME_MAX;

/// Limit of the descriptors handled before the event loop goes on.
const TURN: usize = 64;

/// Limit of the chunks read from a dead worker's channel: its longest frame, and some. A worker leaves no more.
const LAST_WORDS: usize = FRAME_MAX / CHUNK + 64;

/// How long to wait for the end of a worker that has closed its channel and lives on, as it is of no use.
const CLOSED: Duration = Duration::from_secs(1);

/// All lives that the keeper has reported and that have not been removed.
pub struct Children {
    pub(super) lives: HashMap<WorkerId, Life>,
    pub(super) plans: Vec<Plan>,
    /// Lives with frames to send.
    pub(super) unsent: HashSet<WorkerId>,
    /// Lives whose calls were answered: lines that they sent meanwhile may be read now.
    pub(super) served: HashSet<WorkerId>,
    /// Lives whose channel was closed by the worker.
    closed: HashSet<WorkerId>,
    /// Whether something was left unread that no epoll edge will report.
    more: bool,
    epoll: Epoll,
    readiness: AsyncFd<OwnedFd>,
    pub(super) logs: Outputs,
    gauge: Gauge,
    cap: u64,
    buffer: Vec<u8>,
    pub(super) sandboxes: Sandboxes,
}

/// Which descriptor of a life; in the two top bits of the epoll token, which no worker id uses (there are few pools).
#[derive(Clone, Copy)]
enum Kind {
    Out = 0,
    Err = 1,
    Channel = 2,
}

impl Children {
    /// From here on the lives of this pool number follow this plan.
    pub fn equip(&mut self, pool: u16, plan: Plan) {
        let at = usize::from(pool);
        match self.plans.get_mut(at) {
            Some(place) => *place = plan,
            None => self.plans.push(plan),
        }
    }

    /// No children yet; `plans` are those of the pools. A job's output goes to `logs`, at most `cap` bytes of it;
    /// `gauge` measures what a job uses. `sandboxes` is the parent of the slots' directories; `removed` hears how their
    /// removal goes.
    pub fn new(
        plans: Vec<Plan>,
        logs: Outputs,
        gauge: Gauge,
        cap: u64,
        (sandboxes, removed): (PathBuf, Removed),
    ) -> io::Result<Children> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let readiness = watched(epoll.0.try_clone()?, Interest::READABLE)?;
        Ok(Children {
            lives: HashMap::new(),
            plans,
            unsent: HashSet::new(),
            served: HashSet::new(),
            closed: HashSet::new(),
            more: false,
            epoll,
            readiness,
            logs,
            gauge,
            cap,
            buffer: vec![0; CHUNK],
            sandboxes: Sandboxes::new(sandboxes, removed),
        })
    }

    /// Adds a child that was made; its descriptors are its channel, stdout and stderr. Gives whether it takes jobs
    /// already. On an error nothing of it is kept.
    pub fn started(&mut self, worker: WorkerId, pid: i32, descriptors: Vec<OwnedFd>) -> io::Result<bool> {
        let Some(plan) = self.plans.get(usize::from(worker.slot.pool)) else {
            return Err(io::Error::other("no such pool"));
        };
        let role = plan.role(worker);
        let mut life = self.life(pid, role, descriptors)?;
        // A parked child waits for the program of a job.
        if matches!(role, Role::Worker | Role::Template) {
            let order = self.plans[usize::from(worker.slot.pool)].command(worker).encode();
            life.channel.order(order, None)?;
        }
        self.watch_output(worker, &life.output)?;
        self.lives.insert(worker, life);
        self.watch_channel(worker);
        Ok(matches!(role, Role::Parked | Role::Child))
    }

    /// Adds a life that ended before this supervisor: nothing is watched, [`Children::ended`] comes next.
    pub fn adopt(
        &mut self,
        worker: WorkerId,
        descriptors: Vec<OwnedFd>,
        job: Arc<Job>,
        fence: Fence,
    ) -> io::Result<()> {
        let plan = self.plans.get(usize::from(worker.slot.pool));
        let role = plan.map_or(Role::Parked, |plan| plan.role(worker));
        let mut life = self.life(0, role, descriptors)?;
        // Its first messages went to the supervisor before this one.
        life.greeting = Handshake::Ready;
        if role == Role::Parked {
            life.channel.assume_begun();
        }
        life.jobs.push(Running { job, fence, printed: Printed::default(), gauged: None });
        self.lives.insert(worker, life);
        Ok(())
    }

    fn life(&self, pid: i32, role: Role, descriptors: Vec<OwnedFd>) -> io::Result<Life> {
        // The kernel drops descriptors beyond the limit.
        let [socket, out, err] = <[OwnedFd; 3]>::try_from(descriptors).map_err(|_| scarce())?;
        if !leaves_room(&[&socket, &out, &err], self.lives.len()) {
            return Err(scarce());
        }
        Ok(Life::new(pid, role, Channel::new(socket), Output::new(out, err)))
    }

    /// The pid of a life, for people; None also for one that has no process yet.
    pub fn pid(&self, worker: WorkerId) -> Option<i32> {
        self.lives.get(&worker).map(|life| life.pid).filter(|pid| *pid != 0)
    }

    /// What a life has said of its application.
    pub fn told(&self, worker: WorkerId) -> Told {
        self.lives.get(&worker).map(|life| life.told.clone()).unwrap_or_default()
    }

    /// Waits until some child has sent something or can take more. Cancel-safe.
    pub async fn ready(&self) -> io::Result<()> {
        if self.more || !self.served.is_empty() { Ok(()) } else { self.readiness.readable().await.map(drop) }
    }

    /// When [`Children::turn`] is due although no descriptor is ready.
    pub fn due(&self) -> Option<Instant> {
        self.closed.iter().filter_map(|worker| self.lives.get(worker)?.closed).min().map(|at| at + CLOSED)
    }

    /// One limited round of reading and writing. Gives the messages that were read.
    pub fn turn(&mut self, now: Instant) -> io::Result<Vec<WorkerEvent>> {
        let mut words = Vec::new();
        self.outlive_channels(now, &mut words);
        for worker in std::mem::take(&mut self.served) {
            self.unsent.insert(worker);
            // One that is clogged is heard when it has read: each line may cost an answer of many megabytes.
            if let Some((life, mut around)) = self.look(worker)
                && life.is_served()
            {
                life.hear(&mut around, &mut words);
            }
        }
        let mut events = [EpollEvent::empty(); TURN];
        let count = self.wait(&mut events)?;
        for event in &events[..count] {
            let worker = WorkerId::from_u64(event.data() & !(3 << 62));
            match event.data() >> 62 {
                0 => self.read_output(worker, Stream::Out, &mut words),
                1 => self.read_output(worker, Stream::Err, &mut words),
                _ => {
                    if event.events().intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP) {
                        self.read_channel(worker, now, &mut words);
                    }
                    // After EPOLLOUT the socket may have room again.
                    self.unsent.insert(worker);
                }
            }
        }
        Ok(words)
    }

    /// The ready descriptors. They are edge-triggered, and this list is level-triggered: an edge may be cleared once
    /// the list is complete, so data that one read leaves is noted in `more`.
    fn wait(&mut self, events: &mut [EpollEvent; TURN]) -> io::Result<usize> {
        // Nobody waits here: the readiness is only taken to be cleared below.
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let guard = self.readiness.poll_read_ready(&mut context);
        let count = match self.epoll.wait(events, EpollTimeout::ZERO) {
            Ok(count) => count,
            Err(nix::errno::Errno::EINTR) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        self.more = count == TURN;
        if let (false, std::task::Poll::Ready(Ok(mut guard))) = (self.more, guard) {
            guard.clear_ready();
        }
        Ok(count)
    }

    /// Sends what waits, as far as the sockets take it.
    pub fn flush(&mut self) {
        for worker in std::mem::take(&mut self.unsent) {
            if let Some(life) = self.lives.get_mut(&worker) {
                let clogged = life.channel.is_clogged();
                life.channel.flush();
                if clogged && !life.channel.is_clogged() {
                    self.served.insert(worker);
                }
                self.watch_channel(worker);
            }
        }
    }

    /// The life has ended and no process of it lives: reads its pipes and its channel to the end, then judges its jobs.
    pub fn ended(&mut self, worker: WorkerId, exit: &Exit) -> Remains {
        let Some(mut life) = self.lives.remove(&worker) else { return Remains::default() };
        self.closed.remove(&worker);
        let mut remains = Remains { earlier: earlier(life.brood.as_ref()), ..Remains::default() };
        let Some(plan) = self.plans.get(usize::from(worker.slot.pool)) else { return remains };
        let Children { logs, gauge, cap, buffer, sandboxes, .. } = self;
        let around = &mut LifeContext { worker, plan, logs, gauge, cap: *cap, buffer, sandboxes };
        // Before its last frames: one of them may end the job that has printed this.
        life.read_output(None, around);
        for _ in 0..LAST_WORDS {
            if !matches!(life.channel.read(around.buffer), Taken::Much | Taken::Some) {
                break;
            }
            life.hear(around, &mut remains.words);
        }
        unwatch(&self.epoll, life.output.pipe(Stream::Out));
        unwatch(&self.epoll, life.output.pipe(Stream::Err));
        if life.channel.watched != Watched::default() {
            unwatch(&self.epoll, Some(&life.channel.socket));
        }
        remains.stillborn = (life.greeting != Handshake::Ready).then(|| stillborn(&life, plan, worker));
        if life.channel.is_torn() && life.role != Role::Parked && !life.jobs.is_empty() {
            let worker = WorkerName::new(plan.name.clone(), worker);
            tracing::warn!(%worker, "a worker ended in the middle of a frame");
        }
        let (heard, unread) = (life.channel.said(), life.channel.unread_run().cloned());
        if plan.one_at_a_time()
            && let Some(dir) = plan.sandbox(worker)
        {
            self.sandboxes.leave(&dir);
        }
        let (in_worker, cpu) = (life.role == Role::Worker, life.cpu_of_first(exit));
        for running in life.jobs {
            let said = match life.role {
                Role::Parked => {
                    let program = plan.started(&running.job, worker);
                    program.and_then(|program| outcome(&program, exit, heard, &running.printed.tail()))
                }
                Role::Worker | Role::Template | Role::Child => {
                    (unread.as_ref() == Some(&running.job.id)).then_some(Outcome::NotBegun)
                }
            };
            remains.jobs.push(running.end(said, &self.logs).with(in_worker, cpu));
        }
        remains
    }

    fn read_output(&mut self, worker: WorkerId, stream: Stream, words: &mut Vec<WorkerEvent>) {
        let Some((life, mut around)) = self.look(worker) else { return };
        let taken = life.read_output(Some(stream), &mut around);
        words.extend(life.jobs.first_mut().into_iter().flat_map(|running| running.overflow(worker)));
        self.more |= taken == Taken::Much;
        if taken == Taken::End
            && let Some(life) = self.lives.get_mut(&worker)
        {
            unwatch(&self.epoll, life.output.pipe(stream));
            life.output.close(stream);
        }
    }

    fn read_channel(&mut self, worker: WorkerId, now: Instant, words: &mut Vec<WorkerEvent>) {
        let Some((life, mut around)) = self.look(worker) else { return };
        let taken = life.channel.read(around.buffer);
        match taken {
            Taken::Much | Taken::Some => life.hear(&mut around, words),
            Taken::Nothing => {}
            Taken::End => {
                life.closed = Some(now);
                self.closed.insert(worker);
            }
        }
        self.more |= taken == Taken::Much;
    }

    /// A closed channel nearly always means that the process has ended. One that lives on can neither be read nor
    /// written to.
    fn outlive_channels(&mut self, now: Instant, words: &mut Vec<WorkerEvent>) {
        let lives = &mut self.lives;
        self.closed.retain(|worker| {
            let Some(life) = lives.get_mut(worker) else { return false };
            let waits = life.closed.is_some_and(|at| now < at + CLOSED);
            if !waits && !life.faulty {
                life.faulty = true;
                let how = "it closed its channel (descriptor 3) and lives on";
                words.push(WorkerEvent::Faulty(*worker, how.into()));
            }
            waits
        });
    }

    /// A life, and what its methods need of the rest: apart, so that both can be changed at once.
    pub(super) fn look(&mut self, worker: WorkerId) -> Option<(&mut Life, LifeContext<'_>)> {
        let plan = self.plans.get(usize::from(worker.slot.pool))?;
        let life = self.lives.get_mut(&worker)?;
        let Children { logs, gauge, cap, buffer, sandboxes, .. } = self;
        Some((life, LifeContext { worker, plan, logs, gauge, cap: *cap, buffer, sandboxes }))
    }

    fn watch_output(&self, worker: WorkerId, output: &Output) -> io::Result<()> {
        for (kind, stream) in [(Kind::Out, Stream::Out), (Kind::Err, Stream::Err)] {
            let Some(pipe) = output.pipe(stream) else { continue };
            if let Err(error) =
                self.epoll.add(pipe, EpollEvent::new(EpollFlags::EPOLLIN, token(worker, kind)))
            {
                unwatch(&self.epoll, output.pipe(Stream::Out));
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Sets the events for which the channel is watched now. A parked child sends nothing that must wake us: its only
    /// message comes with its end.
    pub(super) fn watch_channel(&mut self, worker: WorkerId) {
        let Some(life) = self.lives.get_mut(&worker) else { return };
        let heard = !life.faulty && life.closed.is_none() && life.is_served();
        let reads = life.role != Role::Parked && heard;
        let wanted = Watched { reads, writes: life.channel.is_blocked() };
        let before = std::mem::replace(&mut life.channel.watched, wanted);
        if before == wanted {
            return;
        }
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLIN, wanted.reads);
        flags.set(EpollFlags::EPOLLOUT, wanted.writes);
        let mut event = EpollEvent::new(flags, token(worker, Kind::Channel));
        let socket = &life.channel.socket;
        let changed = match (before == Watched::default(), wanted == Watched::default()) {
            (true, _) => self.epoll.add(socket, event),
            (_, true) => self.epoll.delete(socket),
            (false, false) => self.epoll.modify(socket, &mut event),
        };
        if let Err(error) = changed {
            let worker = self.name(worker);
            tracing::warn!(%worker, %error, "failed to watch a worker's channel");
        }
    }
}

fn token(worker: WorkerId, kind: Kind) -> u64 {
    worker.to_u64() | (kind as u64) << 62
}

/// Descriptors kept free for clients, the store and /proc.
const SPARE: u64 = 8;

/// Whether there is room for more descriptors. The kernel gives out the lowest numbers first, so the newest shows how
/// many there are. Each life may need one more, for its log.
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
