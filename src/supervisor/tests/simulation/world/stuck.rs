//! Lives with unkillable processes: those of this supervisor, and those left by an earlier one.

use super::*;

/// A renewal within this time after the last answer is in time.
const PATIENCE: Duration = Duration::from_secs(27);

/// A life that an earlier supervisor had, with one or two jobs.
pub fn unproven(dice: &mut Dice, now: Instant, lease: Duration) -> Unproven {
    let worker = WorkerId { slot: SlotId { pool: 0, index: dice.below(5) as u16 + 1 }, generation: 7 };
    let jobs = (0..dice.below(2) + 1).map(|number| {
        let id = JobId::from(format!("left{number}"));
        let lease = Lease { job: id.clone(), fence: Fence(1), expires_at: now + lease };
        Fetched { job: Arc::new(job(&id, &Work::left())), lease, waited: None }
    });
    Unproven { worker, cause: "in state D".into(), jobs: jobs.collect() }
}

impl Work {
    /// A job leased by an earlier supervisor.
    fn left() -> Work {
        Work {
            queue: QueueName::from("default"),
            class: Class::from("mail"),
            waiting: false,
            over: false,
            fence: 1,
            leased: true,
            attempt: 1,
            crashes: 0,
            interrupted: 0,
            unknown: 0,
            canceling: false,
        }
    }
}

impl Worker {
    pub fn new(ignores_term: bool, forked_by: Option<WorkerId>) -> Worker {
        Worker {
            jobs: BTreeMap::new(),
            ignores_term,
            unborn: true,
            forked_by,
            alone: None,
            is_stuck: false,
            last_word: None,
            kill_at: None,
            follow: None,
        }
    }
}

impl World {
    /// The lives left by an earlier supervisor live on for a while.
    pub fn inherit(&mut self) {
        for Unproven { worker, jobs, .. } in self.settings.unproven.clone() {
            let mut process = Worker { unborn: false, is_stuck: true, ..Worker::new(true, None) };
            for Fetched { job, lease, .. } in jobs {
                process.jobs.insert(job.id.clone(), lease.fence);
                let key = (job.id.clone(), lease.fence);
                self.checks.assigned.insert(key.clone(), worker);
                self.checks.leases.insert(key.clone(), lease.expires_at);
                self.checks.asked.insert(key, self.now);
                self.jobs.insert(job.id.clone(), Work::left());
                if self.unlucky(30) {
                    self.soon(
                        60_000,
                        Happening::Revoke {
                            job: job.id.clone(),
                            fence: lease.fence,
                            why: Revocation::Canceled,
                        },
                    );
                }
            }
            self.workers.insert(worker, process);
            self.checks.known.insert(worker);
            self.checks.stuck.insert(worker);
            self.checks.killed.insert(worker);
            self.soon(300_000, Happening::Proven(worker, KILLED));
        }
    }

    /// The first process of a worker has ended, but not all of its orphans.
    pub fn stick(&mut self, worker: WorkerId, status: ExitStatus, last_word: Option<(JobId, Outcome)>) {
        let process = self.workers.get_mut(&worker).unwrap();
        (process.is_stuck, process.last_word) = (true, last_word);
        self.checks.doomed.retain(|(doomed, _), _| *doomed != worker);
        self.tell(Event::Stuck(worker, "in state D".into()));
        self.soon(120_000, Happening::Proven(worker, status));
    }

    /// All processes of the life are dead.
    pub fn proven(&mut self, worker: WorkerId, status: ExitStatus) {
        let Some(process) = self.workers.get_mut(&worker) else { return };
        if let Some((job, outcome)) = process.last_word.take()
            && let Some(fence) = process.jobs.remove(&job)
        {
            self.tell(Event::Finished { worker, job, fence, outcome });
        }
        self.ended(worker, status);
    }

    /// The broker has answered a renewal.
    pub fn renewal_answered(&mut self, job: &JobId, fence: Fence) {
        self.checks.asked.insert((job.clone(), fence), self.now);
    }

    pub fn watch_renew(&mut self, lease: &Lease) {
        let key = (lease.job.clone(), lease.fence);
        let lost = self.checks.revoked.get(&key);
        assert!(lost.is_none_or(|why| *why == Revocation::Canceled), "renews what is lost");
        // Counted until the answer, which may take a minute.
        self.checks.asked.insert(key, self.now + Duration::from_secs(60));
    }

    pub fn check_signal(&self, command: &Command) {
        if let Command::Signal { worker, .. } = command {
            assert!(!self.checks.stuck.contains(worker), "signals {worker}, which does not die");
        }
    }

    /// The jobs of unkillable lives are renewed while we hold their leases, also canceling ones.
    pub fn check_stuck(&self) {
        for (worker, process) in self.workers.iter().filter(|(worker, _)| self.checks.stuck.contains(worker))
        {
            for (job, fence) in &process.jobs {
                let key = (job.clone(), *fence);
                let lost = self.checks.revoked.get(&key).is_some_and(|why| *why != Revocation::Canceled);
                let asked = self.checks.asked.get(&key).copied();
                let is_late = asked.is_some_and(|at| self.now > at + PATIENCE);
                let is_ours = !lost && self.jobs[job].leased && self.jobs[job].fence == fence.0;
                assert!(
                    !(is_ours && is_late),
                    "{job} is not renewed, and something of {worker} does not die"
                );
            }
        }
    }
}
