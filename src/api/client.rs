//! The client of the API: one method per route.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::answer_line::{Line, broken};
use super::body::{Put, Refusal, Reload, StopOrder};
use super::by::FOR;
use super::client_error::Error;
use super::connect::connect;
use super::lists::LINES;
use super::{Here, Lines, PauseOrder, Place, Queued, Reloaded};
use model::verb::{Done, Route, State, VerbRequest};
use model::{
    Change, ConfigShown, Diagnosis, Filter, Interest, JobCounts, JobId, JobRecord, JobState, NewJob,
    OutputLine, OutputQuery, Picture, PoolsNow, PublishedEvent, SeriesQuery, Status, Stop, Subject,
    TimeSeries, Why,
};

/// A client of a supervisor. Each call opens a connection, except waits: a program often waits for thousands of jobs.
#[derive(Clone, Debug)]
pub struct Client {
    place: Place,
    kept: Arc<Mutex<Option<Line>>>,
    /// For whom it asks, if not for itself.
    asks_for: Option<Arc<str>>,
}

/// The request of a verb, as it is sent.
#[derive(Clone, Debug)]
pub struct Order {
    method: Method,
    path: String,
    body: Bytes,
}

/// The fields of a request, by name.
type Fields = BTreeMap<String, Box<RawValue>>;

/// After this time without an answer the client checks whether the supervisor is there at all.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long that check may take. A supervisor that is there may be waiting for its store, which gives up by itself.
const A_WORD: Duration = Duration::from_secs(2);
/// Longest time to wait for an answer, by which the store has given up.
const LONGEST: Duration = Duration::from_secs(60);

impl Client {
    /// A client of this socket; connects with each call.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Client::of(Place::Socket(socket.into()))
    }

    /// A client of the supervisor at this place.
    pub fn of(place: Place) -> Self {
        Client { place, kept: Arc::default(), asks_for: None }
    }

    /// The same client, asking for somebody: histories name them behind the user, in brackets. 1 to 64 letters, digits
    /// and `-_.@`.
    #[must_use]
    pub fn asking_for(&self, name: &str) -> Client {
        Client { asks_for: Some(name.into()), ..self.clone() }
    }

    /// Whether a supervisor listens there.
    pub async fn probe(&self) -> Result<(), Error> {
        connect(&self.place).await.map(drop)
    }

    /// The place of the supervisor.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The broker of the supervisor, if it tells.
    pub async fn broker(&self) -> Result<Option<String>, Error> {
        let Here { broker } = self.get("/v1").await?;
        Ok(broker)
    }

    /// Puts jobs, all or none.
    pub async fn put(&self, jobs: Vec<NewJob>) -> Result<Queued, Error> {
        self.post("/v1/jobs", &Put { jobs }).await
    }

    /// Carries out one verb.
    pub async fn ask<V: VerbRequest>(&self, verb: &V) -> Result<V::Answer, Error> {
        let order = self.order(V::ROUTE, self.fields(verb)?)?;
        self.read(&self.carry(&order).await?)
    }

    /// The request of a verb, to be carried out by any client.
    pub fn ordered<V: VerbRequest>(&self, verb: &V) -> Result<Order, Error> {
        self.order(V::ROUTE, self.fields(verb)?)
    }

    /// Carries out the request of a verb, and gives its answer as JSON, for [`Client::read`].
    pub async fn carry(&self, order: &Order) -> Result<Vec<u8>, Error> {
        self.soon(self.call(order.method.clone(), &order.path, order.body.clone())).await.map(Vec::from)
    }

    /// An answer from its JSON.
    pub fn read<T: DeserializeOwned>(&self, answer: &[u8]) -> Result<T, Error> {
        serde_json::from_slice(answer).map_err(|error| self.odd(error))
    }

    /// A list of any length, as it arrives.
    pub async fn list(&self, filter: &Filter) -> Result<Lines<JobRecord>, Error> {
        let order = self.order(Filter::ROUTE, self.fields(filter)?)?;
        self.lines(&order.path).await
    }

    /// The output of a job, as it comes.
    pub async fn logs(&self, id: &JobId, query: &OutputQuery) -> Result<Lines<OutputLine>, Error> {
        let fields = self.fields(query)?;
        self.lines(&format!("/v1/jobs/{}/logs{}", encode(id.as_str()), self::query(&fields))).await
    }

    /// What happened to jobs in each step of the last hour or day.
    pub async fn series(&self, query: &SeriesQuery) -> Result<TimeSeries, Error> {
        self.get(&format!("/v1/series{}", self::query(&self.fields(query)?))).await
    }

    /// The settings in force, without secrets.
    pub async fn config(&self) -> Result<ConfigShown, Error> {
        self.get("/v1/config").await
    }

    /// What the machine of the supervisor lacks.
    pub async fn doctor(&self) -> Result<Diagnosis, Error> {
        self.get("/v1/doctor").await
    }

    /// What the processes of a running job do now.
    pub async fn picture(&self, id: &JobId) -> Result<Picture, Error> {
        self.get(&format!("/v1/jobs/{}/picture", encode(id.as_str()))).await
    }

    /// Counts the jobs that a filter selects, up to its limit.
    pub async fn count_jobs(&self, filter: &Filter) -> Result<JobCounts, Error> {
        self.get(&format!("/v1/count{}", query(&self.fields(filter)?))).await
    }

    /// Events, as they happen.
    pub async fn events(&self, interest: &Interest) -> Result<Lines<PublishedEvent>, Error> {
        let fields = self.fields(interest)?;
        self.lines(&format!("/v1/events{}", query(&fields))).await
    }

    fn order(&self, route: Route, mut fields: Fields) -> Result<Order, Error> {
        let mut path = route.path.to_owned();
        // What stands in the path is not sent again: the supervisor refuses a field that comes twice.
        fields.retain(|name, value| {
            let place = format!("{{{name}}}");
            let is_named = path.contains(&place);
            path = path.replace(&place, &encode(&plain(value)));
            !is_named
        });
        if route.only_looks() {
            path += &query(&fields);
            return Ok(Order { method: Method::GET, path, body: Bytes::new() });
        }
        Ok(Order { method: Method::POST, path, body: self.encoded(&fields)? })
    }

    /// The fields of a request, each with its exact text.
    fn fields(&self, asked: &impl Serialize) -> Result<Fields, Error> {
        let text = serde_json::to_string(asked).map_err(|error| self.odd(error))?;
        serde_json::from_str(&text).map_err(|error| self.odd(error))
    }

    /// Waits until the job has ended.
    pub async fn ended(&self, id: &JobId) -> Result<JobState, Error> {
        let path = format!("/v1/jobs/{}/wait", encode(id.as_str()));
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = kept().take();
        // Since the last wait the supervisor may have ended, or closed it to make room.
        let lives = match &mut before {
            Some(line) => line.sender.ready().await.is_ok(),
            None => false,
        };
        let line = match before.filter(|_| lives) {
            Some(line) => line,
            None => self.line().await?,
        };
        let (answer, line) = self.exchange(line, Method::GET, &path, Bytes::new()).await?;
        let State { state } = self.read(&answer)?;
        // Only after a whole answer: a connection with a rest in it would confuse the next call.
        *kept() = Some(line);
        Ok(state)
    }

    /// The whole status of the supervisor.
    pub async fn status(&self) -> Result<Status, Error> {
        self.get("/v1/status").await
    }

    /// Why a job, a slot or a pool is in its state.
    pub async fn why(&self, subject: &Subject) -> Result<Why, Error> {
        let (kind, name) = match subject {
            Subject::Job(id) => ("job", id.as_str()),
            Subject::Slot(slot) => ("slot", slot.as_str()),
            Subject::Pool(pool) => ("pool", pool.as_str()),
        };
        self.get(&format!("/v1/why/{kind}/{}", encode(name))).await
    }

    /// Has the supervisor read its settings again; gives the step that each pool takes.
    pub async fn reload(&self, dry_run: bool) -> Result<Reloaded, Error> {
        self.post("/v1/reload", &Reload { dry_run }).await
    }

    /// Changes a pool, or all pools; gives what holds then. `how` is of a pause alone.
    pub async fn change(
        &self,
        pool: Option<&str>,
        change: Change,
        how: &PauseOrder,
    ) -> Result<PoolsNow, Error> {
        let of = pool.map(|pool| format!("/pools/{}", encode(pool))).unwrap_or_default();
        match change {
            Change::Recycle => self.post(&format!("/v1{of}/recycle"), &Done {}).await,
            Change::Pause => self.post(&format!("/v1{of}/pause"), how).await,
            Change::Resume => self.post(&format!("/v1{of}/resume"), &Done {}).await,
            Change::Scale(scale) => self.post(&format!("/v1{of}/scale"), &scale).await,
        }
    }

    /// Waits until the supervisor has no job.
    pub async fn at_rest(&self) -> Result<(), Error> {
        let Done {} = self.read(&self.call(Method::GET, "/v1/at-rest", Bytes::new()).await?)?;
        Ok(())
    }

    /// Orders a stop; the supervisor stops after the answer.
    pub async fn stop(&self, how: Stop) -> Result<(), Error> {
        self.post("/v1/stop", &StopOrder { how }).await.map(|Done {}| ())
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.read(&self.soon(self.call(Method::GET, path, Bytes::new())).await?)
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        self.read(&self.soon(self.call(Method::POST, path, self.encoded(body)?)).await?)
    }

    /// Reads an answer line by line.
    async fn lines<T: DeserializeOwned>(&self, path: &str) -> Result<Lines<T>, Error> {
        let begun = async {
            let (answer, line) =
                self.begin(self.line().await?, Method::GET, path, LINES, Bytes::new()).await?;
            Ok(Lines::new(self.place.clone(), line, answer, LONGEST))
        };
        self.soon(begun).await
    }

    fn encoded(&self, body: &impl Serialize) -> Result<Bytes, Error> {
        let body = serde_json::to_vec(body);
        body.map(Bytes::from).map_err(|error| self.odd(error))
    }

    fn odd(&self, why: impl ToString) -> Error {
        Error::Odd(self.place.clone(), why.to_string())
    }

    /// Makes a call whose answer should come soon.
    async fn soon<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let silent = |within: Duration, but: &str| {
            let why = format!("nothing came within {} s{but}", within.as_secs());
            Err(Error::Silent(self.place.clone(), why))
        };
        let watch = async {
            tokio::time::sleep(PATIENCE).await;
            while self.is_there().await {
                tokio::time::sleep(PATIENCE).await;
            }
        };
        tokio::select! {
            answer = answer => answer,
            () = watch => silent(PATIENCE + A_WORD, ""),
            () = tokio::time::sleep(LONGEST) => silent(LONGEST, ", though it runs"),
        }
    }

    /// Whether the supervisor answers at all.
    async fn is_there(&self) -> bool {
        let word = async { self.read::<Done>(&self.call(Method::GET, "/v1", Bytes::new()).await?) };
        // A refusal is an answer, too.
        matches!(tokio::time::timeout(A_WORD, word).await, Ok(Ok(_) | Err(Error::Problem(_))))
    }

    // Gives the text and not the type that it stands for: each type would have its own copy of all this.
    async fn call(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, Error> {
        let line = self.line().await?;
        let (answer, _) = self.exchange(line, method, path, body).await?;
        Ok(answer)
    }

    /// The answer, and the connection for the next call.
    async fn exchange(
        &self,
        line: Line,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(Bytes, Line), Error> {
        let (answer, line) = self.begin(line, method, path, "application/json", body).await?;
        match answer.into_body().collect().await {
            Ok(bytes) => Ok((bytes.to_bytes(), line)),
            Err(error) => Err(broken(&self.place, line, error).await),
        }
    }

    /// An answer whose head has arrived, unless it is a refusal.
    async fn begin(
        &self,
        mut line: Line,
        method: Method,
        path: &str,
        accept: &str,
        body: Bytes,
    ) -> Result<(Response<Incoming>, Line), Error> {
        // At this level hyper adds no Host by itself.
        let mut request = Request::builder().method(method).uri(path).header("host", self.place.host());
        request = request.header("content-type", "application/json").header("accept", accept);
        if let Some(token) = self.place.token() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(name) = &self.asks_for {
            request = request.header(FOR, &**name);
        }
        let request = request.body(Full::new(body)).map_err(|error| self.odd(error))?;
        let answer = match line.sender.send_request(request).await {
            Ok(answer) => answer,
            Err(error) => return Err(broken(&self.place, line, error).await),
        };
        let status = answer.status();
        if status.is_success() {
            return Ok((answer, line));
        }
        let bytes = match answer.into_body().collect().await {
            Ok(bytes) => bytes.to_bytes(),
            Err(error) => return Err(broken(&self.place, line, error).await),
        };
        match serde_json::from_slice(&bytes) {
            Ok(refusal) => Err(Refusal::problem(refusal, status.as_u16()).into()),
            Err(_) => Err(self.odd(format!("HTTP status {status}"))),
        }
    }

    async fn line(&self) -> Result<Line, Error> {
        let stream = connect(&self.place).await?;
        let lost = |error| Error::Lost(self.place.clone(), error);
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
        // Requests only move while the connection itself is polled.
        Ok(Line { sender, connection: tokio::spawn(connection) })
    }
}

/// A parameter as it is written in a path or a query.
fn plain(value: &RawValue) -> String {
    serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().to_owned())
}

/// The query of a path.
fn query(fields: &Fields) -> String {
    let mut query = String::new();
    for (name, value) in fields {
        let mark = if query.is_empty() { '?' } else { '&' };
        let _ = write!(query, "{mark}{name}={}", encode(&plain(value)));
    }
    query
}

/// Encodes text for a path segment or a query value, so that nothing in it has a special meaning.
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
