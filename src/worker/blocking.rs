//! One job at a time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::end::End;
use super::job::{Facts, Job};
use super::pipe::{Pipe, channel};
use crate::wire::worker::{Class, Done, Empty, Hello, Outcome, PROTOCOL, Said, Told, decode};

type Handler = Box<dyn FnMut(&Job<'_>) -> Result<Box<RawValue>, End>>;

/// A worker with its handlers.
#[derive(Default)]
pub struct Worker {
    handlers: BTreeMap<String, Handler>,
}

impl Worker {
    /// Without a handler yet.
    pub fn new() -> Worker {
        Worker::default()
    }

    /// Runs jobs of this class by `handler`; what it gives back is kept with the job, as JSON.
    pub fn handle<T: Serialize>(
        mut self,
        class: &str,
        mut handler: impl FnMut(&Job<'_>) -> Result<T, End> + 'static,
    ) -> Worker {
        let handler = move |job: &Job<'_>| Ok(to_raw_value(&handler(job)?)?);
        self.handlers.insert(class.into(), Box::new(handler));
        self
    }

    /// Runs jobs until the supervisor wants no more. Without a supervisor it says so and fails.
    pub fn run(self) -> ExitCode {
        match channel().and_then(|stream| self.serve(stream)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        }
    }

    fn serve(mut self, stream: std::os::unix::net::UnixStream) -> io::Result<()> {
        let pipe = RefCell::new(Pipe::new(stream));
        pipe.borrow_mut().say(&Said::Hello(hello(self.handlers.keys())));
        pipe.borrow_mut().say(&Said::Ready(Empty {}));
        loop {
            let Some(line) = pipe.borrow_mut().next()? else { return Ok(()) };
            match decode::<Told<'_>>(&line).map_err(io::Error::other)? {
                Told::Run(run) => {
                    let facts = Facts::new(run.job).map_err(io::Error::other)?;
                    let (id, fence) = (facts.id.clone(), facts.fence);
                    let result = self.run_job(&pipe, facts);
                    // What it printed belongs to this job.
                    io::stdout().flush().ok();
                    pipe.borrow_mut().say(&Said::Done(done(&id, fence, &result)));
                }
                Told::Ping(_) => pipe.borrow_mut().say(&Said::Pong(Empty {})),
                Told::Shutdown(_) => return Ok(()),
                // One job at a time is ended by signals.
                Told::Cancel(_) | Told::Reply(_) => {}
            }
        }
    }

    /// None = no handler.
    fn run_job(&mut self, pipe: &RefCell<Pipe>, facts: Facts) -> Option<Result<Box<RawValue>, End>> {
        let handler = self.handlers.get_mut(&facts.class)?;
        let home = std::env::current_dir();
        if let Some(dir) = &facts.cwd
            && let Err(error) = std::env::set_current_dir(dir)
        {
            return Some(Err(error.into()));
        }
        let job = Job { facts, pipe };
        let result = catch_unwind(AssertUnwindSafe(|| handler(&job)));
        if let (Some(_), Ok(home)) = (&job.facts.cwd, home) {
            std::env::set_current_dir(home).ok();
        }
        Some(result.unwrap_or_else(|panic| Err(End::of_panic(&*panic))))
    }
}

pub(super) fn hello<'a>(classes: impl Iterator<Item = &'a String>) -> Hello<'static> {
    let classes = classes.map(|name| (name.clone(), Class::default())).collect();
    let sdk = concat!("rust ", env!("CARGO_PKG_VERSION")).into();
    Hello { protocol: PROTOCOL, sdk, classes: Some(classes), template: false }
}

pub(super) fn done<'a>(id: &'a str, fence: u64, result: &'a Option<Result<Box<RawValue>, End>>) -> Done<'a> {
    let ((outcome, error, after, next), result) = match result {
        None => ((Outcome::UnknownClass, None, None, None), None),
        Some(Ok(result)) => ((Outcome::Complete, None, None, None), Some(&**result)),
        Some(Err(end)) => (end.clone().told(), end.result()),
    };
    Done { job: id.into(), fence, outcome, result, error, after, next }
}
