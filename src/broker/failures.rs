//! Groups the failed jobs that a filter finds, from a list of them, so it works for any broker. Without a filter each
//! broker counts by its own index.

use std::collections::BTreeMap;

use super::{Browse, Error, search};
use model::verb::{Failed, FailureGroup};
use model::{Filter, JobRecord, JobState, Millis};

/// Limit of the returned groups: those with the fewest jobs are left out.
const MOST: usize = 1_000;

/// The groups of failed jobs, the largest first.
pub async fn failure_groups(broker: &dyn Browse, asked: &Failed) -> Result<Vec<FailureGroup>, Error> {
    let filter = Filter {
        states: vec![JobState::Failed, JobState::Held],
        queue: asked.queue.clone(),
        class: asked.class.clone(),
        since: asked.since,
        limit: 0,
        ..Filter::default()
    };
    let mut groups: BTreeMap<String, FailureGroup> = BTreeMap::new();
    let mut at = None;
    loop {
        let page = search::page(broker, &filter, at).await?;
        page.jobs.into_iter().for_each(|job| add(&mut groups, job));
        // Limits the memory where each job has a group of its own.
        if groups.len() > 2 * MOST {
            groups = largest(groups).into_iter().map(|group| (group.group.clone(), group)).collect();
        }
        at = page.next;
        if at.is_none() {
            return Ok(largest(groups));
        }
    }
}

fn add(groups: &mut BTreeMap<String, FailureGroup>, job: JobRecord) {
    // A job without a reason counts in a group without a name.
    let (name, message) = job.failure.map(|failure| (failure.group, failure.message)).unwrap_or_default();
    let ended = job.ended_at.unwrap_or(Millis(0));
    let group = groups.entry(name.clone()).or_insert_with(|| FailureGroup {
        group: name,
        failed: 0,
        held: 0,
        // Any job is newer, even one without an end: the first one sets the text.
        newest: Millis(i64::MIN),
        job: job.id.clone(),
        message: String::new(),
    });
    *(if job.state == JobState::Held { &mut group.held } else { &mut group.failed }) += 1;
    if ended > group.newest {
        (group.newest, group.job, group.message) = (ended, job.id, message);
    }
}

fn largest(groups: BTreeMap<String, FailureGroup>) -> Vec<FailureGroup> {
    let mut groups: Vec<FailureGroup> = groups.into_values().collect();
    // The name decides between equals, so that every answer has the same order.
    groups.sort_by(|a, b| (b.failed + b.held).cmp(&(a.failed + a.held)).then_with(|| a.group.cmp(&b.group)));
    groups.truncate(MOST);
    groups
}
