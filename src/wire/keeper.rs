//! The messages between keeper and supervisor: small fixed frames over a SOCK_SEQPACKET pair.
//!
//! A packet holds one or more orders (supervisor to keeper), or exactly one report (keeper to supervisor), since
//! reports may carry descriptors. A frame is one byte for its kind and its fields, little-endian, without padding.

use std::time::Duration;

pub use super::ask::Ask;
use super::{fields::Fields, notify::fitting};
use model::{Bounds, Exit, ExitStatus, Follow, Instant, Usage, WorkerId, who_sent_it};

/// Largest packet that either side sends, in bytes.
pub const PACKET_MAX: usize = 4096;

/// Order from supervisor to keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Make a parked child for this life. Answered by `Started` or `SpawnFailed`.
    Spawn(WorkerId),
    /// Make a life without a process until its program comes on its socket, if the keeper can: then `Started` has pid 0,
    /// and `Born` follows. Else as `Spawn`.
    Place(WorkerId),
    /// A life without a process was sent its program long ago: see whether what starts it stands still.
    Hurry,
    /// Make a parked child that can become a template. It gets the socket for `Fork` requests as descriptor 4. Answered
    /// as `Spawn` is.
    Template(WorkerId),
    /// Have the second life, a template, fork a child for the first. Answered by `Started` or `SpawnFailed`.
    Fork(WorkerId, WorkerId),
    /// The self-fence: kill this life's tree at that moment unless ordered otherwise. None clears it.
    KillAt(WorkerId, Option<Instant>),
    /// Have the kernel enforce these bounds for this life's cgroup, from now on and in place of earlier ones.
    Bound(WorkerId, Bounds),
    /// When this life is proven dead, make the slot's next one at once, and in the same way the one after that, up to
    /// this number of lives. Each is reported as after `Spawn`, and killed at a fixed time after it was made, as by
    /// `KillAt`. A life that the supervisor has ended has no follower.
    Follow(WorkerId, Follow),
    /// SIGTERM, then SIGCONT, to the leader's process group. A life that has ended is left alone.
    Terminate(WorkerId),
    /// Kill the whole tree. Answered, as every end is, by `Exited` after the proof.
    KillTree(WorkerId),
    /// The end of this life is settled: drop what was kept of it for a next supervisor (its `Exited`, its descriptors).
    Forget(WorkerId),
    /// Text for `$NOTIFY_SOCKET` (sd_notify), e.g. `READY=1`.
    Notify(String),
    /// How long the keeper waits after an order to stop before it ends a supervisor that has not read it.
    StopDeadline(Duration),
    /// The supervisor is done: the keeper ends everything that is left and exits with this code.
    Shutdown(u8),
}

/// Report from keeper to supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The first report of a connection. Carries a descriptor of the keeper's /proc/PID/stat, if it could be opened.
    Hello(Hello),
    /// A parked child waits; pid 0: the process comes with the program. Carries three descriptors: socket, stdout, stderr.
    Started(WorkerId, i32),
    /// The life without a process has one.
    Born(WorkerId, i32),
    /// No child could be made.
    SpawnFailed {
        /// The life that was ordered.
        worker: WorkerId,
        /// The step that failed.
        step: Step,
        /// Why it failed.
        errno: i32,
    },
    /// The leader has ended and is reaped, and no process of its tree lives. If the keeper makes the next life by
    /// itself, its `Started` or `SpawnFailed` comes later.
    Exited {
        /// The life that ended.
        worker: WorkerId,
        /// How it ended.
        exit: Exit,
        /// Whether `Follow` makes a next life.
        followed: bool,
    },
    /// The life was killed, and some process of it does not die (D state, other uid): its pid. `Exited` may follow one
    /// day.
    Stuck(WorkerId, i32),
    /// A life that began before the present supervisor has ended, and was not settled. Carries the three descriptors of
    /// `Started`. Lives that ended by themselves come right after `Hello`; those of which a process still lived then
    /// come when that is proven dead.
    Left(WorkerId, Exit),
    /// The keeper got a signal with an order for the supervisor.
    Asked(Ask),
    /// Has no content: reading it shows that the supervisor's loop turns.
    Ping,
    /// The error with which the kernel has refused the bounds of a life. None: after such an error it has taken some again.
    Bounded(Option<i32>),
}

/// The keeper's first report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The keeper's pid, for people.
    pub pid: i32,
    /// Number of supervisors that ended before this one.
    pub restarts: u32,
    /// How the last supervisor ended.
    pub ended: Option<ExitStatus>,
    /// If that was a SIGKILL that the keeper did not send: how many processes the kernel killed for want of memory
    /// meanwhile.
    pub oom_kills: Option<u64>,
    /// The highest generation ever spawned.
    pub generation: u32,
    /// Whether lives get cgroups of their own.
    pub cgroup: bool,
    /// Whether the kernel enforces any [`Bounds`].
    pub bounds: bool,
    /// Whether systemd listens for `Notify`.
    pub notify: bool,
    /// Number of `Left` that follow.
    pub left: u32,
    /// Number of `Stuck` that follow after those: lives of an earlier supervisor of which a process still lives. `Left`
    /// reports the end of each, when it is proven.
    pub stuck: u32,
}

impl Hello {
    /// How the last supervisor ended, in words; None = this is the first one.
    pub fn last_end(&self) -> Option<String> {
        let killer = self.oom_kills.map(|kills| format!(", which nobody here sent: {}", who_sent_it(kills)));
        self.ended.map(|status| format!("{status}{}", killer.unwrap_or_default()))
    }
}

/// The steps of making a child, for `SpawnFailed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Making the socket pair.
    Socket,
    /// Making the pipes.
    Pipe,
    /// Making the cgroup.
    Cgroup,
    /// Forking the process.
    Fork,
    /// Asking the template.
    Template,
}

impl Step {
    /// For messages: "failed to …".
    pub fn as_str(self) -> &'static str {
        match self {
            Step::Socket => "make a socket pair",
            Step::Pipe => "make a pipe",
            Step::Cgroup => "make a cgroup",
            Step::Fork => "fork",
            Step::Template => "have the template fork",
        }
    }
}

/// A packet that is not a valid sequence of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a keeper frame of kind {kind} is torn or unknown")]
pub struct BadFrame {
    /// The kind byte that was read.
    pub kind: u8,
}

impl Order {
    /// Appends the frame to a packet.
    pub fn encode(&self, packet: &mut Vec<u8>) {
        match self {
            Order::Spawn(worker) => head(packet, 1, *worker),
            Order::KillAt(worker, at) => {
                head(packet, 2, *worker);
                // The largest number stands for none: no moment is as late.
                packet.extend_from_slice(&at.map_or(u64::MAX, |at| at.0).to_le_bytes());
            }
            Order::Terminate(worker) => head(packet, 3, *worker),
            Order::KillTree(worker) => head(packet, 4, *worker),
            Order::Forget(worker) => head(packet, 5, *worker),
            Order::Notify(text) => {
                let text = fitting(text);
                packet.push(6);
                packet.extend_from_slice(&(text.len() as u16).to_le_bytes());
                packet.extend_from_slice(text.as_bytes());
            }
            Order::Shutdown(code) => packet.extend_from_slice(&[7, *code]),
            Order::StopDeadline(deadline) => {
                packet.push(11);
                packet.extend_from_slice(&micros(*deadline).to_le_bytes());
            }
            Order::Template(worker) => head(packet, 8, *worker),
            Order::Place(worker) => head(packet, 13, *worker),
            Order::Hurry => packet.push(14),
            Order::Fork(worker, template) => {
                head(packet, 9, *worker);
                packet.extend_from_slice(&template.to_u64().to_le_bytes());
            }
            Order::Follow(worker, follow) => {
                head(packet, 12, *worker);
                packet.extend_from_slice(&follow.lives.to_le_bytes());
                packet.extend_from_slice(&follow.fence.map_or(u64::MAX, micros).to_le_bytes());
            }
            Order::Bound(worker, bounds) => {
                head(packet, 10, *worker);
                for most in [bounds.memory, bounds.tasks] {
                    packet.extend_from_slice(&most.unwrap_or(u64::MAX).to_le_bytes());
                }
            }
        }
    }

    /// Takes the first frame off a packet; None at its end.
    pub fn decode(packet: &mut &[u8]) -> Result<Option<Order>, BadFrame> {
        let Some((&kind, rest)) = packet.split_first() else { return Ok(None) };
        let mut fields = Fields(rest);
        let order = decode_order(kind, &mut fields).ok_or(BadFrame { kind })?;
        *packet = fields.0;
        Ok(Some(order))
    }
}

fn decode_order(kind: u8, fields: &mut Fields<'_>) -> Option<Order> {
    Some(match kind {
        1 => Order::Spawn(fields.worker()?),
        2 => {
            let worker = fields.worker()?;
            let at = fields.u64()?;
            Order::KillAt(worker, (at != u64::MAX).then_some(Instant(at)))
        }
        3 => Order::Terminate(fields.worker()?),
        4 => Order::KillTree(fields.worker()?),
        5 => Order::Forget(fields.worker()?),
        6 => {
            let len = u16::from_le_bytes(fields.take()?);
            // What a person wrote into a status must never end a supervisor with all of its jobs.
            Order::Notify(String::from_utf8_lossy(fields.slice(usize::from(len))?).into_owned())
        }
        7 => Order::Shutdown(u8::from_le_bytes(fields.take()?)),
        8 => Order::Template(fields.worker()?),
        13 => Order::Place(fields.worker()?),
        14 => Order::Hurry,
        9 => Order::Fork(fields.worker()?, fields.worker()?),
        10 => {
            let worker = fields.worker()?;
            let mut most = || fields.u64().map(|most| Some(most).filter(|most| *most != u64::MAX));
            Order::Bound(worker, Bounds { memory: most()?, tasks: most()? })
        }
        11 => Order::StopDeadline(fields.micros()?),
        12 => {
            let (worker, lives) = (fields.worker()?, u16::from_le_bytes(fields.take()?));
            let fence = fields.u64()?;
            let fence = (fence != u64::MAX).then_some(Duration::from_micros(fence));
            Order::Follow(worker, Follow { lives, fence })
        }
        _ => return None,
    })
}

impl Report {
    /// The packet of this report.
    pub fn encode(&self, packet: &mut Vec<u8>) {
        match self {
            Report::Hello(hello) => {
                packet.push(65);
                packet.extend_from_slice(&hello.pid.to_le_bytes());
                packet.extend_from_slice(&hello.restarts.to_le_bytes());
                packet.push(u8::from(hello.ended.is_some()));
                // A status that is none still takes its bytes: the frame has one length.
                encode_status(packet, hello.ended.unwrap_or(ExitStatus::Code(0)));
                packet.extend_from_slice(&hello.oom_kills.unwrap_or(u64::MAX).to_le_bytes());
                packet.extend_from_slice(&hello.generation.to_le_bytes());
                packet.push(u8::from(hello.cgroup));
                packet.push(u8::from(hello.bounds));
                packet.push(u8::from(hello.notify));
                packet.extend_from_slice(&hello.left.to_le_bytes());
                packet.extend_from_slice(&hello.stuck.to_le_bytes());
            }
            Report::Started(worker, pid) => process(packet, 66, *worker, *pid),
            Report::Born(worker, pid) => process(packet, 74, *worker, *pid),
            Report::SpawnFailed { worker, step, errno } => {
                head(packet, 67, *worker);
                packet.push(*step as u8);
                packet.extend_from_slice(&errno.to_le_bytes());
            }
            Report::Exited { worker, exit, followed } => {
                head(packet, 68, *worker);
                encode_exit(packet, exit);
                packet.push(u8::from(*followed));
            }
            Report::Stuck(worker, pid) => process(packet, 69, *worker, *pid),
            Report::Left(worker, exit) => {
                head(packet, 70, *worker);
                encode_exit(packet, exit);
            }
            Report::Asked(ask) => packet.extend_from_slice(&[71, *ask as u8]),
            Report::Ping => packet.push(72),
            // No error has the number 0.
            Report::Bounded(refused) => {
                packet.push(73);
                packet.extend_from_slice(&refused.unwrap_or(0).to_le_bytes());
            }
        }
    }

    /// Reads one packet.
    pub fn decode(packet: &[u8]) -> Result<Report, BadFrame> {
        let Some((&kind, rest)) = packet.split_first() else { return Err(BadFrame { kind: 0 }) };
        decode_report(kind, &mut Fields(rest)).ok_or(BadFrame { kind })
    }
}

fn decode_report(kind: u8, fields: &mut Fields<'_>) -> Option<Report> {
    Some(match kind {
        65 => Report::Hello(Hello {
            pid: fields.i32()?,
            restarts: fields.u32()?,
            ended: {
                let is_known = fields.u8()? != 0;
                decode_status(fields).map(|status| is_known.then_some(status))?
            },
            oom_kills: fields.u64().map(|kills| Some(kills).filter(|kills| *kills != u64::MAX))?,
            generation: fields.u32()?,
            cgroup: fields.u8()? != 0,
            bounds: fields.u8()? != 0,
            notify: fields.u8()? != 0,
            left: fields.u32()?,
            stuck: fields.u32()?,
        }),
        66 => Report::Started(fields.worker()?, fields.i32()?),
        67 => {
            let worker = fields.worker()?;
            // In the order of the enum, whose numbers `encode` writes.
            let step = *[Step::Socket, Step::Pipe, Step::Cgroup, Step::Fork, Step::Template]
                .get(usize::from(fields.u8()?))?;
            Report::SpawnFailed { worker, step, errno: fields.i32()? }
        }
        68 => Report::Exited {
            worker: fields.worker()?,
            exit: decode_exit(fields)?,
            followed: fields.u8()? != 0,
        },
        69 => Report::Stuck(fields.worker()?, fields.i32()?),
        74 => Report::Born(fields.worker()?, fields.i32()?),
        70 => Report::Left(fields.worker()?, decode_exit(fields)?),
        71 => Report::Asked(*Ask::ALL.get(usize::from(fields.u8()?))?),
        72 => Report::Ping,
        73 => Report::Bounded(fields.i32().map(|errno| Some(errno).filter(|errno| *errno != 0))?),
        _ => return None,
    })
}

fn encode_status(packet: &mut Vec<u8>, status: ExitStatus) {
    let (signaled, value, core) = match status {
        ExitStatus::Code(code) => (0, code, false),
        ExitStatus::Signal { signal, core } => (1, signal, core),
    };
    packet.push(signaled);
    packet.extend_from_slice(&value.to_le_bytes());
    packet.push(u8::from(core));
}

fn decode_status(fields: &mut Fields<'_>) -> Option<ExitStatus> {
    let (signaled, value, core) = (fields.u8()?, fields.i32()?, fields.u8()? != 0);
    Some(match signaled {
        0 => ExitStatus::Code(value),
        _ => ExitStatus::Signal { signal: value, core },
    })
}

fn encode_exit(packet: &mut Vec<u8>, exit: &Exit) {
    encode_status(packet, exit.status);
    packet.extend_from_slice(&micros(exit.usage.user).to_le_bytes());
    packet.extend_from_slice(&micros(exit.usage.system).to_le_bytes());
    packet.extend_from_slice(&exit.usage.max_rss.to_le_bytes());
    packet.extend_from_slice(&exit.left_behind.to_le_bytes());
    packet.push(u8::from(exit.oom));
    packet.push(u8::from(exit.oom_at_bound));
    packet.extend_from_slice(&micros(exit.proof).to_le_bytes());
}

fn decode_exit(fields: &mut Fields<'_>) -> Option<Exit> {
    let status = decode_status(fields)?;
    let (user, system, max_rss) = (fields.micros()?, fields.micros()?, fields.u64()?);
    let usage = Usage { user, system, max_rss };
    let (left_behind, oom, oom_at_bound) = (fields.u32()?, fields.u8()? != 0, fields.u8()? != 0);
    Some(Exit { status, usage, left_behind, oom, oom_at_bound, proof: fields.micros()? })
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn process(packet: &mut Vec<u8>, kind: u8, worker: WorkerId, pid: i32) {
    head(packet, kind, worker);
    packet.extend_from_slice(&pid.to_le_bytes());
}

fn head(packet: &mut Vec<u8>, kind: u8, worker: WorkerId) {
    packet.push(kind);
    packet.extend_from_slice(&worker.to_u64().to_le_bytes());
}
