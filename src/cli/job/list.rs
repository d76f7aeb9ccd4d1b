//! `job list`: jobs as a table or as JSON lines, in constant memory.

use std::collections::{HashMap, VecDeque};

use super::rows::{Extra, JobTable, Usage};
use crate::cli::access::Access;
use crate::cli::access::listing::Listing;
use crate::cli::args::JobList;
use crate::cli::args::batch::tag_of;
use crate::cli::term::format::grouped;
use crate::cli::term::processes::with_children;
use crate::cli::term::screen::{Look, escaped, print};
use config::Config;
use failure::{Failure, exit};
use model::{Cut, Filter, JobId, JobRecord, Millis};

/// Prints jobs, newest first.
pub(crate) async fn list(config: &Config, args: JobList) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    let after = match args.after {
        Some(after) => Some(access.named(&after).await?),
        None => None,
    };
    let filter = Filter {
        states: args.state,
        queue: args.queue.map(Into::into),
        class: args.class.map(Into::into),
        tag: args.tag.or_else(|| args.batch.as_deref().map(tag_of)),
        tracked: args.tracked,
        recurring: args.recurring,
        group: args.group,
        id_prefix: args.id_prefix,
        since: args.since,
        until: args.until,
        search: args.search,
        // The largest may be anywhere in the list, so all of it is read to sort it.
        limit: if args.sort.is_some() { 0 } else { args.limit },
        after,
        whole: false,
    };
    let mut listing = Listing::open(access, filter.clone()).await?;
    let (mut of_all, mut cut) = (None, None);
    let mut extra = Extra { tags: args.tags, sort: args.sort, ..Extra::default() };
    if args.sort.is_some() {
        extra.now = usage_now(config).await;
        let (jobs, count) = sorted(&mut listing, &extra, args.limit).await?;
        cut = listing.cut().cloned();
        listing = Listing::Ready(jobs.into());
        of_all = Some(count);
    }
    let first = listing.next().await?;
    // An empty list may be right; a name that no job has is most likely misspelled.
    if first.is_empty() && args.limit > 0 {
        must_be_known(config, &filter).await?;
    }
    let shown = match args.json {
        true => list_lines(first, &mut listing).await?,
        false => list_table(first, &mut listing, extra).await?,
    };
    if args.limit > 0 && shown == u64::from(args.limit) {
        note_cut(config, filter, args.limit, of_all).await;
    } else if let Some(Cut { after, looked }) = cut.as_ref().or(listing.cut()) {
        let (after, looked) = (escaped(after.as_str()), grouped((*looked).into()));
        eprintln!(
            "note: the search looked at {looked} jobs, the newest; --after {after} goes on with older ones"
        );
    }
    Ok(exit::OK)
}

/// Says that the list was cut, if it was, and how many jobs there are.
async fn note_cut(config: &Config, filter: Filter, limit: u32, of_all: Option<u64>) {
    /// Limit of the jobs that are counted for the note.
    const COUNTED: u32 = 10_000;
    let (count, more) = match of_all {
        Some(count) => (count, false),
        None => {
            let filter = Filter { limit: COUNTED.max(limit.saturating_add(1)), ..filter };
            let Ok(access) = Access::open(config).await else { return };
            // The list itself is complete: that it cannot be counted is no failure.
            let Ok(tally) = access.count_jobs(&filter).await else { return };
            (tally.count(), tally.more)
        }
    };
    if count > u64::from(limit) {
        let (count, more) = (grouped(count), if more { "more than " } else { "" });
        eprintln!("note: these are {limit} of {more}{count} jobs; -n 0 shows all, -n N so many");
    }
}

/// Prints a line for each job; gives their number.
async fn list_lines(mut jobs: VecDeque<JobRecord>, listing: &mut Listing) -> Result<u64, Failure> {
    let mut shown = 0;
    while !jobs.is_empty() {
        shown += jobs.len() as u64;
        let mut text = String::new();
        for job in jobs {
            text += &(serde_json::to_string(&job)? + "\n");
        }
        print(&text)?;
        jobs = listing.next().await?;
    }
    Ok(shown)
}

/// Prints a table some lines at a time, and gives the number of jobs: later lines may need wider columns, which is not known before.
async fn list_table(
    mut more: VecDeque<JobRecord>,
    listing: &mut Listing,
    extra: Extra,
) -> Result<u64, Failure> {
    const TOGETHER: usize = 500;
    let mut table = JobTable::new(Look::of_stdout(false), extra);
    let (mut jobs, mut shown) = (Vec::new(), 0);
    loop {
        let is_over = more.is_empty();
        shown += more.len() as u64;
        jobs.extend(more);
        if jobs.len() >= TOGETHER || (is_over && !jobs.is_empty()) {
            print(&table.lines(&std::mem::take(&mut jobs), clock::wall()))?;
        }
        if is_over {
            return Ok(shown);
        }
        more = listing.next().await?;
    }
}

/// The table of these jobs.
pub(crate) fn list_text(jobs: &[JobRecord], now: Millis, look: &Look) -> String {
    JobTable::new(look.clone(), Extra::default()).lines(jobs, now)
}

/// What running jobs take now, by the supervisor here: of each that has its worker for itself. None without a supervisor.
async fn usage_now(config: &Config) -> HashMap<JobId, Usage> {
    let Ok(Access::Api(api, _)) = Access::open(config).await else { return HashMap::new() };
    let Ok(status) = api.status().await else { return HashMap::new() };
    let slots = status.pools.into_iter().flat_map(|pool| pool.slots);
    let alone = slots.filter_map(|slot| match slot.jobs.as_slice() {
        [only] => Some((only.id.clone(), with_children(slot.process.as_ref()?))),
        _ => None,
    });
    alone.map(|(id, process)| (id, (process.rss, process.cpu))).collect()
}

/// The jobs with the largest values of all that match, and the number of these. Holds about twice as many in memory as are shown.
async fn sorted(listing: &mut Listing, extra: &Extra, limit: u32) -> Result<(Vec<JobRecord>, u64), Failure> {
    const SLACK: usize = 1000;
    let most = if limit == 0 { usize::MAX } else { limit as usize };
    let (mut jobs, mut count) = (Vec::new(), 0);
    loop {
        let more = listing.next().await?;
        let is_over = more.is_empty();
        count += more.len() as u64;
        jobs.extend(more);
        // Cut now and then, so that a long list takes no more memory than its result and some slack.
        if is_over || jobs.len() > most.saturating_mul(2).saturating_add(SLACK) {
            jobs.sort_by_cached_key(|job| std::cmp::Reverse(extra.weight(job)));
            jobs.truncate(most);
        }
        if is_over {
            return Ok((jobs, count));
        }
    }
}

/// Fails if a name in the filter does not exist: an empty list would hide that it was misspelled. The broker refuses
/// unknown queues.
pub(crate) async fn must_be_known(config: &Config, filter: &Filter) -> Result<(), Failure> {
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
