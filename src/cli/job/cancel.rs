//! `job cancel`: jobs by their ids, or all that match.

use super::list::must_be_known;
use super::sample::sample;
use super::state_line::print_state;
use super::wait::{all_ended, note_hindrance, noted};
use crate::cli::access::listing::Listing;
use crate::cli::access::named::all_named;
use crate::cli::access::{Access, for_each};
use crate::cli::args::JobCancel;
use crate::cli::args::many::CANCELABLE;
use crate::cli::term::format::counted;
use crate::cli::term::screen::{escaped, print, print_json};
use broker::Error;
use config::Config;
use failure::{Failure, exit};
use model::verb::{Cancel, Each, Fate, Refusal};
use model::{Filter, JobId, JobState};

/// Cancels jobs, by id or all that match.
pub(super) async fn cancel(config: &Config, args: &JobCancel) -> Result<u8, Failure> {
    if args.jids.is_empty() {
        return every(config, args).await;
    }
    let access = Access::open(config).await?;
    let jobs = all_named(&access, &args.jids).await?;
    let each = access.ask(asked(args, jobs)).await?;
    let mut is_noted = false;
    for_each(each, async |Each { job, fate, told }| {
        let state = match fate {
            Fate::State(state) if args.wait && !state.has_ended() => {
                let note = note_hindrance(config, &job, true);
                noted(&mut is_noted, note, access.ended(&job))
                    .await
                    .map_err(|failure| unseen(&job, failure))?
            }
            Fate::State(state) => state,
            Fate::Refused(why) => return Err(not_canceled(job, why)),
        };
        print_state(&job, state, args.json)?;
        told.map_or(Ok(()), |worker| unproven(&job, &worker, args.wait))
    })
    .await
}

fn asked(args: &JobCancel, jobs: Vec<JobId>) -> Cancel {
    Cancel { jobs, dependents: args.dependents, reason: args.reason.clone() }
}

/// A job held by another program's worker: its end cannot be seen here. If the command waits for ends, that is an
/// error.
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

/// The end of a job at another host, of which a ledger here knows nothing.
fn unseen(job: &JobId, failure: Failure) -> Failure {
    if failure.code != exit::NOTHING_MATCHED {
        return failure;
    }
    let job = escaped(job.as_str());
    let what = format!(
        "job {job} runs at another host: that was told to end it, and nobody here can tell whether it has"
    );
    Failure::new(exit::FAILED, what).hint(format!("ask that host: taskvisor job show {job}"))
}

fn not_canceled(job: JobId, why: Refusal) -> Failure {
    let is_needed = matches!(why, Refusal::NeededBy { .. });
    let hint = format!("taskvisor job cancel --dependents {job} ends them too");
    let failure = Failure::from(Error::refused(job, why, "canceled"));
    if is_needed { failure.hint(hint) } else { failure }
}

/// The result for the jobs that matched.
#[derive(Debug, Default, serde::Serialize)]
struct Done {
    /// How many were canceled or are being ended; for a dry run: how many match.
    count: u64,
    /// How many of them ran.
    running: u64,
    /// How many stay because others depend on them.
    needed: u64,
    /// The first few of them.
    jobs: Vec<JobId>,
    dry_run: bool,
}

/// Cancels all that match, one page of their list at a time, so that a million of them do not block others.
async fn every(config: &Config, args: &JobCancel) -> Result<u8, Failure> {
    let filter = Filter {
        states: if args.state.is_empty() { CANCELABLE.to_vec() } else { args.state.clone() },
        queue: args.queue.as_deref().map(Into::into),
        class: args.class.as_deref().map(Into::into),
        tag: args.tag.clone(),
        limit: 0,
        ..Filter::default()
    };
    let access = Access::open(config).await?;
    // On a connection of its own, as pages of the list and cancels take turns.
    let mut listing = Listing::open(Access::open(config).await?, filter.clone()).await?;
    let mut sweep = Sweep::default();
    sweep.done.dry_run = args.dry_run;
    let mut jobs = listing.next().await?;
    if jobs.is_empty() {
        must_be_known(config, &filter).await?;
    }
    while !jobs.is_empty() {
        let page = jobs.into_iter().map(|job| (job.id, job.state));
        let each = match args.dry_run {
            true => page.map(|(job, state)| Each { job, fate: Fate::State(state), told: None }).collect(),
            false => access.ask(asked(args, page.map(|(job, _)| job).collect())).await?,
        };
        sweep.took(each, args.wait);
        jobs = listing.next().await?;
    }
    // The jobs that needed these may have been canceled after them.
    sweep.again(&access, args).await?;
    let Sweep { done, ending, code, .. } = sweep;
    if args.wait {
        all_ended(config, ending).await?;
    }
    match args.json {
        true => print_json(&done)?,
        false => {
            let shown =
                if done.dry_run { sample(&access, &done.jobs, done.count).await } else { String::new() };
            print(&(text(&done) + &shown))?;
        }
    }
    Ok(code)
}

/// Limit of the jobs in one request of the second round.
const TOGETHER: usize = 500;
/// Limit of the jobs that are shown.
const SHOWN: usize = 10;

/// State of the walk over the matching jobs.
#[derive(Default)]
struct Sweep {
    done: Done,
    /// Jobs on which others depend, which may come further down the list.
    needed: Vec<JobId>,
    /// Jobs that ran, to be waited for.
    ending: Vec<JobId>,
    /// Not 0 once the end of a job that was waited for cannot be proven.
    code: u8,
}

impl Sweep {
    fn took(&mut self, each: Vec<Each>, waits: bool) {
        for Each { job, fate, told } in each {
            if let Some(worker) = told
                && let Err(failure) = unproven(&job, &worker, waits)
            {
                failure.print();
                self.code = failure.code;
            }
            match fate {
                Fate::State(state) => {
                    self.done.count += 1;
                    self.done.running += u64::from(state.is_leased());
                    if state == JobState::Canceling && waits {
                        self.ending.push(job.clone());
                    }
                    if self.done.jobs.len() < SHOWN {
                        self.done.jobs.push(job);
                    }
                }
                Fate::Refused(Refusal::NeededBy { .. }) => self.needed.push(job),
                // It has ended, or was removed, since it was listed.
                Fate::Refused(_) => {}
            }
        }
    }

    /// Tries again those on which others depended, as long as some can be canceled.
    async fn again(&mut self, access: &Access, args: &JobCancel) -> Result<(), Failure> {
        loop {
            let (before, needed) = (self.done.count, std::mem::take(&mut self.needed));
            for jobs in needed.chunks(TOGETHER) {
                let each = access.ask(asked(args, jobs.to_vec())).await?;
                self.took(each, args.wait);
            }
            // A round that has canceled none has freed none: the next would do no better.
            if self.done.count == before {
                self.done.needed = self.needed.len() as u64;
                return Ok(());
            }
        }
    }
}

fn text(done: &Done) -> String {
    let number = |count: u64, one, many| counted(usize::try_from(count).unwrap_or(usize::MAX), one, many);
    let (verb, ran) = match done.dry_run {
        true => ("would be canceled", "running"),
        false => ("canceled", "running: they are being ended"),
    };
    let mut text = format!("{} {verb}", number(done.count, "job", "jobs"));
    if done.running > 0 {
        text += &format!(" ({} {ran})", done.running);
    }
    text.push('\n');
    if done.needed > 0 {
        let stay = number(done.needed, "stays", "stay");
        text += &format!("{stay}, because others depend on them: --dependents ends those, too\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancel_output_shows_count_and_ids() {
        let done =
            Done { count: 3, running: 1, needed: 1, jobs: vec!["a".into(), "b".into()], dry_run: false };
        assert_eq!(
            text(&done),
            "3 jobs canceled (1 running: they are being ended)\n\
             1 stays, because others depend on them: --dependents ends those, too\n"
        );
        let dry = Done { dry_run: true, needed: 0, ..done };
        assert_eq!(text(&dry), "3 jobs would be canceled (1 running)\n");
    }
}
