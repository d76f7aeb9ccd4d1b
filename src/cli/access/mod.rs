//! Access to the jobs: through the supervisor if one listens, else through the store itself.

mod absent;
mod card;
pub(super) mod elsewhere;
pub(super) mod hosts;
pub(super) mod listing;
pub(super) mod named;
pub(super) mod putting;
pub(super) mod spooled;
mod stopped;

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::JoinHandle;

pub(super) use self::stopped::BETWEEN;

use self::absent::Absent;
use self::elsewhere::{another, client, of_this_state};
use crate::cli::term::screen::escaped;
use api::{self, Client, Order};
use boot::living_keeper;
use broker::{self, Broker, Opening};
use config::Config;
use failure::{Failure, exit};
use model::verb::{self, Ability, Before, Get, Route, Verb, VerbRequest};
use model::{Filter, JobCounts, JobId, JobRecord, JobState, Subject, Why};
use spool::Spool;

/// One of the two ways. If a flag or the environment names a broker that is not the supervisor's, the command uses that
/// broker without the supervisor.
pub(super) enum Access {
    /// A supervisor listens. If it goes away, these settings give the next way.
    Api(Client, Arc<Config>),
    /// No supervisor listens: the store itself.
    Store(Arc<Broker>),
    /// No supervisor listens, and the store is another user's: only puts, which wait for the next supervisor.
    Spool(Arc<Spool>),
}

impl Access {
    /// Finds the way to jobs that are there: makes no store. A socket without a listener was left by a dead supervisor.
    pub(super) async fn open(config: &Config) -> Result<Self, Failure> {
        Access::way(config, Absent::Refuse).await
    }

    /// The same for what is to be kept: makes the store if there is none.
    pub(super) async fn open_or_make(config: &Config) -> Result<Self, Failure> {
        Access::way(config, Absent::Make).await
    }

    async fn way(config: &Config, absent: Absent) -> Result<Self, Failure> {
        let client = client(config)?;
        match stopped::probe(config, &client).await {
            Ok(()) => match another(config, &client).await? {
                None => {
                    of_this_state(config, &client)?;
                    Ok(Access::Api(client, Arc::new(config.clone())))
                }
                // There is no other way to jobs on another machine or in a supervisor's memory.
                Some(other) if config.remote.is_some() || config.broker.is_of_supervisor() => Err(other),
                // A broker was named that is not this supervisor's, so it is reached without the supervisor.
                Some(_) => Access::direct(config, absent).await,
            },
            // The store of another machine cannot be opened from here.
            Err(error @ api::Error::NotRunning(_)) if config.remote.is_some() => Err(error.into()),
            Err(error @ api::Error::NotRunning(_)) if config.in_job => Err(Failure::from(error).hint(
                "a command of a job speaks to the job's own supervisor, which TASKVISOR_SOCKET names; \
                 --run-dir or --state-dir name another place",
            )),
            Err(error @ api::Error::NotRunning(_)) if config.broker.is_of_supervisor() => Err(error.into()),
            Err(api::Error::NotRunning(_)) => {
                stopped::may_go_on(config, absent)?;
                Access::direct(config, absent).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Uses the store without any supervisor.
    async fn direct(config: &Config, absent: Absent) -> Result<Self, Failure> {
        if config.broker.is_of_supervisor() {
            let why = "jobs in memory are those of a supervisor that runs: none can be reached without it";
            return Err(Failure::new(exit::NOT_RUNNING, why));
        }
        // Before the store, which this user cannot open.
        if let Some(spool) = spooled::find(config).await? {
            return Ok(Access::Spool(Arc::new(spool)));
        }
        absent.store(config)?;
        let keeps_schema = living_keeper(config).is_some();
        let store = config.open_broker(&Opening { keeps_schema, ..Opening::passing(&config.state_dir) })?;
        if let Some(concern) = store.health().concern {
            eprintln!("note: {}", escaped(&concern));
        }
        Ok(Access::Store(Arc::new(store)))
    }

    /// The new way, if the only error is that the supervisor went away.
    pub(super) async fn after(config: &Config, wrong: api::Error) -> Result<Self, Failure> {
        match unless_gone(wrong) {
            Some(failure) => Err(failure),
            None => {
                // A supervisor that is being replaced needs a moment.
                tokio::time::sleep(BETWEEN).await;
                Access::open(config).await
            }
        }
    }

    /// Carries out one verb. If the supervisor went away, a verb that only reads, or that it did not receive, is sent
    /// once more: only once, as the supervisor may have died of it.
    pub(super) async fn ask<V: VerbRequest>(&self, verb: V) -> Result<V::Answer, Failure> {
        match self {
            Access::Api(api, config) => match carry(api, config, api.ordered(&verb)?, verb.verb()).await? {
                Told::Text(text) => Ok(api.read(&text)?),
                Told::Answer(answer) => own::<V>(answer),
            },
            Access::Store(store) => own::<V>(tell(store, verb.verb()).await?),
            Access::Spool(spool) => Err(spooled::puts_only(spool)),
        }
    }

    /// One job, by its id.
    pub(super) async fn job(&self, id: &JobId) -> Result<JobRecord, Failure> {
        self.ask(Get { job: id.clone() }).await
    }

    /// Counts the jobs that a filter selects, up to its limit.
    pub(super) async fn count_jobs(&self, filter: &Filter) -> Result<JobCounts, Failure> {
        let (api, config) = match self {
            Access::Api(api, config) => (api, config),
            Access::Store(store) => return Ok(store.count_jobs(filter, clock::wall()).await?),
            Access::Spool(spool) => return Err(spooled::puts_only(spool)),
        };
        match api.count_jobs(filter).await {
            Ok(tally) => Ok(tally),
            Err(error) => match Access::after(config, error).await? {
                Access::Api(api, _) => Ok(api.count_jobs(filter).await?),
                Access::Store(store) => Ok(store.count_jobs(filter, clock::wall()).await?),
                Access::Spool(spool) => Err(spooled::puts_only(&spool)),
            },
        }
    }

    /// Why a job is in its state, as far as is known: the store knows nothing of pools.
    pub(super) async fn why(&self, id: &JobId) -> Result<Why, Failure> {
        let store = match self {
            Access::Api(api, _) => return Ok(api.why(&Subject::Job(id.clone())).await?),
            Access::Store(store) => store,
            Access::Spool(spool) => return Err(spooled::puts_only(spool)),
        };
        let job = self.job(id).await?;
        let mut queues = store.counts().await?;
        queues.retain(|name, _| *name == job.queue);
        let has_place = job.state == JobState::Waiting && store.card().can(Ability::Position);
        let before = if has_place { Some(self.ask(Before { job: id.clone() }).await?.count) } else { None };
        Ok(Why { job: Some(job), before, queues, ..Why::default() })
    }

    /// Waits for the end of a job.
    pub(super) async fn ended(&self, id: &JobId) -> Result<JobState, Failure> {
        match self {
            Access::Api(api, _) => Ok(api.ended(id).await?),
            Access::Store(store) => Ok(store.ended(id.clone()).await?),
            Access::Spool(spool) => Err(spooled::puts_only(spool)),
        }
    }

    /// Waits for the end of a job; `Err` with `None` if the supervisor went away.
    async fn ended_here(&self, id: &JobId) -> Result<JobState, Option<Failure>> {
        match self {
            Access::Api(api, _) => api.ended(id).await.map_err(unless_gone),
            Access::Store(store) => store.ended(id.clone()).await.map_err(|error| Some(error.into())),
            // The next supervisor takes the job: the wait goes on until one is there.
            Access::Spool(_) => Err(None),
        }
    }
}

/// What came of a verb.
enum Told {
    /// The API's answer, as JSON.
    Text(Vec<u8>),
    /// The answer of a broker.
    Answer(verb::Answer),
}

/// Carries out a verb by the API, else on the store. The same code for all verbs: a copy for each would be large.
async fn carry(api: &Client, config: &Config, order: Order, verb: Verb) -> Result<Told, Failure> {
    match api.carry(&order).await {
        Ok(text) => Ok(Told::Text(text)),
        // Not sent again: twice might be one time too many.
        Err(error) if may_be_done(&error) => Err(unless_looked(&verb.route(), error.into(), true)),
        // It may have been carried out before the connection broke.
        Err(error @ api::Error::Lost(..)) if !verb.route().only_looks() => Err(error.into()),
        Err(error) => match Access::after(config, error).await? {
            Access::Api(api, _) => Ok(Told::Text(api.carry(&order).await?)),
            Access::Store(store) => Ok(Told::Answer(tell(&store, verb).await?)),
            Access::Spool(spool) => Err(spooled::puts_only(&spool)),
        },
    }
}

/// Carries out a verb on a broker.
async fn tell(store: &Arc<Broker>, verb: Verb) -> Result<verb::Answer, Failure> {
    let route = verb.route();
    store.ask(verb, me()).await.map_err(|error| {
        let unanswered = matches!(error, broker::Error::Unanswered(_));
        unless_looked(&route, error.into(), unanswered)
    })
}

/// The verb's own answer.
fn own<V: VerbRequest>(answer: verb::Answer) -> Result<V::Answer, Failure> {
    let other = || broker::Error::Failed("the broker answered something else".into());
    Ok(V::answer(answer).ok_or_else(other)?)
}

/// The name of this user, as the supervisor would write it.
fn me() -> String {
    format!("uid {}", nix::unistd::getuid())
}

/// Whether the request may have been carried out without an answer.
fn may_be_done(error: &api::Error) -> bool {
    match error {
        api::Error::Silent(..) => true,
        api::Error::Problem(problem) => problem.is_in_doubt(),
        api::Error::Lost(..)
        | api::Error::NotRunning(_)
        | api::Error::Connect(..)
        | api::Error::Stranger(..)
        | api::Error::Odd(..) => false,
    }
}

/// A change without an answer is not sent again here.
fn unless_looked(route: &Route, mut failure: Failure, unanswered: bool) -> Failure {
    if unanswered && !route.only_looks() {
        failure.causes.push("it may have been done all the same: look before you ask for it again".into());
    }
    failure
}

/// The error, unless it is that the supervisor went away.
pub(super) fn unless_gone(error: api::Error) -> Option<Failure> {
    (!is_gone(&error)).then(|| error.into())
}

/// Whether the only error is that the supervisor went away.
pub(super) fn is_gone(error: &api::Error) -> bool {
    match error {
        api::Error::Lost(..) | api::Error::NotRunning(_) => true,
        api::Error::Connect(..)
        | api::Error::Stranger(..)
        | api::Error::Silent(..)
        | api::Error::Problem(_)
        | api::Error::Odd(..) => false,
    }
}

/// Waits for the end of a job, even if the supervisor ends and the next one starts meanwhile.
pub(super) async fn ended(config: &Config, id: &JobId) -> Result<JobState, Failure> {
    ended_by(&mut None, config, id).await
}

/// The same by a way that is known already, or found now.
async fn ended_by(way: &mut Option<Access>, config: &Config, id: &JobId) -> Result<JobState, Failure> {
    loop {
        let access = match way.take() {
            Some(access) => access,
            None => Access::open(config).await?,
        };
        match access.ended_here(id).await {
            Ok(state) => {
                *way = Some(access);
                return Ok(state);
            }
            Err(Some(failure)) => return Err(failure),
            // Between two supervisors: wait a moment, then try again.
            Err(None) => tokio::time::sleep(BETWEEN).await,
        }
    }
}

/// Ends of many jobs, in the given order.
pub(super) struct Ends {
    config: Arc<Config>,
    /// Jobs that are not waited for yet.
    ids: VecDeque<JobId>,
    /// Waits under way, for the next jobs.
    ahead: VecDeque<JoinHandle<Waited>>,
    /// Ways that are not in use.
    ways: Vec<Access>,
    /// The store, which all waits can use together.
    store: Option<Arc<Broker>>,
}

type Waited = (Result<JobState, Failure>, Option<Access>);

impl Ends {
    /// Limit of the waits under way: each has a connection, and so a descriptor of the supervisor, which others need, too.
    const WIDTH: usize = 8;

    /// Finds the first way.
    pub(super) async fn open(config: &Config, ids: Vec<JobId>) -> Result<Self, Failure> {
        let way = Access::open(config).await?;
        let store = match &way {
            Access::Api(..) | Access::Spool(_) => None,
            Access::Store(store) => Some(store.clone()),
        };
        Ok(Ends {
            config: Arc::new(config.clone()),
            ids: ids.into(),
            ahead: VecDeque::new(),
            ways: vec![way],
            store,
        })
    }

    /// The end of the next job.
    pub(super) async fn next(&mut self) -> Result<JobState, Failure> {
        while self.ahead.len() < Self::WIDTH
            && let Some(id) = self.ids.pop_front()
        {
            // A way whose wait is over is used again, so that each wait need not look for the supervisor.
            let way = self.ways.pop().or_else(|| self.store.clone().map(Access::Store));
            let (config, mut way) = (self.config.clone(), way);
            self.ahead.push_back(tokio::spawn(async move {
                let ended = ended_by(&mut way, &config, &id).await;
                (ended, way)
            }));
        }
        let waited = match self.ahead.pop_front() {
            Some(waited) => waited.await,
            None => return Err(Failure::new(exit::FAILED, "no job is left to wait for")),
        };
        let (ended, way) = waited.map_err(|error| Failure::new(exit::FAILED, error.to_string()))?;
        self.ways.extend(way);
        ended
    }
}

/// Calls `act` for each, goes on after a failure, and gives the first exit code that is not 0.
pub(super) async fn for_each<T, F>(all: impl IntoIterator<Item = T>, mut act: F) -> Result<u8, Failure>
where
    F: AsyncFnMut(T) -> Result<(), Failure>,
{
    let mut code = exit::OK;
    for one in all {
        match act(one).await {
            Ok(()) => {}
            // Nobody reads the output any more: the rest need not be done.
            Err(failure) if failure.code == exit::OK => return Err(failure),
            Err(failure) => {
                failure.print();
                code = if code == exit::OK { failure.code } else { code };
            }
        }
    }
    Ok(code)
}
