//! A list of jobs as it arrives, from the supervisor or the store: at most one page of it is in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Access;
use super::spooled::puts_only;
use api::Lines;
use broker::Broker;
use config::Config;
use failure::Failure;
use model::{Cursor, Cut, Filter, JobId, JobRecord};

/// The part that has not arrived yet.
pub(crate) enum Listing {
    /// Read from the supervisor.
    Api(Lines<JobRecord>),
    /// Read completely already.
    Ready(VecDeque<JobRecord>),
    /// Read from the store.
    Store { store: Arc<Broker>, filter: Filter, at: Option<Cursor>, is_over: bool, cut: Option<Cut> },
}

impl Listing {
    /// Begins a list.
    pub(crate) async fn open(access: Access, filter: Filter) -> Result<Self, Failure> {
        let access = match access {
            Access::Api(api, config) => match api.list(&filter).await {
                Ok(lines) => return Ok(Listing::Api(lines)),
                Err(error) => Access::after(&config, error).await?,
            },
            access @ (Access::Store(_) | Access::Spool(_)) => access,
        };
        Ok(match access {
            Access::Api(api, _) => Listing::Api(api.list(&filter).await?),
            Access::Store(store) => Listing::Store { store, filter, at: None, is_over: false, cut: None },
            Access::Spool(spool) => return Err(puts_only(&spool)),
        })
    }

    /// Where a search was cut, if it was; known at its end.
    pub(crate) fn cut(&self) -> Option<&Cut> {
        match self {
            Listing::Api(lines) => lines.cut(),
            Listing::Ready(_) => None,
            Listing::Store { cut, .. } => cut.as_ref(),
        }
    }

    /// The next jobs, at least one; none at the end.
    pub(crate) async fn next(&mut self) -> Result<VecDeque<JobRecord>, Failure> {
        match self {
            Listing::Api(lines) => Ok(lines.next().await?),
            Listing::Ready(jobs) => Ok(std::mem::take(jobs)),
            Listing::Store { store, filter, at, is_over, cut } => {
                let mut jobs = VecDeque::new();
                // For the caller an empty part is the end, but a page may hold no match while others follow.
                while jobs.is_empty() && !*is_over {
                    let page = store.page(filter, at.take()).await?;
                    (*is_over, *at, *cut) = (page.next.is_none(), page.next, page.cut);
                    jobs = page.jobs.into();
                }
                Ok(jobs)
            }
        }
    }
}

/// The ids of all jobs that a filter selects, as they were put.
pub(crate) async fn all(config: &Config, filter: Filter) -> Result<Vec<JobId>, Failure> {
    let mut listing = Listing::open(Access::open(config).await?, filter).await?;
    let mut ids = Vec::new();
    loop {
        let jobs = listing.next().await?;
        if jobs.is_empty() {
            // A list begins with the newest job.
            ids.reverse();
            return Ok(ids);
        }
        ids.extend(jobs.into_iter().map(|job| job.id));
    }
}
