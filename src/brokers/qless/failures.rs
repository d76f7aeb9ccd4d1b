//! Failures by group, and changes of many jobs at a time.

use std::collections::BTreeMap;

use super::ask::{asked, retried};
use super::indices::{self, Adopts};
use super::lists::write_asked;
use super::reply::{self, array, number, parts, some_number, text};
use super::shared::Shared;
use broker::Error;
use model::verb::{Act, Bulk, FailureGroup, Swept};
use model::{Failure, Filter, Millis};

/// Number of held jobs, or of groups, to count in one call.
const HELD: usize = 1_000;
const GROUPS: usize = 500;
/// Limit of the returned groups: those with the fewest jobs are left out.
const MOST: usize = 1_000;
/// Number of jobs to look at in one call.
const STRETCH: usize = 500;
/// Limit of the ids in an answer.
const SHOWN: usize = 10;

/// All groups of failed jobs, the largest first.
pub(super) async fn groups(redis: &Shared) -> Result<Vec<FailureGroup>, Error> {
    // Each with the position of its newest job among those that ended in the same moment.
    let mut groups: BTreeMap<String, (f64, FailureGroup)> = BTreeMap::new();
    let mut add = |found: redis::Value| -> Result<(), Error> {
        for found in array(found)? {
            let (order, group) = group(found)?;
            let newest = match groups.remove(&group.group) {
                // Held jobs of all groups are one list in qless, so a group may come from several pages.
                Some(known) => merged(known, (order, group)),
                None => (order, group),
            };
            groups.insert(newest.1.group.clone(), newest);
        }
        Ok(())
    };
    let names: Vec<_> = indices::groups(redis).await?.into_iter().collect();
    for some in names.chunks(GROUPS) {
        let answer = asked(redis, "taskvisor.groups", |cmd| {
            cmd.arg(some);
        });
        add(answer.await?)?;
    }
    for page in 0.. {
        let answer = asked(redis, "taskvisor.held_groups", |cmd| {
            cmd.arg(page * HELD).arg(HELD);
        });
        let [goes_on, found] = parts(answer.await?)?;
        add(found)?;
        if number::<u8>(&goes_on) == 0 {
            break;
        }
    }
    let mut groups: Vec<FailureGroup> = groups.into_values().map(|(_, group)| group).collect();
    groups.sort_by(|a, b| (b.failed + b.held).cmp(&(a.failed + a.held)).then_with(|| a.group.cmp(&b.group)));
    groups.truncate(MOST);
    Ok(groups)
}

fn group(found: redis::Value) -> Result<(f64, FailureGroup), Error> {
    let [group, failed, held, ended, order, job, why] = parts(found)?;
    let failure: Option<Failure> = reply::kept(&why);
    let told = FailureGroup {
        group: text(&group).unwrap_or_default(),
        failed: number(&failed),
        held: number(&held),
        newest: Millis(number(&ended)),
        job: text(&job).unwrap_or_default().into(),
        message: failure.map(|failure| failure.message).unwrap_or_default(),
    };
    Ok((text(&order).and_then(|order| order.parse().ok()).unwrap_or(0.0), told))
}

/// Adds the counts of both groups, and keeps the text of the newer one.
fn merged(one: (f64, FailureGroup), other: (f64, FailureGroup)) -> (f64, FailureGroup) {
    let (failed, held) = (one.1.failed + other.1.failed, one.1.held + other.1.held);
    let is_newer = (one.1.newest, one.0) > (other.1.newest, other.0);
    let (order, newer) = if is_newer { one } else { other };
    (order, FailureGroup { failed, held, ..newer })
}

pub(super) async fn sweep(redis: &Shared, it: &Bulk, by: &str) -> Result<Swept, Error> {
    if let Some(fault) = it.fault() {
        return Err(Error::Refused(fault));
    }
    let filter = Filter {
        states: vec![it.state],
        group: it.group.clone(),
        class: it.class.clone(),
        queue: it.queue.clone(),
        ..Filter::default()
    };
    sweep_of(redis, it, &filter, by).await
}

/// Changes the jobs that a filter finds.
pub(super) async fn sweep_of(redis: &Shared, it: &Bulk, filter: &Filter, by: &str) -> Result<Swept, Error> {
    let adopts = if it.after.is_none() { Adopts::All } else { Adopts::None };
    let among = indices::look(redis, filter, adopts).await?;
    let after = it.after.unwrap_or(-1);
    let answer = redis.call("change jobs in", "taskvisor.sweep", |cmd, offset| {
        cmd.arg(match it.act {
            Act::Retry => "retry",
            Act::Discard => "discard",
        });
        cmd.arg(retried(offset.millis(redis.link.now()), by)).arg(u8::from(it.dry_run));
        cmd.arg(after).arg(STRETCH).arg(it.limit.unwrap_or(u64::MAX));
        cmd.arg(it.since.map_or(0, |since| since.0));
        write_asked(cmd, filter);
        among.write(cmd, after, STRETCH, true);
    });
    let [next, needed, done] = parts(reply::unless_refused(answer.await?, |_| None)?)?;
    let mut swept = Swept { needed: number(&needed), next: some_number(&next), ..Swept::default() };
    let done = array(done)?;
    swept.count = done.len() as u64;
    swept.jobs = done.iter().take(SHOWN).filter_map(text).map(Into::into).collect();
    Ok(swept)
}
