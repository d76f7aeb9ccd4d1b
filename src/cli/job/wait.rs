//! `job wait`, `put --wait` and `job result`: ends and results of jobs.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use super::state_line::print_state;
use crate::cli::access::named::all_named;
use crate::cli::access::{Access, Ends, for_each};
use crate::cli::args::{JobResult, JobWait};
use crate::cli::batch::Told;
use crate::cli::record::alone;
use crate::cli::record::needs::Helps;
use crate::cli::term::screen::{print, print_json};
use crate::cli::unserved::{Nobody, say};
use crate::cli::why::because::hindrances;
use crate::cli::why::because_running::undying;
use config::{Config, format_duration};
use failure::{Failure, exit};
use model::verb::Queues;
use model::{JobCounts, JobId, JobRecord, JobState, json_text};

/// Time between two looks at what keeps a canceled job from its end, and at whether one that runs is canceled.
const AGAIN: Duration = Duration::from_secs(2);
const SELDOM: Duration = Duration::from_secs(5);

/// Waits until all jobs have ended.
pub(crate) async fn wait(config: &Config, args: &JobWait) -> Result<u8, Failure> {
    let all = all_named(&Access::open(config).await?, &args.jids).await?;
    let mut complete = true;
    let code = each_end(config, all, args.timeout, false, async |id, state| {
        complete &= state == JobState::Complete;
        print_state(&id, state, args.json)
    })
    .await?;
    Ok(if code == exit::OK && !complete { exit::FAILED } else { code })
}

/// Waits until the jobs that were just put have ended, and prints the result of each. A job that does not complete is
/// an error.
pub(crate) async fn results(
    config: &Config,
    ids: Vec<JobId>,
    timeout: Option<Duration>,
    json: bool,
) -> Result<u8, Failure> {
    each_end(config, ids, timeout, true, async |id, state| {
        // The supervisor may have been replaced since the wait began.
        let job = Access::open(config).await?.job(&id).await?;
        match &job.result {
            _ if json => {
                print_json(&Ended { id: &id, state, result: job.result.as_deref().and_then(json_text) })?
            }
            Some(result) => print(&format!("{result}\n"))?,
            None => {}
        }
        if state == JobState::Complete { Ok(()) } else { Err(not_complete(&job)) }
    })
    .await
}

/// The output of `put --wait --json` for a job.
#[derive(Serialize)]
struct Ended<'a> {
    id: &'a JobId,
    state: JobState,
    result: Option<Box<RawValue>>,
}

fn not_complete(job: &JobRecord) -> Failure {
    let mut failure = Failure::new(exit::FAILED, format!("job {} is {}", job.id, job.state))
        .hint(format!("taskvisor job show {}", job.id));
    if let Some(why) = job.cause() {
        failure.causes.push(if why.message.is_empty() { why.group.clone() } else { why.message.clone() });
    }
    failure
}

/// Prints only the result of a job.
pub(crate) async fn result(config: &Config, args: &JobResult) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    let job = access.job(&access.named(&args.jid).await?).await?;
    if let Some(result) = job.result {
        print(&format!("{result}\n"))?;
        return Ok(exit::OK);
    }
    let (id, state) = (&job.id, job.state);
    let hint = if !state.has_ended() {
        format!("taskvisor job wait {id} returns when it has ended")
    } else if state != JobState::Complete {
        format!("taskvisor job show {id} says why")
    } else {
        format!("what it has printed: taskvisor job logs {id}")
    };
    Err(Failure::new(exit::FAILED, format!("job {id} has no result: it is {state}")).hint(hint))
}

/// Waits until all have ended, however they end.
pub(crate) async fn all_ended(config: &Config, all: Vec<JobId>) -> Result<u8, Failure> {
    each_end(config, all, None, true, async |_, _| Ok(())).await
}

/// Calls `act` at the end of each, in their order. Fails when the time is over. `unserved_is_said`: the note that no one
/// runs them was printed before.
async fn each_end<F>(
    config: &Config,
    all: Vec<JobId>,
    timeout: Option<Duration>,
    unserved_is_said: bool,
    mut act: F,
) -> Result<u8, Failure>
where
    F: AsyncFnMut(JobId, JobState) -> Result<(), Failure>,
{
    // A time beyond the range of the clock is no limit.
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut ends = Ends::open(config, all.clone()).await?;
    let mut glances = Glances { config, access: None, until: Instant::now() };
    let mut open: Option<JobId> = None;
    let mut is_noted = false;
    let mut bar = Bar::of(all.len());
    let code = for_each(all, async |id| {
        let next = noted(&mut is_noted, note_hindrance(config, &id, unserved_is_said), ends.next());
        let ended = match deadline {
            None => Some(next.await?),
            // `timeout_at` would poll the wait once even then, and so begin further waits that nobody needs.
            Some(deadline) if Instant::now() < deadline => {
                timeout_at(deadline, next).await.ok().transpose()?
            }
            Some(_) => None,
        };
        let ended = match ended {
            // The time is over, but jobs further down the list may have ended long ago.
            None => glances.end_of(&id).await?,
            ended => ended,
        };
        let Some(state) = ended else {
            open = open.take().or_else(|| Some(id.clone()));
            return Ok(());
        };
        bar.iter_mut().for_each(Bar::clear);
        let done = act(id.clone(), state).await;
        // The failures replace the bar on the terminal.
        bar.iter_mut().try_for_each(|bar| bar.ended(state, done.is_ok()))?;
        done
    })
    .await?;
    match timeout.zip(open) {
        Some((timeout, open)) => {
            let what = format!("not all jobs have ended within {}", format_duration(timeout));
            Err(Failure::new(exit::TIMED_OUT, what).hint(format!("they go on; taskvisor why job {open}")))
        }
        None => Ok(code),
    }
}

/// The bar of a wait for several jobs, on a terminal.
struct Bar {
    told: Told,
    tally: JobCounts,
    /// When those ended that ended within the last minute.
    latest: VecDeque<Instant>,
    left: u64,
}

impl Bar {
    fn of(count: usize) -> Option<Bar> {
        let told = Told::bar("jobs").filter(|_| count > 1)?;
        let mut bar = Bar { told, tally: JobCounts::default(), latest: VecDeque::new(), left: count as u64 };
        bar.tally.put_at = Some(clock::wall());
        bar.tally.states.insert(JobState::Waiting, bar.left);
        bar.told.tell(&bar.tally, false).ok()?;
        Some(bar)
    }

    fn clear(&mut self) {
        self.told.clear();
    }

    fn ended(&mut self, state: JobState, is_free: bool) -> Result<(), Failure> {
        const MINUTE: Duration = Duration::from_secs(60);
        self.latest.push_back(Instant::now());
        self.latest.retain(|at| at.elapsed() < MINUTE);
        self.left = self.left.saturating_sub(1);
        *self.tally.states.entry(state).or_default() += 1;
        self.tally.states.insert(JobState::Waiting, self.left);
        self.tally.ended_in_minute = self.latest.len() as u64;
        if is_free { self.told.tell(&self.tally, self.left == 0) } else { Ok(()) }
    }
}

/// Waits for an end. After a while prints a note, once, if the job cannot run or end.
pub(super) async fn noted<T>(
    is_noted: &mut bool,
    note: impl Future<Output = Result<(), Failure>>,
    end: impl Future<Output = T>,
) -> T {
    const AFTER: Duration = Duration::from_secs(1);
    tokio::pin!(end);
    if !*is_noted {
        let later = async {
            tokio::time::sleep(AFTER).await;
            // The wait meets the same trouble, and reports it.
            note.await.ok();
        };
        tokio::select! {
            ended = &mut end => return ended,
            () = later => *is_noted = true,
        }
    }
    end.await
}

/// Prints what keeps a job from running until somebody acts, or from its end after a cancel, if anything does. Waits as
/// long as it runs: it may be canceled yet.
pub(super) async fn note_hindrance(
    config: &Config,
    id: &JobId,
    unserved_is_said: bool,
) -> Result<(), Failure> {
    let access = Access::open(config).await?;
    let mut why = access.why(id).await?;
    while let Some(job) = why.job.as_ref().filter(|job| job.state.is_leased()) {
        let is_canceled = job.state == JobState::Canceling;
        let held = alone::running(&why, id).filter(|_| is_canceled);
        if let Some(said) = held.and_then(|(slot, _)| undying(slot, id)) {
            say(&format!("job {id} has not ended: {said}"), &format!("taskvisor why job {id} has all of it"));
            return Ok(());
        }
        // The grace of one that is canceled is not over yet, or only just.
        tokio::time::sleep(if is_canceled { AGAIN } else { SELDOM }).await;
        why = access.why(id).await?;
    }
    let Some(job) = why.job.as_ref().filter(|job| !job.state.has_ended()) else { return Ok(()) };
    let queues = access.ask(Queues {}).await?;
    let unserved = queues.get(&job.queue).is_some_and(|queue| queue.unserved);
    if let Some(nobody) = Nobody::of(config, &access, &job.queue, unserved).await {
        let (what, hint) = nobody.words(&job.queue);
        if !unserved_is_said {
            say(&what, &hint);
        }
        return Ok(());
    }
    let runs = matches!(access, Access::Api(..));
    let why = hindrances(&why, job, runs, Helps::of(access.card().await?), clock::wall());
    if !why.is_empty() {
        say(
            &format!("job {id} cannot run: {}", why.join(" ")),
            &format!("taskvisor why job {id} has all of it"),
        );
    }
    Ok(())
}

/// One look at each job when the time to wait is over.
struct Glances<'a> {
    config: &'a Config,
    access: Option<Access>,
    until: Instant,
}

impl Glances<'_> {
    /// How the job has ended, if it has. After a slow answer no further job is asked about.
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
