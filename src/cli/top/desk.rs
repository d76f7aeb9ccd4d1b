//! What answers the requests of the screen: the supervisor, or the store.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use crate::cli::access::Access;
use crate::cli::access::elsewhere::client;
use crate::cli::access::spooled::puts_only;
use crate::cli::term::screen::Look;
use ::top::ask::{List, News, Seen, Want};
use ::top::thing::Tab;
use api::Client;
use config::Config;
use failure::{Failure, exit};
use model::verb::{self, ListRecurring, Queues, ShowFleet};
use model::{Filter, Instant, Millis, SeriesQuery, SeriesStep, Status};

/// What answers the requests.
pub(super) struct Desk {
    /// The settings of this command.
    pub config: Config,
    /// The look of pages.
    pub look: Look,
    /// The channel to which background tasks send what they have read.
    pub tell: UnboundedSender<News>,
    /// The way of the look before.
    pub way: Mutex<Option<Arc<Access>>>,
    /// What the look before has seen.
    pub status: Mutex<Option<Arc<Status>>>,
    /// When it was last asked how long jobs wait.
    pub waits: Mutex<Option<Instant>>,
}

/// Number of steps for which it asks how long jobs waited.
const STEPS: i64 = 40;

impl Desk {
    /// Tells the screen.
    pub(super) fn say(&self, news: News) {
        // Nobody hears it at the end.
        let _ = self.tell.send(news);
    }

    /// The way of the look before if it still holds, else a new one.
    pub(super) async fn access(&self) -> Result<Arc<Access>, Failure> {
        let before = self.way.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let holds = match before.as_deref() {
            // One that has gone shows with the next request.
            Some(Access::Api(..)) => true,
            // A supervisor may have started since. An embedded store is left open for nobody's sake.
            Some(Access::Store(store)) => store.card().shared && client(&self.config)?.probe().await.is_err(),
            Some(Access::Spool(_)) | None => false,
        };
        if let Some(way) = before.filter(|_| holds) {
            return Ok(way);
        }
        let way = Arc::new(Access::open(&self.config).await?);
        *self.way.lock().unwrap_or_else(PoisonError::into_inner) = Some(way.clone());
        Ok(way)
    }

    /// Looks, and tells what was seen, or why nothing was.
    pub(super) async fn look(&self, want: &Want) {
        match self.seen(want).await {
            Ok(seen) => self.say(News::Seen(Box::new(seen))),
            Err(failure) => {
                // The next request chooses again between supervisor and broker: another supervisor may listen by then.
                *self.way.lock().unwrap_or_else(PoisonError::into_inner) = None;
                self.say(News::Unseen(failure.in_a_line()));
            }
        }
    }

    async fn seen(&self, want: &Want) -> Result<Seen, Failure> {
        let access = self.access().await?;
        let (status, place) = match access.as_ref() {
            Access::Api(api, _) => (Some(api.status().await?), api.place().to_string()),
            Access::Store(_) => (None, self.config.broker.to_string()),
            Access::Spool(spool) => return Err(puts_only(spool)),
        };
        let list = match list(&access, want).await {
            // Nothing else is asked of a store.
            Err(failure) if status.is_none() && failure.code == exit::UNAVAILABLE => return Err(failure),
            list => list.map_err(|failure| failure.in_a_line()),
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status.clone().map(Arc::new);
        let waits = match access.as_ref() {
            Access::Api(api, _) => self.waits(api).await,
            Access::Store(_) | Access::Spool(_) => None,
        };
        // /proc here says nothing about another machine.
        let pressure = if self.config.remote.is_none() { pressure() } else { None };
        Ok(Seen { at: clock::wall(), place, status, pressure, waits, tab: want.tab, list })
    }

    /// How long jobs have waited, once in each step; an older supervisor does not tell.
    async fn waits(&self, api: &Client) -> Option<Vec<Option<f64>>> {
        const STEP: Duration = SeriesStep::TenSeconds.length();
        {
            let mut asked = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
            let now = clock::now();
            if asked.is_some_and(|at| now.since(at) < STEP) {
                return None;
            }
            *asked = Some(now);
        }
        let since = Millis(clock::wall().0 - STEPS * STEP.as_millis() as i64);
        let query = SeriesQuery { since: Some(since), ..SeriesQuery::default() };
        api.series(&query).await.ok()?.series.into_iter().next().map(|all| all.wait_p95)
    }

    /// What the look before has seen.
    pub(super) fn status(&self) -> Option<Arc<Status>> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Limit of the jobs in the list.
const JOBS: u32 = 200;

async fn list(access: &Access, want: &Want) -> Result<List, Failure> {
    Ok(match (want.tab, access) {
        (Tab::Slots | Tab::Events, _) | (Tab::Queues, Access::Api(..)) => List::None,
        (Tab::Queues, Access::Store(_) | Access::Spool(_)) => List::Queues(access.ask(Queues {}).await?),
        (Tab::Jobs, _) => List::Jobs(access.ask(filter(want)?).await?),
        (Tab::Failures, _) => List::Failures(access.ask(verb::Failed::default()).await?),
        (Tab::Recurring, _) => List::Recurring(access.ask(ListRecurring {}).await?),
        (Tab::Fleet, _) => List::Fleet(access.ask(ShowFleet { jobs: false }).await?),
    })
}

fn filter(want: &Want) -> Result<Filter, Failure> {
    let search = want.search.as_deref().map(str::parse).transpose();
    let search = search.map_err(|why: String| Failure::new(exit::USAGE, why))?;
    Ok(Filter { search, limit: JOBS, ..Filter::default() })
}

/// Share of the last 10 s in which some process waited for CPU, memory or disk, in percent, if the kernel tells.
fn pressure() -> Option<[f32; 3]> {
    let of = |what: &str| {
        let text = std::fs::read_to_string(format!("/proc/pressure/{what}")).ok()?;
        text.strip_prefix("some avg10=")?.split(' ').next()?.parse().ok()
    };
    Some([of("cpu")?, of("memory")?, of("io")?])
}
