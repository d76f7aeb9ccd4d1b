//! A job in its worker: from assign to the end, and whether it is still ours.

use std::sync::Arc;
use std::time::Duration;

use super::life::Life;
use crate::restart::{Backoff, Random};
use crate::verdict;
use crate::why::Why;
use model::{
    DeadWorker, Excess, Exit, Failure, Fence, Fetched, Forensics, Instant, Job, JobId, Lease, Limits,
    Outcome, Retry, Revocation, Settlement, SignalSent, Verdict, WorkerName,
};

/// Time between the latest proof of death and the end of the lease.
pub(crate) const MARGIN: Duration = Duration::from_secs(2);

/// Shortest time between two renewals, however short the lease is.
const SHORTEST_RENEWAL: Duration = Duration::from_secs(1);

/// A job that was handed to a worker.
#[derive(Debug)]
pub(crate) struct Running {
    pub(super) job: Arc<Job>,
    pub(super) lease: Lease,
    /// When it was assigned.
    pub(super) since: Instant,
    pub(super) phase: Phase,
    /// The limits of the attempt.
    pub(super) limits: Limits,
    /// While it runs, its time limit; while it is canceled, when its worker is killed for it.
    pub(super) deadline: Option<Instant>,
    /// When to renew the lease; None while that is under way.
    pub(super) renew_at: Option<Instant>,
    /// Whether the job runs without company: a worker died while it ran this job and others, and the job may be the
    /// cause.
    pub(super) alone: bool,
    /// The worker that died in this attempt, if one did.
    pub(super) died_before: Option<Box<DeadWorker>>,
    pub(super) backoff: Backoff,
    /// Until then it is not given up: the broker is asked whose it is.
    pub(super) spared: Instant,
    /// The end of the lease for which that time was given, and how often it was.
    pub(super) spared_for: Option<(Instant, u8)>,
    /// The same for the self-fence at the keeper.
    pub(super) reprieved: Instant,
    /// The part of its time in which this process did not run, or its own.
    pub(super) stopped: Duration,
    /// The part in which a signal had stopped its own.
    pub(super) stood: Duration,
    /// For how long it has been stopped, if it is now.
    pub(super) stands: Option<Duration>,
    /// The latest pause of the supervisor: when it was noticed, and by how much limits were extended for it.
    pub(super) gap: Option<(Instant, Duration)>,
}

/// The progress of a job towards its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The job runs.
    Runs,
    /// The worker has reported; the report counts once the worker is proven dead.
    Said(Outcome),
    /// We are ending it.
    Ends(Why),
}

/// The decision on a worker's report.
pub(crate) enum Heard {
    /// The outcome counts.
    Outcome(Outcome),
    /// A canceled job has really stopped.
    Stopped(Why),
    /// The report is too late: how the job ends is already decided.
    Nothing,
}

impl Running {
    pub(crate) fn new(now: Instant, fetched: Fetched, lease: Duration) -> Self {
        let Fetched { job, lease: right, .. } = fetched;
        let renew_at = Some(first_renewal(now, &right, lease));
        let (since, phase, backoff) = (now, Phase::Runs, Backoff::BROKER);
        let limits = Limits::default();
        Running {
            job,
            lease: right,
            since,
            phase,
            limits,
            deadline: None,
            renew_at,
            alone: false,
            died_before: None,
            backoff,
            spared: Instant(0),
            spared_for: None,
            reprieved: Instant(0),
            stopped: Duration::ZERO,
            stood: Duration::ZERO,
            stands: None,
            gap: None,
        }
    }

    /// A job of an earlier supervisor: it ends when its worker is proven dead.
    pub(super) fn orphaned(now: Instant, fetched: Fetched, lease: Duration) -> Self {
        Running { phase: Phase::Ends(Why::Orphaned), ..Running::new(now, fetched, lease) }
    }

    /// The job itself.
    pub(crate) fn job(&self) -> &Arc<Job> {
        &self.job
    }

    /// The lease under which it is here.
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// When it was assigned, or, while it waits, when it came.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Its progress towards its end.
    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// The job as it was before it ran, to be run without company.
    pub(super) fn alone(self) -> Self {
        Running { phase: Phase::Runs, deadline: None, alone: true, ..self }
    }

    /// The same after this worker died while it ran several jobs.
    pub(crate) fn after_death(self, now: Instant, worker: WorkerName, how: &str) -> Self {
        let ran = now.since(self.since);
        let died_before = Some(Box::new(DeadWorker { worker, ran, how: how.into() }));
        Running { died_before, ..self.alone() }
    }

    /// Whether the job may be the cause of the death of its worker, which ran others too: the job itself, a neighbour
    /// that would not end, or all of them together.
    pub(crate) fn is_suspect(&self) -> bool {
        match self.phase {
            Phase::Runs | Phase::Ends(Why::Fault | Why::Neighbour) => true,
            Phase::Ends(Why::Limit(excess)) => excess.is_urgent(),
            Phase::Ends(_) | Phase::Said(_) => false,
        }
    }

    /// Whether this is that job under that lease.
    pub(crate) fn is(&self, job: &JobId, fence: Fence) -> bool {
        self.lease.fence == fence && self.job.id == *job
    }

    /// Whether we may still hold the lease: we renew it until the end of the job is proven. We also renew the lease of
    /// a canceled job, as only its holder may end it, and of a job that we gave up because the broker did not answer.
    pub(crate) fn is_ours(&self) -> bool {
        !matches!(self.phase, Phase::Ends(why) if why.is_anothers())
    }

    /// Whether a person has canceled it.
    pub(crate) fn is_canceled(&self) -> bool {
        self.phase == Phase::Ends(Why::Lost(Revocation::Canceled))
    }

    /// The lease to renew now, if that is due: from here on the renewal is under way.
    pub(crate) fn begin_renewal(&mut self, now: Instant) -> Option<Lease> {
        let is_due = self.is_ours() && self.renew_at.is_some_and(|at| at <= now);
        is_due.then(|| {
            self.renew_at = None;
            self.lease.clone()
        })
    }

    /// A renewal was granted. Answers may overtake each other: the latest end counts.
    pub(crate) fn renewed(&mut self, now: Instant, right: &Lease, lease: Duration) {
        if right.expires_at > self.lease.expires_at {
            // Its end is known again.
            (self.lease.expires_at, self.reprieved) = (right.expires_at, Instant(0));
        }
        self.renew_at = Some(renewal(now, &self.lease, lease));
        self.backoff.succeeded();
    }

    /// A renewal got no answer.
    pub(crate) fn renew_failed(&mut self, now: Instant, random: &mut Random) {
        // An answer that overtook this one may have set the next renewal already.
        if self.renew_at.is_none() {
            self.renew_at = Some(now + random.jitter(self.backoff.failed(), 20));
        }
    }

    /// Whether the job waits to run alone on this host, or does so.
    pub(crate) fn is_suspect_of_all(&self) -> bool {
        self.alone && self.job.is_suspect()
    }

    /// Whether the lease lasts, as far as this supervisor knows. A job whose lease may be another's does not begin.
    pub(crate) fn is_sure(&self, now: Instant) -> bool {
        now < self.lease.expires_at - MARGIN
    }

    /// When the job must be given up if its lease is not renewed.
    pub(crate) fn fence_at(&self, grace: Duration) -> Instant {
        fence_at(&self.lease, grace).max(self.spared)
    }

    /// When the job must be dead if its lease is not renewed.
    pub(super) fn dead_by(&self) -> Instant {
        (self.lease.expires_at - MARGIN).max(self.reprieved)
    }

    /// The time limit of the job, if it runs and has reached that.
    pub(crate) fn passed_limit(&self, now: Instant) -> Option<Duration> {
        self.limits
            .time
            .filter(|limit| self.phase == Phase::Runs && self.since + *limit + self.stopped <= now)
    }

    /// Decides how the job ends. Gives whether it ran until then.
    pub(crate) fn end(&mut self, why: Why, kill_at: Instant) -> bool {
        let ran = self.phase == Phase::Runs;
        if ran {
            self.deadline = Some(kill_at);
        }
        self.phase = Phase::Ends(why);
        ran
    }

    /// When it must be gone, if somebody else may already run it.
    pub(super) fn gone_by(&self) -> Option<Instant> {
        self.deadline.filter(|_| matches!(self.phase, Phase::Ends(why) if why.is_anothers()))
    }

    /// Its worker is being ended for `why`.
    pub(crate) fn ends_with_its_worker(&mut self, why: Why) {
        if self.phase == Phase::Runs {
            self.phase =
                Phase::Ends(if matches!(why, Why::Stop | Why::Fault) { why } else { Why::Neighbour });
        }
    }

    /// Handles the worker's report. After our own TERM a success counts, but a failure may be our doing: the job then
    /// counts as interrupted.
    pub(crate) fn hear(&self, outcome: Outcome, in_company: bool) -> Heard {
        match (&self.phase, outcome) {
            (Phase::Runs, outcome) => Heard::Outcome(outcome),
            (Phase::Ends(Why::Stop | Why::Neighbour | Why::Orphaned), outcome @ Outcome::Complete { .. }) => {
                Heard::Outcome(outcome)
            }
            (
                Phase::Ends(Why::Stop | Why::Neighbour),
                outcome @ (Outcome::Snoozed(_) | Outcome::CutShort(_)),
            ) => Heard::Outcome(outcome),
            // Another job has used up its time.
            (Phase::Ends(Why::Limit(Excess::Time(..))), outcome @ Outcome::CutShort(_)) if in_company => {
                Heard::Outcome(outcome)
            }
            (Phase::Ends(Why::Stop | Why::Neighbour | Why::Fault), outcome)
                if !outcome.is_of_a_begun_job() =>
            {
                Heard::Outcome(outcome)
            }
            (Phase::Ends(Why::Stop | Why::Neighbour | Why::Fault | Why::Orphaned) | Phase::Said(_), _) => {
                Heard::Nothing
            }
            (Phase::Ends(Why::Limit(excess)), _) if excess.is_urgent() => Heard::Nothing,
            (Phase::Ends(why), _) if in_company => Heard::Stopped(*why),
            (Phase::Ends(_), _) => Heard::Nothing,
        }
    }

    /// The worker is proven dead: the verdict for the broker, and whether it was a crash. None: the job is not ours to
    /// settle. In a stop a SIGTERM of somebody else is that stop's: `systemctl kill` sends it to all processes.
    pub(crate) fn judge(
        &self,
        (exit, is_worker, is_stopping): (&Exit, bool, bool),
        death: &Failure,
        retry: Retry,
        random: &mut Random,
    ) -> Option<(Verdict, bool)> {
        let (is_term, has_caught_term) = (verdict::is_of_term(exit), verdict::has_caught_term(exit));
        match &self.phase {
            Phase::Runs if exit.oom_at_bound && self.limits.memory.is_some() => {
                let why = Why::Limit(Excess::OutOfMemory(self.limits.memory?));
                Some((verdict::of_end(why, &self.job, retry, random)?, false))
            }
            Phase::Runs if is_stopping && (is_term || has_caught_term) => {
                Some((verdict::of_end(Why::Stop, &self.job, retry, random)?, false))
            }
            Phase::Said(Outcome::Failed(_)) if is_stopping && has_caught_term => {
                Some((verdict::of_end(Why::Stop, &self.job, retry, random)?, false))
            }
            Phase::Runs if is_worker && is_term => Some((verdict::of_foreign_term(&self.job), true)),
            Phase::Runs | Phase::Ends(Why::Fault) => {
                Some((verdict::of_crash(death.clone(), &self.job, retry, random), true))
            }
            // A stranger may have stopped it as well as the job: as with a SIGTERM of nobody here.
            Phase::Ends(Why::Limit(excess @ Excess::Stopped(..))) => {
                Some((verdict::of_stop_signal(*excess, &self.job), true))
            }
            Phase::Ends(why) => Some((verdict::of_end(*why, &self.job, retry, random)?, false)),
            Phase::Said(outcome) => {
                Some(verdict::of_outcome((outcome.clone(), is_stopping), &self.job, retry, random))
            }
        }
    }

    /// The report on how it ended.
    pub(super) fn settlement(
        &self,
        now: Instant,
        (worker, life): (WorkerName, &Life),
        (verdict, crashed): (Verdict, bool),
        exit: Option<&Exit>,
    ) -> Settlement {
        let sent = life.signals.iter().filter(|(at, ..)| *at >= self.since);
        let ended_for = Why::chief(sent.clone().map(|(.., why)| *why));
        let signals = sent.map(|(at, signal, why)| SignalSent {
            after: at.since(self.since),
            signal: *signal,
            why: why.as_str().into(),
        });
        let forensics = Forensics {
            worker: Some(worker),
            ran: now.since(self.since),
            exit: exit.cloned(),
            shared: exit.is_some() && life.taken > 1,
            signals: signals.collect(),
            ended_for,
            died_before: self.died_before.clone(),
            ..Forensics::default()
        };
        let (job, fence) = (self.job.id.clone(), self.lease.fence);
        Settlement { job, fence, verdict, crashed, forensics: Some(forensics) }
    }
}

/// When a job under this lease must have been ended, unless it is renewed.
pub(crate) fn fence_at(lease: &Lease, grace: Duration) -> Instant {
    lease.expires_at - grace - MARGIN
}

/// A verdict on a job that does not run here.
pub(crate) fn unstarted(lease: &Lease, verdict: Verdict) -> Settlement {
    let (job, fence) = (lease.job.clone(), lease.fence);
    Settlement { job, fence, verdict, crashed: false, forensics: None }
}

/// Releases the job to its queue as if it had never been fetched.
pub(crate) fn release(lease: &Lease, after: Duration) -> Settlement {
    unstarted(lease, Verdict::Release { after, counts: None })
}

/// When the next renewal after one is due.
fn renewal(now: Instant, right: &Lease, lease: Duration) -> Instant {
    part_over(now, right, lease).max(now + SHORTEST_RENEWAL)
}

/// When the first renewal is due: before the self-fence, also if a job came with little left of its lease.
fn first_renewal(now: Instant, right: &Lease, lease: Duration) -> Instant {
    let soon = right.expires_at.since(now) / 12;
    part_over(now, right, lease).max(now + SHORTEST_RENEWAL.min(soon))
}

/// A lease is renewed when a third of it is over, also one of a queue whose leases are longer than the supervisor's; and
/// at once if the job came late, with less than two thirds left.
fn part_over(now: Instant, right: &Lease, lease: Duration) -> Instant {
    let third = now + right.expires_at.since(now) / 3;
    third.min(right.expires_at - lease * 2 / 3)
}

/// When the job needs something next: its renewal or its deadline.
pub(crate) fn wake_at(job: &Running, can_end: bool) -> Option<Instant> {
    let deadline = job.deadline.filter(|_| can_end);
    let renewal = job.renew_at.filter(|_| job.is_ours());
    deadline.into_iter().chain(renewal).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_is_renewed_after_a_third_of_it_or_at_once_if_it_came_late() {
        let (now, usual) = (Instant::from_millis(1_000), Duration::from_secs(60));
        let wait = |left: u64| {
            let right =
                Lease { job: "a".into(), fence: Fence(1), expires_at: now + Duration::from_secs(left) };
            let next = [first_renewal(now, &right, usual), renewal(now, &right, usual)];
            next.map(|at| at.since(now).as_millis())
        };
        let waits = [600, 60, 50, 30].map(wait);
        assert_eq!(waits, [200_000, 20_000, 10_000, 1_000].map(|usual| [usual, usual]));
        assert_eq!(wait(3), [250, 1_000], "it would be ended half a second after it began");
    }
}
