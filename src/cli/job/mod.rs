//! `job show|list|wait|cancel`.

mod cancel;
mod edit;
mod killer;
pub(super) mod lens;
mod logs;
pub(super) mod many;
pub(super) mod needs;
pub(super) mod page;
pub(super) mod processes;
mod rows;
pub(super) mod timeline;
pub(super) mod wait;

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use self::rows::{Extra, JobTable, weight};
use super::access::Access;
use super::access::hosts::Hosts;
use super::access::listing::Listing;
use super::args::job::Sort;
use super::args::{JobCommand, JobList, JobShow};
use super::term::screen::{Look, age, escaped, print, print_json};
use crate::config::Config;
use crate::failure::{Failure, exit};
use crate::model::{Filter, JobId, JobRecord, JobState, Millis};

/// One of them.
pub async fn run(config: &Config, command: JobCommand) -> Result<u8, Failure> {
    match command {
        JobCommand::Show(args) => show(config, &args).await,
        JobCommand::List(args) => list(config, args).await,
        JobCommand::Wait(args) => wait::wait(config, &args).await,
        JobCommand::Result(args) => wait::result(config, &args).await,
        JobCommand::Logs(logs) => logs::logs(config, &logs).await,
        JobCommand::Cancel(args) => cancel::cancel(config, &args).await,
        JobCommand::Depends(depends) => edit::depends(config, depends).await,
        JobCommand::Priority(priority) => edit::priority(config, &priority).await,
        JobCommand::Tag(tag) => edit::tag(config, tag).await,
        JobCommand::Track(jobs) => edit::track(config, &jobs).await,
        JobCommand::Untrack(jobs) => edit::untrack(config, &jobs).await,
        JobCommand::Retry(retry) => many::retry(config, &retry).await,
        JobCommand::Discard(discard) => many::discard(config, &discard).await,
    }
}

/// One job on a page.
pub async fn show(config: &Config, args: &JobShow) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    let mut job = access.job(&access.named(&args.jid).await?).await?;
    if args.json {
        print_json(&job)?;
        return Ok(exit::OK);
    }
    let unkillable = unkillable(&access, &job).await;
    Hosts::of(&access).await.name_in(&mut job);
    let killed = killer::of(&job).unwrap_or_default();
    print(&(page::render(&job, unkillable.as_deref(), &Look::of_stdout(false)) + &killed))?;
    Ok(exit::OK)
}

/// What of a running job was killed and does not die, as its supervisor knows it.
async fn unkillable(access: &Access, job: &JobRecord) -> Option<String> {
    match access {
        Access::Api(..) if job.state.is_leased() => {}
        Access::Api(..) | Access::Store(_) => return None,
    }
    let why = access.why(&job.id).await.ok()?;
    let mut slots = why.pools.iter().flat_map(|(pool, _)| &pool.slots);
    let slot = slots.find(|slot| slot.has_unkillable(&job.id))?;
    Some(format!("for {}: {}", age(slot.age), slot.why.as_deref().unwrap_or("why is not known")))
}

/// Jobs, newest first.
pub async fn list(config: &Config, args: JobList) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    let after = match args.after {
        Some(after) => Some(access.named(&after).await?),
        None => None,
    };
    let filter = Filter {
        states: args.state,
        queue: args.queue.map(Into::into),
        class: args.class.map(Into::into),
        tag: args.tag,
        tracked: args.tracked,
        recurring: args.recurring,
        group: args.group,
        since: args.since,
        until: args.until,
        limit: if args.sort.is_some() { 0 } else { args.limit },
        after,
    };
    let mut listing = Listing::open(access, filter.clone()).await?;
    if let Some(sort) = args.sort {
        listing = Listing::Ready(sorted(&mut listing, sort, args.limit).await?.into());
    }
    let extra = Extra { tags: args.tags, sort: args.sort };
    let first = listing.next().await?;
    if first.is_empty() && args.limit > 0 {
        must_be_known(config, &filter).await?;
    }
    match args.json {
        true => list_lines(first, &mut listing).await?,
        false => list_table(first, &mut listing, extra).await?,
    }
    Ok(exit::OK)
}

async fn list_lines(mut jobs: VecDeque<JobRecord>, listing: &mut Listing) -> Result<(), Failure> {
    while !jobs.is_empty() {
        let mut text = String::new();
        for job in jobs {
            text += &(serde_json::to_string(&job)? + "\n");
        }
        print(&text)?;
        jobs = listing.next().await?;
    }
    Ok(())
}

/// A table of so many lines at a time: what a column needs below that is not known before.
async fn list_table(
    mut more: VecDeque<JobRecord>,
    listing: &mut Listing,
    extra: Extra,
) -> Result<(), Failure> {
    const TOGETHER: usize = 500;
    let mut table = JobTable::new(Look::of_stdout(false), extra);
    let mut jobs = Vec::new();
    loop {
        let is_over = more.is_empty();
        jobs.extend(more);
        if jobs.len() >= TOGETHER || (is_over && !jobs.is_empty()) {
            print(&table.lines(&std::mem::take(&mut jobs), now()))?;
        }
        if is_over {
            return Ok(());
        }
        more = listing.next().await?;
    }
}

/// The table of them.
pub fn list_text(jobs: &[JobRecord], now: Millis, look: &Look) -> String {
    JobTable::new(look.clone(), Extra::default()).lines(jobs, now)
}

/// The jobs with the largest figures of all that match, in memory: no more than twice as many as are shown, and some.
async fn sorted(listing: &mut Listing, sort: Sort, limit: u32) -> Result<Vec<JobRecord>, Failure> {
    const SLACK: usize = 1000;
    let most = if limit == 0 { usize::MAX } else { limit as usize };
    let mut jobs = Vec::new();
    loop {
        let more = listing.next().await?;
        let is_over = more.is_empty();
        jobs.extend(more);
        if is_over || jobs.len() > most.saturating_mul(2).saturating_add(SLACK) {
            jobs.sort_by_cached_key(|job| std::cmp::Reverse(weight(job, sort)));
            jobs.truncate(most);
        }
        if is_over {
            return Ok(jobs);
        }
    }
}

/// Says so if what was named is nowhere: an empty list would hide that it was mistyped. A queue is refused by the broker.
pub async fn must_be_known(config: &Config, filter: &Filter) -> Result<(), Failure> {
    let one = |filter: Filter| Filter { limit: 1, ..filter };
    let named = [
        (
            "class",
            filter.class.as_ref().map(|class| class.as_str().to_owned()),
            one(Filter { class: filter.class.clone(), ..Filter::default() }),
        ),
        ("tag", filter.tag.clone(), one(Filter { tag: filter.tag.clone(), ..Filter::default() })),
        (
            "failure group",
            filter.group.clone(),
            one(Filter { group: filter.group.clone(), ..Filter::default() }),
        ),
    ];
    for (kind, name, alone) in named {
        let Some(name) = name else { continue };
        if Access::open(config).await?.ask(alone).await?.is_empty() {
            return Err(Failure::new(exit::NOTHING_MATCHED, format!("no job has the {kind} '{name}'")));
        }
    }
    Ok(())
}

/// A moment, unless nobody knows it: what other programs did is not always told with a time.
pub fn known(at: Millis) -> Option<Millis> {
    (at.0 > 0).then_some(at)
}

/// The wall clock, as the broker's clock: both are of this host.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// From one moment to a later one; nothing if a clock was set back.
pub fn between(from: Millis, to: Millis) -> Duration {
    Duration::from_millis(u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0))
}

/// The jobs that were typed, by their ids or by the beginnings of them.
pub async fn all_named(access: &Access, typed: &[String]) -> Result<Vec<JobId>, Failure> {
    let mut all = Vec::with_capacity(typed.len());
    for typed in typed {
        all.push(access.named(typed).await?);
    }
    Ok(all)
}

pub fn tell(id: &JobId, state: JobState, json: bool) -> Result<(), Failure> {
    match json {
        true => print_json(&serde_json::json!({ "id": id, "state": state })),
        false => print(&format!("{} {state}\n", escaped(id.as_str()))),
    }
}
