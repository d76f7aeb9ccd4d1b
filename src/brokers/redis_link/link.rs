//! The connection to a Redis, made when it is needed and again when it breaks. No request waits for another's reply.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, RedisError, RedisResult, Script, ServerErrorKind, Value};
use tokio::time::{Instant as Moment, timeout};

use super::address::Address;
use super::backoff::backoff;
use super::dial::{CONNECT, dialed, late};
use super::eviction::{Eviction, LOOK};
use super::memory::Memory;
use super::offset::Offset;
use super::server;
use super::silence::{CONNECTING, Silence};
use super::trouble::{cause, is_over, spoken};
use broker::{Complaints, Error};
use common::lock;
use model::Instant;

/// A request without a reply for this long is lost.
const ANSWER: Duration = Duration::from_secs(5);
/// If a request has no answer for this long, the server is silent; before that, only the connection broke.
const SILENT: Duration = Duration::from_secs(3);
/// Requests that a supervisor repeats as long as it lives.
const STANDING: [&str; 2] = ["fetch jobs from", "listen to"];

/// Settings of the connection for a kind of broker.
pub struct Needs {
    /// The script. It is called with a command, the time in seconds since 1970, and that command's arguments.
    pub script: &'static str,
    /// The pattern of its keys, as an ACL names them.
    pub keys: &'static str,
    /// Whether keys of jobs that wait or run may have an expiry.
    pub expire: bool,
    /// The channel on which the script publishes events, if it asks with PUBSUB NUMSUB whether there are subscribers.
    pub news: Option<&'static str>,
}

/// The connection to one server.
pub struct Link {
    address: Address,
    needs: &'static Needs,
    /// The hash of the script, which names it to Redis.
    sha: String,
    /// The URL without its password.
    name: String,
    now: Box<dyn Fn() -> Instant + Send + Sync>,
    /// How far the server's clock is ahead, in microseconds; None = ask the server.
    ahead: Option<i64>,
    line: tokio::sync::Mutex<Line>,
    /// The last error of each kind of request; one of a request in [`STANDING`] stays until such a request succeeds.
    trouble: Mutex<BTreeMap<String, String>>,
    silence: Silence,
    eviction: Eviction,
    memory: Memory,
}

/// Adds the arguments of a command.
type Args<'a> = Box<dyn FnOnce(&mut Cmd, Offset) + Send + 'a>;

/// The connection, or the state of the attempts to make one.
#[derive(Default)]
struct Line {
    live: Option<Live>,
    /// Number of failed attempts in a row.
    failed: u32,
    /// No attempt before this moment.
    again: Option<Moment>,
    /// Why the last attempt failed.
    why: Option<String>,
    count: u64,
}

#[derive(Clone)]
struct Live {
    conn: MultiplexedConnection,
    offset: Offset,
    /// Number of this connection, to tell it from later ones.
    number: u64,
}

impl Link {
    /// A link to the server at `url`, shown as `name`.
    pub fn new(
        url: &str,
        name: &str,
        needs: &'static Needs,
        ahead: Option<i64>,
        now: impl Fn() -> Instant + Send + Sync + 'static,
    ) -> Result<Link, Error> {
        // It fails if another link has done this already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Link {
            address: Address::read(url)?,
            needs,
            sha: Script::new(needs.script).get_hash().to_owned(),
            name: name.into(),
            now: Box::new(now),
            ahead,
            line: tokio::sync::Mutex::default(),
            trouble: Mutex::default(),
            silence: Silence::default(),
            eviction: Eviction::new(needs.expire),
            memory: Memory::default(),
        })
    }

    /// The time by the clock that the link was made with.
    pub fn now(&self) -> Instant {
        (self.now)()
    }

    /// The trouble with the server, as found by the latest requests.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.trouble).values().next().cloned()
    }

    /// The last error of `verb`.
    pub fn trouble_with(&self, verb: &str) -> Option<String> {
        lock(&self.trouble).get(verb).cloned()
    }

    /// Whether the server does not answer, or answers again only just now: no lease that ended meanwhile is over yet.
    pub fn is_settling(&self) -> bool {
        self.silence.lasts(self.now())
    }

    /// Until it is dropped: records that this process runs, and looks whether the server drops keys.
    pub async fn pulse(&self) {
        let look = async {
            loop {
                tokio::time::sleep(LOOK).await;
                let live = self.line.lock().await.live.clone();
                if let Some(mut live) = live {
                    self.eviction.look(&mut live.conn, &self.name, false).await;
                }
            }
        };
        tokio::join!(self.silence.pulse(|| self.now()), look);
    }

    /// Has the script run `command` at the moment `at`; `verb` names the request in errors, e.g. `put jobs into`.
    pub async fn call(
        &self,
        verb: &str,
        command: &str,
        at: Instant,
        args: impl FnOnce(&mut Cmd, Offset) + Send,
    ) -> Result<Value, Error> {
        let sent = self.now();
        // Boxed: the futures would nest too deep, and each call have its own code.
        let answer = Box::pin(self.run(verb, command, at, Box::new(args))).await;
        self.silence.note(command, sent, self.now(), answer.is_ok());
        answer
    }

    async fn run(&self, verb: &str, command: &str, at: Instant, args: Args<'_>) -> Result<Value, Error> {
        let live = self.live(verb).await?;
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.sha).arg(0).arg(command).arg(live.offset.seconds(at));
        args(&mut cmd, live.offset);
        let mut conn = live.conn.clone();
        let mut answer: RedisResult<Value> = cmd.query_async(&mut conn).await;
        // Redis forgets its scripts with a restart, with a failover, or by SCRIPT FLUSH.
        if answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)) {
            let loaded: RedisResult<Value> =
                redis::cmd("SCRIPT").arg("LOAD").arg(self.needs.script).query_async(&mut conn).await;
            answer = match loaded {
                Ok(_) => cmd.query_async(&mut conn).await,
                Err(error) => Err(error),
            };
        }
        self.heard(verb, live.number, answer).await
    }

    /// Makes a request that the script recognizes if it comes twice: once more, if the connection broke before the
    /// answer. If the server was silent, the caller has waited for long enough.
    pub async fn surely<T, F: Future<Output = Result<T, Error>>>(
        &self,
        request: impl Fn() -> F,
    ) -> Result<T, Error> {
        let began = self.now();
        match request().await {
            Err(Error::Unanswered(why)) if self.now().since(began) < SILENT => {
                request().await.map_err(|_| Error::Unanswered(why))
            }
            answered => answered,
        }
    }

    /// Sends a single command.
    pub async fn ask(&self, verb: &str, cmd: &Cmd) -> Result<Value, Error> {
        let live = self.live(verb).await?;
        let answer = cmd.query_async(&mut live.conn.clone()).await;
        self.heard(verb, live.number, answer).await
    }

    /// What is wrong with how the server stores its data, if it allows the question.
    pub async fn unsafe_for_jobs(&self) -> Result<Option<String>, Error> {
        let mut live = self.live("ask").await?;
        let lost = server::keeps_nothing(&mut live.conn).await.map(str::to_owned);
        self.eviction.look(&mut live.conn, &self.name, false).await;
        let all: Vec<String> = lost.into_iter().chain(self.eviction.concern()).collect();
        Ok((!all.is_empty()).then(|| all.join("; ")))
    }

    /// The concern that the server drops jobs by its own settings, for `status`.
    pub fn concern(&self) -> Option<String> {
        self.eviction.concern().map(|what| format!("{}: {what}", self.name))
    }

    /// Takes in the mark that a script has found. Gives whether the server has forgotten what it held.
    pub fn has_forgotten(&self, mark: &str, complaints: &Complaints) -> bool {
        self.memory.found(mark, &self.name, complaints, self.now())
    }

    /// Our end of the connection as the server sees it, if it allows the question.
    pub async fn client_address(&self) -> Result<Option<String>, Error> {
        let mut live = self.live("ask").await?;
        Ok(server::client_address(&mut live.conn).await)
    }

    /// Measures the server's clock again.
    pub async fn measure(&self) -> Result<(), Error> {
        let mut live = self.live("ask the time of").await?;
        let measured = Offset::measure(&mut live.conn, &self.now).await;
        let measured = self.heard("ask the time of", live.number, measured).await?;
        if let Some(held) = &mut self.line.lock().await.live
            && held.number == live.number
        {
            held.offset = held.offset.or(measured);
        }
        Ok(())
    }

    /// A new connection for subscriptions; `verb` names its purpose in errors.
    pub async fn listener(&self, verb: &str) -> Result<PubSub, Error> {
        let sent = self.now();
        let opened = dialed(&self.address, |client| async move { client.get_async_pubsub().await }).await;
        let opened = opened.map_err(|error| self.explain(verb, &error));
        self.silence.note(CONNECTING, sent, self.now(), opened.is_ok());
        // An open connection does not yet prove that messages arrive, so success is not noted.
        opened.inspect_err(|error| self.note(verb, Some(error)))
    }

    /// A new connection for requests whose replies may take any time; `verb` names its purpose in errors.
    pub async fn own(&self, verb: &str) -> Result<MultiplexedConnection, Error> {
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(None);
        self.multiplexed(config).await.map_err(|error| self.explain(verb, &error))
    }

    async fn multiplexed(&self, config: AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
        dialed(&self.address, |client| async move {
            client.get_multiplexed_async_connection_with_config(&config).await
        })
        .await
    }

    /// The connection, which is made if there is none. Shortly after a failed attempt it returns that error and makes
    /// no new attempt.
    async fn live(&self, verb: &str) -> Result<Live, Error> {
        // Held while it connects: the other callers wait for this attempt and make none of their own.
        let mut line = self.line.lock().await;
        if let Some(live) = &line.live {
            return Ok(live.clone());
        }
        if line.again.is_some_and(|again| again > Moment::now())
            && let Some(why) = &line.why
        {
            return Err(self.failed(verb, why));
        }
        let sent = self.now();
        let connected = timeout(CONNECT, self.connect()).await.unwrap_or_else(|_| Err(self.cause(&late())));
        self.silence.note(CONNECTING, sent, self.now(), connected.is_ok());
        match connected {
            Ok((conn, offset)) => {
                *line = Line { count: line.count + 1, ..Line::default() };
                let live = Live { conn, offset, number: line.count };
                line.live = Some(live.clone());
                Ok(live)
            }
            Err(why) => {
                line.failed = (line.failed + 1).min(16);
                line.again = Some(Moment::now() + backoff(line.failed));
                let error = self.failed(verb, &why);
                line.why = Some(why);
                drop(line);
                self.note(verb, Some(&error));
                Err(error)
            }
        }
    }

    /// Makes the connection, or says why that fails: other callers get the same error.
    async fn connect(&self) -> Result<(MultiplexedConnection, Offset), String> {
        let failed = |error: RedisError| self.cause(&error);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(ANSWER));
        let mut conn = self.multiplexed(config).await.map_err(failed)?;
        // If this user may not ask, assume that the server is fit.
        let info: Option<String> = redis::cmd("INFO").arg("server").query_async(&mut conn).await.ok();
        if let Some(why) = info.as_deref().and_then(server::unfit) {
            return Err(why);
        }
        if let Some(news) = self.needs.news {
            server::warn_of_no_news(&mut conn, news, &self.name).await;
        }
        if let Some(what) = server::keeps_nothing(&mut conn).await {
            tracing::warn!("{}: {what}", self.name);
        }
        self.eviction.look(&mut conn, &self.name, true).await;
        let offset = match self.ahead {
            Some(ahead) => Offset::known(ahead),
            None => Offset::measure(&mut conn, &self.now).await.map_err(failed)?,
        };
        Ok((conn, offset))
    }

    /// Handles a reply; gives up a connection that is of no more use.
    async fn heard<T>(&self, verb: &str, number: u64, answer: RedisResult<T>) -> Result<T, Error> {
        let error = match answer {
            Ok(answer) => {
                self.note(verb, None);
                return Ok(answer);
            }
            Err(error) => error,
        };
        if is_over(&error) {
            let mut line = self.line.lock().await;
            // A late error of an earlier connection says nothing about this one.
            if line.live.as_ref().is_some_and(|live| live.number == number) {
                line.live = None;
            }
        }
        let explained = self.explain(verb, &error);
        self.note(verb, Some(&explained));
        // The request was sent, and may have been carried out.
        let is_in_doubt = error.is_timeout() || error.is_io_error();
        Err(if is_in_doubt { Error::Unanswered(explained.to_string()) } else { explained })
    }

    /// The error of a request: what was attempted, on which server, why it failed.
    pub fn explain(&self, verb: &str, error: &RedisError) -> Error {
        self.failed(verb, &self.cause(error))
    }

    /// The error for one job of a batch; the script supplies the message.
    pub fn refused(&self, verb: &str, words: &str) -> Error {
        self.explain(verb, &spoken(words))
    }

    fn failed(&self, verb: &str, why: &str) -> Error {
        Error::Failed(format!("cannot {verb} {}: {why}", self.name))
    }

    fn cause(&self, error: &RedisError) -> String {
        cause(error, &self.address.given(), &self.name, self.needs.keys)
    }

    /// The error when no message or reply came for too long.
    pub fn silent(&self, verb: &str) -> Error {
        self.explain(verb, &late())
    }

    /// The error when the server, or something on the way, ended the connection.
    pub fn broken(&self, verb: &str) -> Error {
        self.explain(verb, &std::io::Error::from(std::io::ErrorKind::ConnectionReset).into())
    }

    /// Notes the outcome of a request, for [`Link::trouble`].
    pub fn note(&self, verb: &str, error: Option<&Error>) {
        let mut trouble = lock(&self.trouble);
        match error {
            Some(Error::Failed(why) | Error::Unanswered(why)) => {
                trouble.insert(verb.into(), why.clone());
            }
            Some(_) => {}
            None => trouble.retain(|asked, _| asked != verb && STANDING.contains(&asked.as_str())),
        }
    }
}
