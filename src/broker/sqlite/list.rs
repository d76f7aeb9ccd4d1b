//! Lists, page by page, with other requests in between: a list of a million jobs delays no fetch.

use super::Sqlite;
use super::call::Kind;
use super::read;
use crate::broker::Error;
use crate::model::{Filter, JobRecord};

impl Sqlite {
    /// Jobs by filter, newest first.
    pub(super) async fn list_by_pages(&self, filter: Filter) -> Result<Vec<JobRecord>, Error> {
        let limit = filter.limit as usize;
        let from = filter.clone();
        let start = self.run(Kind::Read, move |store| read::start(store, &from)).await?;
        let states: Vec<_> = match filter.states.is_empty() {
            true => vec![None],
            false => filter.states.iter().copied().map(Some).collect(),
        };
        let mut jobs = Vec::new();
        for state in states {
            let mut before = Some(start);
            let mut found = Vec::new();
            while let Some(at) = before.filter(|_| found.len() < limit) {
                let filter = filter.clone();
                let page = self.run(Kind::Read, move |store| read::page(store, &filter, state, at)).await?;
                before = page.before;
                found.extend(page.jobs);
            }
            jobs.extend(found);
        }
        jobs.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
        jobs.dedup_by_key(|(place, _)| *place);
        jobs.truncate(limit);
        Ok(jobs.into_iter().map(|(_, job)| job).collect())
    }
}
