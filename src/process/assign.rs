//! Hands jobs to children.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde_json::value::RawValue;

use super::children::Children;
use super::life::{Life, Running};
use super::output::Printed;
use super::plan::Role;
use model::{Bounds, Bytes, Failure, Fence, Job, JobId, Limits, NewJob, Outcome, Payload, WorkerId};
use wire::keeper::Order;
use wire::worker::{self, Cancel, FRAME_MAX, Raw, Run, ToWorker};

// Data in base64 must fit into a frame with room for the other fields.
const _: () = assert!(NewJob::DATA_MAX <= FRAME_MAX / 4 * 3 - (64 << 10));

/// A job that did not reach its worker.
#[derive(Debug)]
pub struct Unassigned {
    /// The outcome of the job.
    pub outcome: Outcome,
    /// Whether the worker was made for this job and now waits in vain.
    pub idle_for_ever: bool,
}

impl Children {
    /// Hands a job to a child. If it has limits on its process tree, the gauge watches it. A stop that begins at any time
    /// kills it `stop_deadline` later.
    pub fn assign(
        &mut self,
        worker: WorkerId,
        job: &Arc<Job>,
        fence: Fence,
        limits: Limits,
        retries: u32,
        stop_deadline: Duration,
    ) -> Result<(), Unassigned> {
        let Some((life, around)) = self.look(worker) else { return Ok(()) };
        let plan = around.plan;
        let unassigned = |outcome| Unassigned { outcome, idle_for_ever: plan.one_job_a_life() };
        // It does not read what it has: in a second another worker may take the job.
        if life.channel.is_full() {
            return Err(unassigned(Outcome::Snoozed(Duration::from_secs(1))));
        }
        if let Some(failure) = plan.refuses(job).filter(|_| life.role == Role::Parked) {
            return Err(unassigned(Outcome::FailedForGood(failure)));
        }
        let cwd =
            match plan.sandbox(worker).map(|dir| around.sandboxes.empty(&dir, plan.spec.identity.as_ref())) {
                Some(Ok(dir)) => Some(dir),
                Some(Err(error)) => return Err(unassigned(no_sandbox(&error))),
                None => None,
            };
        if life.role == Role::Parked {
            let exec = plan.exec(job).ok_or_else(|| unassigned(Outcome::UnknownClass))?;
            let order = plan.program(&exec, job, worker).encode();
            let sent = stdin(&exec.stdin).and_then(|stdin| life.channel.order(order, stdin.as_ref()));
            match sent {
                // The child died meanwhile: its exit is on the way, and reports it.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                sent => sent.map_err(|error| unassigned(cannot_assign(&job.id, &error)))?,
            }
        } else {
            let cwd = cwd.map(|dir| dir.to_string_lossy().into_owned());
            // A worker cannot tell a stop's SIGTERM from a cancel's, so it gets the shorter of the two times.
            let grace = plan.settings.grace.min(stop_deadline);
            say_run(&mut life.channel, job, (fence, retries), limits, (grace, cwd)).map_err(unassigned)?;
        }
        let gauged =
            around.gauge.watch(worker, life.pid, (&job.id, fence), limits, life.role != Role::Parked);
        life.taken += 1;
        life.jobs.push(Running { job: job.clone(), fence, printed: Printed::up_to(limits.output), gauged });
        self.unsent.insert(worker);
        Ok(())
    }

    /// A life that was started without a process has one.
    pub fn born(&mut self, worker: WorkerId, pid: i32) {
        if let Some((life, around)) = self.look(worker) {
            life.pid = pid;
            around.gauge.born(worker, pid);
        }
    }

    /// Whether a life has a program as its job, and the system has not executed it yet.
    pub fn waits_for_exec(&self, worker: WorkerId) -> bool {
        let waits =
            |life: &Life| life.role == Role::Parked && !life.jobs.is_empty() && !life.channel.is_left();
        self.lives.get(&worker).is_some_and(waits)
    }

    /// Whether a life has no process yet.
    pub fn is_unborn(&self, worker: WorkerId) -> bool {
        self.lives.get(&worker).is_some_and(|life| life.pid == 0)
    }

    /// The order by which a life begins.
    pub fn beginning(&self, worker: WorkerId) -> Order {
        let plan = self.plans.get(usize::from(worker.slot.pool));
        match worker.slot.index {
            // That slot has the template, which forks the others.
            0 => Order::Template(worker),
            _ if plan.is_some_and(|plan| plan.is_placed(worker)) => Order::Place(worker),
            _ => Order::Spawn(worker),
        }
    }

    /// The kernel's bounds for a life with a job of these limits, if they are new.
    pub fn bound(&mut self, worker: WorkerId, limits: &Limits) -> Option<Bounds> {
        let life = self.lives.get_mut(&worker)?;
        let before = std::mem::replace(&mut life.bounds, Bounds::of(limits));
        (life.bounds != before).then_some(life.bounds)
    }

    /// Tells a worker to end one of its jobs.
    pub fn cancel(&mut self, worker: WorkerId, job: &JobId, why: &str) {
        self.tell(worker, &ToWorker::Cancel(Cancel { job: job.as_str().into(), why: why.into() }));
    }

    /// Answers the call with this number with a whole frame.
    pub fn reply(&mut self, worker: WorkerId, n: u64, frame: Vec<u8>) {
        if let Some(life) = self.lives.get_mut(&worker) {
            life.calls.end(n);
            life.channel.send(frame);
            self.served.insert(worker);
            self.unsent.insert(worker);
        }
    }

    fn tell(&mut self, worker: WorkerId, frame: &ToWorker<'_>) {
        if let Some(life) = self.lives.get_mut(&worker) {
            life.channel.say(frame);
            self.unsent.insert(worker);
        }
    }
}

fn say_run(
    channel: &mut super::channel::Channel,
    job: &Job,
    (fence, retries): (Fence, u32),
    limits: Limits,
    (grace, cwd): (Duration, Option<String>),
) -> Result<(), Outcome> {
    let Payload::Data(Bytes(bytes)) = &job.payload else { return Err(Outcome::UnknownClass) };
    // A put of such a job is refused, but other clients of a Redis can put one.
    if bytes.len() > NewJob::DATA_MAX {
        let message =
            format!("its data has {} bytes; a worker can be sent {}", bytes.len(), NewJob::DATA_MAX);
        return Err(Outcome::FailedForGood(Failure { group: "too large".into(), message, trace: None }));
    }
    let text = one_line(bytes);
    let data = if bytes.is_empty() { Some(RawValue::NULL) } else { serde_json::from_slice(&text).ok() };
    let raw = data.is_none().then(|| raw(bytes));
    let run = ToWorker::Run(Run {
        job: worker::Job {
            id: job.id.as_str().into(),
            fence: fence.0,
            class: job.class.as_str().into(),
            queue: job.queue.as_str().into(),
            data,
            raw,
            attempt: job.attempt,
            retries: Some(retries),
            priority: job.priority,
            tags: job.tags.clone(),
            time_limit: limits.time.map(|limit| limit.as_secs_f64()),
            soft_time_limit: limits.soft_time.map(|limit| limit.as_secs_f64()),
            grace: Some(grace.as_secs_f64()),
            cwd,
        },
    });
    // Other names than its data, too, can be longer than a put allows.
    channel.say_run(&run, &job.id).map_err(|size| {
        let message = format!("it has {size} bytes with its names; a worker can be sent {FRAME_MAX}");
        Outcome::FailedForGood(Failure { group: "too large".into(), message, trace: None })
    })
}

/// Data as text, unless base64 is shorter: then it fits into a frame, however many escapes the text would need.
fn raw(bytes: &[u8]) -> Raw {
    let b64 = STANDARD.encode(bytes);
    match std::str::from_utf8(bytes) {
        // The object around base64 has 8 bytes more than a string has.
        Ok(text) if serde_json::to_string(text).is_ok_and(|json| json.len() <= b64.len() + 8) => {
            Raw::Text(text.to_owned())
        }
        Ok(_) | Err(_) => Raw::Base64 { b64 },
    }
}

/// The text exactly as it was put, except that a newline between two JSON tokens becomes another white space: a frame
/// is one line. JSON allows no newline within a string.
fn one_line(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !bytes.contains(&b'\n') {
        return bytes.into();
    }
    bytes.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }).collect::<Vec<u8>>().into()
}

/// The data as a sealed file in memory: there is no pipe to feed, and the program can seek in it but not change it.
fn stdin(data: &Bytes) -> io::Result<Option<OwnedFd>> {
    use nix::fcntl::{FcntlArg, SealFlag, fcntl};
    if data.0.is_empty() {
        return Ok(None);
    }
    let mut file =
        File::from(memfd_create("taskvisor-stdin", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
    file.write_all(&data.0)?;
    // The program gets this very descriptor, and reads on from its position.
    io::Seek::rewind(&mut file)?;
    let seals =
        SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(Some(file.into()))
}

fn no_sandbox(error: &io::Error) -> Outcome {
    Outcome::CannotBegin(format!("failed to make a directory for it: {error}"))
}

/// What fails here is never the job's fault: it waits a moment, unspent.
fn cannot_assign(job: &JobId, error: &io::Error) -> Outcome {
    const SHORT: [i32; 6] =
        [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS, libc::ENOSPC, libc::EAGAIN];
    if error.raw_os_error().is_some_and(|errno| SHORT.contains(&errno)) {
        tracing::warn!(%job, %error, "failed to hand a job to its worker; it waits a second");
        return Outcome::Snoozed(Duration::from_secs(1));
    }
    Outcome::CannotBegin(format!("failed to hand the job to its worker: {error}"))
}
