//! Reports on jobs to the broker, such as ends and progress, collected into few calls.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

use super::calls;
use broker::{Broker, Complaints};
use failpoint::failpoint;
use model::{Fence, Instant, JobId, Outcome, Progress, Settlement, Snapshot, Verdict, WorkerId};
use process::JobEnd;
use supervisor::Event;

/// Settlements wait this long at most, unless the next fetch takes them along: one transaction for each would cost more
/// than the jobs.
const COMPANY: Duration = Duration::from_millis(5);

/// How long progress waits before it is sent: a job may report a thousand times a second.
const LEISURE: Duration = Duration::from_secs(1);

/// The verdict on a job waits this long for the disk to take the job's output.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// Reports collected for the next call.
#[derive(Default)]
pub(super) struct Reports {
    /// Ends of jobs that are not settled yet.
    ends: HashMap<JobId, End>,
    /// Lives that are over, of which some jobs are not settled yet.
    over: HashSet<WorkerId>,
    /// Settlements that wait, to travel with the next fetch.
    settlements: Vec<Settlement>,
    settle_by: Option<Instant>,
    /// When the last settlements were sent.
    sent: Option<Instant>,
    /// The latest progress of each job that is yet to be sent.
    notes: HashMap<JobId, (Fence, Progress)>,
    note_by: Option<Instant>,
    /// The kernel's count of out-of-memory kills when each job began, and when the count was read last.
    oom_kills: HashMap<JobId, Option<u64>>,
    oom_kills_read: Option<(Instant, Option<u64>)>,
    /// The latest progress of every running job, whether sent or not.
    latest: HashMap<JobId, Progress>,
}

/// The end of a job's run, kept until the broker has confirmed the settlement.
struct End {
    worker: WorkerId,
    stderr_tail: String,
    output_dropped: u64,
    left: Vec<String>,
    cpu: Option<Duration>,
    in_worker: bool,
    snapshot: Option<Snapshot>,
    /// Bytes of the job's output that the disk did not take, known once the rest is written.
    lost: Arc<AtomicU64>,
    written: Option<oneshot::Receiver<u64>>,
}

impl Reports {
    /// A job begins. The kernel's count is read once a second at most, as that takes as long as a very short job.
    pub(super) fn begun(&mut self, job: &JobId, now: Instant, read: fn() -> Option<u64>) {
        let fresh = self.oom_kills_read.filter(|(at, _)| now.since(*at) < LEISURE);
        let (_, count) = *self.oom_kills_read.insert(fresh.unwrap_or_else(|| (now, read())));
        self.oom_kills.insert(job.clone(), count);
    }

    /// A job has ended: keeps what goes into its settlement. Gives the outcome. If the job ran again alone, it also
    /// gives the earlier life, once no job of that life is left to settle.
    pub(super) fn ended(
        &mut self,
        worker: WorkerId,
        end: JobEnd,
        snapshot: Option<Snapshot>,
    ) -> (Option<Outcome>, Option<WorkerId>) {
        let earlier = self.ends.remove(&end.job.id);
        let over = earlier.and_then(|earlier| self.end_of(earlier.worker));
        self.latest.remove(&end.job.id);
        let JobEnd { job, outcome, stderr_tail, output_dropped, written, left, cpu, in_worker, .. } = end;
        let lost = Arc::default();
        let end = End { worker, stderr_tail, output_dropped, left, cpu, in_worker, snapshot, lost, written };
        self.ends.insert(job.id.clone(), end);
        (outcome, over)
    }

    /// A life is over. Gives whether no job of it is left to settle.
    pub(super) fn life_ended(&mut self, worker: WorkerId) -> bool {
        let open = self.ends.values().any(|end| end.worker == worker);
        if open {
            self.over.insert(worker);
        }
        !open
    }

    /// The end of a job is settled or lost. Gives its life if that is over and this was its last job.
    pub(super) fn bury(&mut self, job: &JobId) -> Option<WorkerId> {
        self.notes.remove(job);
        self.oom_kills.remove(job);
        let worker = self.ends.remove(job)?.worker;
        self.end_of(worker)
    }

    /// One end of a life is done. Gives the life if it is over and this was the last one.
    fn end_of(&mut self, worker: WorkerId) -> Option<WorkerId> {
        let open = self.ends.values().any(|end| end.worker == worker);
        (!open && self.over.remove(&worker)).then_some(worker)
    }

    /// A job reports its progress.
    pub(super) fn progress(&mut self, job: JobId, fence: Fence, progress: Progress, now: Instant) {
        self.latest.insert(job.clone(), progress.clone());
        self.notes.insert(job, (fence, progress));
        self.note_by.get_or_insert(now + LEISURE);
    }

    /// The latest progress of a running job, if it reported any.
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
            forensics.shared |= end.in_worker && forensics.exit.is_some();
            forensics.snapshot = end.snapshot.clone().map(Box::new);
            // What was lost is known here if this verdict was sent before.
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

    /// When to send the next reports.
    pub(super) fn due(&self) -> Option<Instant> {
        self.settle_by.into_iter().chain(self.note_by).min()
    }

    /// Takes all reports that are to be sent.
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

/// The reports of one call.
pub(super) struct Batch {
    notes: Vec<(JobId, Fence, Progress)>,
    settlements: Vec<Settlement>,
    /// For each settlement: the answer of the log's writer, and where to keep it.
    written: Vec<Option<(oneshot::Receiver<u64>, Arc<AtomicU64>)>>,
}

impl Batch {
    /// Sends the reports to the broker, and the answers to the supervisor.
    pub(super) async fn send(self, broker: Arc<Broker>, events: Sender<Event>, wrong: Complaints) {
        let Batch { notes, mut settlements, written } = self;
        if !notes.is_empty() {
            // Before the settlements: a broker ignores the progress of a job that has ended.
            calls::progress(&broker, notes).await;
        }
        if settlements.is_empty() {
            return;
        }
        failpoint("supervisor-9-before-settle");
        // Waits for the output: all of it can be read once the job's end is published.
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
    use model::{Bytes, Exit, ExitStatus, Forensics, Job, Payload, SlotId, Usage};

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
        let (cpu, in_worker) = (None, false);
        JobEnd {
            job,
            fence,
            outcome: None,
            stderr_tail,
            output_dropped: 0,
            written: None,
            left,
            cpu,
            in_worker,
        }
    }

    #[test]
    fn dead_life_is_forgotten_once_all_its_jobs_ran_again() {
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
    fn unexplained_sigkill_is_reported_with_the_oom_kills_of_that_time() {
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
