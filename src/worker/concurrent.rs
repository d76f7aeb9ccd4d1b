//! Many jobs at a time in one process, as tasks of one thread.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet, LocalSet};

use super::blocking::{done, hello};
use super::end::End;
use super::job::{Facts, Put, facts, ids};
use super::pipe::{answered, channel};
use crate::wire::worker::{Call, Done, Empty, Log, Outcome, Progress, Said, Told, decode, encode};

type Finished = Option<Result<Box<RawValue>, End>>;
type Answered = Result<Box<RawValue>, End>;
type Running = Pin<Box<dyn Future<Output = Result<Box<RawValue>, End>>>>;
type Handler = Rc<dyn Fn(AsyncJob) -> Running>;

/// A worker whose handlers are async functions. Start it with `-m coroutine`; a canceled job's future is dropped.
///
/// ```no_run
/// use std::time::Duration;
/// use taskvisor::worker::{AsyncJob, AsyncWorker, End};
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
}

/// A job in an async handler.
#[derive(Clone)]
pub struct AsyncJob {
    facts: Arc<Facts>,
    voice: Voice,
}

facts!(AsyncJob);

impl AsyncJob {
    /// Says how far it has come: a share from 0 to 1, a line for people.
    pub fn progress(&self, fraction: Option<f64>, message: &str) {
        let message = (!message.is_empty()).then(|| message.to_owned());
        self.voice.say(&Said::Progress(Progress { job: self.id().into(), fraction, message }));
    }

    /// Adds a line to the job's log. What is printed cannot be told from what other jobs print.
    pub fn log(&self, text: &str) {
        self.voice.say(&Said::Log(Log { job: self.id().into(), text: text.into() }));
    }

    /// Queues a job, and gives its id once it cannot be lost.
    pub async fn put(&self, job: &Put) -> Result<String, End> {
        let args = serde_json::json!({ "jobs": [job] }).to_string();
        ids(&self.voice.call("put", &args).await?)
    }
}

/// What all tasks speak with.
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

impl Voice {
    fn say(&self, frame: &Said<'_>) {
        let mut line = Vec::new();
        encode(frame, &mut line);
        self.out.send(line).ok();
    }

    async fn call(&self, verb: &str, args: &str) -> Result<Box<RawValue>, End> {
        let n = self.calls.last.fetch_add(1, Ordering::Relaxed);
        let (answer, waits) = oneshot::channel();
        self.calls.waiting.lock().await.insert(n, answer);
        let args: &RawValue = serde_json::from_str(args)?;
        self.say(&Said::Call(Call { n, verb: verb.into(), args }));
        waits.await?
    }
}

impl AsyncWorker {
    /// Without a handler yet.
    pub fn new() -> AsyncWorker {
        AsyncWorker::default()
    }

    /// Runs jobs of this class by `handler`; what it gives back is kept with the job, as JSON.
    pub fn handle<T: Serialize, F>(
        mut self,
        class: &str,
        handler: impl Fn(AsyncJob) -> F + 'static,
    ) -> AsyncWorker
    where
        F: Future<Output = Result<T, End>> + 'static,
    {
        let handler = move |job| -> Running {
            let running = handler(job);
            Box::pin(async move { Ok(to_raw_value(&running.await?)?) })
        };
        self.handlers.insert(class.into(), Rc::new(handler));
        self
    }

    /// Runs jobs until the supervisor wants no more, on a runtime of its own. Without a supervisor it says so and fails.
    pub fn run(self) -> ExitCode {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let served = runtime.and_then(|runtime| {
            let stream = channel()?;
            LocalSet::new().block_on(&runtime, self.serve(stream))
        });
        match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        }
    }

    async fn serve(self, stream: std::os::unix::net::UnixStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let (reader, writer) = tokio::net::UnixStream::from_std(stream)?.into_split();
        let (out, lines) = mpsc::unbounded_channel();
        let writing = tokio::task::spawn_local(write(writer, lines));
        let voice = Voice { out, calls: Arc::default() };
        voice.say(&Said::Hello(hello(self.handlers.keys())));
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
                    leaving |= tasks.told(&line).await?;
                    line.clear();
                }
                Some(ended) = tasks.set.join_next_with_id(), if !tasks.set.is_empty() => tasks.ended(ended),
            }
        }
        drop(tasks);
        writing.await.map_err(io::Error::other)
    }
}

/// The jobs under way.
struct Tasks {
    voice: Voice,
    handlers: BTreeMap<String, Handler>,
    set: JoinSet<Finished>,
    running: HashMap<tokio::task::Id, (Arc<Facts>, AbortHandle)>,
}

impl Tasks {
    /// Gives whether no more jobs come.
    async fn told(&mut self, line: &[u8]) -> io::Result<bool> {
        match decode::<Told<'_>>(line).map_err(io::Error::other)? {
            Told::Run(run) => self.start(Facts::new(run.job).map_err(io::Error::other)?),
            Told::Cancel(cancel) => {
                let mut running = self.running.values();
                if let Some((_, task)) = running.find(|(facts, _)| facts.id == cancel.job) {
                    task.abort();
                }
            }
            Told::Reply(reply) => {
                if let Some(waits) = self.voice.calls.waiting.lock().await.remove(&reply.n) {
                    waits.send(answered(reply.ok, reply.error)).ok();
                }
            }
            Told::Ping(_) => self.voice.say(&Said::Pong(Empty {})),
            Told::Shutdown(_) => return Ok(true),
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
        let (id, result) = match ended {
            Ok((id, result)) => (id, Ok(result)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some((facts, _)) = self.running.remove(&id) else { return };
        match result {
            Ok(result) => self.voice.say(&Said::Done(done(&facts.id, facts.fence, &result))),
            Err(error) if error.is_cancelled() => {
                let (job, outcome) = (facts.id.as_str().into(), Outcome::Canceled);
                let (fence, result, error, after, next) = (facts.fence, None, None, None, None);
                self.voice.say(&Said::Done(Done { job, fence, outcome, result, error, after, next }));
            }
            Err(error) => {
                let result = Some(Err(End::of_panic(&*error.into_panic())));
                self.voice.say(&Said::Done(done(&facts.id, facts.fence, &result)));
            }
        }
    }
}

/// Sends what has gathered, at once.
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
