//! Failed jobs by the group of their failure. Counted page by page, with other requests in between, as lists are.

use rusqlite::params;

use super::Sqlite;
use super::call::Kind;
use super::columns::state;
use super::store::Store;
use super::trouble::Trouble;
use broker::Error;
use model::verb::FailureGroup;
use model::{Failure, JobState, Millis};

/// Number of jobs to count in one page.
const PAGE: usize = 2_000;
/// Limit of the returned groups: those with the fewest jobs are left out.
const MOST: usize = 1_000;

/// One group, counted so far.
#[derive(Clone, Default)]
struct Count {
    group: String,
    failed: u64,
    held: u64,
    /// When the newest job of the group ended, and its row.
    newest: (i64, i64),
    /// The last row that was counted.
    last: i64,
}

impl Sqlite {
    /// All groups of failed jobs, the largest first.
    pub(super) async fn groups_by_pages(&self) -> Result<Vec<FailureGroup>, Error> {
        let mut groups: Vec<FailureGroup> = Vec::new();
        let mut before = None;
        while let Some(name) = self.run(Kind::Read, move |store| next_group(store, before.as_deref())).await?
        {
            groups.extend(self.count_by_pages(name.clone()).await?);
            before = Some(name);
            // Jobs name their groups, so their number has no limit; what is kept of them has.
            if groups.len() >= 2 * MOST {
                order(&mut groups);
            }
        }
        order(&mut groups);
        Ok(groups)
    }

    /// Counts one group, which may be empty by now.
    async fn count_by_pages(&self, group: String) -> Result<Option<FailureGroup>, Error> {
        let mut count = Count { group, last: i64::MIN, ..Count::default() };
        loop {
            let so_far = count.clone();
            let (seen, counted) =
                self.run(Kind::Read, move |store| count_page(store, so_far.clone())).await?;
            count = counted;
            if seen < PAGE {
                return self.run(Kind::Read, move |store| told(store, &count)).await;
            }
        }
    }
}

fn order(groups: &mut Vec<FailureGroup>) {
    groups.sort_by(|a, b| (b.failed + b.held).cmp(&(a.failed + a.held)).then_with(|| a.group.cmp(&b.group)));
    groups.truncate(MOST);
}

/// The name of the next group: a step in the index. The first name may be empty.
fn next_group(store: &Store, before: Option<&str>) -> Result<Option<String>, Trouble> {
    let later = if before.is_some() { ">" } else { ">=" };
    let mut statement = store.conn.prepare_cached(&format!(
        "SELECT min(failure_group) FROM job INDEXED BY job_group WHERE failure_group {later} ?1"
    ))?;
    Ok(statement.query_row([before.unwrap_or_default()], |row| row.get(0))?)
}

/// Counts the next page; gives how many jobs it had.
fn count_page(store: &Store, mut count: Count) -> Result<(usize, Count), Trouble> {
    let mut statement = store.conn.prepare_cached(&format!(
        "SELECT id, state, coalesce(ended_at, 0) FROM job INDEXED BY job_group
         WHERE failure_group = ?1 AND id > ?2 ORDER BY id LIMIT {PAGE}"
    ))?;
    let mut rows = statement.query(params![count.group, count.last])?;
    let mut seen = 0;
    while let Some(row) = rows.next()? {
        seen += 1;
        count.last = row.get(0)?;
        let is_held = state(row.get(1)?) == JobState::Held;
        *(if is_held { &mut count.held } else { &mut count.failed }) += 1;
        count.newest = count.newest.max((row.get(2)?, count.last));
    }
    Ok((seen, count))
}

/// The group with the text of its newest job, unless that job has left it meanwhile.
fn told(store: &Store, count: &Count) -> Result<Option<FailureGroup>, Trouble> {
    let mut statement = store.conn.prepare_cached("SELECT jid, failure FROM job WHERE id = ?1")?;
    let mut rows = statement.query([count.newest.1])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let failure: Option<Failure> = super::columns::kept(row, 1)?;
    Ok(Some(FailureGroup {
        group: count.group.clone(),
        failed: count.failed,
        held: count.held,
        newest: Millis(count.newest.0),
        job: row.get_ref(0)?.as_str().unwrap_or_default().into(),
        message: failure.map(|failure| failure.message).unwrap_or_default(),
    }))
}
