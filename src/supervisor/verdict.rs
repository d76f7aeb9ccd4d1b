//! Which end of a job gives which verdict: the table of ends, as functions.

use std::time::Duration;

use super::restart::Random;
use super::why::Why;
use model::{Count, Excess, Exit, ExitStatus, Failure, Job, Outcome, Retry, Revocation, Verdict};

/// A job under which this many workers died is held for a person.
const CRASHES: u32 = 3;

/// A job whose class was unknown this many times is held.
const UNKNOWN: u32 = 10;

/// The wait after the first time, doubled each time up to a cap: a quarter of an hour in all.
const UNKNOWN_FIRST: Duration = Duration::from_secs(1);
const UNKNOWN_CAP: Duration = Duration::from_secs(5 * 60);

/// The wait of a job that could not be begun: the next slot that is free would fare as the one before.
const CANNOT_BEGIN: Duration = Duration::from_secs(1);

/// The number of SIGTERM.
const TERM: i32 = 15;

/// The word for a job that is held, by the supervisor or by the broker.
pub(super) const HELD: &str = "held";
/// The same for a job that has failed for good, and for one that is tried again.
pub(super) const FAILED: &str = "failed";
pub(super) const RETRY: &str = "retry";

/// The verdict on what the worker reported, and whether that is a crash. In a stop a SIGTERM of somebody else is that
/// stop's: `systemctl kill` sends it to all processes.
pub(super) fn of_outcome(
    (outcome, is_stopping): (Outcome, bool),
    job: &Job,
    retry: Retry,
    random: &mut Random,
) -> (Verdict, bool) {
    let verdict = match outcome {
        Outcome::Interrupted(_) if is_stopping => {
            Verdict::Release { after: Duration::ZERO, counts: Some(Count::Stopped) }
        }
        Outcome::Interrupted(failure) => return (of_interruption(failure, job), true),
        Outcome::Complete { result, next } => Verdict::Complete { result, next },
        Outcome::Failed(failure) => spent(failure, job, retry, random),
        Outcome::FailedForGood(failure) => Verdict::Fail { failure },
        Outcome::RetryAfter(after, failure) => Verdict::Retry { after, failure },
        Outcome::Snoozed(after) | Outcome::CutShort(after) => Verdict::Release { after, counts: None },
        Outcome::NotBegun => Verdict::Release { after: Duration::ZERO, counts: None },
        Outcome::CannotBegin(_) => Verdict::Release { after: CANNOT_BEGIN, counts: None },
        Outcome::UnknownClass => unknown(job, random),
    };
    (verdict, false)
}

/// A stranger's SIGTERM has ended the worker: that is no fault of the job. But a job that sends it must not come
/// back for ever.
fn of_interruption(failure: Failure, job: &Job) -> Verdict {
    // `crashes` does not count this end yet.
    match job.crashes + 1 >= CRASHES {
        true => Verdict::Hold { failure },
        false => Verdict::Release { after: Duration::ZERO, counts: None },
    }
}

/// No worker here knows the class of the job. While versions of an application are exchanged another worker may know
/// it, so the job comes back after longer and longer waits; then it is held for a person.
pub(super) fn unknown(job: &Job, random: &mut Random) -> Verdict {
    let times = job.unknown + 1;
    if times > UNKNOWN {
        let message = format!("no worker knows the class '{}' ({UNKNOWN} times asked)", job.class);
        return Verdict::Hold { failure: failure("unknown class", message) };
    }
    // The check above bounds the power: 2^9 at most.
    let after = random.jitter(UNKNOWN_CAP.min(UNKNOWN_FIRST * 2u32.pow(times - 1)), 10);
    Verdict::Release { after, counts: Some(Count::UnknownClass) }
}

/// The verdict on a spent attempt: retried while tries remain.
pub(super) fn spent(failure: Failure, job: &Job, retry: Retry, random: &mut Random) -> Verdict {
    let Retry { retries, delay, cap } = retry;
    // The first attempt is no retry: with 3 retries a job has 4 attempts.
    if job.attempt > retries {
        return Verdict::Fail { failure };
    }
    let doubled = 2u32.saturating_pow(job.attempt.saturating_sub(1));
    let after = random.jitter(delay.saturating_mul(doubled).min(cap), 10);
    Verdict::Retry { after, failure }
}

/// The failure that the job gets when its worker died.
pub(super) fn of_death(fault: Option<&str>, exit: &Exit) -> Failure {
    match fault {
        Some(how) => failure("fault", format!("the worker broke the protocol: {how}")),
        None if exit.oom => failure("oom", format!("the worker died: {}", describe(exit))),
        None => failure("crashed", format!("the worker died: {}", describe(exit))),
    }
}

/// Whether a SIGTERM has ended the process.
pub(super) fn is_of_term(exit: &Exit) -> bool {
    matches!(exit.status, ExitStatus::Signal { signal: TERM, .. })
}

/// Whether the process has caught a SIGTERM and says so, as shells and many other programs do.
pub(super) fn has_caught_term(exit: &Exit) -> bool {
    exit.status == ExitStatus::Code(128 + TERM)
}

/// The worker died under the job of a signal that asks it to end, and we had not sent it.
pub(super) fn of_foreign_term(job: &Job) -> Verdict {
    let message = "its worker died of a SIGTERM that this supervisor did not send".into();
    of_interruption(failure("interrupted", message), job)
}

/// A signal has stopped the process of the job, and nobody let it go on.
pub(super) fn of_stop_signal(excess: Excess, job: &Job) -> Verdict {
    of_interruption(failure(excess.name(), excess.message()), job)
}

/// The worker died under the job and we had not signaled it.
pub(super) fn of_crash(death: Failure, job: &Job, retry: Retry, random: &mut Random) -> Verdict {
    if job.crashes + 1 >= CRASHES {
        Verdict::Hold { failure: death }
    } else {
        spent(death, job, retry, random)
    }
}

/// The supervisor ended the job. None when there is nothing to settle, because the job is not ours any more.
pub(super) fn of_end(why: Why, job: &Job, retry: Retry, random: &mut Random) -> Option<Verdict> {
    let counts = match why {
        Why::Lost(Revocation::Canceled) => return Some(Verdict::Canceled),
        // No process of it lives. If the lease has not ended yet, the job can be released at once.
        Why::Lost(Revocation::SelfFenced) => Some(Count::Stopped),
        // The lease is another's: the broker would refuse a verdict under this fence.
        Why::Lost(_) => return None,
        Why::Limit(excess) => {
            let failure = failure(excess.name(), excess.message());
            return Some(spent(failure, job, retry, random));
        }
        Why::Stop => Some(Count::Stopped),
        Why::Orphaned => Some(Count::Interrupted),
        // The supervisor ended the worker for a reason that is not the job's: nothing is counted.
        Why::Neighbour | Why::Boot | Why::Spent | Why::Backoff | Why::Fault | Why::Unfit => None,
        Why::OwnWord | Why::Idle | Why::Worn(_) | Why::Relieved(_) | Why::Scaled | Why::Replaced => None,
    };
    Some(Verdict::Release { after: Duration::ZERO, counts })
}

/// The word a verdict is counted by.
pub(super) fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Complete { .. } => "complete",
        Verdict::Retry { .. } => RETRY,
        Verdict::Fail { .. } => FAILED,
        Verdict::Release { .. } => "released",
        Verdict::Hold { .. } => HELD,
        Verdict::Canceled => "canceled",
    }
}

fn failure(group: &str, message: String) -> Failure {
    Failure { group: group.into(), message, trace: None }
}

/// How a process ended, for people.
pub(super) fn describe(exit: &Exit) -> String {
    match exit.status {
        ExitStatus::Code(_) | ExitStatus::Signal { .. } if exit.oom => "out of memory".into(),
        ExitStatus::Code(code) => format!("exit {code}"),
        ExitStatus::Signal { signal, core: false } => format!("signal {signal}"),
        ExitStatus::Signal { signal, core: true } => format!("signal {signal}, core dumped"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Payload;

    #[test]
    fn worker_that_others_interrupt_in_a_stop_spends_nothing() {
        let job = Job {
            id: "a".into(),
            queue: "q".into(),
            class: "c".into(),
            payload: Payload::Data("{}".into()),
            priority: 0,
            tags: Vec::new(),
            attempt: 1,
            crashes: 2,
            interrupted: 0,
            unknown: 0,
            retry: None,
            time_limit: None,
        };
        let term = || Outcome::Interrupted(failure("interrupted", "SIGTERM".into()));
        let judge = |is_stopping| of_outcome((term(), is_stopping), &job, Retry::CLASS, &mut Random(1));
        let stopped = Verdict::Release { after: Duration::ZERO, counts: Some(Count::Stopped) };
        assert_eq!(judge(true), (stopped, false));
        assert!(matches!(judge(false), (Verdict::Hold { .. }, true)));
    }
}
