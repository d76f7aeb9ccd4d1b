//! Workers that run one job at a time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::job::Facts;
use crate::pipe::Pipe;
use crate::protocol::{self, Done, Empty, Hello, Outcome, PROTOCOL, Said, ToWorker, decode};
use crate::{Class, End, Job, sys, template};

type Handler = Box<dyn FnMut(&Job<'_>) -> Result<Box<RawValue>, End>>;

/// The end of a handler; None = there is no handler for the class.
pub(crate) type Finished = Option<Result<Box<RawValue>, End>>;

/// A worker with its handlers, for the modes `prefork` and `fork`.
///
/// In mode `fork` its process makes the handlers once and then forks a child for each job: what they hold is loaded
/// once and shared. Make no threads before [`Worker::run`]: a child has only the thread that forks, and a lock held by
/// another thread stays locked in it.
#[derive(Default)]
pub struct Worker {
    handlers: BTreeMap<String, Handler>,
    classes: BTreeMap<String, protocol::Class>,
}

impl Worker {
    /// A worker without handlers.
    pub fn new() -> Worker {
        Worker::default()
    }

    /// Runs jobs of this class by `handler`; its result is kept with the job, as JSON. `class` is a name, or a
    /// [`Class`] with settings.
    ///
    /// # Panics
    ///
    /// If the name is not valid for a class.
    #[track_caller]
    pub fn handle<T: Serialize>(
        mut self,
        class: impl Into<Class>,
        mut handler: impl FnMut(&Job<'_>) -> Result<T, End> + 'static,
    ) -> Worker {
        let Class { name, settings } = class.into();
        let handler = move |job: &Job<'_>| result(handler(job)?);
        self.handlers.insert(name.clone(), Box::new(handler));
        self.classes.insert(name, settings);
        self
    }

    /// Runs jobs until the supervisor stops the worker. Without a supervisor it fails with a message.
    pub fn run(mut self) -> ExitCode {
        let served = sys::channel().and_then(|channel| match sys::fork_requests() {
            Some(requests) => template::serve(&mut self, channel, requests),
            None => self.serve(channel),
        });
        ended(served)
    }

    fn serve(&mut self, channel: UnixStream) -> io::Result<()> {
        let pipe = RefCell::new(Pipe::new(channel));
        pipe.borrow_mut().say(&Said::Hello(self.hello(false)));
        pipe.borrow_mut().say(&Said::Ready(Empty {}));
        self.serve_jobs(&pipe, usize::MAX)
    }

    pub(crate) fn hello(&self, template: bool) -> Hello<'static> {
        hello(self.classes.clone(), template)
    }

    /// Runs jobs until `most` of them are done, the channel ends, or a job was asked to end.
    pub(crate) fn serve_jobs(&mut self, pipe: &RefCell<Pipe>, mut most: usize) -> io::Result<()> {
        while most > 0 {
            let Some(line) = pipe.borrow_mut().next()? else { return Ok(()) };
            match decode::<ToWorker<'_>>(&line).map_err(io::Error::other)? {
                ToWorker::Run(run) => {
                    let facts = Facts::new(run.job).map_err(io::Error::other)?;
                    let (id, fence) = (facts.id.clone(), facts.fence);
                    let before = sys::cpu_seconds();
                    let finished = self.run_job(pipe, facts);
                    // Its output belongs to this job.
                    io::stdout().flush().ok();
                    let cpu = Some(sys::cpu_seconds() - before);
                    let was_told = sys::forget_term();
                    let mut done = Done { cpu, ..done(&id, fence, &finished) };
                    if was_told && done.outcome == Outcome::Failed {
                        // It gave up because it was asked to: that is no failure of the job.
                        done.outcome = Outcome::Canceled;
                    }
                    pipe.borrow_mut().say(&Said::Done(done));
                    if was_told {
                        return Ok(());
                    }
                    most -= 1;
                }
                ToWorker::Ping(_) => pipe.borrow_mut().say(&Said::Pong(Empty {})),
                ToWorker::Shutdown(_) => return Ok(()),
                // A job that runs alone is ended by signals.
                ToWorker::Cancel(_) | ToWorker::Reply(_) => {}
            }
        }
        Ok(())
    }

    fn run_job(&mut self, pipe: &RefCell<Pipe>, facts: Facts) -> Finished {
        let handler = self.handlers.get_mut(&facts.class)?;
        let home = std::env::current_dir();
        if let Some(dir) = &facts.cwd
            && let Err(error) = std::env::set_current_dir(dir)
        {
            return Some(Err(error.into()));
        }
        let asked = Cell::new(std::time::Instant::now());
        let job = Job { facts, pipe, asked };
        let result = catch_unwind(AssertUnwindSafe(|| handler(&job)));
        if let (Some(_), Ok(home)) = (&job.facts.cwd, home) {
            std::env::set_current_dir(home).ok();
        }
        Some(result.unwrap_or_else(|panic| Err(End::of_panic(&*panic))))
    }
}

/// A handler's result as JSON. A result that cannot be written as JSON fails the job for good: another run would only
/// repeat what it did.
pub(crate) fn result<T: Serialize>(value: T) -> Result<Box<RawValue>, End> {
    to_raw_value(&value).map_err(|error| End::fail(format!("the result is no JSON: {error}")))
}

pub(crate) fn ended(served: io::Result<()>) -> ExitCode {
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) fn hello(classes: BTreeMap<String, protocol::Class>, template: bool) -> Hello<'static> {
    let sdk = concat!("rust ", env!("CARGO_PKG_VERSION")).into();
    Hello { protocol: PROTOCOL, sdk, classes: Some(classes), template }
}

pub(crate) fn done<'a>(id: &'a str, fence: u64, finished: &'a Finished) -> Done<'a> {
    let ((outcome, error, after, next), result) = match finished {
        None => ((Outcome::UnknownClass, None, None, None), None),
        Some(Ok(result)) => ((Outcome::Complete, None, None, None), Some(&**result)),
        Some(Err(end)) => (end.clone().told(), end.result()),
    };
    Done { job: id.into(), fence, outcome, result, error, after, next, left: Vec::new(), cpu: None }
}
