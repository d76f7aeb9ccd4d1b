//! The decision log: the latest orders of the supervisor, and the events that led to them. It is bounded and in memory.
//! Entries that come with every job are kept apart, so that they do not push out rare ones.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use model::{
    Change, Decision, Excess, Exit, ExitStatus, Instant, JobId, Revocation, Scale, Signal, SlotName, Stop,
    Verdict, WorkerId, WorkerName,
};
use supervisor::{Command, Event};

/// Number of entries kept: of those that come with every job, and of the others.
const OFTEN: usize = 3072;
const SELDOM: usize = 1024;

/// Limit of the decisions that `why` shows.
const SHOWN: usize = 20;

/// The latest decisions, kept for `why`.
#[derive(Default)]
pub(super) struct Decisions {
    often: VecDeque<Entry>,
    seldom: VecDeque<Entry>,
}

/// An entry as it is kept; it becomes text when somebody asks.
struct Entry {
    at: Instant,
    worker: Option<WorkerName>,
    job: Option<JobId>,
    what: What,
}

enum What {
    Spawn,
    Ready,
    Assign(u32),
    Settle(LoggedDecision),
    Signal(Signal, Box<str>),
    Cancel(&'static str),
    Dropped(&'static str),
    SpawnFailed(Box<str>),
    Exited(ExitStatus),
    OutOfMemory,
    Faulty(Box<str>),
    Stuck(Box<str>),
    Revoked(Revocation),
    Waiting(Arc<str>, bool),
    FetchFailed(Arc<str>),
    Changed(Option<Box<str>>, Change),
    Reload,
    Exceeded(Box<Excess>),
    Outgrown,
    Stop(Stop),
}

/// A logged decision, without the long parts of a verdict.
enum LoggedDecision {
    Complete,
    Retry(Duration),
    Fail,
    Release(Duration),
    Hold,
    Canceled,
}

/// The subject of a question for decisions.
pub(super) enum About<'a> {
    Job(&'a JobId),
    Slot(&'a SlotName),
    /// All pools of a name: an outdated one and its heir.
    Pool(&'a str),
}

/// Gives the current name of a pool by its number.
type PoolName<'a> = &'a dyn Fn(u16) -> Arc<str>;

impl Decisions {
    /// Records an order of the supervisor.
    pub(super) fn order(&mut self, now: Instant, command: &Command, pool: PoolName<'_>) {
        let name = |worker: &WorkerId| Some(WorkerName::new(pool(worker.slot.pool), *worker));
        let (worker, job, what) = match command {
            Command::Spawn(worker) | Command::Fork(worker, _) => (name(worker), None, What::Spawn),
            Command::Assign { worker, job, .. } => (name(worker), Some(&job.id), What::Assign(job.attempt)),
            Command::Settle(told) => {
                let worker = told.forensics.as_ref().and_then(|left| left.worker.clone());
                (worker, Some(&told.job), What::Settle(LoggedDecision::new(&told.verdict)))
            }
            Command::Signal { worker, signal, why } => {
                (name(worker), None, What::Signal(*signal, why.as_str().into()))
            }
            Command::Cancel { worker, job, why } => (name(worker), Some(job), What::Cancel(why)),
            Command::LeaseLost { job, why, .. } => (None, Some(job), What::Dropped(why)),
            Command::KillAt(..)
            | Command::Follow(..)
            | Command::Fetch { .. }
            | Command::Equip(..)
            | Command::Renew(_)
            | Command::AskIdle(..)
            | Command::GiveUp(_)
            | Command::AskWaiting(..)
            | Command::Died { .. }
            | Command::VerdictUnconfirmed { .. }
            | Command::LeftAlive { .. }
            | Command::Exit => return,
        };
        self.keep(Entry { at: now, worker, job: job.cloned(), what });
    }

    /// Records an event for the supervisor.
    pub(super) fn fact(&mut self, now: Instant, event: &Event, pool: PoolName<'_>) {
        let name = |worker: &WorkerId| Some(WorkerName::new(pool(worker.slot.pool), *worker));
        if self.is_repeated(event) {
            return;
        }
        let (worker, job, what) = match event {
            Event::Ready(worker) => (name(worker), None, What::Ready),
            Event::SpawnFailed(worker, why) => (name(worker), None, What::SpawnFailed(why.as_str().into())),
            Event::Exited { worker, exit: Exit { oom: true, .. }, .. } => {
                (name(worker), None, What::OutOfMemory)
            }
            Event::Exited { worker, exit, .. } => (name(worker), None, What::Exited(exit.status)),
            Event::Faulty(worker, how) => (name(worker), None, What::Faulty(how.as_str().into())),
            Event::Stuck(worker, cause) => (name(worker), None, What::Stuck(cause.as_str().into())),
            Event::Revoked { job, why, .. } => (None, Some(job), What::Revoked(*why)),
            Event::Waiting(number, waiting) => (None, None, What::Waiting(pool(*number), *waiting)),
            Event::FetchFailed(number) => (None, None, What::FetchFailed(pool(*number))),
            Event::Change(of, change) => (None, None, What::Changed(of.as_deref().map(Into::into), *change)),
            Event::Resized(of, workers) => {
                let change = Change::Scale(Scale::To(*workers));
                (None, None, What::Changed(Some(of.as_str().into()), change))
            }
            Event::Reload(_) => (None, None, What::Reload),
            Event::Exceeded { worker, job, excess, .. } => {
                (name(worker), Some(job), What::Exceeded(Box::new(*excess)))
            }
            Event::Outgrown(worker) => (name(worker), None, What::Outgrown),
            Event::Stop(stage) => (None, None, What::Stop(*stage)),
            Event::Spawned(_) | Event::Finished { .. } | Event::Knows(..) | Event::Fetched(..) => return,
            Event::Renewed(_) | Event::RenewFailed(..) | Event::Settled { .. } | Event::SettleFailed(..) => {
                return;
            }
            Event::Woken(_) | Event::Counted(_) | Event::Idle(_) => return,
        };
        self.keep(Entry { at: now, worker, job: job.cloned(), what });
    }

    /// Whether this revocation of a lease is recorded already: each renewal of a job that is being canceled repeats it.
    pub(super) fn is_repeated(&self, event: &Event) -> bool {
        let Event::Revoked { job, why, .. } = event else { return false };
        let of_job = self.seldom.iter().rev().filter(|entry| entry.job.as_ref() == Some(job));
        let mut since = of_job.take_while(|entry| !matches!(entry.what, What::Settle(_) | What::Dropped(_)));
        since.any(|entry| matches!(entry.what, What::Revoked(before) if before == *why))
    }

    fn keep(&mut self, entry: Entry) {
        let (ring, most) = match entry.what.is_common() {
            true => (&mut self.often, OFTEN),
            false => (&mut self.seldom, SELDOM),
        };
        if ring.len() == most {
            ring.pop_front();
        }
        ring.push_back(entry);
    }

    /// The latest decisions about a subject, oldest first.
    pub(super) fn about(&self, about: &About<'_>, now: Instant) -> Vec<Decision> {
        let all = self.often.iter().chain(&self.seldom);
        let mut found: Vec<_> = all.filter(|entry| entry.is_about(about)).collect();
        found.sort_by_key(|entry| entry.at);
        let latest = found.split_off(found.len().saturating_sub(SHOWN));
        let told = |entry: &Entry| Decision { ago: now.since(entry.at), what: entry.words() };
        latest.into_iter().map(told).collect()
    }
}

impl Entry {
    fn is_about(&self, about: &About<'_>) -> bool {
        match about {
            About::Job(job) => self.job.as_ref() == Some(job),
            About::Slot(slot) => self.worker.as_ref().is_some_and(|worker| worker.slot == **slot),
            About::Pool(name) => self.pool().is_none_or(|pool| pool == *name),
        }
    }

    /// The pool of this decision; None = all pools.
    fn pool(&self) -> Option<&str> {
        match (&self.what, &self.worker) {
            (What::Waiting(pool, _) | What::FetchFailed(pool), _) => Some(pool),
            (What::Changed(pool, _), _) => pool.as_deref(),
            (_, worker) => worker.as_ref().map(|worker| &*worker.slot.pool),
        }
    }

    fn words(&self) -> String {
        let worker = self.worker.as_ref().map(|worker| format!("worker {worker}")).unwrap_or_default();
        let job = self.job.as_ref().map(|job| format!("job {job}")).unwrap_or_default();
        match &self.what {
            What::Spawn => format!("{worker} ordered"),
            What::Ready => format!("{worker} is ready"),
            What::Assign(attempt) => format!("{job} assigned to {worker}, attempt {attempt}"),
            What::Settle(told) => format!("{job} settled: {}", told.words()),
            What::Signal(Signal::Term, why) => format!("TERM to {worker}: {why}"),
            What::Signal(Signal::Kill, why) => format!("KILL to {worker}: {why}"),
            What::Cancel(why) => format!("{worker} asked to end {job}: {why}"),
            What::Dropped(why) => format!("the lease of {job} is lost, nothing is settled: {why}"),
            What::SpawnFailed(why) => format!("{worker} could not be made: {why}"),
            What::Exited(ExitStatus::Code(code)) => format!("{worker} ended: exit {code}"),
            What::Exited(ExitStatus::Signal { signal, .. }) => format!("{worker} ended: signal {signal}"),
            What::OutOfMemory => format!("{worker} ended: out of memory"),
            What::Faulty(how) => format!("{worker} broke the protocol: {how}"),
            What::Stuck(cause) => format!("{worker} was killed and does not die: {cause}"),
            What::Revoked(why) => format!("the lease of {job} is revoked: {}", why.as_str()),
            What::Waiting(_, true) => {
                "all are at work and jobs wait: one more worker, if there is a place".into()
            }
            What::Waiting(_, false) => "all are at work and no job waits: no more workers".into(),
            What::FetchFailed(_) => "the broker could not be asked for jobs".into(),
            What::Changed(pool, change) => {
                let of = pool.as_ref().map_or("all pools".into(), |pool| format!("pool {pool}"));
                format!("asked of {of}: {}", asked(*change))
            }
            What::Reload => "other settings were read".into(),
            What::Exceeded(excess) => format!("{job} is over its {}: {}", excess.name(), excess.message()),
            What::Outgrown => format!("{worker} has more memory than its pool recycles at"),
            What::Stop(Stop::Drain) => "a stop was ordered: nothing more is fetched".into(),
            What::Stop(Stop::Terminate) => "a stop was ordered: TERM to all".into(),
            What::Stop(Stop::Kill) => "a stop was ordered: KILL to all".into(),
        }
    }
}

impl What {
    /// Whether every successful job brings such an entry.
    fn is_common(&self) -> bool {
        match self {
            What::Spawn | What::Ready | What::Assign(_) | What::Exited(ExitStatus::Code(0)) => true,
            What::Settle(LoggedDecision::Complete | LoggedDecision::Release(_)) => true,
            What::Signal(_, why) => &**why == "spent",
            What::Settle(
                LoggedDecision::Retry(_)
                | LoggedDecision::Fail
                | LoggedDecision::Hold
                | LoggedDecision::Canceled,
            ) => false,
            What::Cancel(_) | What::Dropped(_) | What::SpawnFailed(_) | What::Exited(_) => false,
            What::OutOfMemory | What::Faulty(_) | What::Stuck(_) | What::Revoked(_) => false,
            What::Waiting(..) | What::FetchFailed(_) | What::Stop(_) => false,
            What::Changed(..) | What::Reload | What::Exceeded(_) | What::Outgrown => false,
        }
    }
}

impl LoggedDecision {
    fn new(verdict: &Verdict) -> LoggedDecision {
        match verdict {
            Verdict::Complete { .. } => LoggedDecision::Complete,
            Verdict::Retry { after, .. } => LoggedDecision::Retry(*after),
            Verdict::Fail { .. } => LoggedDecision::Fail,
            Verdict::Release { after, .. } => LoggedDecision::Release(*after),
            Verdict::Hold { .. } => LoggedDecision::Hold,
            Verdict::Canceled => LoggedDecision::Canceled,
        }
    }

    fn words(&self) -> String {
        match self {
            LoggedDecision::Complete => "complete".into(),
            LoggedDecision::Retry(after) => format!("retry after {}", seconds(*after)),
            LoggedDecision::Fail => "failed, no tries left".into(),
            LoggedDecision::Release(Duration::ZERO) => "given back, unspent".into(),
            LoggedDecision::Release(after) => format!("given back, unspent, for {}", seconds(*after)),
            LoggedDecision::Hold => "held for a person".into(),
            LoggedDecision::Canceled => "canceled".into(),
        }
    }
}

fn asked(change: Change) -> String {
    match change {
        Change::Recycle => "new workers".into(),
        Change::Pause => "no more jobs".into(),
        Change::Resume => "jobs again".into(),
        Change::Scale(Scale::To(workers)) => format!("{workers} workers"),
        Change::Scale(Scale::By(more)) => format!("{more:+} workers"),
    }
}

fn seconds(wait: Duration) -> String {
    format!("{:.1}s", wait.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Failure, Fence, Settlement, SlotId};

    fn worker(pool: u16, index: u16) -> WorkerId {
        WorkerId { slot: SlotId { pool, index }, generation: 1 }
    }

    fn pool(number: u16) -> Arc<str> {
        ["zero", "one"][usize::from(number)].into()
    }

    fn settle(job: &str, verdict: Verdict) -> Command {
        let (job, fence) = (job.into(), Fence(1));
        Command::Settle(Settlement { job, fence, verdict, crashed: false, forensics: None })
    }

    fn words(log: &Decisions, about: &About<'_>) -> Vec<String> {
        log.about(about, Instant::from_millis(9_000_000)).into_iter().map(|one| one.what).collect()
    }

    #[test]
    fn frequent_decisions_do_not_push_out_rare_ones() {
        let mut log = Decisions::default();
        let failure = Failure { group: "exit 1".into(), message: String::new(), trace: None };
        let after = Duration::from_millis(1500);
        log.order(Instant::from_millis(1), &settle("bad", Verdict::Retry { after, failure }), &pool);
        for n in 0..10_000 {
            log.order(
                Instant::from_millis(2 + n),
                &settle("good", Verdict::Complete { result: None, next: None }),
                &pool,
            );
        }
        assert_eq!((log.often.len(), log.seldom.len()), (OFTEN, 1));
        assert_eq!(words(&log, &About::Job(&"bad".into())), ["job bad settled: retry after 1.5s"]);
        assert_eq!(words(&log, &About::Job(&"good".into())).len(), SHOWN);
    }

    #[test]
    fn decisions_are_listed_for_one_subject_in_order() {
        let mut log = Decisions::default();
        let at = Instant::from_millis;
        log.order(at(1), &Command::Spawn(worker(0, 1)), &pool);
        log.order(at(2), &Command::Spawn(worker(1, 1)), &pool);
        log.fact(at(3), &Event::SpawnFailed(worker(0, 1), "no room".into()), &pool);
        log.fact(at(4), &Event::Waiting(1, true), &pool);
        log.order(
            at(5),
            &Command::Signal { worker: worker(0, 2), signal: Signal::Term, why: "idle".into() },
            &pool,
        );
        let first = ["worker zero.1#1 ordered", "worker zero.1#1 could not be made: no room"];
        assert_eq!(words(&log, &About::Slot(&SlotName::new("zero", 1))), first);
        assert_eq!(
            words(&log, &About::Pool("zero")),
            [&first[..], &["TERM to worker zero.2#1: idle"]].concat()
        );
        assert_eq!(words(&log, &About::Pool("one")).len(), 2);
        log.fact(at(6), &Event::Change(Some("one".into()), Change::Scale(Scale::By(2))), &pool);
        assert_eq!(words(&log, &About::Pool("one"))[2], "asked of pool one: +2 workers");
        assert_eq!(words(&log, &About::Pool("zero")).len(), 3);
        let ago = log.about(&About::Pool("one"), at(1004))[1].ago;
        assert_eq!(ago, Duration::from_secs(1));
    }

    #[test]
    fn pool_with_a_reused_number_does_not_inherit_decisions() {
        let mut log = Decisions::default();
        log.order(Instant::from_millis(1), &Command::Spawn(worker(1, 1)), &pool);
        log.order(Instant::from_millis(2), &Command::Spawn(worker(1, 1)), &|_| "two".into());
        assert_eq!(words(&log, &About::Pool("one")), ["worker one.1#1 ordered"]);
        assert_eq!(words(&log, &About::Slot(&SlotName::new("two", 1))), ["worker two.1#1 ordered"]);
    }

    #[test]
    fn lost_lease_is_recorded_once() {
        let mut log = Decisions::default();
        let canceled = Event::Revoked { job: "a".into(), fence: Fence(1), why: Revocation::Canceled };
        for at in 1..4 {
            log.fact(Instant::from_millis(at), &canceled, &pool);
        }
        assert_eq!(words(&log, &About::Job(&"a".into())), ["the lease of job a is revoked: canceled"]);
        log.order(Instant::from_millis(5), &settle("a", Verdict::Canceled), &pool);
        log.fact(Instant::from_millis(6), &canceled, &pool);
        assert_eq!(words(&log, &About::Job(&"a".into())).len(), 3, "it was put back, and canceled again");
    }

    #[test]
    fn an_entry_is_small() {
        assert!(size_of::<Entry>() <= 88, "{}", size_of::<Entry>());
    }
}
