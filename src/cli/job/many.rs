//! `job retry`, `job discard` and `queue forget`: many jobs, part by part, so that no answer takes long.

use super::edit::act;
use super::list::must_be_known;
use super::sample::sample;
use super::state_line::print_state;
use crate::cli::access::listing::all;
use crate::cli::access::named::all_named;
use crate::cli::access::{Access, for_each};
use crate::cli::args::batch::tag_of;
use crate::cli::args::{JobDiscard, JobRetry, Many, QueueForget};
use crate::cli::term::format::counted;
use crate::cli::term::screen::{print, print_json};
use config::Config;
use failure::{Failure, exit};
use model::verb::{Act, Bulk, Discard, Forget, Retry, Swept};
use model::{Filter, JobState, QueueName};

/// Number of jobs that are named.
const SHOWN: usize = 10;

/// Puts jobs back to waiting.
pub(crate) async fn retry(config: &Config, args: &JobRetry) -> Result<u8, Failure> {
    if let Some(tag) = args.tag.clone().or_else(|| args.batch.as_deref().map(tag_of)) {
        return retry_tagged(config, &args.many, tag).await;
    }
    if args.jids.is_empty() {
        return sweep_and_tell(config, Act::Retry, &args.many).await;
    }
    let access = Access::open(config).await?;
    for_each(all_named(&access, &args.jids).await?, async |id| {
        access.ask(Retry { job: id.clone() }).await?;
        print_state(&id, JobState::Waiting, args.many.json)
    })
    .await
}

/// Removes jobs for good.
pub(crate) async fn discard(config: &Config, args: &JobDiscard) -> Result<u8, Failure> {
    if args.jids.is_empty() {
        return sweep_and_tell(config, Act::Discard, &args.many).await;
    }
    let told = ("discarded", serde_json::json!(true));
    act(config, &args.jids, args.many.json, |job| Discard { job }, "discarded", told).await
}

/// Removes queues, with `--discard` after their jobs are removed.
pub(crate) async fn forget(config: &Config, args: &QueueForget) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    for_each(&args.queues, async |name| {
        let queue = QueueName::from(name.as_str());
        let mut asked = Forget { queue: queue.clone(), discard: args.discard, after: None };
        loop {
            asked.after = access.ask(asked.clone()).await?.next;
            if asked.after.is_none() {
                break;
            }
        }
        if args.json {
            print_json(&serde_json::json!({ "queue": queue, "removed": true }))?;
        }
        Ok(())
    })
    .await
}

/// Puts the jobs with a tag back to waiting, those first that were put first.
async fn retry_tagged(config: &Config, many: &Many, tag: String) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    // No request retries by tag: the jobs are listed, and retried one by one.
    let filter = Filter {
        states: many.states(),
        tag: Some(tag),
        group: many.group.clone(),
        class: many.class.as_deref().map(Into::into),
        queue: many.queue.as_deref().map(Into::into),
        since: many.since,
        limit: 0,
        ..Filter::default()
    };
    let most = many.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let (mut jobs, mut done) = (all(config, filter.clone()).await?, Swept::default());
    jobs.truncate(most);
    if jobs.is_empty() {
        must_be_known(config, &filter).await?;
    }
    let code = for_each(jobs, async |id| {
        if !many.dry_run {
            access.ask(Retry { job: id.clone() }).await?;
        }
        done.count += 1;
        done.jobs.extend((done.jobs.len() < SHOWN).then_some(id));
        Ok(())
    })
    .await?;
    tell(&access, Act::Retry, many, &done).await?;
    Ok(code)
}

async fn sweep_and_tell(config: &Config, act: Act, many: &Many) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    let mut done = Swept::default();
    for state in many.states() {
        let asked = Bulk {
            group: many.group.clone(),
            class: many.class.as_deref().map(Into::into),
            queue: many.queue.as_deref().map(Into::into),
            since: many.since,
            // The limit holds for all states together.
            limit: many.limit.map(|limit| limit.saturating_sub(done.count)),
            dry_run: many.dry_run,
            ..every(act, state)
        };
        sweep(&access, asked, &mut done).await.map_err(|mut failure| {
            if done.count > 0 {
                failure.causes.push(format!("{} before that", in_words(act, many.dry_run, &done)));
            }
            failure
        })?;
    }
    // A misspelled name matches nothing, too.
    if (done.count, done.needed) == (0, 0) {
        must_be_known(config, &named(many)).await?;
    }
    tell(&access, act, many, &done).await?;
    Ok(exit::OK)
}

async fn tell(access: &Access, act: Act, many: &Many, done: &Swept) -> Result<(), Failure> {
    match many.json {
        true => print_json(&serde_json::json!({
            "count": done.count, "needed": done.needed, "unread": done.unread, "from": done.from,
            "jobs": done.jobs, "dry_run": many.dry_run
        }))?,
        false => {
            let mut said = text(act, many.dry_run, done);
            if many.dry_run && !done.jobs.is_empty() {
                said += &sample(access, &done.jobs, done.count).await;
            }
            print(&said)?;
        }
    }
    Ok(())
}

/// The names that were typed, which exist unless they are misspelled.
fn named(many: &Many) -> Filter {
    let class = many.class.as_deref().map(Into::into);
    Filter { group: many.group.clone(), class, ..Filter::default() }
}

/// A request for all jobs in this state.
fn every(act: Act, state: JobState) -> Bulk {
    Bulk {
        act,
        state,
        group: None,
        class: None,
        queue: None,
        since: None,
        limit: None,
        dry_run: false,
        after: None,
    }
}

/// Handles all parts, and adds the results to `done`.
async fn sweep(access: &Access, mut asked: Bulk, done: &mut Swept) -> Result<(), Failure> {
    loop {
        let swept = access.ask(asked.clone()).await?;
        done.count += swept.count;
        done.needed += swept.needed;
        done.unread += swept.unread;
        done.from
            .extend(swept.from.into_iter().filter(|queue| !done.from.contains(queue)).collect::<Vec<_>>());
        done.jobs.extend(swept.jobs.into_iter().take(SHOWN - done.jobs.len()));
        if swept.next.is_none() {
            return Ok(());
        }
        asked.after = swept.next;
        asked.limit = asked.limit.map(|limit| limit.saturating_sub(swept.count));
    }
}

fn in_words(act: Act, dry_run: bool, done: &Swept) -> String {
    let verb = match (act, dry_run) {
        (Act::Retry, false) => "retried",
        (Act::Retry, true) => "would be retried",
        (Act::Discard, false) => "discarded",
        (Act::Discard, true) => "would be discarded",
    };
    format!("{} {verb}", counted(usize::try_from(done.count).unwrap_or(usize::MAX), "job", "jobs"))
}

fn text(act: Act, dry_run: bool, done: &Swept) -> String {
    let from = if done.from.is_empty() { String::new() } else { format!(", from {}", done.from.join(", ")) };
    let mut text = in_words(act, dry_run, done) + &from + "\n";
    if done.unread > 0 {
        let stay = counted(usize::try_from(done.unread).unwrap_or(usize::MAX), "stays", "stay");
        text += &format!("{stay}, because they cannot be read\n");
    }
    if done.needed > 0 {
        let stay = counted(usize::try_from(done.needed).unwrap_or(usize::MAX), "stays", "stay");
        text += &format!("{stay}, because others depend on them\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_output_shows_count_and_action() {
        let done = Swept { count: 12, needed: 1, jobs: vec!["a".into(), "b\x1b".into()], ..Swept::default() };
        assert_eq!(
            text(Act::Discard, false, &done),
            "12 jobs discarded\n1 stays, because others depend on them\n"
        );
        let dry = "12 jobs would be retried\n1 stays, because others depend on them\n";
        assert_eq!(text(Act::Retry, true, &done), dry);
        assert_eq!(text(Act::Retry, false, &Swept::default()), "0 jobs retried\n");
        let done = Swept { count: 2, unread: 1, from: vec!["dlq-mail".into()], ..Swept::default() };
        let moved = "2 jobs retried, from dlq-mail\n1 stays, because they cannot be read\n";
        assert_eq!(text(Act::Retry, false, &done), moved);
    }
}
