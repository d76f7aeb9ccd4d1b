//! One life: its channel, its output, its jobs, and the meaning of its frames.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use super::calls::Calls;
use super::channel::Channel;
use super::gauge::{Entry, Found, Gauge};
use super::job_end::JobEnd;
use super::meaning::{greeted, outcome, unheld};
use super::orphans::ChildTracker;
use super::output::{Output, Printed, Sink, Stream, Taken};
use super::plan::{Plan, Role};
use super::sandbox::Sandboxes;
use super::told::Told;
use super::usage::process_and_waited;
use log::Outputs;
use model::{Bounds, Classes, Exit, Fence, Instant, Job, JobId, Outcome, Progress, WorkerId, cut};
use wire::worker::{self, Done, Said, decode};

/// A message of a child, in our types.
#[derive(Debug)]
pub enum WorkerEvent {
    /// The worker takes jobs.
    Ready(WorkerId),
    /// The worker, or its template, knows these classes.
    Knows(u16, Arc<Classes>),
    /// A job has ended, and how.
    Finished(WorkerId, JobEnd),
    /// Progress of a job.
    Progress {
        /// The job that runs.
        job: JobId,
        /// The number of its lease.
        fence: Fence,
        /// The progress that its worker reports.
        progress: Progress,
    },
    /// The worker calls a verb; the answer goes to [`super::Children::reply`].
    Call {
        /// The worker that calls.
        worker: WorkerId,
        /// The number of the call, for the answer.
        n: u64,
        /// The verb that it calls.
        verb: String,
        /// The arguments, as JSON.
        args: String,
    },
    /// It is to be replaced, and may end by itself: why.
    Leaving(WorkerId, String),
    /// It broke the protocol: its messages do not count any more.
    Faulty(WorkerId, String),
    /// It exceeds a limit.
    Found(Found),
    /// The job prints more than its log keeps.
    Floods(WorkerId, JobId),
}

/// Stage of a worker's first messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    /// `hello` is still to come.
    Silent,
    /// `ready` is still to come.
    Greeted,
    /// All first messages have come, or none are needed.
    Ready,
}

/// A life that the keeper has reported.
pub(super) struct Life {
    pub(super) pid: i32,
    pub(super) role: Role,
    pub(super) channel: Channel,
    pub(super) output: Output,
    pub(super) greeting: Handshake,
    pub(super) jobs: Vec<Running>,
    /// Output printed while it had no job.
    pub(super) stray: Printed,
    /// Its unanswered calls.
    pub(super) calls: Calls,
    /// Number of messages about unknown jobs since the last one about a known job.
    strangers: u32,
    /// What it has said of its application, for `status`.
    pub(super) told: Told,
    /// Its memory when it became ready, if it was more than its pool recycles at.
    pub(super) heavy: Option<u64>,
    /// Whether it broke the protocol: its messages do not count any more.
    pub(super) faulty: bool,
    /// When its channel was closed by the worker.
    pub(super) closed: Option<Instant>,
    /// The bounds last set at the kernel.
    pub(super) bounds: Bounds,
    /// Its children, once it takes jobs, in a pool where jobs can leave orphans.
    pub(super) brood: Option<ChildTracker>,
    /// How many jobs it was given.
    pub(super) taken: u64,
    /// CPU time that a worker had used, with its ended children, when it became ready.
    cpu_before: Option<Duration>,
}

/// A job in a life.
pub(super) struct Running {
    pub(super) job: Arc<Job>,
    pub(super) fence: Fence,
    pub(super) printed: Printed,
    /// Its entry at the gauge, if it has limits.
    pub(super) gauged: Option<Entry>,
}

/// The context of a life while it is handled.
pub(super) struct LifeContext<'a> {
    pub(super) worker: WorkerId,
    pub(super) plan: &'a Plan,
    pub(super) logs: &'a Outputs,
    pub(super) gauge: &'a Gauge,
    /// Limit of the output kept of one attempt, in bytes.
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
        let (calls, strangers, told, heavy, faulty, closed, brood) =
            (Calls::default(), 0, Told::default(), None, false, None, None);
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
            told,
            heavy,
            faulty,
            closed,
            bounds,
            brood,
            taken: 0,
            cpu_before: None,
        }
    }

    /// CPU time of the only job of a worker, which has ended so. What the worker used before each job nobody reads.
    pub(super) fn cpu_of_first(&self, exit: &Exit) -> Option<Duration> {
        let before = self.cpu_before.filter(|_| self.taken == 1)?;
        Some((exit.usage.user + exit.usage.system).saturating_sub(before))
    }

    /// Reads one chunk from a pipe, or all that is in both. The output belongs to the job if only one can have printed
    /// it.
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

    /// Turns the whole lines that have arrived into messages.
    pub(super) fn hear(&mut self, around: &mut LifeContext<'_>, words: &mut Vec<WorkerEvent>) {
        if self.faulty || self.role == Role::Parked || self.channel.failed().is_some() {
            return;
        }
        // The inbox is taken out of the channel, so that a line can be read in place while its job is looked up here.
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
                if let Some(unheld) =
                    classes.as_ref().and_then(|classes| unheld(classes, &around.plan.settings))
                {
                    self.warned(around, &unheld);
                }
                words.extend(classes.map(|classes| WorkerEvent::Knows(worker.slot.pool, Arc::new(classes))));
            }
            (Handshake::Silent, _) => return Err("its first frame is not 'hello'".into()),
            (_, Said::Hello(_)) => return Err("it says 'hello' twice".into()),
            (Handshake::Greeted, Said::Ready(_)) => {
                self.greeting = Handshake::Ready;
                self.is_light(around.plan)?;
                self.weighs_already(around);
                self.cpu_before = process_and_waited(self.pid)
                    .filter(|_| self.role == Role::Worker)
                    .map(|(process, waited)| process.cpu + waited);
                // In a life of one job, the keeper ends what the job leaves behind.
                if around.plan.one_at_a_time() && !around.plan.one_job_a_life() {
                    self.brood = Some(ChildTracker::new(self.pid));
                }
                words.push(WorkerEvent::Ready(worker));
            }
            (_, Said::Ready(_)) => return Err("it says 'ready' twice".into()),
            (_, Said::Pong(_)) => {}
            (_, Said::Warning(warning)) => self.warned(around, &warning.text),
            (_, Said::Preloaded(said)) => self.told.preload(&said.modules),
            (_, Said::Leaving(said)) => words.push(WorkerEvent::Leaving(worker, in_short(&said.why))),
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
            (_, Said::Log(log)) => words.extend(self.log(around, &log.job, &log.text).into_iter().flatten()),
            (_, Said::Progress(progress)) => words.extend(self.progress(progress)),
            (_, Said::Done(done)) => {
                words.extend(self.done(around, done)?.map(|end| WorkerEvent::Finished(worker, end)));
            }
        }
        Ok(())
    }

    /// Whether it may be read: a worker with too many calls is read again when some are answered.
    pub(super) fn is_served(&self) -> bool {
        !self.calls.are_full() && !self.channel.is_clogged()
    }

    fn find(&self, job: &str) -> Option<usize> {
        self.jobs.iter().position(|running| running.job.id.as_str() == job)
    }

    fn log(
        &mut self,
        around: &LifeContext<'_>,
        job: &str,
        text: &str,
    ) -> Option<impl Iterator<Item = WorkerEvent> + use<>> {
        let running = self.find(job).and_then(|index| self.jobs.get_mut(index))?;
        let Running { job, printed, .. } = running;
        let LifeContext { worker, plan, logs, cap, .. } = *around;
        let pool = plan.settings.name.as_str();
        let mut sink = Sink { logs, worker, pool, job: Some(job), printed, cap };
        sink.keep(Stream::Err, format!("{text}\n").as_bytes());
        Some(running.overflow(worker))
    }

    /// Keeps the warning for `status`; the log gets the first ones.
    fn warned(&mut self, around: &LifeContext<'_>, text: &str) {
        if self.told.warn(text) {
            around.log_warning(self.told.warning.as_deref().unwrap_or_default());
        }
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

    /// Handles the end of a job. A message about an unknown job is dropped: it may be late.
    fn done(&mut self, around: &mut LifeContext<'_>, done: Done<'_>) -> Result<Option<JobEnd>, String> {
        let here = self.find(&done.job).filter(|&index| self.jobs[index].fence.0 == done.fence);
        let Some(index) = here else {
            return self.strange(around, &done).map(|()| None);
        };
        self.strangers = 0;
        let outcome = outcome(&done)?;
        // What it printed before this frame may still be in the pipes.
        if around.plan.one_at_a_time() {
            self.read_output(None, around);
        }
        let mut end = self.jobs.remove(index).end(Some(outcome), around.logs);
        if let (true, Some(dir)) = (around.plan.one_at_a_time(), around.plan.sandbox(around.worker)) {
            // If that fails, the next job's `empty` tries it again and says why.
            around.sandboxes.clear(&dir).ok();
        }
        if let Some(most) = self.recycled_at(around.plan) {
            around.gauge.weigh(around.worker, self.pid, most);
        }
        if let Some(brood) = &mut self.brood {
            end.left = brood.leftovers(around.plan.spec.leftovers);
        }
        end.cpu = done.cpu.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let told = done.left.iter().take(MOST_LEFT);
        end.left.extend(told.map(|what| what.chars().take(LONGEST_MESSAGE).collect::<String>()));
        Ok(Some(end))
    }
}

impl Life {
    /// Handles a message about an unknown job. One may be late now and then; a worker that sends only such messages
    /// would fill the log.
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

/// The part of a worker's message that is shown.
fn in_short(word: &str) -> String {
    cut(word.to_owned(), 80)
}

impl Running {
    /// What to report of its output, each once: that some is dropped, and that it is more than its limit.
    pub(super) fn overflow(&mut self, worker: WorkerId) -> impl Iterator<Item = WorkerEvent> + use<> {
        let (job, fence) = (&self.job.id, self.fence);
        let floods = self.printed.begins_to_flood().then(|| WorkerEvent::Floods(worker, job.clone()));
        let over = self
            .printed
            .overflow()
            .map(|excess| WorkerEvent::Found(Found::Exceeded { worker, job: job.clone(), fence, excess }));
        floods.into_iter().chain(over)
    }

    /// The end of the job, from what is left here.
    pub(super) fn end(self, outcome: Option<Outcome>, logs: &Outputs) -> JobEnd {
        // First: from here on the gauge finds nothing of this job.
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
            in_worker: false,
        }
    }
}

/// How many messages about unknown jobs are ignored in a row.
const STRANGERS: u32 = 100;

/// The longest reason for a fault, in bytes: it may repeat a message.
const LONGEST_WHY: usize = 500;

/// The longest message of a progress that is kept, in characters.
const LONGEST_MESSAGE: usize = 1000;

/// Limit of the orphans of a job that a worker reports.
const MOST_LEFT: usize = 100;
