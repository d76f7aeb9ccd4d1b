//! One life: its channel, its output, its jobs, and what its frames mean.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::warn;

use super::calls::Calls;
use super::channel::Channel;
use super::gauge::{Entry, Found, Gauge};
use super::meaning::{greeted, outcome};
use super::orphans::ChildTracker;
use super::output::{Output, Printed, Sink, Stream, Taken};
use super::plan::{Plan, Role};
use super::sandbox::Sandboxes;
use super::weight::Tree;
use crate::log::Outputs;
use crate::model::{Bounds, Classes, Fence, Instant, Job, JobId, Outcome, Progress, WorkerId, cut, size};
use crate::wire::worker::{self, Done, Said, decode};

/// What a child says, in our words.
#[derive(Debug)]
pub enum WorkerEvent {
    /// It takes jobs.
    Ready(WorkerId),
    /// It, or its template, knows these classes.
    Knows(u16, Arc<Classes>),
    /// A job has ended, and how.
    Finished(WorkerId, JobEnd),
    /// How far a job has come.
    Progress {
        /// The job that runs.
        job: JobId,
        /// The number of its lease.
        fence: Fence,
        /// What its worker says.
        progress: Progress,
    },
    /// It wants something; the answer goes to [`super::Children::reply`].
    Call {
        /// The worker that asks.
        worker: WorkerId,
        /// The number of the call, for the answer.
        n: u64,
        /// What it asks for.
        verb: String,
        /// The arguments, as JSON.
        args: String,
    },
    /// It broke the protocol: nothing it says counts any more.
    Faulty(WorkerId, String),
    /// It takes too much.
    Found(Found),
}

/// The end of a job as its process has it: its last word, and what it left to see.
#[derive(Debug)]
pub struct JobEnd {
    /// The job that ended.
    pub job: Arc<Job>,
    /// By which right.
    pub fence: Fence,
    /// What was said of it; None = nothing: a crash.
    pub outcome: Option<Outcome>,
    /// The last of its stderr.
    pub stderr_tail: String,
    /// Bytes of output that are not in the log.
    pub output_dropped: u64,
    /// Answers when the job's output is written, if it printed anything, with the bytes that could not be.
    pub written: Option<oneshot::Receiver<u64>>,
    /// Processes it left behind in a worker that lives on, in words.
    pub left: Vec<String>,
    /// CPU time that it took, as its worker says.
    pub cpu: Option<Duration>,
}

/// How far a worker has come with its first words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    /// `hello` is to come.
    Silent,
    /// `ready` is to come.
    Greeted,
    /// All said, or nothing to be said.
    Ready,
}

/// A life the keeper told us of.
pub(super) struct Life {
    pub(super) pid: i32,
    pub(super) role: Role,
    pub(super) channel: Channel,
    pub(super) output: Output,
    pub(super) greeting: Handshake,
    pub(super) jobs: Vec<Running>,
    /// What it printed while it had no job.
    pub(super) stray: Printed,
    /// What it has asked for and is not answered yet.
    pub(super) calls: Calls,
    /// Words on jobs that are not here, since the last one on a job that is.
    strangers: u32,
    /// The latest fault of the application that it warned of, for `status`.
    pub(super) warning: Option<String>,
    /// It broke the protocol: no word of it counts any more.
    pub(super) faulty: bool,
    /// When its channel was found closed.
    pub(super) closed: Option<Instant>,
    /// What the kernel was last told to keep for it.
    pub(super) bounds: Bounds,
    /// Its children, once it takes jobs, in a pool where a job can leave some.
    pub(super) brood: Option<ChildTracker>,
}

/// A job in a life.
pub(super) struct Running {
    pub(super) job: Arc<Job>,
    pub(super) fence: Fence,
    pub(super) printed: Printed,
    /// Its entry with the gauge, if it has limits.
    pub(super) gauged: Option<Entry>,
}

/// What is around a life while it is looked at.
pub(super) struct LifeContext<'a> {
    pub(super) worker: WorkerId,
    pub(super) plan: &'a Plan,
    pub(super) logs: &'a Outputs,
    pub(super) gauge: &'a Gauge,
    /// The most output kept of one attempt.
    pub(super) cap: u64,
    pub(super) buffer: &'a mut [u8],
    pub(super) sandboxes: &'a mut Sandboxes,
}

impl Life {
    pub(super) fn new(pid: i32, role: Role, channel: Channel, output: Output) -> Life {
        let greeting = match role {
            Role::Parked | Role::Child => Handshake::Ready,
            Role::Worker | Role::Template => Handshake::Silent,
        };
        let (jobs, stray) = (Vec::new(), Printed::default());
        let (calls, strangers, warning, faulty, closed, brood) =
            (Calls::default(), 0, None, false, None, None);
        let bounds = Bounds::default();
        Life {
            pid,
            role,
            channel,
            output,
            greeting,
            jobs,
            stray,
            calls,
            strangers,
            warning,
            faulty,
            closed,
            bounds,
            brood,
        }
    }

    /// Takes one chunk off a pipe, or all that is in both: it belongs to the job, if that is the only one it can have.
    pub(super) fn read_output(&mut self, which: Option<Stream>, around: &mut LifeContext<'_>) -> Taken {
        let LifeContext { worker, plan, logs, cap, buffer, .. } = around;
        let (worker, cap, pool) = (*worker, *cap, plan.settings.name.as_str());
        let mut sink = match self.jobs.first_mut().filter(|_| plan.one_at_a_time()) {
            Some(running) => {
                Sink { logs, worker, pool, job: Some(&running.job), printed: &mut running.printed, cap }
            }
            None => Sink { logs, worker, pool, job: None, printed: &mut self.stray, cap },
        };
        match which {
            Some(stream) => self.output.take(stream, buffer, &mut sink),
            None => {
                self.output.drain(buffer, &mut sink);
                Taken::Nothing
            }
        }
    }

    /// Turns the whole lines that have come into words.
    pub(super) fn hear(&mut self, around: &mut LifeContext<'_>, words: &mut Vec<WorkerEvent>) {
        if self.faulty || self.role == Role::Parked || self.channel.failed().is_some() {
            return;
        }
        // The channel is taken out so that a line can be read in place while its job is looked up here.
        let mut lines = std::mem::take(&mut self.channel.inbox);
        let result = lines.each(|line| {
            let frame = decode(line).map_err(|bad| cut(bad.to_string(), LONGEST_WHY))?;
            self.frame(around, frame, words)?;
            Ok(if self.is_served() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        });
        self.channel.inbox = lines;
        if let Err(why) = result {
            self.faulty = true;
            words.push(WorkerEvent::Faulty(around.worker, why));
        }
    }

    fn frame(
        &mut self,
        around: &mut LifeContext<'_>,
        frame: Said<'_>,
        words: &mut Vec<WorkerEvent>,
    ) -> Result<(), String> {
        let worker = around.worker;
        match (self.greeting, frame) {
            (Handshake::Silent, Said::Hello(hello)) => {
                self.greeting = Handshake::Greeted;
                let classes = greeted(&hello, self.role)?;
                words.extend(classes.map(|classes| WorkerEvent::Knows(worker.slot.pool, Arc::new(classes))));
            }
            (Handshake::Silent, _) => return Err("its first frame is not 'hello'".into()),
            (_, Said::Hello(_)) => return Err("it says 'hello' twice".into()),
            (Handshake::Greeted, Said::Ready(_)) => {
                self.greeting = Handshake::Ready;
                self.is_light(around.plan)?;
                // What a life of one job leaves behind ends with it, by the keeper.
                if around.plan.one_at_a_time() && !around.plan.one_job_a_life() {
                    self.brood = Some(ChildTracker::new(self.pid));
                }
                words.push(WorkerEvent::Ready(worker));
            }
            (_, Said::Ready(_)) => return Err("it says 'ready' twice".into()),
            (_, Said::Pong(_)) => {}
            (_, Said::Warning(warning)) => self.warned(around, &warning.text),
            (_, Said::Call(call)) => {
                let args = call.args.get();
                self.calls.begin(call.n, &call.verb, args.len());
                words.push(WorkerEvent::Call {
                    worker,
                    n: call.n,
                    verb: call.verb.chars().take(80).collect(),
                    args: args.to_owned(),
                });
            }
            (_, Said::Log(log)) => words.extend(self.log(around, &log.job, &log.text)),
            (_, Said::Progress(progress)) => words.extend(self.progress(progress)),
            (_, Said::Done(done)) => {
                words.extend(self.done(around, done)?.map(|end| WorkerEvent::Finished(worker, end)));
            }
        }
        Ok(())
    }

    /// A worker that is too heavy for its jobs before it has any would see all of them killed. What a template has is
    /// shared by its forks.
    fn is_light(&self, plan: &Plan) -> Result<(), String> {
        let Some(limit) = plan.settings.limits.memory else { return Ok(()) };
        let (who, sharers) = match self.role {
            Role::Template => ("each fork of it takes", u64::from(plan.settings.workers) + 1),
            Role::Worker | Role::Parked | Role::Child => ("it takes", 1),
        };
        let tree = Tree::of(self.pid, usize::MAX);
        if tree.resident() / sharers <= limit || tree.memory() / sharers <= limit {
            return Ok(());
        }
        let (taken, limit) = (size(tree.memory() / sharers), size(limit));
        Err(format!("{who} {taken} of memory before its first job, and limits.memory of its pool is {limit}"))
    }

    /// Whether it may go on: one that asks for more than it waits for is heard again when some of it is answered.
    pub(super) fn is_served(&self) -> bool {
        !self.calls.are_full() && !self.channel.is_clogged()
    }

    fn find(&self, job: &str) -> Option<usize> {
        self.jobs.iter().position(|running| running.job.id.as_str() == job)
    }

    fn log(&mut self, around: &LifeContext<'_>, job: &str, text: &str) -> Option<WorkerEvent> {
        let running = self.find(job).and_then(|index| self.jobs.get_mut(index))?;
        let Running { job, printed, .. } = running;
        let LifeContext { worker, plan, logs, cap, .. } = *around;
        let pool = plan.settings.name.as_str();
        let mut sink = Sink { logs, worker, pool, job: Some(job), printed, cap };
        sink.keep(Stream::Err, format!("{text}\n").as_bytes());
        running.overflow(worker)
    }

    /// Kept for `status`; the log has the first of them.
    fn warned(&mut self, around: &LifeContext<'_>, text: &str) {
        let text: String = text.chars().take(LONGEST_WARNING).collect();
        if self.warning.is_none() {
            let pool = around.plan.settings.name.as_str();
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            warn!(worker = %around.worker, pool, "a worker warns: {line}");
        }
        self.warning = Some(text);
    }

    fn progress(&self, said: worker::Progress<'_>) -> Option<WorkerEvent> {
        let running = &self.jobs[self.find(&said.job)?];
        let fraction = said.fraction.filter(|part| part.is_finite()).map(|part| part.clamp(0.0, 1.0));
        let message = said.message.map(|text| text.chars().take(LONGEST_MESSAGE).collect());
        Some(WorkerEvent::Progress {
            job: running.job.id.clone(),
            fence: running.fence,
            progress: Progress { fraction, message },
        })
    }

    /// A word on a job that is not here (any more) is dropped: it may be late.
    fn done(&mut self, around: &mut LifeContext<'_>, done: Done<'_>) -> Result<Option<JobEnd>, String> {
        let here = self.find(&done.job).filter(|&index| self.jobs[index].fence.0 == done.fence);
        let Some(index) = here else {
            return self.strange(around, &done).map(|()| None);
        };
        self.strangers = 0;
        let outcome = outcome(&done)?;
        if around.plan.one_at_a_time() {
            self.read_output(None, around);
        }
        let mut end = self.jobs.remove(index).end(Some(outcome), around.logs);
        if let (true, Some(dir)) = (around.plan.one_at_a_time(), around.plan.sandbox(around.worker)) {
            around.sandboxes.clear(&dir).ok();
        }
        if let Some(most) = around.plan.settings.recycle.memory {
            around.gauge.weigh(around.worker, self.pid, most);
        }
        if let Some(brood) = &mut self.brood {
            end.left = brood.leftovers(around.plan.outfit.leftovers);
        }
        end.cpu = done.cpu.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let told = done.left.iter().take(MOST_LEFT);
        end.left.extend(told.map(|what| what.chars().take(LONGEST_MESSAGE).collect::<String>()));
        Ok(Some(end))
    }
}

impl Life {
    /// It speaks of a job that is not here. That may be late, now and then; one that does nothing else would fill the log.
    fn strange(&mut self, around: &LifeContext<'_>, done: &Done<'_>) -> Result<(), String> {
        self.strangers += 1;
        if self.strangers > STRANGERS {
            return Err(format!("it says 'done' of {STRANGERS} jobs it does not have, one after the other"));
        }
        let (worker, job) = (around.plan.name(around.worker), in_short(&done.job));
        warn!(worker, job, fence = done.fence, "a worker says 'done' of a job it does not have");
        Ok(())
    }
}

/// As much of a word of a worker as is shown.
fn in_short(word: &str) -> String {
    cut(word.to_owned(), 80)
}

impl Running {
    /// What is to be said, once, when it has printed more than it may.
    pub(super) fn overflow(&mut self, worker: WorkerId) -> Option<WorkerEvent> {
        let excess = self.printed.overflow()?;
        Some(WorkerEvent::Found(Found::Exceeded {
            worker,
            job: self.job.id.clone(),
            fence: self.fence,
            excess,
        }))
    }

    /// What is left of it.
    pub(super) fn end(self, outcome: Option<Outcome>, logs: &Outputs) -> JobEnd {
        drop(self.gauged);
        let written = self.printed.has_written().then(|| logs.end(&self.job.id));
        JobEnd {
            stderr_tail: self.printed.tail(),
            output_dropped: self.printed.dropped(),
            job: self.job,
            fence: self.fence,
            outcome,
            written,
            left: Vec::new(),
            cpu: None,
        }
    }
}

/// So many words on jobs that are not here are passed over, while none comes on one that is.
const STRANGERS: u32 = 100;

/// The longest reason for a fault, in bytes: it may repeat what was said.
const LONGEST_WHY: usize = 500;

/// The longest message of a progress that is kept, and the longest warning, in characters.
const LONGEST_MESSAGE: usize = 1000;
const LONGEST_WARNING: usize = 8000;

/// The most things that a worker can say a job has left in it.
const MOST_LEFT: usize = 100;
