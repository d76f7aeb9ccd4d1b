//! Follows each job from its fetch to its end, for the series and for metrics.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::counting::bounded;
use super::series::{Copied, How, Series};
use model::{
    Class, Count, EndedFor, Fetched, Histogram, Instant, Job, JobId, Millis, NewJob, QueueName, SeriesQuery,
    Settlement, Verdict,
};

/// Series that the loop writes, and the API reads.
#[derive(Clone, Debug)]
pub(super) struct SharedSeries(Arc<Mutex<Series>>);

impl SharedSeries {
    pub(super) fn new() -> SharedSeries {
        SharedSeries(Arc::new(Mutex::new(Series::new())))
    }

    /// A copy of what was asked for, to be read beside the loop.
    pub(super) fn copy(&self, query: &SeriesQuery) -> Vec<Copied> {
        self.lock().copy(query)
    }

    /// Held for moments only: whoever reads takes a copy.
    pub(super) fn lock(&self) -> MutexGuard<'_, Series> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These jobs were put.
    pub(super) fn put<'a>(&self, jobs: impl IntoIterator<Item = &'a (QueueName, Class)>, now: Millis) {
        let mut series = self.lock();
        jobs.into_iter().for_each(|(queue, class)| series.put(now, queue.as_str(), class.as_str()));
    }
}

/// The queues and classes of jobs that are about to be put.
pub(super) fn named(jobs: &[NewJob]) -> Vec<(QueueName, Class)> {
    jobs.iter().map(|job| (job.queue.clone(), job.class.clone())).collect()
}

/// The jobs that are here.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) series: SharedSeries,
    /// How long those have waited that were fetched and have not begun.
    waited: HashMap<JobId, Duration>,
    running: HashMap<JobId, Running>,
    /// How long jobs had waited that began, by queue.
    waits: BTreeMap<String, Histogram>,
    /// How long attempts ran, by queue.
    runs: BTreeMap<String, Histogram>,
    /// Attempts that failed, by class.
    failed: BTreeMap<String, u64>,
    /// Attempts that were ended from outside, by what did it.
    kills: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
struct Running {
    queue: QueueName,
    class: Class,
    since: Instant,
}

impl Course {
    pub(super) fn new(series: SharedSeries) -> Course {
        let (waited, running) = Default::default();
        let (waits, runs, failed, kills) = Default::default();
        Course { series, waited, running, waits, runs, failed, kills }
    }

    /// These jobs have come.
    pub(super) fn fetched(&mut self, fetched: &[Fetched]) {
        let known = fetched.iter().filter_map(|one| Some((one.job.id.clone(), one.waited?)));
        self.waited.extend(known);
    }

    /// A worker gets a job.
    pub(super) fn begun(&mut self, job: &Job, now: Instant, wall: Millis) {
        let waited = self.waited.remove(&job.id);
        self.series.lock().begun(wall, job.queue.as_str(), job.class.as_str(), waited);
        if let Some(waited) = waited {
            bounded(&mut self.waits, job.queue.as_str(), |waits| waits.add(waited));
        }
        let running = Running { queue: job.queue.clone(), class: job.class.clone(), since: now };
        // The same job again without an end: the attempt before is over.
        if let Some(before) = self.running.insert(job.id.clone(), running) {
            self.over(&before, now, wall, How::Otherwise);
        }
    }

    /// The verdict on a job that may have run.
    pub(super) fn settled(&mut self, settlement: &Settlement, now: Instant, wall: Millis) {
        self.waited.remove(&settlement.job);
        let Some(ran) = self.running.remove(&settlement.job) else { return };
        let how = match &settlement.verdict {
            Verdict::Complete { .. } => How::Complete,
            Verdict::Retry { .. } | Verdict::Fail { .. } | Verdict::Hold { .. } => How::Failed,
            Verdict::Release { .. } | Verdict::Canceled => How::Otherwise,
        };
        if how == How::Failed {
            bounded(&mut self.failed, ran.class.as_str(), |failed| *failed += 1);
        }
        if let Some(kill) = kill(settlement) {
            *self.kills.entry(kill).or_default() += 1;
        }
        self.over(&ran, now, wall, how);
    }

    /// The lease of a job is lost.
    pub(super) fn lost(&mut self, job: &JobId, now: Instant, wall: Millis) {
        self.waited.remove(job);
        let Some(ran) = self.running.remove(job) else { return };
        *self.kills.entry("lease").or_default() += 1;
        self.over(&ran, now, wall, How::Otherwise);
    }

    fn over(&mut self, ran: &Running, now: Instant, wall: Millis, how: How) {
        let time = now.since(ran.since);
        bounded(&mut self.runs, ran.queue.as_str(), |runs| runs.add(time));
        self.series.lock().ended(wall, ran.queue.as_str(), ran.class.as_str(), time, how);
    }

    /// What was counted so far.
    pub(super) fn add_to(&self, counters: &mut model::Counters) {
        counters.waits.clone_from(&self.waits);
        counters.runs.clone_from(&self.runs);
        counters.failed.clone_from(&self.failed);
        counters.kills.clone_from(&self.kills);
    }
}

/// What ended an attempt that did not end by itself: a limit, a signal, or a want of memory.
fn kill(settlement: &Settlement) -> Option<&'static str> {
    let left = settlement.forensics.as_ref()?;
    if let Some(EndedFor::Limit(excess)) = left.ended_for {
        return Some(excess.word());
    }
    // The second is a guess: the kernel has killed something on this machine while the job ran, and nobody else has
    // sent a KILL.
    let oom =
        left.exit.as_ref().is_some_and(|exit| exit.oom) || left.oom_kills.is_some_and(|kills| kills > 0);
    // A stop releases a job as the fence does. Where the keeper killed the worker, nothing was sent.
    let is_released = matches!(&settlement.verdict, Verdict::Release { counts: Some(Count::Stopped), .. });
    let is_fenced = is_released && left.ended_for != Some(EndedFor::Stop);
    let why = oom.then_some("oom").or(settlement.crashed.then_some("crash"));
    why.or(is_fenced.then_some("lease"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Bytes, Excess, Exit, ExitStatus, Failure, Fence, Forensics, Lease, Payload, Usage};

    fn job(id: &str) -> Job {
        Job {
            id: id.into(),
            queue: "mail".into(),
            class: "Send".into(),
            payload: Payload::Data(Bytes::default()),
            priority: 0,
            tags: Vec::new(),
            attempt: 1,
            crashes: 0,
            interrupted: 0,
            unknown: 0,
            retry: None,
            time_limit: None,
        }
    }

    fn failed(id: &str, forensics: Forensics, crashed: bool) -> Settlement {
        let failure = Failure { group: "g".into(), message: String::new(), trace: None };
        let forensics = Some(forensics);
        Settlement { job: id.into(), fence: Fence(1), verdict: Verdict::Fail { failure }, crashed, forensics }
    }

    #[test]
    fn attempts_are_counted_by_queue_class_and_what_ended_them() {
        let mut course = Course::new(SharedSeries::new());
        let at = Instant::from_millis;
        let wall = Millis(1_790_000_000_000);
        let lease = Lease { job: "a".into(), fence: Fence(1), expires_at: at(99) };
        let waited = Some(Duration::from_secs(2));
        course.fetched(&[Fetched { job: Arc::new(job("a")), lease, waited }]);
        ["a", "b", "c", "d"].iter().for_each(|id| course.begun(&job(id), at(0), wall));
        let exit = |oom| Exit {
            status: ExitStatus::Signal { signal: 9, core: false },
            usage: Usage::default(),
            left_behind: 0,
            oom,
            oom_at_bound: false,
            proof: Duration::ZERO,
        };
        let for_it = |ended_for| Forensics { ended_for, ..Forensics::default() };
        let limit = EndedFor::Limit(Excess::Time(Duration::from_secs(2), Duration::from_secs(3)));
        course.settled(&failed("a", for_it(Some(limit)), false), at(3_000), wall);
        let oom = Forensics { exit: Some(exit(true)), ..Forensics::default() };
        course.settled(&failed("b", oom, true), at(3_000), wall);
        course.settled(
            &failed("c", Forensics { exit: Some(exit(false)), ..Forensics::default() }, true),
            at(40),
            wall,
        );
        course.lost(&"d".into(), at(50), wall);
        for (id, ended_for) in [
            ("f", Some(EndedFor::Lease)),
            // The keeper killed it.
            ("g", None),
            ("h", Some(EndedFor::Stop)),
        ] {
            course.begun(&job(id), at(50), wall);
            let verdict = Verdict::Release { after: Duration::ZERO, counts: Some(Count::Stopped) };
            course.settled(&Settlement { verdict, ..failed(id, for_it(ended_for), false) }, at(50), wall);
        }
        // A job that did not begin here, such as one of an earlier supervisor.
        course.settled(&failed("e", Forensics::default(), false), at(60), wall);
        let mut counters = model::Counters::default();
        course.add_to(&mut counters);
        assert_eq!(counters.kills, [("crash", 1), ("lease", 3), ("oom", 1), ("time", 1)].into());
        assert_eq!((counters.failed["Send"], counters.runs["mail"].count()), (3, 7));
        assert_eq!(counters.waits["mail"].sum, Duration::from_secs(2));
        assert!(course.running.is_empty() && course.waited.is_empty());
    }
}
