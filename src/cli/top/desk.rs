//! What answers the requests of the screen: the supervisor, or the store.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::UnboundedSender;

use crate::cli::access::Access;
use crate::cli::access::elsewhere::client;
use crate::cli::access::spooled::puts_only;
use crate::cli::term::screen::Look;
use ::top::ask::{List, News, Seen, Want};
use ::top::thing::Tab;
use config::Config;
use failure::{Failure, exit};
use model::verb::{self, ListRecurring, Queues, ShowFleet};
use model::{Filter, Status};

/// What answers the requests.
pub struct Desk {
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
}

impl Desk {
    /// Tells the screen.
    pub fn say(&self, news: News) {
        // Nobody hears it at the end.
        let _ = self.tell.send(news);
    }

    /// The way of the look before if it still holds, else a new one.
    pub async fn access(&self) -> Result<Arc<Access>, Failure> {
        let before = self.way.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let holds = match before.as_deref() {
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
    pub async fn look(&self, want: &Want) {
        match self.seen(want).await {
            Ok(seen) => self.say(News::Seen(Box::new(seen))),
            Err(failure) => {
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
        let list = list(&access, want).await.map_err(|failure| failure.in_a_line());
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status.clone().map(Arc::new);
        let pressure = if self.config.remote.is_none() { pressure() } else { None };
        Ok(Seen { at: clock::wall(), place, status, pressure, tab: want.tab, list })
    }

    /// What the look before has seen.
    pub fn status(&self) -> Option<Arc<Status>> {
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
