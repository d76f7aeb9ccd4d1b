//! `job show|list|wait|cancel`.

use std::time::{Duration, SystemTime};

use tokio::time::{Instant, timeout_at};

use super::access::{Access, Ends, for_each};
use super::args::{JobCancel, JobCommand, JobList, JobShow, JobWait};
use super::failure::Failure;
use super::hosts::Hosts;
use super::listing::Listing;
use super::screen::{Columns, Look, age, escaped, headline, print, print_json};
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
    let mut job = access.job(&args.jid.as_str().into()).await?;
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
    let filter = Filter {
        states: args.state,
        queue: args.queue.map(Into::into),
        class: args.class.map(Into::into),
        tag: args.tag,
        tracked: args.tracked,
        recurring: args.recurring,
        group: args.group,
        limit: args.limit,
        after: args.after.map(Into::into),
    };
    let mut listing = Listing::open(Access::open(config).await?, filter).await?;
    match args.json {
        true => list_lines(&mut listing).await?,
        false => list_table(&mut listing).await?,
    }
    Ok(exit::OK)
}

async fn list_lines(listing: &mut Listing) -> Result<(), Failure> {
    loop {
        let jobs = listing.next().await?;
        if jobs.is_empty() {
            return Ok(());
        }
        let mut text = String::new();
        for job in jobs {
            text += &(serde_json::to_string(&job)? + "\n");
        }
        print(&text)?;
    }
}

/// A table of so many lines at a time: what a column needs below that is not known before.
async fn list_table(listing: &mut Listing) -> Result<(), Failure> {
    const TOGETHER: usize = 500;
    let (look, mut columns) = (Look::of_stdout(false), Columns::new(&HEADS));
    let mut rows = Vec::new();
    loop {
        let jobs = listing.next().await?;
        let is_over = jobs.is_empty();
        rows.extend(jobs.iter().map(|job| row(job, now())));
        if rows.len() >= TOGETHER || (is_over && !rows.is_empty()) {
            print(&columns.lines(&look, &std::mem::take(&mut rows)))?;
        }
        if is_over {
            return Ok(());
        }
    }
}

/// The table of them.
pub fn list_text(jobs: &[JobRecord], now: Millis, look: &Look) -> String {
    let rows: Vec<Vec<String>> = jobs.iter().map(|job| row(job, now)).collect();
    Columns::new(&HEADS).lines(look, &rows)
}

const HEADS: [&str; 8] = ["ID", "STATE", "QUEUE", "CLASS", "TRY", "AGE", "RAN", "WHY"];

fn row(job: &JobRecord, now: Millis) -> Vec<String> {
    let ran = ran(job, now).map(age);
    let why = job.failure.as_ref().map(|failure| match failure.message.is_empty() {
        true => failure.group.clone(),
        false => headline(&failure.message).to_owned(),
    });
    vec![
        escaped(job.id.as_str()).into_owned(),
        job.state.to_string(),
        escaped(job.queue.as_str()).into_owned(),
        escaped(job.class.as_str()).into_owned(),
        job.attempt.to_string(),
        known(job.put_at).map_or_else(|| "-".into(), |at| age(between(at, now))),
        ran.unwrap_or_else(|| "-".into()),
        escaped(&why.unwrap_or_default()).into_owned(),
    ]
}

/// How long its latest attempt has run, if that is known: only of a running job it goes on.
fn ran(job: &JobRecord, now: Millis) -> Option<Duration> {
    let start = job.started_at?;
    let until = if job.state.is_leased() { Some(now) } else { job.ended_at };
    let left = || job.forensics.as_ref().map(|left| left.ran).filter(|ran| !ran.is_zero());
    until.map(|until| between(start, until)).or_else(left)
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
    let mut ends = Ends::open(config, &args.jids).await?;
    let mut glances = Glances { config, access: None, until: Instant::now() };
    let (mut complete, mut all, mut is_noted) = (true, true, false);
    let code = for_each(ids(&args.jids), async |id| {
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
            all = false;
            return Ok(());
        };
        complete &= state == JobState::Complete;
        tell(&id, state, args.json)
    })
    .await?;
    match args.timeout.filter(|_| !all) {
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
    let jobs = ids(&args.jobs.jids).collect();
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

/// The ids that were typed.
pub fn ids(typed: &[String]) -> impl Iterator<Item = JobId> {
    typed.iter().map(|id| id.as_str().into())
}

pub fn tell(id: &JobId, state: JobState, json: bool) -> Result<(), Failure> {
    match json {
        true => print_json(&serde_json::json!({ "id": id, "state": state })),
        false => print(&format!("{} {state}\n", escaped(id.as_str()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::page::tests::{failed_job, look};

    #[test]
    fn a_list_is_a_table() {
        let failed = failed_job();
        let mut waiting = failed_job();
        waiting.id = "0199aa00000070008000000000000002".into();
        waiting.state = JobState::Waiting;
        waiting.attempt = 0;
        (waiting.started_at, waiting.ended_at, waiting.failure) = (None, None, None);
        let text = list_text(&[waiting, failed], Millis(1_790_000_060_000), &look(100));
        insta::assert_snapshot!("job_list", text);
    }
    #[test]
    fn only_a_running_job_goes_on_to_run() {
        let mut job = failed_job();
        job.ended_at = None;
        let now = Millis(1_790_000_061_500);
        let ran_as = |job: &mut JobRecord, state| {
            job.state = state;
            ran(job, now)
        };
        assert_eq!(ran_as(&mut job, JobState::Running), Some(Duration::from_secs(60)));
        let left = job.forensics.as_mut().unwrap();
        left.ran = Duration::from_secs(2);
        assert_eq!(ran_as(&mut job, JobState::Delayed), Some(Duration::from_secs(2)));
        job.forensics = None;
        assert_eq!(ran_as(&mut job, JobState::Waiting), None);
    }
}
