//! The world's reaction to the supervisor's commands.

use super::*;

impl World {
    pub fn perform(&mut self) {
        while let Some(command) = self.supervisor.next_command() {
            self.note(">", &command);
            self.watch_command(&command);
            match command {
                Command::Spawn(worker) => self.spawn(worker),
                Command::Fork(worker, template) => self.fork(worker, template),
                Command::AskWaiting(pool, queues) => self.soon(100, Happening::AskWaiting(pool, queues)),
                Command::Assign { worker, job, fence, .. } => self.assign(worker, &job, fence),
                Command::Cancel { worker, job, .. } => {
                    if !self.unlucky(30) {
                        self.soon(3_000, Happening::Ends { worker, job, outcome: complete() });
                    }
                }
                Command::Signal { worker, signal, .. } => self.signal(worker, signal),
                Command::KillAt(worker, at) => self.kill_at(worker, at),
                Command::Follow(worker, follow) => {
                    if let Some(process) = self.workers.get_mut(&worker) {
                        process.follow = Some(follow);
                    }
                }
                Command::LeaseLost { .. }
                | Command::VerdictUnconfirmed { .. }
                | Command::LeftAlive { .. }
                | Command::GiveUp(_) => {}
                Command::Died { .. } => {}
                Command::Fetch { pool, queues, take, workers, .. } => {
                    self.soon(200, Happening::Fetch { pool, queues, take, most: workers.len() });
                }
                Command::Renew(leases) => leases.into_iter().for_each(|lease| self.renew(lease)),
                Command::Settle(settlement) => {
                    let Settlement { job, fence, verdict, crashed, .. } = settlement;
                    self.soon(300, Happening::Settle { job, fence, verdict, crashed });
                }
                Command::AskIdle(..) => {
                    if self.jobs.values().all(|job| job.over) {
                        self.soon(100, Happening::Tell(Event::Idle(None)));
                    }
                }
                Command::Equip(number, pool) => {
                    self.checks.knows.insert(number, pool.knows.clone());
                    // An heir begins with as many workers as the old pool had, maybe more than its settings: the pool
                    // may have been scaled since.
                    let most = pool.workers.max(self.checks.most);
                    self.checks.grown.insert(number, usize::from(most));
                    match self.settings.pools.get_mut(usize::from(number)) {
                        Some(known) => *known = *pool,
                        None => self.settings.pools.push(*pool),
                    }
                }
                Command::Exit => self.checks.exited = true,
            }
        }
    }

    pub fn spawn(&mut self, worker: WorkerId) {
        if self.unlucky(10) {
            return self.soon(500, Happening::Tell(Event::SpawnFailed(worker, "no memory".into())));
        }
        self.make(worker, None);
    }

    /// A fork: the template may be dead already, busy for long, or never answer.
    pub fn fork(&mut self, worker: WorkerId, template: WorkerId) {
        if self.unlucky(10) || !self.workers.contains_key(&template) {
            return self.soon(500, Happening::Tell(Event::SpawnFailed(worker, "no template".into())));
        }
        self.make(worker, Some(template));
    }

    pub fn make(&mut self, worker: WorkerId, forked_by: Option<WorkerId>) {
        let ignores_term = self.unlucky(20);
        self.workers.insert(worker, Worker::new(ignores_term, forked_by));
        if !self.unlucky(5) {
            let within = if self.unlucky(10) { 8_000 } else { 300 };
            self.soon(within, Happening::Born(worker));
        }
    }

    pub fn assign(&mut self, worker: WorkerId, job: &Job, fence: Fence) {
        let Some(process) = self.workers.get_mut(&worker) else { return };
        process.jobs.insert(job.id.clone(), fence);
        if self.killer.as_ref() == Some(&job.id) {
            return self.soon(2_000, Happening::Dies(worker, ExitStatus::Signal { signal: 11, core: true }));
        }
        if self.unlucky(10) {
            let excess = self.some_excess();
            self.soon(
                10_000,
                Happening::Tell(Event::Exceeded { worker, job: job.id.clone(), fence, excess }),
            );
        }
        if self.unlucky(25) {
            return;
        }
        if self.unlucky(8) {
            return self.soon(20_000, Happening::Dies(worker, ExitStatus::Signal { signal: 6, core: false }));
        }
        let outcome = match self.unlucky(30) {
            true => self.some_failure(),
            false => complete(),
        };
        let longest = if self.dice.below(10) == 0 { 100_000 } else { 5_000 };
        self.soon(self.longest.unwrap_or(longest), Happening::Ends { worker, job: job.id.clone(), outcome });
    }

    pub fn some_excess(&mut self) -> Excess {
        let second = Duration::from_secs(1);
        let all = [
            Excess::Memory(1, 2),
            Excess::Processes(1, 2),
            Excess::Output(1, 2),
            Excess::Cpu(second, second),
        ];
        all[self.dice.below(4) as usize]
    }

    pub fn some_failure(&mut self) -> Outcome {
        let failure = Failure { group: "exit 1".into(), message: "it returned 1".into(), trace: None };
        let wait = Duration::from_millis(self.dice.below(5_000));
        match self.dice.below(6) {
            5 => Outcome::CannotBegin("no such program".into()),
            4 => Outcome::UnknownClass,
            0 => Outcome::Failed(failure),
            1 => Outcome::FailedForGood(failure),
            2 => Outcome::RetryAfter(wait, failure),
            _ => Outcome::Snoozed(wait),
        }
    }

    pub fn signal(&mut self, worker: WorkerId, signal: Signal) {
        let Some(process) = self.workers.get_mut(&worker) else { return };
        process.follow = None;
        match signal {
            Signal::Term if process.ignores_term || process.unborn => {}
            Signal::Term => {
                self.soon(3_000, Happening::Dies(worker, ExitStatus::Signal { signal: 15, core: false }));
            }
            Signal::Kill => self.soon(100, Happening::Dies(worker, KILLED)),
        }
    }

    /// The keeper's kill at the fence comes a moment late, so that the supervisor often acts first.
    pub fn kill_at(&mut self, worker: WorkerId, at: Option<Instant>) {
        if let Some(process) = self.workers.get_mut(&worker) {
            process.kill_at = at;
        }
        if let Some(at) = at {
            self.happenings += 1;
            let late = Duration::from_millis(self.dice.below(20) * 50);
            self.agenda.insert((at.max(self.now) + late, self.happenings), Happening::SelfFence(worker, at));
        }
    }

    pub fn renew(&mut self, lease: Lease) {
        let Lease { job, fence, .. } = lease;
        let ours = self.jobs.get(&job).is_some_and(|work| work.leased && work.fence == fence.0);
        if self.unlucky(30) {
            return self.soon(2_000, Happening::Tell(Event::RenewFailed(job, fence)));
        }
        if self.unlucky(10) {
            // The answer never comes, or too late: the fence must kill the worker, or the job carries on.
            return self.soon(60_000, Happening::Tell(Event::RenewFailed(job, fence)));
        }
        match ours {
            true => {
                let expires_at = self.now + self.settings.lease;
                self.soon(300, Happening::Tell(Event::Renewed(Lease { job, fence, expires_at })));
            }
            false => {
                let refused = Event::Revoked { job, fence, why: Revocation::RenewRefused };
                self.soon(300, Happening::Tell(refused));
            }
        }
    }
}
