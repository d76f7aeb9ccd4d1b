//! The other end of the socket: one method per route.

use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

use super::body::{Ids, Put, Refusal, Reload, StopOrder};
use super::{Problem, Reloaded};
use crate::model::verb::{Asked, Done, State};
use crate::model::{Change, JobId, JobState, NewJob, Status, Stop, Subject, Why};

/// A client of the supervisor that listens on a socket. Each call is a connection of its own, except for waits: whoever
/// waits for one job often waits for thousands.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    kept: Arc<Mutex<Option<Line>>>,
}

/// A connection for one call after the other.
#[derive(Debug)]
struct Line {
    sender: http1::SendRequest<Full<Bytes>>,
    /// Ends when the sender is dropped, or the connection is lost.
    connection: JoinHandle<hyper::Result<()>>,
}

/// After this long without an answer the supervisor is asked whether it is there at all,
const PATIENCE: Duration = Duration::from_secs(8);
/// for which it has this long. One that is there may be waiting for its store, which gives up by itself,
const A_WORD: Duration = Duration::from_secs(2);
/// after this long for sure.
const LONGEST: Duration = Duration::from_secs(60);

/// Why a call came back without its answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody listens: no socket, or one that its supervisor left behind.
    #[error("no supervisor listens on {}", .0.display())]
    NotRunning(PathBuf),
    /// The socket is there and cannot be used.
    #[error("failed to connect to {}", .0.display())]
    Connect(PathBuf, #[source] io::Error),
    /// The supervisor went away in the middle.
    #[error("lost the supervisor on {} before it answered", .0.display())]
    Lost(PathBuf, #[source] hyper::Error),
    /// It is there and says nothing.
    #[error("the supervisor on {path} does not answer: {1}", path = .0.display())]
    Silent(PathBuf, String),
    /// It said no.
    #[error(transparent)]
    Problem(#[from] Problem),
    /// Something else answers on that socket.
    #[error("the answer of {path} makes no sense: {1}", path = .0.display())]
    Odd(PathBuf, String),
}

impl Client {
    /// A client of this socket; connects with each call.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Client { socket: socket.into(), kept: Arc::default() }
    }

    /// Where it connects to.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether somebody listens.
    pub async fn probe(&self) -> Result<(), Error> {
        self.connect().await.map(drop)
    }

    /// Puts jobs, all or none.
    pub async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<JobId>, Error> {
        let Ids { ids } = self.post("/v1/jobs", &Put { jobs }).await?;
        Ok(ids)
    }

    /// Asks for one verb.
    pub async fn ask<V: Asked>(&self, verb: &V) -> Result<V::Answer, Error> {
        let odd = |why: &str| Error::Odd(self.socket.clone(), format!("cannot ask it: {why}"));
        let Ok(serde_json::Value::Object(mut fields)) = serde_json::to_value(verb) else {
            return Err(odd("a verb is no object"));
        };
        let mut path = V::ROUTE.path.to_owned();
        fields.retain(|name, value| {
            let place = format!("{{{name}}}");
            let is_named = path.contains(&place);
            path = path.replace(&place, &encode(&plain(value)));
            !is_named
        });
        if V::ROUTE.only_looks() {
            for (n, (name, value)) in fields.iter().enumerate() {
                let _ = write!(path, "{}{name}={}", if n == 0 { '?' } else { '&' }, encode(&plain(value)));
            }
            return self.soon(Method::GET, &path, Bytes::new()).await;
        }
        self.soon(Method::POST, &path, self.encoded(&fields)?).await
    }

    /// Waits until the job has ended.
    pub async fn ended(&self, id: &JobId) -> Result<JobState, Error> {
        let path = format!("/v1/jobs/{}/wait", encode(id.as_str()));
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = kept().take();
        let lives = match &mut before {
            Some(line) => line.sender.ready().await.is_ok(),
            None => false,
        };
        let line = match before.filter(|_| lives) {
            Some(line) => line,
            None => self.line().await?,
        };
        let (State { state }, line) = self.exchange(line, Method::GET, &path, Bytes::new()).await?;
        *kept() = Some(line);
        Ok(state)
    }

    /// The whole picture.
    pub async fn status(&self) -> Result<Status, Error> {
        self.get("/v1/status").await
    }

    /// Why something is as it is.
    pub async fn why(&self, subject: &Subject) -> Result<Why, Error> {
        let (kind, name) = match subject {
            Subject::Job(id) => ("job", id.as_str()),
            Subject::Slot(slot) => ("slot", slot.as_str()),
            Subject::Pool(pool) => ("pool", pool.as_str()),
        };
        self.get(&format!("/v1/why/{kind}/{}", encode(name))).await
    }

    /// Has it read its settings again; gives what becomes of each pool.
    pub async fn reload(&self, rehearsal: bool) -> Result<Reloaded, Error> {
        self.post("/v1/reload", &Reload { rehearsal }).await
    }

    /// Asks something of a pool, or of all.
    pub async fn change(&self, pool: Option<&str>, change: Change) -> Result<(), Error> {
        let of = pool.map(|pool| format!("/pools/{}", encode(pool))).unwrap_or_default();
        let Done {} = match change {
            Change::Recycle => self.post(&format!("/v1{of}/recycle"), &Done {}).await?,
            Change::Pause => self.post(&format!("/v1{of}/pause"), &Done {}).await?,
            Change::Resume => self.post(&format!("/v1{of}/resume"), &Done {}).await?,
            Change::Scale(scale) => self.post(&format!("/v1{of}/scale"), &scale).await?,
        };
        Ok(())
    }

    /// Waits until no job is with it.
    pub async fn at_rest(&self) -> Result<(), Error> {
        let Done {} = self.call(Method::GET, "/v1/at-rest", Bytes::new()).await?;
        Ok(())
    }

    /// Orders the stop; it goes on after the answer.
    pub async fn stop(&self, how: Stop) -> Result<(), Error> {
        let Done {} = self.post("/v1/stop", &StopOrder { how }).await?;
        Ok(())
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.soon(Method::GET, path, Bytes::new()).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        self.soon(Method::POST, path, self.encoded(body)?).await
    }

    fn encoded(&self, body: &impl Serialize) -> Result<Bytes, Error> {
        let body = serde_json::to_vec(body);
        body.map(Bytes::from).map_err(|error| Error::Odd(self.socket.clone(), error.to_string()))
    }

    /// A call whose answer is not something to wait for.
    async fn soon<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> Result<T, Error> {
        let silent = |within: Duration, but: &str| {
            let why = format!("nothing came within {} s{but}", within.as_secs());
            Err(Error::Silent(self.socket.clone(), why))
        };
        let watch = async {
            tokio::time::sleep(PATIENCE).await;
            while self.is_there().await {
                tokio::time::sleep(PATIENCE).await;
            }
        };
        tokio::select! {
            answer = self.call(method, path, body) => answer,
            () = watch => silent(PATIENCE + A_WORD, ""),
            () = tokio::time::sleep(LONGEST) => silent(LONGEST, ", though it runs"),
        }
    }

    /// Whether the supervisor answers anything at all.
    async fn is_there(&self) -> bool {
        let word = self.call::<Done>(Method::GET, "/v1", Bytes::new());
        matches!(tokio::time::timeout(A_WORD, word).await, Ok(Ok(_) | Err(Error::Problem(_))))
    }

    async fn call<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> Result<T, Error> {
        let line = self.line().await?;
        let (answer, _) = self.exchange(line, method, path, body).await?;
        Ok(answer)
    }

    /// The answer, and the line for the next call.
    async fn exchange<T: DeserializeOwned>(
        &self,
        mut line: Line,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(T, Line), Error> {
        let odd = |why: String| Error::Odd(self.socket.clone(), why);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(|error| odd(error.to_string()))?;
        let exchange = async {
            let (parts, body) = line.sender.send_request(request).await?.into_parts();
            Ok((parts.status, body.collect().await?.to_bytes()))
        };
        let (status, bytes) = match exchange.await {
            Ok(answer) => answer,
            Err(error) => return Err(self.broken(line, error).await),
        };
        if status.is_success() {
            let answer = serde_json::from_slice(&bytes).map_err(|error| odd(error.to_string()))?;
            return Ok((answer, line));
        }
        match serde_json::from_slice::<Refusal>(&bytes) {
            Ok(Refusal { error, hint }) => {
                Err(Problem { code: status.as_u16(), message: error, hint }.into())
            }
            Err(_) => Err(odd(format!("HTTP status {status}"))),
        }
    }

    /// Why no answer came: the connection may know better than the call.
    async fn broken(&self, Line { sender, connection }: Line, error: hyper::Error) -> Error {
        drop(sender);
        let odd = |why: &hyper::Error| Error::Odd(self.socket.clone(), why.to_string());
        match connection.await {
            Ok(Err(cause)) if is_nonsense(&cause) => odd(&cause),
            Ok(_) | Err(_) if is_nonsense(&error) => odd(&error),
            Ok(_) | Err(_) => Error::Lost(self.socket.clone(), error),
        }
    }

    async fn line(&self) -> Result<Line, Error> {
        let stream = self.connect().await?;
        let lost = |error| Error::Lost(self.socket.clone(), error);
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
        Ok(Line { sender, connection: tokio::spawn(connection) })
    }

    async fn connect(&self) -> Result<UnixStream, Error> {
        match UnixStream::connect(&self.socket).await {
            Ok(stream) => Ok(stream),
            // A reset: it ended with the connection still in its queue, so nothing that it was told is lost.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
                ) =>
            {
                Err(Error::NotRunning(self.socket.clone()))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let crowd = "too many clients wait for it to take their connections";
                Err(Error::Silent(self.socket.clone(), crowd.into()))
            }
            Err(error) => Err(Error::Connect(self.socket.clone(), error)),
        }
    }
}

/// Bytes that are no HTTP answer, or one that was not asked for.
fn is_nonsense(error: &hyper::Error) -> bool {
    use std::error::Error as _;
    let is_io = error.source().is_some_and(|source| source.is::<io::Error>());
    !(is_io || error.is_incomplete_message() || error.is_closed() || error.is_canceled())
}

/// A parameter as a path or a query has it.
fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A path segment or query value in which nothing has a meaning of its own.
pub(super) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => out.push(byte as char),
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out
}
