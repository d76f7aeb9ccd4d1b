//! The connection to a Redis: made when it is needed, and made again when it breaks. What is asked travels at once, one
//! behind the other; nobody waits for another's answer.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, RedisResult, Script, ServerErrorKind, Value,
};
use tokio::time::{Instant as Moment, timeout};
use uuid::Uuid;

use super::address::Address;
use super::offset::Offset;
use super::server;
use super::trouble::{cause, refusal};
use crate::broker::Error;
use crate::model::Instant;

/// A server that does not let us in after this long is away.
const CONNECT: Duration = Duration::from_secs(3);
/// A server that does not answer after this long, or somebody between, has swallowed the question.
const ANSWER: Duration = Duration::from_secs(5);
/// What a supervisor asks for as long as it lives.
const STANDING: [&str; 2] = ["fetch jobs from", "listen to"];
/// The first wait after a failure to connect, doubled up to the second.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// What a kind of broker needs of its server.
pub(in crate::broker) struct Needs {
    /// Its script, which is called with a command, the time in seconds since 1970, and that command's arguments.
    pub script: &'static str,
    /// The pattern of its keys, as an ACL names them.
    pub keys: &'static str,
    /// The channel on which it tells what happens, if it asks with PUBSUB NUMSUB whether anybody listens there.
    pub news: Option<&'static str>,
}

/// Asks one server.
pub(in crate::broker) struct Link {
    address: Address,
    needs: &'static Needs,
    /// The name by which Redis knows the script.
    sha: String,
    /// The URL without its password.
    name: String,
    now: Box<dyn Fn() -> Instant + Send + Sync>,
    /// The server's time, if it is not to be asked for it.
    ahead: Option<i64>,
    line: tokio::sync::Mutex<Line>,
    /// What was wrong with what was asked for. Of what is asked for again and again it stays until that goes well: that
    /// other things do says nothing of it.
    trouble: Mutex<BTreeMap<String, String>>,
}

/// The connection, or how it stands with the next one.
#[derive(Default)]
struct Line {
    live: Option<Live>,
    /// How often it could not be made in a row.
    failed: u32,
    /// Not before this moment.
    again: Option<Moment>,
    /// Why it could not be made the last time.
    why: Option<String>,
    count: u64,
}

#[derive(Clone)]
struct Live {
    conn: MultiplexedConnection,
    offset: Offset,
    /// Which of the connections it is.
    number: u64,
}

impl Link {
    /// To the server at `url`, shown as `name`.
    pub(in crate::broker) fn new(
        url: &str,
        name: &str,
        needs: &'static Needs,
        ahead: Option<i64>,
        now: impl Fn() -> Instant + Send + Sync + 'static,
    ) -> Result<Link, Error> {
        // There may be one already: another link's.
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
        })
    }

    pub(in crate::broker) fn now(&self) -> Instant {
        (self.now)()
    }

    /// What is wrong with the server, as the latest call found.
    pub(in crate::broker) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).values().next().cloned()
    }

    /// What was wrong with `verb` of late.
    pub(in crate::broker) fn trouble_with(&self, verb: &str) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get(verb).cloned()
    }

    /// Has the script do `command` at the moment `at`; `verb` says what that is, e.g. `put jobs into`.
    pub(in crate::broker) async fn call(
        &self,
        verb: &str,
        command: &str,
        at: Instant,
        args: impl FnOnce(&mut Cmd, Offset),
    ) -> Result<Value, Error> {
        let live = self.live(verb).await?;
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.sha).arg(0).arg(command).arg(live.offset.seconds(at));
        args(&mut cmd, live.offset);
        let mut conn = live.conn.clone();
        let mut answer: RedisResult<Value> = cmd.query_async(&mut conn).await;
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

    /// Asks a single command.
    pub(in crate::broker) async fn ask(&self, verb: &str, cmd: &Cmd) -> Result<Value, Error> {
        let live = self.live(verb).await?;
        let answer = cmd.query_async(&mut live.conn.clone()).await;
        self.heard(verb, live.number, answer).await
    }

    /// What is wrong with how the server keeps its data, if it can be told.
    pub(in crate::broker) async fn keeps_nothing(&self) -> Result<Option<&'static str>, Error> {
        let mut live = self.live("ask").await?;
        Ok(server::keeps_nothing(&mut live.conn).await)
    }

    /// Measures the server's clock again.
    pub(in crate::broker) async fn measure(&self) -> Result<(), Error> {
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

    /// A connection of its own, to listen on; `verb` says for what.
    pub(in crate::broker) async fn listener(&self, verb: &str) -> Result<PubSub, Error> {
        let opened = timeout(CONNECT, async { self.address.client().await?.get_async_pubsub().await }).await;
        let opened = opened.unwrap_or_else(|_| Err(late())).map_err(|error| self.explain(verb, &error));
        // That it is open does not say that anything will be heard.
        opened.inspect_err(|error| self.note(verb, Some(error)))
    }

    /// A connection of its own, for questions that take as long to answer as they like; `verb` says for what.
    pub(in crate::broker) async fn own(&self, verb: &str) -> Result<MultiplexedConnection, Error> {
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(None);
        let opened = timeout(CONNECT, async {
            self.address.client().await?.get_multiplexed_async_connection_with_config(&config).await
        });
        opened.await.unwrap_or_else(|_| Err(late())).map_err(|error| self.explain(verb, &error))
    }

    /// The connection, which is made if there is none. Who comes just after a failure is told of it and tries nothing.
    async fn live(&self, verb: &str) -> Result<Live, Error> {
        let mut line = self.line.lock().await;
        if let Some(live) = &line.live {
            return Ok(live.clone());
        }
        if line.again.is_some_and(|again| again > Moment::now())
            && let Some(why) = &line.why
        {
            return Err(self.failed(verb, why));
        }
        let connected = timeout(CONNECT, self.connect()).await.unwrap_or_else(|_| Err(self.cause(&late())));
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

    /// Makes the connection, or says why it cannot be: who else wants it is told the same.
    async fn connect(&self) -> Result<(MultiplexedConnection, Offset), String> {
        let failed = |error: RedisError| self.cause(&error);
        let client: Client = self.address.client().await.map_err(failed)?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(ANSWER));
        let mut conn = match client.get_multiplexed_async_connection_with_config(&config).await {
            Ok(conn) => conn,
            Err(error) if error.kind() == ErrorKind::AuthenticationFailed => {
                return Err(self.cause(&refusal(&client).await.unwrap_or(error)));
            }
            Err(error) => return Err(self.cause(&error)),
        };
        // A user who may not ask is believed to have chosen well.
        let info: Option<String> = redis::cmd("INFO").arg("server").query_async(&mut conn).await.ok();
        if let Some(why) = info.as_deref().and_then(server::unfit) {
            return Err(why);
        }
        self.warn_of_what_is_forbidden(&mut conn).await;
        if let Some(what) = server::keeps_nothing(&mut conn).await {
            tracing::warn!("{}: {what}", self.name);
        }
        let offset = match self.ahead {
            Some(ahead) => Offset::known(ahead),
            None => Offset::measure(&mut conn, &self.now).await.map_err(failed)?,
        };
        Ok((conn, offset))
    }

    /// Of what works without it, and says nothing of it.
    async fn warn_of_what_is_forbidden(&self, conn: &mut MultiplexedConnection) {
        let Some(news) = self.needs.news else { return };
        let asked: RedisResult<Value> = redis::cmd("PUBSUB").arg("NUMSUB").arg(news).query_async(conn).await;
        if asked.is_err_and(|error| error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)) {
            tracing::warn!(
                "the user may not call PUBSUB NUMSUB on {}: nobody hears the events of what is done from here; let the ACL \
                 allow it",
                self.name
            );
        }
    }

    /// What the server said; a connection that is of no more use is given up.
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
            if line.live.as_ref().is_some_and(|live| live.number == number) {
                line.live = None;
            }
        }
        let explained = self.explain(verb, &error);
        self.note(verb, Some(&explained));
        // It was sent, and what became of it is not known.
        let is_in_doubt = error.is_timeout() || error.is_io_error();
        Err(if is_in_doubt { Error::Unanswered(explained.to_string()) } else { explained })
    }

    pub(in crate::broker) fn explain(&self, verb: &str, error: &RedisError) -> Error {
        self.failed(verb, &self.cause(error))
    }

    fn failed(&self, verb: &str, why: &str) -> Error {
        Error::Failed(format!("cannot {verb} {}: {why}", self.name))
    }

    fn cause(&self, error: &RedisError) -> String {
        cause(error, &self.address.given(), self.needs.keys)
    }

    /// Nothing was heard for too long.
    pub(in crate::broker) fn silent(&self, verb: &str) -> Error {
        self.explain(verb, &late())
    }

    /// The server, or somebody between, ended the connection.
    pub(in crate::broker) fn broken(&self, verb: &str) -> Error {
        self.explain(verb, &std::io::Error::from(std::io::ErrorKind::ConnectionReset).into())
    }

    /// How what was asked for went, for [`Link::trouble`].
    pub(in crate::broker) fn note(&self, verb: &str, error: Option<&Error>) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            Some(Error::Failed(why) | Error::Unanswered(why)) => {
                trouble.insert(verb.into(), why.clone());
            }
            Some(_) => {}
            None => trouble.retain(|asked, _| asked != verb && STANDING.contains(&asked.as_str())),
        }
    }
}

/// Whether the connection is of no more use: it broke, was silent for too long, or leads to a server that is not the
/// first one any more.
fn is_over(error: &RedisError) -> bool {
    error.is_io_error()
        || error.is_timeout()
        || error.is_unrecoverable_error()
        || matches!(error.kind(), ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown))
}

fn late() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

/// Doubled with each failure, and up to a half longer: those that lost the same server do not come back at once.
pub(in crate::broker) fn backoff(failed: u32) -> Duration {
    let wait = BACKOFF.1.min(BACKOFF.0 * 2u32.saturating_pow(failed.saturating_sub(1)));
    let chance = u32::from(Uuid::now_v7().as_bytes()[15]);
    wait + wait * chance / 512
}
