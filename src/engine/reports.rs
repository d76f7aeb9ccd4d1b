//! What the broker is to be told of jobs: how they ended and how far they have come, in few calls.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;
use tracing::warn;

use super::calls;
use crate::broker::Broker;
use crate::failpoint::failpoint;
use crate::model::{Fence, Instant, JobId, Outcome, Progress, Settlement, Snapshot, Verdict, WorkerId};
use crate::process::JobEnd;
use crate::supervisor::Event;

/// Settlements go out this often at most, or with the next fetch: a transaction for each would cost more than the jobs.
const COMPANY: Duration = Duration::from_millis(5);

/// How long a word on progress waits: a job may say a thousand a second.
const LEISURE: Duration = Duration::from_secs(1);

/// A disk that does not take the output of a job in this time does not hold up its verdict.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// Collected until it goes out.
#[derive(Default)]
pub(super) struct Reports {
    /// Ends that are not settled yet.
    ends: HashMap<JobId, End>,
    /// Lives that are over and have ends that are not settled yet.
    over: HashSet<WorkerId>,
    /// Settlements that wait for the next fetch, to travel with it.
    settlements: Vec<Settlement>,
    settle_by: Option<Instant>,
    /// When the last ones went out.
    sent: Option<Instant>,
    /// The latest word of each job on how far it has come.
    notes: HashMap<JobId, (Fence, Progress)>,
    note_by: Option<Instant>,
    /// The kernel's count of processes killed for want of memory, when each job began, and the latest time it was read.
    oom_kills: HashMap<JobId, Option<u64>>,
    oom_kills_read: Option<(Instant, Option<u64>)>,
    /// The same of every running job, also when the broker has it.
    latest: HashMap<JobId, Progress>,
}

/// The end of a job's run, kept until the broker has it.
struct End {
    worker: WorkerId,
    stderr_tail: String,
    output_dropped: u64,
    left: Vec<String>,
    cpu: Option<Duration>,
    snapshot: Option<Snapshot>,
    /// What the disk did not take of its output, known once that is written.
    lost: Arc<AtomicU64>,
    written: Option<oneshot::Receiver<u64>>,
}

impl Reports {
    /// A job begins. The kernel is asked for its count once a second at most: that takes as long as a very short job.
    pub(super) fn begun(&mut self, job: &JobId, now: Instant, read: fn() -> Option<u64>) {
        let fresh = self.oom_kills_read.filter(|(at, _)| now.since(*at) < LEISURE);
        let (_, count) = *self.oom_kills_read.insert(fresh.unwrap_or_else(|| (now, read())));
        self.oom_kills.insert(job.clone(), count);
    }

    /// A job has ended: what is to be told with its settlement is kept. Gives its outcome, and the life in which it was
    /// before, if it was run again alone and nothing of that life is to be settled any more.
    pub(super) fn ended(
        &mut self,
        worker: WorkerId,
        end: JobEnd,
        snapshot: Option<Snapshot>,
    ) -> (Option<Outcome>, Option<WorkerId>) {
        let earlier = self.ends.remove(&end.job.id);
        let over = earlier.and_then(|earlier| self.end_of(earlier.worker));
        self.latest.remove(&end.job.id);
        let JobEnd { job, outcome, stderr_tail, output_dropped, written, left, cpu, .. } = end;
        let end =
            End { worker, stderr_tail, output_dropped, left, cpu, snapshot, lost: Arc::default(), written };
        self.ends.insert(job.id.clone(), end);
        (outcome, over)
    }

    /// A life is over. Gives whether nothing of it is to be settled any more.
    pub(super) fn life_ended(&mut self, worker: WorkerId) -> bool {
        let open = self.ends.values().any(|end| end.worker == worker);
        if open {
            self.over.insert(worker);
        }
        !open
    }

    /// The end of a job is settled or lost. Gives its life if that is over and this was the last of it.
    pub(super) fn bury(&mut self, job: &JobId) -> Option<WorkerId> {
        self.notes.remove(job);
        self.oom_kills.remove(job);
        let worker = self.ends.remove(job)?.worker;
        self.end_of(worker)
    }

    /// One end less of a life. Gives it if it is over and that was the last.
    fn end_of(&mut self, worker: WorkerId) -> Option<WorkerId> {
        let open = self.ends.values().any(|end| end.worker == worker);
        (!open && self.over.remove(&worker)).then_some(worker)
    }

    /// A job says how far it has come.
    pub(super) fn progress(&mut self, job: JobId, fence: Fence, progress: Progress, now: Instant) {
        self.latest.insert(job.clone(), progress.clone());
        self.notes.insert(job, (fence, progress));
        self.note_by.get_or_insert(now + LEISURE);
    }

    /// How far a running job has come, as far as it said.
    pub(super) fn latest(&self, job: &JobId) -> Option<&Progress> {
        self.latest.get(job)
    }

    /// Notes a settlement.
    pub(super) fn settle(&mut self, mut settlement: Settlement, now: Instant, read: fn() -> Option<u64>) {
        if let Some(forensics) = settlement.forensics.as_mut().filter(|left| left.is_killed_by_others())
            && let Some(before) = self.oom_kills.get(&settlement.job).copied().flatten()
        {
            forensics.oom_kills = read().map(|count| count.saturating_sub(before));
        }
        if let (Some(end), Some(forensics)) = (self.ends.get(&settlement.job), &mut settlement.forensics) {
            forensics.stderr_tail.clone_from(&end.stderr_tail);
            forensics.left.clone_from(&end.left);
            forensics.cpu = end.cpu;
            forensics.snapshot = end.snapshot.clone().map(Box::new);
            forensics.output_dropped = end.output_dropped + end.lost.load(Ordering::Relaxed);
        }
        // A person waits for a cancel.
        let by = match (&settlement.verdict, self.sent) {
            (Verdict::Canceled, _) | (_, None) => now,
            (_, Some(sent)) => now.max(sent + COMPANY),
        };
        self.settle_by = Some(self.settle_by.map_or(by, |earlier| earlier.min(by)));
        self.settlements.push(settlement);
    }

    /// When something is to go out.
    pub(super) fn due(&self) -> Option<Instant> {
        self.settle_by.into_iter().chain(self.note_by).min()
    }

    /// All that is to go out.
    pub(super) fn take(&mut self, now: Instant) -> Option<Batch> {
        if self.settlements.is_empty() && self.notes.is_empty() {
            return None;
        }
        self.sent = Some(now);
        (self.settle_by, self.note_by) = (None, None);
        let notes = std::mem::take(&mut self.notes);
        let settlements = std::mem::take(&mut self.settlements);
        let written = settlements.iter().map(|one| {
            let end = self.ends.get_mut(&one.job)?;
            Some((end.written.take()?, end.lost.clone()))
        });
        let written = written.collect();
        let notes = notes.into_iter().map(|(job, (fence, progress))| (job, fence, progress)).collect();
        Some(Batch { notes, settlements, written })
    }
}

/// What goes out at once.
pub(super) struct Batch {
    notes: Vec<(JobId, Fence, Progress)>,
    settlements: Vec<Settlement>,
    /// For each settlement: the answer of the log's writer, and where it is kept.
    written: Vec<Option<(oneshot::Receiver<u64>, Arc<AtomicU64>)>>,
}

impl Batch {
    /// Tells the broker, and the supervisor what it said.
    pub(super) async fn send(self, broker: Arc<Broker>, events: Sender<Event>, wrong: calls::Wrong) {
        let Batch { notes, mut settlements, written } = self;
        if !notes.is_empty()
            && let Err(error) = broker.progress(notes).await
        {
            warn!(%error, "failed to note the progress of jobs");
        }
        if settlements.is_empty() {
            return;
        }
        failpoint("supervisor-9-before-settle");
        // All output of a job can be read once its end is published.
        for (written, settlement) in written.into_iter().zip(&mut settlements) {
            let Some((written, lost)) = written else { continue };
            let answer = tokio::time::timeout(LOG_PATIENCE, written).await;
            if let (Ok(Ok(bytes)), Some(forensics)) = (answer, &mut settlement.forensics) {
                forensics.output_dropped += bytes;
                lost.store(bytes, Ordering::Relaxed);
            }
        }
        calls::settle(broker, events, wrong, settlements).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bytes, Exit, ExitStatus, Forensics, Job, Payload, SlotId, Usage};

    fn life(generation: u32) -> WorkerId {
        WorkerId { slot: SlotId { pool: 0, index: 1 }, generation }
    }

    fn end(job: &str) -> JobEnd {
        let job = Arc::new(Job {
            id: job.into(),
            queue: "q".into(),
            class: "c".into(),
            payload: Payload::Data(Bytes::default()),
            priority: 0,
            tags: Vec::new(),
            attempt: 1,
            crashes: 0,
            interrupted: 0,
            unknown: 0,
            retry: None,
            time_limit: None,
        });
        let (stderr_tail, left) = (String::new(), Vec::new());
        let fence = Fence(1);
        JobEnd { job, fence, outcome: None, stderr_tail, output_dropped: 0, written: None, left, cpu: None }
    }

    #[test]
    fn a_life_whose_jobs_were_all_run_again_alone_is_given_up() {
        let mut reports = Reports::default();
        for job in ["a", "b"] {
            assert_eq!(reports.ended(life(1), end(job), None), (None, None));
        }
        assert!(!reports.life_ended(life(1)), "its jobs are not settled");
        assert_eq!(reports.ended(life(2), end("a"), None), (None, None));
        assert_eq!(reports.ended(life(2), end("b"), None), (None, Some(life(1))));
        assert!(!reports.life_ended(life(2)));
        assert_eq!(reports.bury(&"a".into()), None);
        assert_eq!(reports.bury(&"b".into()), Some(life(2)));
    }

    #[test]
    fn a_kill_that_we_did_not_send_comes_with_the_kernels_kills_of_that_time() {
        let killed = |job: &str| {
            let status = ExitStatus::Signal { signal: 9, core: false };
            let (usage, proof) = (Usage::default(), Duration::ZERO);
            let exit = Exit { status, usage, left_behind: 0, oom: false, oom_at_bound: false, proof };
            let forensics = Some(Forensics { exit: Some(exit), ..Forensics::default() });
            Settlement {
                job: job.into(),
                fence: Fence(1),
                verdict: Verdict::Canceled,
                crashed: true,
                forensics,
            }
        };
        let mut reports = Reports::default();
        let at = Instant::from_millis;
        reports.begun(&"a".into(), at(0), || Some(5));
        reports.begun(&"b".into(), at(900), || panic!("asked again within a second"));
        reports.begun(&"c".into(), at(1_000), || Some(7));
        for job in ["a", "b", "c", "d"] {
            reports.settle(killed(job), at(2_000), || Some(8));
        }
        let told = |one: &Settlement| one.forensics.as_ref().and_then(|left| left.oom_kills);
        let told: Vec<_> = reports.settlements.iter().map(told).collect();
        assert_eq!(told, [Some(3), Some(3), Some(1), None]);
    }
}
