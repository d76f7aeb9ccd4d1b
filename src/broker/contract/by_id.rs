//! Jobs by the beginning of their ids, also for brokers that keep no order of ids: there all jobs are looked at, a page at a
//! time, and come newest first.

use super::{Browse, Error};
use crate::model::{Cursor, Filter, JobState, Page};

/// A stretch of a list of any filter.
pub(super) async fn page(broker: &dyn Browse, filter: &Filter, at: Option<Cursor>) -> Result<Page, Error> {
    let begins = match &filter.id_prefix {
        Some(begins) if !broker.finds_by_id() => begins,
        Some(_) | None => return broker.page(filter, at).await,
    };
    let usual = if filter.limit == 0 { u64::MAX } else { filter.limit.into() };
    let left = at.as_ref().map_or(usual, |at| at.left);
    // How many others come before them is not known: a limit that no list reaches. With none, Redis would first look for each
    // job that another program has put, which takes seconds among many.
    let others = Filter { id_prefix: None, limit: u32::MAX, ..filter.clone() };
    let at = at.map(|at| Cursor { left: u64::MAX, ..at });
    let Page { mut jobs, next } = broker.page(&others, at).await?;
    jobs.retain(|job| job.id.as_str().starts_with(begins));
    jobs.truncate(usize::try_from(left).unwrap_or(usize::MAX));
    let left = left - jobs.len() as u64;
    Ok(Page { jobs, next: next.filter(|_| left > 0).map(|next| Cursor { left, ..next }) })
}

/// How many tasks there are whose ids begin so: counted page by page where the broker keeps no count.
pub(super) async fn count_tasks(
    broker: &dyn Browse,
    begins: &str,
    states: &[JobState],
) -> Result<u64, Error> {
    if let Some(count) = broker.count_tasks(begins, states).await? {
        return Ok(count);
    }
    let (states, limit) = (states.to_vec(), 0);
    let filter = Filter { id_prefix: Some(begins.into()), states, limit, ..Filter::default() };
    let (mut count, mut at) = (0, None);
    loop {
        let page = page(broker, &filter, at).await?;
        count += page.jobs.len() as u64;
        at = page.next;
        if at.is_none() {
            return Ok(count);
        }
    }
}
