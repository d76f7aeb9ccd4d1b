//! Lists of jobs, page by page, and jobs by the beginning of their ids.

use std::collections::BTreeSet;

use redis::Cmd;

use super::ask::asked;
use super::indices::{self, Adopts};
use super::reply::{self, number, parts, text};
use super::shared::Shared;
use broker::Error;
use model::verb::FindJobs;
use model::{Cursor, Filter, JobId, JobState, Page, QueueName};

/// The jobs whose ids begin this way. Redis has no order of ids: goes through all of them, some at a time.
pub(super) async fn find(redis: &Shared, prefix: &str) -> Result<Vec<JobId>, Error> {
    let (mut found, mut cursor) = (BTreeSet::new(), "0".to_owned());
    loop {
        let answer = asked(redis, "taskvisor.find", |cmd| {
            cmd.arg(prefix).arg(&cursor);
        });
        let [next, ids] = parts(answer.await?)?;
        found.extend(reply::array(ids)?.iter().filter_map(text));
        // A scan begins and ends with cursor 0, and may give an id twice: hence the set.
        cursor = text(&next).unwrap_or_default();
        if matches!(cursor.as_str(), "" | "0") || found.len() >= FindJobs::MOST {
            return Ok(found.iter().take(FindJobs::MOST).map(|id| id.as_str().into()).collect());
        }
    }
}

/// Writes a filter as the script takes it. A group may have an empty name, so each has a sign before it.
pub(super) fn write_asked(cmd: &mut Cmd, filter: &Filter) {
    cmd.arg(filter.states.len());
    for state in &filter.states {
        cmd.arg(state.as_str());
    }
    cmd.arg(filter.queue.as_ref().map_or("", QueueName::as_str));
    cmd.arg(filter.class.as_ref().map_or("", |class| class.as_str()));
    cmd.arg(filter.tag.as_deref().unwrap_or_default());
    cmd.arg(filter.group.as_ref().map_or_else(String::new, |group| format!("={group}")));
    cmd.arg(u8::from(filter.tracked)).arg(filter.recurring.as_deref().unwrap_or_default());
    cmd.arg(filter.since.map_or(0, |since| since.0)).arg(filter.until.map_or(-1, |until| until.0));
    cmd.arg(filter.id_prefix.as_deref().unwrap_or_default());
}

/// Number of jobs that one page looks at: a limit on how long it blocks the server.
const ROWS: usize = 500;
/// The same where the ids are looked at first, and few jobs are read.
const IDS: usize = 5_000;

/// One page of a list.
pub(super) async fn page(redis: &Shared, filter: &Filter, at: Option<Cursor>) -> Result<Page, Error> {
    let adopts = match at.is_none() && filter.after.is_none() {
        false => Adopts::None,
        true if filter.limit != 0 || filter.id_prefix.is_some() => Adopts::IfMore,
        true => Adopts::All,
    };
    let among = indices::look(redis, filter, adopts).await?;
    let Cursor { place, left, .. } = match (at, &filter.after) {
        (Some(at), _) => at,
        (None, after) => {
            let place = match after {
                Some(id) => number(
                    &asked(redis, "taskvisor.place", |cmd| {
                        cmd.arg(id.as_str());
                    })
                    .await?,
                ),
                None => i64::MAX,
            };
            let left = if filter.limit == 0 { u64::MAX } else { filter.limit.into() };
            Cursor { place, left, ..Cursor::default() }
        }
    };
    let rows = if filter.id_prefix.is_some() { IDS } else { ROWS };
    let answer = asked(redis, "taskvisor.list", |cmd| {
        cmd.arg(place).arg(rows).arg(left.min(ROWS as u64)).arg(reply::RECORD.len());
        for name in &reply::RECORD {
            cmd.arg(*name);
        }
        write_asked(cmd, filter);
        among.write(cmd, place, rows, false);
    });
    let [next, found] = parts(answer.await?)?;
    let jobs = reply::array(found)?
        .into_iter()
        .map(|found| {
            let [id, values, tracked, first, data, exec] = parts(found)?;
            let id = text(&id).unwrap_or_default().into();
            let mut job = reply::record(&id, &reply::array(values)?, number::<u8>(&tracked) == 1, &first)?;
            let is_shown = [&data, &exec].iter().any(|it| text(it).is_some());
            job.title = is_shown.then(|| reply::payload(&data, &exec).title(&job.class));
            Ok(job)
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let left = left - jobs.len() as u64;
    // A place is a score of a sorted set, which Redis keeps as a float.
    let next = reply::some_number::<f64>(&next).filter(|_| left > 0);
    let next = next.map(|place| Cursor { place: place as i64, left, ..Cursor::default() });
    Ok(Page { jobs, next, cut: None })
}

/// How many tasks have ids that begin so and are in any of these states, or in any at all.
pub(super) async fn count_tasks(redis: &Shared, begins: &str, states: &[JobState]) -> Result<u64, Error> {
    let filter = Filter { id_prefix: Some(begins.into()), states: states.to_vec(), ..Filter::default() };
    let among = indices::look(redis, &filter, Adopts::IfMore).await?;
    let (mut place, mut count) = (i64::MAX, 0);
    loop {
        let answer = asked(redis, "taskvisor.count_tasks", |cmd| {
            cmd.arg(place).arg(IDS);
            write_asked(cmd, &filter);
            among.write(cmd, place, IDS, false);
        });
        let [next, found] = parts(answer.await?)?;
        count += number::<u64>(&found);
        let Some(next) = reply::some_number::<f64>(&next) else { return Ok(count) };
        place = next as i64;
    }
}
