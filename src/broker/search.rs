//! Searches, and classes with a `*`: made of the pages of a list, so that they work with any broker.

use super::{Browse, Error};
use model::verb::FindJobs;
use model::{Cursor, Cut, Filter, JobCounts, JobRecord, Millis, Page, Search, Searched, matches_class};

/// Limit of the bytes of the jobs that one search finds, without the last: their results, failures and what else may be
/// long.
const BYTES: usize = 8 << 20;

/// Counts the jobs that a filter selects, up to its limit. They are read in short steps, so that others get by.
pub(super) async fn count(browse: &dyn Browse, filter: &Filter, now: Millis) -> Result<JobCounts, Error> {
    let (mut counts, mut at) = (JobCounts::default(), None);
    while !is_sought(filter)
        && let Some((sum, next)) = browse.tally(filter, at.clone(), &counts, now).await?
    {
        (counts, at) = (sum, next);
        if at.is_none() {
            return Ok(counts);
        }
    }
    // One more shows whether there are others.
    let (asked, mut left) = (Filter { limit: filter.limit + 1, ..filter.clone() }, filter.limit);
    loop {
        let page = page(browse, &asked, at).await?;
        for job in &page.jobs {
            if left == 0 {
                return Ok(JobCounts { more: true, ..counts });
            }
            counts.add_record(job, now);
            left -= 1;
        }
        at = page.next;
        if at.is_none() {
            return Ok(JobCounts { more: page.cut.is_some(), ..counts });
        }
    }
}

/// Whether the jobs are to be looked through here: by a search, or for a class with a `*`.
fn is_sought(filter: &Filter) -> bool {
    filter.search.is_some() || is_pattern(filter)
}

fn is_pattern(filter: &Filter) -> bool {
    filter.class.as_ref().is_some_and(|class| class.as_str().contains('*'))
}

/// One page of a list, of which the broker knows neither searches nor classes with a `*`.
pub(super) async fn page(
    browse: &dyn Browse,
    filter: &Filter,
    mut at: Option<Cursor>,
) -> Result<Page, Error> {
    if !is_sought(filter) {
        return browse.page(filter, at).await;
    }
    // The broker must not count those that are not found.
    let mut asked = Filter { limit: u32::MAX, ..filter.narrowed() };
    if is_pattern(filter) {
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
        // A search that goes on has shown them before.
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
            self.searched.bytes += job.bytes();
            self.jobs.push(job);
        }
    }

    fn is_over(&self) -> bool {
        let Searched { found, looked, bytes, .. } = self.searched;
        let is_full = self.filter.limit > 0 && found >= u64::from(self.filter.limit);
        is_full || self.filter.search.is_some() && (looked >= Search::ROWS || bytes >= BYTES)
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use model::{Failure, JobId, JobState};

    use super::*;

    /// Failed jobs with long traces.
    struct Failed(u32);

    #[async_trait]
    impl Browse for Failed {
        async fn page(&self, _: &Filter, _: Option<Cursor>) -> Result<Page, Error> {
            let trace = Some("x".repeat(64 << 10));
            let failure = Failure { group: "exit 1".into(), message: "exit 1".into(), trace };
            let failed = |number: u32| JobRecord {
                failure: Some(failure.clone()),
                ..JobRecord::new(number.to_string().into(), "q".into(), "c".into(), JobState::Failed)
            };
            Ok(Page { jobs: (0..self.0).map(failed).collect(), next: None, cut: None })
        }

        async fn count_tasks(&self, _: &str, _: &[JobState]) -> Result<u64, Error> {
            Ok(0)
        }

        async fn ended(&self, id: JobId) -> Result<JobState, Error> {
            Err(Error::NoJob(id))
        }
    }

    #[tokio::test]
    async fn search_is_cut_once_the_traces_that_it_finds_are_long() {
        let search: Search = "state:failed".parse().expect("a search");
        let filter = Filter { search: Some(search), limit: 0, ..Filter::default() };
        let found = page(&Failed(1000), &filter, None).await.expect("a page");
        assert_eq!(found.jobs.len(), BYTES / (64 << 10));
        let cut = found.cut.expect("it is cut");
        assert_eq!((cut.after.as_str(), cut.looked as usize), ("127", found.jobs.len()));
    }
}
