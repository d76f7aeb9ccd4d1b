//! Searches, and classes with a `*`: made of the pages of a list, so that they work with any broker.

use super::{Browse, Error};
use model::verb::FindJobs;
use model::{Cursor, Cut, Filter, JobRecord, Page, Search, Searched, matches_class};

/// Limit of the bytes of the results that one search finds, without the last.
const BYTES: usize = 8 << 20;

/// One page of a list, of which the broker knows neither searches nor classes with a `*`.
pub(super) async fn page(
    browse: &dyn Browse,
    filter: &Filter,
    mut at: Option<Cursor>,
) -> Result<Page, Error> {
    let is_pattern = filter.class.as_ref().is_some_and(|class| class.as_str().contains('*'));
    if filter.search.is_none() && !is_pattern {
        return browse.page(filter, at).await;
    }
    // The broker must not count those that are not found.
    let mut asked = Filter { limit: u32::MAX, ..filter.narrowed() };
    if is_pattern {
        asked.class = None;
    }
    let mut find = Find { filter, jobs: Vec::new(), searched: Searched::default() };
    match &mut at {
        Some(at) => find.searched = std::mem::take(&mut at.searched),
        None => find.by_id(browse, &asked).await?,
    }
    let Page { jobs, next, .. } = browse.page(&asked, at).await?;
    let count = jobs.len();
    for (number, job) in jobs.into_iter().enumerate() {
        let id = job.id.clone();
        find.look(job);
        if find.is_over() {
            let is_end = number + 1 == count && next.is_none();
            let looked = find.searched.looked;
            let cut = filter.search.as_ref().filter(|_| !is_end).map(|_| Cut { after: id, looked });
            return Ok(Page { jobs: find.jobs, next: None, cut });
        }
    }
    let searched = find.searched;
    Ok(Page { jobs: find.jobs, next: next.map(|next| Cursor { searched, ..next }), cut: None })
}

/// A search on its way.
struct Find<'a> {
    filter: &'a Filter,
    jobs: Vec<JobRecord>,
    searched: Searched,
}

impl Find<'_> {
    /// Takes those first whose ids begin as the search says: they may be far behind the jobs that it looks at.
    async fn by_id(&mut self, browse: &dyn Browse, asked: &Filter) -> Result<(), Error> {
        let Some(begins) = self.filter.search.as_ref().and_then(Search::as_id) else { return Ok(()) };
        if asked.after.is_some() || asked.id_prefix.is_some() {
            return Ok(());
        }
        let limit = FindJobs::MOST as u32;
        let ids = Filter { id_prefix: Some(begins.to_owned()), limit, ..asked.clone() };
        browse.page(&ids, None).await?.jobs.into_iter().for_each(|job| self.take(job));
        self.searched.by_id = self.jobs.iter().map(|job| job.id.clone()).collect();
        Ok(())
    }

    fn look(&mut self, job: JobRecord) {
        self.searched.looked += 1;
        // Those that were found by their ids are there already.
        if !self.searched.by_id.contains(&job.id) {
            self.take(job);
        }
    }

    fn take(&mut self, job: JobRecord) {
        let Filter { class, search, limit, .. } = self.filter;
        let is_full = *limit > 0 && self.searched.found >= u64::from(*limit);
        let is_of_class = class.as_ref().is_none_or(|class| matches_class(class, &job.class));
        if !is_full && is_of_class && search.as_ref().is_none_or(|search| search.finds(&job)) {
            self.searched.found += 1;
            self.searched.bytes += job.result.as_ref().map_or(0, String::len);
            self.jobs.push(job);
        }
    }

    fn is_over(&self) -> bool {
        let Searched { found, looked, bytes, .. } = self.searched;
        let is_full = self.filter.limit > 0 && found >= u64::from(self.filter.limit);
        is_full || self.filter.search.is_some() && (looked >= Search::ROWS || bytes >= BYTES)
    }
}
