//! `job show|list|wait|cancel`.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, timeout_at};

use super::access::{Access, Ends, for_each};
use super::args::{JobCancel, JobCommand, JobList, JobShow, JobWait};
use super::failure::Failure;
use super::hosts::Hosts;
use super::job_args::Sort;
use super::listing::Listing;
use super::rows::{Extra, JobTable, weight};
use super::screen::{Look, escaped, print, print_json};
use super::unserved::note_wait;
use super::{edit, follow, many};
use super::{exit, page};
use crate::broker::Error;
use crate::config::{Config, format_duration};
use crate::model::verb::{Cancel, Each, Fate, Queues, Refusal};
use crate::model::{Filter, JobId, JobRecord, JobState, Millis};

/// One of them.
pub async fn run(config: &Config, command: JobCommand) -> Result<u8, Failure> {
    match command {
        JobCommand::Show(args) => show(config, &args).await,
        JobCommand::List(args) => list(config, args).await,
        JobCommand::Wait(args) => wait(config, &args).await,
        JobCommand::Logs(logs) => follow::logs(config, &logs).await,
        JobCommand::Cancel(args) => cancel(config, &args).await,
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
    Hosts::of(&access).await.name_in(&mut job);
    print(&page::render(&job, &Look::of_stdout(false)))?;
    Ok(exit::OK)
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
async fn must_be_known(config: &Config, filter: &Filter) -> Result<(), Failure> {
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

/// Waits for the end of all.
pub async fn wait(config: &Config, args: &JobWait) -> Result<u8, Failure> {
    let deadline = args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let all = all_named(&Access::open(config).await?, &args.jids).await?;
    let mut ends = Ends::open(config, all.clone()).await?;
    let mut glances = Glances { config, access: None, until: Instant::now() };
    let (mut complete, mut have_ended, mut is_noted) = (true, true, false);
    let code = for_each(all, async |id| {
        let next = noted(config, &id, &mut is_noted, ends.next());
        let ended = match deadline {
            None => Some(next.await?),
            Some(deadline) if Instant::now() < deadline => {
                timeout_at(deadline, next).await.ok().transpose()?
            }
            Some(_) => None,
        };
        let ended = match ended {
            None => glances.end_of(&id).await?,
            ended => ended,
        };
        let Some(state) = ended else {
            have_ended = false;
            return Ok(());
        };
        complete &= state == JobState::Complete;
        tell(&id, state, args.json)
    })
    .await?;
    match args.timeout.filter(|_| !have_ended) {
        Some(timeout) => Err(Failure::new(
            exit::TIMED_OUT,
            format!("not all jobs have ended within {}", format_duration(timeout)),
        )),
        None => Ok(if code == exit::OK && !complete { exit::FAILED } else { code }),
    }
}

/// Waits for an end; after a while it is said, once, if nobody is there to run the job.
async fn noted<T>(config: &Config, id: &JobId, is_noted: &mut bool, end: impl Future<Output = T>) -> T {
    const AFTER: Duration = Duration::from_secs(1);
    tokio::pin!(end);
    if !*is_noted {
        let note = async {
            tokio::time::sleep(AFTER).await;
            note_if_unserved(config, id).await.ok();
        };
        tokio::select! {
            ended = &mut end => return ended,
            () = note => *is_noted = true,
        }
    }
    end.await
}

async fn note_if_unserved(config: &Config, id: &JobId) -> Result<(), Failure> {
    let access = Access::open(config).await?;
    let job = access.job(id).await?;
    if job.state.has_ended() || job.state.is_leased() {
        return Ok(());
    }
    let queues = access.ask(Queues {}).await?;
    let unserved = queues.get(&job.queue).is_some_and(|queue| queue.unserved);
    note_wait(config, &access, &job.queue, unserved).await;
    Ok(())
}

/// When the time to wait is over each job is looked at once.
struct Glances<'a> {
    config: &'a Config,
    access: Option<Access>,
    until: Instant,
}

impl Glances<'_> {
    /// How the job has ended, if it has. Who does not answer such a question soon is not asked the next.
    async fn end_of(&mut self, id: &JobId) -> Result<Option<JobState>, Failure> {
        const SOON: Duration = Duration::from_secs(2);
        if self.access.is_none() {
            self.access = Some(Access::open(self.config).await?);
            self.until = Instant::now() + SOON;
        }
        let Some(access) = &self.access else { return Ok(None) };
        let Ok(job) = timeout_at(self.until, access.job(id)).await else { return Ok(None) };
        self.until = Instant::now() + SOON;
        Ok(Some(job?.state).filter(|state| state.has_ended()))
    }
}

/// Ends jobs.
pub async fn cancel(config: &Config, args: &JobCancel) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    let jobs = all_named(&access, &args.jobs.jids).await?;
    let each = access.ask(Cancel { jobs, dependents: args.dependents }).await?;
    for_each(each, async |Each { job, fate, told }| {
        let state = match fate {
            Fate::State(state) if args.wait && !state.has_ended() => access.ended(&job).await?,
            Fate::State(state) => state,
            Fate::Refused(why) => return Err(not_canceled(job, why)),
        };
        tell(&job, state, args.jobs.json)?;
        told.map_or(Ok(()), |worker| unproven(&job, &worker, args.wait))
    })
    .await
}

/// Nobody here sees what a worker of another program does. To who waits for the end that is an error.
fn unproven(job: &JobId, worker: &str, waits: bool) -> Result<(), Failure> {
    let (job, worker) = (escaped(job.as_str()), escaped(worker));
    let what = format!(
        "job {job} was running in worker {worker} of another program: that was told to end it, and nobody here can tell \
         whether it has"
    );
    if waits {
        return Err(
            Failure::new(exit::FAILED, what).hint("look at that worker: many go on with a canceled job")
        );
    }
    eprintln!("taskvisor: {what}");
    Ok(())
}

fn not_canceled(job: JobId, why: Refusal) -> Failure {
    let is_needed = matches!(why, Refusal::NeededBy { .. });
    let hint = format!("taskvisor job cancel --dependents {job} ends them too");
    let failure = Failure::from(Error::refused(job, why, "canceled"));
    if is_needed { failure.hint(hint) } else { failure }
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
