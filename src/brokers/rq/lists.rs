//! Lists of RQ's jobs, from its own registries: those of many queues in one call, but none goes through all.

use std::collections::BTreeSet;

use super::record::{Row, record};
use super::source::Rq;
use broker::Error;
use model::verb::FindJobs;
use model::{Cursor, Filter, JobId, JobRecord, JobState, Millis, QueueName};
use redis_link::values::{Text, escaped, write_list};

/// The states for which RQ has a registry, in the order of a list.
pub(super) const STATES: [JobState; 7] = [
    JobState::Running,
    JobState::Waiting,
    JobState::Delayed,
    JobState::Depends,
    JobState::Failed,
    JobState::Complete,
    JobState::Canceled,
];
/// Number of lists to read from in one call: a limit on how long it blocks the server.
const LISTS: usize = 500;
/// Limit of the calls for a page that has no job yet.
const CALLS: usize = 50;
/// Limit of the jobs read in one call.
const ROWS: u32 = 100;
/// Limit of the ids read in one call, where the beginning of an id is asked for.
pub(super) const IDS: u32 = 5_000;

/// Where lists go on: at which one, and behind which row of it. A row has its job's id, so jobs that come and go
/// meanwhile have no other one passed over.
#[derive(Clone, Default)]
pub(super) struct Place {
    list: usize,
    /// As the script writes it; empty = at the beginning.
    row: Vec<u8>,
}

/// A part of the lists.
pub(super) struct Stretch {
    /// The matching jobs.
    pub jobs: Vec<JobRecord>,
    /// Where to go on; none at the end.
    pub next: Option<Place>,
    /// When it was read, by the clock of the server.
    pub read_at: Millis,
}

impl Place {
    /// The place that a cursor names. Queues may have come and gone meanwhile.
    pub(super) fn of_cursor(cursor: Cursor, lists: &[(QueueName, JobState)]) -> Place {
        let state = usize::try_from(cursor.place).unwrap_or(usize::MAX);
        let wanted = (state, cursor.id.as_ref().map_or("", JobId::as_str));
        let is_before = |list: &(QueueName, JobState)| (order(list.1), list.0.as_str()) < wanted;
        let list = lists.partition_point(is_before);
        let is_there = lists.get(list).is_some_and(|list| (order(list.1), list.0.as_str()) == wanted);
        // If the queue is gone, its row says nothing about the list that stands there now.
        Place { list, row: if is_there { cursor.row } else { Vec::new() } }
    }

    pub(super) fn cursor(self, lists: &[(QueueName, JobState)], left: u64) -> Option<Cursor> {
        let (queue, state) = lists.get(self.list)?;
        let (id, place) = (Some(queue.as_str().into()), order(*state) as i64);
        Some(Cursor { id, place, row: self.row, left, ..Cursor::default() })
    }
}

/// The number of a state in the order of a list.
fn order(state: JobState) -> usize {
    STATES.iter().position(|known| *known == state).unwrap_or(STATES.len())
}

impl Rq {
    /// All queues in order, some names in each call.
    pub(super) async fn queue_names(&self) -> Result<Vec<QueueName>, Error> {
        // SSCAN may give the same name in several answers.
        let (mut found, mut cursor) = (BTreeSet::new(), "0".to_owned());
        loop {
            let asked = self.asked("queue_names", |cmd| _ = cmd.arg(&cursor));
            let (Text(next), names): (Text, Vec<Text>) = asked.await?;
            found.extend(names);
            if next == "0" {
                return Ok(found.into_iter().map(|name| QueueName::from(name.0)).collect());
            }
            cursor = next;
        }
    }

    /// Ids that begin so, in order: goes through all keys, some at a time.
    pub(super) async fn find(&self, prefix: &str) -> Result<Vec<JobId>, Error> {
        // SCAN may give the same key in several answers.
        let (mut found, mut cursor) = (BTreeSet::new(), "0".to_owned());
        loop {
            let asked = self.asked("find", |cmd| _ = cmd.arg(prefix).arg(escaped(prefix)).arg(&cursor));
            let (Text(next), ids): (Text, Vec<Text>) = asked.await?;
            found.extend(ids);
            if next == "0" || found.len() >= FindJobs::MOST {
                return Ok(ids_of(found.into_iter().take(FindJobs::MOST)));
            }
            cursor = next;
        }
    }

    /// The lists that a filter needs.
    pub(super) async fn lists(&self, filter: &Filter) -> Result<Vec<(QueueName, JobState)>, Error> {
        let queues = match &filter.queue {
            Some(queue) => vec![queue.clone()],
            None => self.queue_names().await?,
        };
        let wanted = |state: &JobState| filter.states.is_empty() || filter.states.contains(state);
        let states: Vec<JobState> = STATES.into_iter().filter(wanted).collect();
        // In the order by which `of_cursor` searches.
        Ok(states.iter().flat_map(|state| queues.iter().map(|queue| (queue.clone(), *state))).collect())
    }

    /// Some matching jobs from a place in the lists on, `most` at most; `first` says at which end of a list it begins,
    /// `newest` or `oldest`.
    pub(super) async fn stretch(
        &self,
        filter: &Filter,
        lists: &[(QueueName, JobState)],
        mut at: Place,
        most: u64,
        first: &str,
    ) -> Result<Stretch, Error> {
        let looks = if filter.id_prefix.is_some() { IDS } else { ROWS };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let (mut found, mut read_at) = (Vec::new(), Millis(0));
        for _ in 0..CALLS {
            let some = &lists[at.list.min(lists.len())..lists.len().min(at.list.saturating_add(LISTS))];
            // A page need not be full: its reader goes on from the place that it gets.
            if some.is_empty() || !found.is_empty() {
                break;
            }
            let words = some.iter().flat_map(|(queue, state)| [queue.as_str(), state.as_str()]);
            let words: Vec<&str> = words.collect();
            let asked = self.asked::<(usize, Vec<u8>, Vec<Row>, i64)>("page", |cmd| {
                cmd.arg(&at.row).arg(looks).arg(first).arg(ROWS);
                cmd.arg(filter.id_prefix.as_deref().unwrap_or_default());
                write_list(cmd, words.into_iter());
            });
            let (list, row, jobs, now) = asked.await?;
            read_at = Millis(now);
            at = Place { list: at.list + list, row };
            let jobs = jobs.into_iter().map(|job| record(job, false));
            found = jobs.filter(|job| matches(filter, job)).take(most).collect();
        }
        let goes_on = at.list < lists.len() && found.len() < most;
        Ok(Stretch { jobs: found, next: goes_on.then_some(at), read_at })
    }

    /// The place behind a job.
    pub(super) async fn behind(&self, job: &JobId, lists: &[(QueueName, JobState)]) -> Result<Place, Error> {
        let found = self.get(job).await?;
        let is_there = |list: &(QueueName, JobState)| list.0 == found.queue && list.1 == found.state;
        let Some(list) = lists.iter().position(is_there) else { return Ok(Place::default()) };
        Ok(Place { list, row: self.place(&found).await?.map_or_else(Vec::new, |(row, _)| row) })
    }

    /// The row of a job in its list, and how many come before it.
    pub(super) async fn place(&self, job: &JobRecord) -> Result<Option<(Vec<u8>, u64)>, Error> {
        let found = self.asked("place", |cmd| {
            cmd.arg(job.id.as_str()).arg(job.queue.as_str()).arg(job.state.as_str());
        });
        found.await
    }
}

pub(super) fn ids_of(found: impl IntoIterator<Item = Text>) -> Vec<JobId> {
    found.into_iter().map(|id| id.0.into()).collect()
}

fn matches(filter: &Filter, job: &JobRecord) -> bool {
    let at = job.ended_at.unwrap_or(job.put_at);
    let is_of = |group: &String| job.failure.as_ref().is_some_and(|failure| failure.group == *group);
    filter.class.as_ref().is_none_or(|class| job.class == *class)
        && filter.group.as_ref().is_none_or(is_of)
        && filter.since.is_none_or(|since| at >= since)
        && filter.until.is_none_or(|until| at < until)
        && filter.tag.as_ref().is_none_or(|tag| job.tags.contains(tag))
        // RQ has no recurring or tracked jobs, so such a filter matches none.
        && filter.recurring.is_none()
        && !filter.tracked
}
