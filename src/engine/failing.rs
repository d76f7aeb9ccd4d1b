//! What has failed for a while, whoever does it: the calls to the broker, which keep jobs from running, and everything else.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Notify;

use super::lookout::no_room;
use super::renewing::Renewing;
use broker::{Complaints, Told};
use model::Instant;

/// What fails if the settings of a reload cannot be kept.
const NOT_KEPT: &str = "the settings of the last reload end with this supervisor";
/// What fails if the kernel refuses the bounds of a life.
const UNBOUNDED: &str = "the kernel refuses the limits of jobs, which are kept by measuring alone";

/// The failures of one supervisor. All copies are one.
#[derive(Clone, Debug)]
pub(super) struct Failing {
    /// Calls that take, renew and settle jobs.
    pub(super) calls: Complaints,
    /// The jobs whose leases this supervisor renews. A failed renewal is a complaint, as a failed call is.
    pub(super) renewing: Renewing,
    /// Background tasks of the broker, and what else keeps no job from running.
    pub(super) others: Complaints,
    /// The state directory, whose disk can be full.
    state_dir: Arc<Path>,
    /// Told when the keeper pings, as it does a supervisor at rest.
    pub(super) pinged: Arc<Notify>,
}

impl Failing {
    /// Those of a broker with these complaints, and of a state directory.
    pub(super) fn new(others: Complaints, state_dir: PathBuf) -> Failing {
        let calls = Complaints::default();
        let renewing = Renewing::new(calls.clone());
        Failing { calls, renewing, others, state_dir: state_dir.into(), pinged: Arc::default() }
    }

    /// The state directory.
    pub(super) fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// The keeper has pinged: looks around; gives whether the health is to be judged although nothing has happened.
    pub(super) fn ping(&self) -> bool {
        self.pinged.notify_waiters();
        no_room(&self.state_dir).is_some()
    }

    /// How the calls to the broker fail, if they have for a while.
    pub(super) fn trouble(&self, now: Instant) -> Option<String> {
        self.calls.told(now).into_iter().next().map(|told| told.how)
    }

    /// What else fails, apart from what `trouble` explains.
    pub(super) fn others(&self, now: Instant, trouble: Option<&str>) -> Vec<String> {
        let is_explained = |told: &Told| trouble.is_some_and(|trouble| cause(trouble) == cause(&told.how));
        let all = self.all(now).into_iter();
        let others = all.filter(|told| Some(told.how.as_str()) != trouble && !is_explained(told));
        let others = others.map(|Told { what, how, .. }| format!("{what}: {how}"));
        // A store on a full disk has said so itself.
        let full = no_room(&self.state_dir).filter(|_| trouble.is_none());
        full.into_iter().chain(others).collect()
    }

    /// All that fails.
    pub(super) fn all(&self, now: Instant) -> Vec<Told> {
        [&self.calls, &self.others].into_iter().flat_map(|some| some.told(now)).collect()
    }

    /// The settings of a reload were kept for the next supervisor of this keeper, or could not be.
    pub(super) fn reload_kept(&self, kept: Result<(), String>, now: Instant) {
        match kept {
            Err(why) => self.others.stands(NOT_KEPT, &why, now),
            Ok(()) => self.others.well(NOT_KEPT, now),
        }
    }

    /// The kernel has refused the bounds of a life with this error, or takes them again. Each job with limits is a try.
    pub(super) fn bounded(&self, refused: Option<i32>, now: Instant) {
        match refused.map(std::io::Error::from_raw_os_error) {
            Some(error) => self.others.stands(UNBOUNDED, &error, now),
            None => self.others.well(UNBOUNDED, now),
        }
    }

    /// Waits until something else fails than `before`, which [`Failing::both`] gave.
    pub(super) async fn turn(&self, before: &[Vec<Told>; 2]) {
        tokio::select! {
            () = self.calls.turn(&before[0], clock::now) => {}
            () = self.others.turn(&before[1], clock::now) => {}
        }
    }

    /// What fails of the calls, and of everything else.
    pub(super) fn both(&self) -> [Vec<Told>; 2] {
        let now = clock::now();
        [self.calls.told(now), self.others.told(now)]
    }
}

/// The part of an error that says why: `cannot DO THIS at SERVER: why`. It is the same for all that is asked of a server
/// that is away.
fn cause(error: &str) -> &str {
    error.split_once(": ").map_or(error, |(_, why)| why)
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use async_trait::async_trait;
    use tokio::sync::mpsc::channel;

    use super::super::renewing::RENEWING;
    use super::*;
    use crate::{burst, calls};
    use broker::{Admin, Broker, Card, Error, Fetch, LASTS, Notice, Renewal, Settling, Source};
    use model::verb::{Answer, Done, Verb};
    use model::{
        ClassFilter, Fence, Fetched, JobId, JobState, Lease, NewJob, Progress, QueueName, Settlement, SlotId,
        Take, WorkerId,
    };
    use supervisor::Event;

    static CARD: Card =
        Card { name: "sick", shared: true, batch: 10, longest_delay: None, data_max: 9, cannot: &[] };

    /// A broker that fails in all it does, while it is so.
    struct Sick(AtomicBool);

    impl Sick {
        fn or<T>(&self, answer: T) -> Result<T, Error> {
            if self.0.load(Ordering::Relaxed) {
                Err(Error::Failed("cannot: sick".into()))
            } else {
                Ok(answer)
            }
        }
    }

    #[async_trait]
    impl Source for Sick {
        async fn fetch(&self, _: Fetch) -> Result<Vec<Fetched>, Error> {
            self.or(Vec::new())
        }

        /// Of the first two leases only one fails. A third one has no answer.
        async fn renew(&self, leases: Vec<Lease>, _: Duration) -> Result<Vec<Renewal>, Error> {
            let each = leases.into_iter().enumerate().map(|(at, lease)| match self.or(()) {
                Err(error) if at == 0 => Renewal::Failed(error),
                Ok(()) | Err(_) => Renewal::Renewed(lease),
            });
            Ok(each.take(2).collect())
        }

        async fn settle(&self, ends: Vec<Settlement>) -> Result<Vec<Settling>, Error> {
            self.or(ends.iter().map(|_| Settling::Settled(JobState::Canceled)).collect())
        }

        async fn put(&self, _: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error> {
            self.or(Vec::new())
        }

        async fn next_notice(&self) -> Notice {
            std::future::pending().await
        }

        async fn progress(&self, _: Vec<(JobId, Fence, Progress)>) -> Result<(), Error> {
            self.or(())
        }
    }

    #[async_trait]
    impl Admin for Sick {
        async fn ask(&self, verb: Verb, _: String) -> Result<Answer, Error> {
            let is_set = matches!(verb, Verb::SetOption(_));
            self.or(if is_set { Answer::SetOption(Done {}) } else { Answer::Queues(BTreeMap::new()) })
        }
    }

    /// A sick broker, and what makes it well or sick.
    pub(crate) fn sick() -> (Arc<Broker>, impl Fn(bool)) {
        let sick = Arc::new(Sick(AtomicBool::new(true)));
        let broker = Arc::new(Broker::new(&CARD, sick.clone()).with_admin(sick.clone()));
        (broker, move |is_so| sick.0.store(is_so, Ordering::Relaxed))
    }

    /// What the supervisor asks of its broker, each once.
    async fn ask_all(broker: &Arc<Broker>, failing: &Failing) {
        let (events, _told) = channel(99);
        let queues: Vec<QueueName> = vec!["q".into()];
        let worker = WorkerId { slot: SlotId { pool: 0, index: 1 }, generation: 1 };
        let request = Fetch {
            pool: "default".into(),
            instance: "me".into(),
            queues: queues.clone(),
            take: Take::InOrder,
            filter: ClassFilter::default(),
            workers: vec![worker],
            lease: Duration::from_secs(60),
        };
        let wrong = || failing.calls.clone();
        calls::fetch(broker.clone(), events.clone(), wrong(), 0, request).await;
        let leases = leases(&["a", "b"]);
        failing.renewing.asked(&leases);
        let renewing = failing.renewing.clone();
        calls::renew(broker.clone(), events.clone(), renewing, leases, Duration::from_secs(60)).await;
        let end = Settlement {
            job: "a".into(),
            fence: Fence(1),
            verdict: model::Verdict::Canceled,
            crashed: false,
            forensics: None,
        };
        calls::settle(broker.clone(), events.clone(), wrong(), vec![end]).await;
        calls::progress(broker, Vec::new()).await;
        calls::ask_waiting(broker.clone(), events.clone(), 0, queues.clone()).await;
        burst::ask_idle(broker.clone(), events, queues, Vec::new()).await;
    }

    fn leases(jobs: &[&str]) -> Vec<Lease> {
        let lease = |job: &&str| Lease { job: (*job).into(), fence: Fence(1), expires_at: clock::now() };
        jobs.iter().map(lease).collect()
    }

    #[tokio::test]
    async fn answer_to_a_renewal_after_the_end_of_its_job_is_no_complaint() {
        let sick = Arc::new(Sick(AtomicBool::new(true)));
        let broker = Arc::new(Broker::new(&CARD, sick.clone()).with_admin(sick));
        let failing = Failing::new(broker.complaints().clone(), "/dev/shm".into());
        let ((events, _told), renewing) = (channel(9), failing.renewing.clone());
        let answer = async |job| {
            let (broker, events, renewing) = (broker.clone(), events.clone(), renewing.clone());
            calls::renew(broker, events, renewing, leases(&[job]), Duration::from_secs(60)).await;
            failing.calls.latest_for(RENEWING, job)
        };
        renewing.asked(&leases(&["a", "b"]));
        renewing.ended(&"a".into(), clock::now());
        assert_eq!(answer("a").await, None);
        assert!(answer("b").await.is_some(), "it runs");
        renewing.ended(&"b".into(), clock::now());
        assert_eq!(failing.calls.latest(RENEWING), None, "it ended after the answer");
    }

    #[tokio::test]
    async fn renewal_without_an_answer_has_failed() {
        let (broker, is_sick) = sick();
        is_sick(false);
        let renewing = Renewing::new(Complaints::default());
        let ((events, mut told), asked) = (channel(9), leases(&["a", "b", "c"]));
        calls::renew(broker, events, renewing, asked.clone(), Duration::from_secs(60)).await;
        let mut all = Vec::new();
        while let Some(event) = told.recv().await {
            all.push(event);
        }
        let renewed = |at: usize| Event::Renewed(asked[at].clone());
        assert_eq!(all, [renewed(0), renewed(1), Event::RenewFailed("c".into(), Fence(1))]);
    }

    #[tokio::test]
    async fn whatever_fails_for_five_seconds_is_told_and_taken_back_when_it_works() {
        let sick = Arc::new(Sick(AtomicBool::new(true)));
        let broker = Arc::new(Broker::new(&CARD, sick.clone()).with_admin(sick.clone()));
        let failing = Failing::new(broker.complaints().clone(), "/dev/shm".into());
        let names = || failing.all(clock::now()).into_iter().map(|told| told.what).collect::<Vec<_>>();
        let all = [
            "failed to fetch from q",
            "failed to renew",
            "failed to settle",
            "failed to count the jobs of queues",
            "failed to note the progress of jobs",
        ];
        let began = clock::now();
        let mut tries = tokio::time::interval(LASTS / 20);
        while names() != all {
            tries.tick().await;
            ask_all(&broker, &failing).await;
            assert!(names().is_empty() || clock::now().since(began) >= LASTS, "{:?}", names());
            assert!(clock::now().since(began) < 8 * LASTS, "{:?}", names());
        }
        assert_eq!(failing.trouble(clock::now()).as_deref(), Some("cannot: sick"));
        sick.0.store(false, Ordering::Relaxed);
        ask_all(&broker, &failing).await;
        assert_eq!((names(), failing.trouble(clock::now())), (Vec::new(), None));
    }

    #[test]
    fn limits_that_the_kernel_refuses_are_told_until_it_takes_them() {
        let failing = Failing::new(Complaints::default(), "/dev/shm".into());
        failing.bounded(Some(22), Instant(5));
        let told = failing.others(Instant(9_000_000_000), None);
        assert_eq!(told, [format!("{UNBOUNDED}: Invalid argument (os error 22)")]);
        failing.bounded(None, Instant(10));
        assert_eq!(failing.others(Instant(11), None), [""; 0]);
    }

    #[test]
    fn reload_that_cannot_be_kept_is_told_until_one_is_kept() {
        let failing = Failing::new(Complaints::default(), "/dev/shm".into());
        failing.reload_kept(Err("no memory".into()), Instant(5));
        assert_eq!(failing.others(Instant(9_000_000_000), None), [format!("{NOT_KEPT}: no memory")]);
        failing.reload_kept(Ok(()), Instant(10));
        assert_eq!(failing.others(Instant(11), None), [""; 0]);
    }

    #[test]
    fn trouble_of_the_broker_is_told_once_and_everything_else_beside_it() {
        let failing = Failing::new(Complaints::default(), "/dev/shm".into());
        let at = Instant::from_millis;
        for millis in [1_000, 7_000] {
            failing.calls.wrong("failed to settle", &"cannot settle jobs in R: gone: start it", at(millis));
            failing.others.wrong("nothing is heard", &"cannot listen to R: gone: start it", at(millis));
            failing.others.wrong("what recurs is not put", &"no zone X", at(millis));
        }
        let trouble = failing.trouble(at(7_000));
        assert_eq!(trouble.as_deref(), Some("cannot settle jobs in R: gone: start it"));
        assert_eq!(failing.others(at(7_000), trouble.as_deref()), ["what recurs is not put: no zone X"]);
        assert_eq!(failing.all(at(7_000)).len(), 3);
    }
}
