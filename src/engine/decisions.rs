//! The decision log: the latest facts that `why` shows. It is bounded and in memory. Those that come with every job are
//! kept apart, so that they do not push out rare ones.

use std::collections::VecDeque;

use super::fact::{Fact, OfJob, Ring};
use model::{Decision, Instant, JobId, SlotName};

/// Number of entries kept: of those that come with every job, and of the others.
// An entry has 112 bytes at most, beside its texts, as a test holds: 450 KB for both.
const OFTEN: usize = 3072;
const SELDOM: usize = 1024;

/// Limit of the decisions that `why` shows.
const SHOWN: usize = 20;

/// The latest decisions, kept for `why`. A fact becomes text when somebody asks.
#[derive(Default)]
pub(super) struct Decisions {
    often: VecDeque<(Instant, Fact)>,
    seldom: VecDeque<(Instant, Fact)>,
}

/// The subject of a question for decisions.
pub(super) enum About<'a> {
    Job(&'a JobId),
    Slot(&'a SlotName),
    /// All pools of a name: an outdated one and its heir.
    Pool(&'a str),
}

impl Decisions {
    /// Records a fact.
    pub(super) fn keep(&mut self, now: Instant, ring: Ring, fact: Fact) {
        let (ring, most) = match ring {
            Ring::Often => (&mut self.often, OFTEN),
            Ring::Seldom => (&mut self.seldom, SELDOM),
        };
        if ring.len() == most {
            ring.pop_front();
        }
        ring.push_back((now, fact));
    }

    /// Whether this revocation of a lease is recorded already: each renewal of a job that is being canceled repeats it.
    pub(super) fn is_repeated(&self, fact: &Fact) -> bool {
        let Fact::Job(at, OfJob::Revoked(_)) = fact else { return false };
        let of_job =
            self.seldom.iter().rev().map(|(_, before)| before).filter(|before| before.job() == Some(&at.job));
        let is_end = |before: &Fact| matches!(before, Fact::Job(_, OfJob::Verdict(..) | OfJob::LeaseLost(_)));
        // A later attempt may be revoked for the same reason, and that is news.
        of_job.take_while(|before| !is_end(before)).any(|before| before == fact)
    }

    /// The latest decisions about a subject, oldest first.
    pub(super) fn about(&self, about: &About<'_>, now: Instant) -> Vec<Decision> {
        let all = self.often.iter().chain(&self.seldom);
        let mut found: Vec<_> = all.filter(|(_, fact)| about.is_of(fact)).collect();
        found.sort_by_key(|(at, _)| *at);
        let latest = found.split_off(found.len().saturating_sub(SHOWN));
        let told = |(at, fact): &(Instant, Fact)| Decision { ago: now.since(*at), what: fact.sentence() };
        latest.into_iter().map(told).collect()
    }
}

impl About<'_> {
    fn is_of(&self, fact: &Fact) -> bool {
        match self {
            About::Job(job) => fact.job() == Some(job),
            About::Slot(slot) => fact.worker().is_some_and(|worker| worker.slot == **slot),
            About::Pool(name) => fact.pool().is_none_or(|pool| pool == *name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fact::{Ending, JobAt, OfPool, OfService, OfWorker, Voice};
    use model::{Change, Revocation, Scale, Signal, WorkerName};

    fn worker(name: &str, what: OfWorker) -> Fact {
        Fact::Worker(name.parse::<WorkerName>().unwrap(), what)
    }

    fn verdict(job: &str, ending: Ending) -> Fact {
        Fact::Job(JobAt { job: job.into(), worker: None }, OfJob::Verdict(model::Fence(1), ending))
    }

    impl Decisions {
        fn note(&mut self, millis: u64, fact: Fact) {
            let mut ring = None;
            fact.row(Voice::Named, &mut |row| ring = row.ring);
            self.keep(Instant::from_millis(millis), ring.unwrap(), fact);
        }
    }

    fn words(log: &Decisions, about: &About<'_>) -> Vec<String> {
        log.about(about, Instant::from_millis(9_000_000)).into_iter().map(|one| one.what).collect()
    }

    #[test]
    fn frequent_decisions_do_not_push_out_rare_ones() {
        let mut log = Decisions::default();
        let retry =
            Ending::Retry { after: Duration::from_millis(1500), failure: "exit 1".into(), crashed: false };
        log.note(1, verdict("bad", retry));
        (0..10_000).for_each(|n| log.note(2 + n, verdict("good", Ending::Complete)));
        assert_eq!((log.often.len(), log.seldom.len()), (OFTEN, 1));
        let bad = "job bad did not complete and is tried again in 1s500ms: exit 1";
        assert_eq!(words(&log, &About::Job(&"bad".into())), [bad]);
        assert_eq!(words(&log, &About::Job(&"good".into())).len(), SHOWN);
    }

    #[test]
    fn decisions_are_listed_for_one_subject_in_order() {
        let mut log = Decisions::default();
        log.note(1, worker("zero.1#1", OfWorker::Spawning));
        log.note(2, worker("one.1#1", OfWorker::Spawning));
        log.note(3, worker("zero.1#1", OfWorker::SpawnFailed("no room".into())));
        log.note(4, Fact::Pool("one".into(), OfPool::Waiting(true)));
        log.note(5, worker("zero.2#1", OfWorker::Signaled(Signal::Term, "idle".into())));
        let first = ["worker zero.1#1 is started", "worker zero.1#1 could not be made: no room"];
        assert_eq!(words(&log, &About::Slot(&SlotName::new("zero", 1))), first);
        let zero = [&first[..], &["TERM is sent to worker zero.2#1: idle"]].concat();
        assert_eq!(words(&log, &About::Pool("zero")), zero);
        assert_eq!(words(&log, &About::Pool("one")).len(), 2);
        let (change, by) = (Change::Scale(Scale::By(2)), "uid 0".into());
        let pool = Some("one".into());
        log.note(6, Fact::Service(OfService::Changed { pool, change, by, reason: None }));
        assert_eq!(words(&log, &About::Pool("one"))[2], "scaled: pool one will have +2 workers (uid 0)");
        assert_eq!(words(&log, &About::Pool("zero")).len(), 3);
        let ago = log.about(&About::Pool("one"), Instant::from_millis(1004))[1].ago;
        assert_eq!(ago, Duration::from_secs(1));
    }

    #[test]
    fn lost_lease_is_recorded_once() {
        let mut log = Decisions::default();
        let canceled =
            Fact::Job(JobAt { job: "a".into(), worker: None }, OfJob::Revoked(Revocation::Canceled));
        assert!(!log.is_repeated(&canceled));
        log.note(1, canceled.clone());
        assert!(log.is_repeated(&canceled));
        log.note(5, verdict("a", Ending::Canceled));
        assert!(!log.is_repeated(&canceled), "it was put back, and canceled again");
    }

    #[test]
    fn an_entry_is_small() {
        assert!(size_of::<(Instant, Fact)>() <= 112, "{}", size_of::<(Instant, Fact)>());
    }
}
