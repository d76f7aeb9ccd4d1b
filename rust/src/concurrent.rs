//! Many jobs at a time in one process, as tasks of one thread.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet, LocalSet};

use crate::blocking::{Finished, done, ended, hello, result};
use crate::job::{Facts, facts};
use crate::pipe::answered;
use crate::protocol::{self, Call, Done, Empty, Outcome, Said, ToWorker, decode, encode};
use crate::verbs::{Ask, verbs};
use crate::{Class, End, sys};

type Answered = Result<Box<RawValue>, End>;
type Running = Pin<Box<dyn Future<Output = Answered>>>;
type Handler = Rc<dyn Fn(AsyncJob) -> Running>;

/// A worker whose handlers are async functions, for the mode `coroutine`. A canceled job's future is dropped.
///
/// ```no_run
/// use std::time::Duration;
/// use taskvisor_worker::{AsyncJob, AsyncWorker, End};
///
/// async fn fetch(job: AsyncJob) -> Result<String, End> {
///     let url: String = job.data()?;
///     tokio::time::sleep(Duration::from_millis(10)).await;
///     job.log("fetched");
///     Ok(url)
/// }
///
/// fn main() -> std::process::ExitCode {
///     AsyncWorker::new().handle("web.Fetch", fetch).run()
/// }
/// ```
#[derive(Default)]
pub struct AsyncWorker {
    handlers: BTreeMap<String, Handler>,
    classes: BTreeMap<String, protocol::Class>,
}

/// A job in an async handler.
#[derive(Clone)]
pub struct AsyncJob {
    facts: Arc<Facts>,
    voice: Voice,
}

facts!(AsyncJob);
verbs!(AsyncJob, async, await);

impl AsyncJob {
    /// Reports its progress: a fraction from 0 to 1, and a line for people. `status` and `job show` have the latest.
    pub fn progress(&self, fraction: Option<f64>, message: &str) {
        self.voice.say(&self.facts.progress(fraction, message));
    }

    /// Adds a line to the job's log. Printed output cannot be told apart from that of other jobs.
    pub fn log(&self, text: &str) {
        self.voice.say(&self.facts.log(text));
    }

    /// Returns when the soft time limit of this attempt is over: time to save the work done. Never returns without such
    /// a limit.
    pub async fn nearly_over(&self) {
        let Some(limit) = self.facts.soft_time_limit else { return std::future::pending().await };
        loop {
            tokio::time::sleep(limit.saturating_sub(self.facts.ran())).await;
            // The process may have been stopped meanwhile.
            self.facts.learn(self.ask(Ask::stopped(&self.facts.id, self.facts.fence)).await);
            if self.facts.ran() >= limit {
                return;
            }
        }
    }

    /// Only [`AsyncJob::nearly_over`] can wait for an answer.
    fn ask_stopped(&self, _since: Duration) {}

    async fn ask(&self, ask: Ask) -> Answered {
        self.voice.call(ask.verb, &ask.args).await
    }
}

/// The means by which all tasks send frames.
#[derive(Clone)]
struct Voice {
    out: mpsc::UnboundedSender<Vec<u8>>,
    calls: Arc<Calls>,
}

#[derive(Default)]
struct Calls {
    last: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Answered>>>,
}

impl Calls {
    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Answered>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Voice {
    fn say(&self, frame: &Said<'_>) {
        let mut line = Vec::new();
        encode(frame, &mut line);
        self.out.send(line).ok();
    }

    async fn call(&self, verb: &str, args: &str) -> Answered {
        let n = self.calls.last.fetch_add(1, Ordering::Relaxed);
        let (answer, waits) = oneshot::channel();
        self.calls.waiting().insert(n, answer);
        let args: &RawValue = serde_json::from_str(args)?;
        self.say(&Said::Call(Call { n, verb: verb.into(), args }));
        waits.await?
    }
}

impl AsyncWorker {
    /// A worker without handlers.
    pub fn new() -> AsyncWorker {
        AsyncWorker::default()
    }

    /// Runs jobs of this class by `handler`; its result is kept with the job, as JSON. `class` is a name, or a
    /// [`Class`] with settings.
    ///
    /// # Panics
    ///
    /// If the name is not valid for a class.
    #[track_caller]
    pub fn handle<T: Serialize, F>(
        mut self,
        class: impl Into<Class>,
        handler: impl Fn(AsyncJob) -> F + 'static,
    ) -> AsyncWorker
    where
        F: Future<Output = Result<T, End>> + 'static,
    {
        let Class { name, settings } = class.into();
        let handler = move |job| -> Running {
            let running = handler(job);
            Box::pin(async move { result(running.await?) })
        };
        self.handlers.insert(name.clone(), Rc::new(handler));
        self.classes.insert(name, settings);
        self
    }

    /// Runs jobs until the supervisor stops the worker, on a runtime of its own. Without a supervisor it fails with a
    /// message.
    pub fn run(self) -> ExitCode {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        ended(runtime.and_then(|runtime| {
            let stream = sys::channel()?;
            LocalSet::new().block_on(&runtime, self.serve(stream))
        }))
    }

    async fn serve(self, stream: std::os::unix::net::UnixStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let (reader, writer) = tokio::net::UnixStream::from_std(stream)?.into_split();
        let (out, lines) = mpsc::unbounded_channel();
        let writing = tokio::task::spawn_local(write(writer, lines));
        let voice = Voice { out, calls: Arc::default() };
        voice.say(&Said::Hello(hello(self.classes, false)));
        voice.say(&Said::Ready(Empty {}));
        let mut tasks =
            Tasks { voice, handlers: self.handlers, set: JoinSet::new(), running: HashMap::new() };
        let mut reader = BufReader::with_capacity(64 << 10, reader);
        let (mut line, mut leaving) = (Vec::new(), false);
        while !(leaving && tasks.running.is_empty()) {
            tokio::select! {
                read = reader.read_until(b'\n', &mut line) => {
                    if read? == 0 {
                        return Ok(());
                    }
                    leaving |= tasks.told(&line)?;
                    line.clear();
                }
                Some(ended) = tasks.set.join_next_with_id(), if !tasks.set.is_empty() => tasks.ended(ended),
            }
        }
        drop(tasks);
        writing.await.map_err(io::Error::other)
    }
}

/// The running jobs.
struct Tasks {
    voice: Voice,
    handlers: BTreeMap<String, Handler>,
    set: JoinSet<Finished>,
    running: HashMap<tokio::task::Id, (Arc<Facts>, AbortHandle)>,
}

impl Tasks {
    /// Handles a line. Gives whether no more jobs come.
    fn told(&mut self, line: &[u8]) -> io::Result<bool> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(false);
        }
        match decode::<ToWorker<'_>>(line).map_err(io::Error::other)? {
            ToWorker::Run(run) => self.start(Facts::new(run.job).map_err(io::Error::other)?),
            ToWorker::Cancel(cancel) => {
                let mut running = self.running.values();
                if let Some((_, task)) = running.find(|(facts, _)| facts.id == cancel.job) {
                    task.abort();
                }
            }
            ToWorker::Reply(reply) => {
                if let Some(waits) = self.voice.calls.waiting().remove(&reply.n) {
                    waits.send(answered(reply.ok, reply.error)).ok();
                }
            }
            ToWorker::Ping(_) => self.voice.say(&Said::Pong(Empty {})),
            ToWorker::Shutdown(_) => return Ok(true),
        }
        Ok(false)
    }

    fn start(&mut self, facts: Facts) {
        let facts = Arc::new(facts);
        let job = AsyncJob { facts: facts.clone(), voice: self.voice.clone() };
        let handler = self.handlers.get(&facts.class).cloned();
        let task = self.set.spawn_local(async move {
            match handler {
                Some(handler) => Some(handler(job).await),
                None => None,
            }
        });
        self.running.insert(task.id(), (facts, task));
    }

    fn ended(&mut self, ended: Result<(tokio::task::Id, Finished), tokio::task::JoinError>) {
        let (id, finished) = match ended {
            Ok((id, finished)) => (id, Ok(finished)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some((facts, _)) = self.running.remove(&id) else { return };
        match finished {
            Ok(finished) => self.voice.say(&Said::Done(done(&facts.id, facts.fence, &finished))),
            Err(error) if error.is_cancelled() => {
                let (job, outcome) = (facts.id.as_str().into(), Outcome::Canceled);
                let (fence, result, error, after, next) = (facts.fence, None, None, None, None);
                let left = Vec::new();
                self.voice.say(&Said::Done(Done {
                    job,
                    fence,
                    outcome,
                    result,
                    error,
                    after,
                    next,
                    left,
                    cpu: None,
                }));
            }
            Err(error) => {
                let finished = Some(Err(End::of_panic(&*error.into_panic())));
                self.voice.say(&Said::Done(done(&facts.id, facts.fence, &finished)));
            }
        }
    }
}

/// Sends the collected lines together.
async fn write(mut writer: tokio::net::unix::OwnedWriteHalf, mut lines: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(mut gathered) = lines.recv().await {
        while let Ok(line) = lines.try_recv() {
            gathered.extend(line);
        }
        if writer.write_all(&gathered).await.is_err() {
            return;
        }
    }
}
