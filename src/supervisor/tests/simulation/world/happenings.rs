//! Events that happen outside of the supervisor by themselves.

use super::*;

impl World {
    pub fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Tell(event) => self.tell(event),
            Happening::Born(worker) => self.born(worker),
            Happening::Dies(worker, status) => self.dies(worker, status),
            Happening::Proven(worker, status) => self.proven(worker, status),
            Happening::Ends { worker, job, outcome } => self.ends(worker, job, outcome),
            Happening::SelfFence(worker, at) => {
                if self.workers.get(&worker).is_some_and(|process| process.kill_at == Some(at)) {
                    self.dies(worker, KILLED);
                }
            }
            Happening::Revoke { job, fence, why } => {
                if let Some(work) = self.jobs.get_mut(&job)
                    && work.fence == fence.0
                    && work.leased
                {
                    // A cancel waits for the proof of death: until then the job is leased.
                    work.canceling |= why == Revocation::Canceled;
                    work.leased = work.canceling;
                    work.waiting = !work.canceling;
                    let queue = work.queue.clone();
                    self.tell(Event::Revoked { job, fence, why });
                    self.tell(Event::Woken(queue.into()));
                }
            }
            Happening::Fetch { pool, queues, take, most } => self.fetch(pool, queues, take, most),
            Happening::AskWaiting(pool, queues) => {
                let waiting = self.jobs.values().any(|work| work.waiting && queues.contains(&work.queue));
                self.tell(Event::Waiting(pool, waiting));
            }
            Happening::Settle { job, fence, verdict, crashed } => self.settle(job, fence, &verdict, crashed),
            Happening::StandStill(time) => self.stand_still(time),
            Happening::Due(job) => {
                let work = self.jobs.get_mut(&job).unwrap();
                if !work.over && !work.leased {
                    work.waiting = true;
                    let queue = work.queue.clone();
                    self.tell(Event::Woken(queue.into()));
                }
            }
        }
    }

    /// Nothing goes on, except for the clock. The keeper then puts off what was due, once.
    fn stand_still(&mut self, time: Duration) {
        self.now = self.now + time;
        let put_off = self.now + Duration::from_secs(5);
        for ((at, number), happening) in std::mem::take(&mut self.agenda) {
            let is_fence = matches!(happening, Happening::SelfFence(..));
            let at = if is_fence { at.max(put_off) } else { at + time };
            self.agenda.insert((at, number), happening);
        }
        let leases = self.checks.leases.values_mut().chain(self.checks.doomed.values_mut());
        leases.for_each(|until| *until = (*until).max(put_off + Duration::from_secs(1)));
        self.checks.hung = true;
    }

    pub fn born(&mut self, worker: WorkerId) {
        let Some(process) = self.workers.get_mut(&worker) else { return };
        process.unborn = false;
        self.tell(Event::Spawned(worker));
        if self.unlucky(10) {
            return self.soon(2_000, Happening::Dies(worker, ExitStatus::Code(1)));
        }
        if !self.unlucky(5) {
            self.soon(2_000, Happening::Tell(Event::Ready(worker)));
        }
        if self.unlucky(20) {
            self.soon(300_000, Happening::Dies(worker, ExitStatus::Signal { signal: 11, core: true }));
        }
        if self.unlucky(5) {
            self.soon(60_000, Happening::Tell(Event::Outgrown(worker)));
        }
        if self.unlucky(5) {
            self.soon(60_000, Happening::Tell(Event::Leaving(worker, "its code has changed".into())));
        }
        if self.unlucky(5) {
            self.soon(60_000, Happening::Tell(Event::Faulty(worker, "unknown frame 'dome'".into())));
        }
    }

    pub fn dies(&mut self, worker: WorkerId, status: ExitStatus) {
        let Some(process) = self.workers.get(&worker).filter(|process| !process.is_stuck) else { return };
        let may_stick = !process.unborn && worker.slot.index > 0;
        match may_stick && self.unlucky(7) {
            true => self.stick(worker, status, None),
            false => self.ended(worker, status),
        }
    }

    pub fn ended(&mut self, worker: WorkerId, status: ExitStatus) {
        let Some(process) = self.workers.remove(&worker) else { return };
        self.checks.deaths += u64::from(!process.jobs.is_empty() && status != KILLED);
        self.orphan(worker);
        if process.unborn && process.forked_by.is_some() {
            return self.tell(Event::SpawnFailed(worker, "killed before it was there".into()));
        }
        self.checks.doomed.retain(|(doomed, _), _| *doomed != worker);
        let usage = Usage::default();
        let exit =
            Exit { status, usage, left_behind: 0, oom: false, oom_at_bound: false, proof: Duration::ZERO };
        let follow = process.follow.filter(|follow| status != KILLED && follow.lives > 0);
        follow.into_iter().for_each(|follow| self.follow(worker.next(), follow));
        self.tell(Event::Exited { worker, exit: exit.clone(), followed: follow.is_some() });
        if self.unlucky(10) {
            self.soon(60_000, Happening::Tell(Event::Ready(worker)));
            self.soon(60_000, Happening::Tell(Event::Exited { worker, exit, followed: false }));
        }
    }

    /// The keeper makes a follower, or fails to.
    fn follow(&mut self, next: WorkerId, follow: Follow) {
        self.spawn(next);
        if let Some(process) = self.workers.get_mut(&next) {
            process.follow = Some(Follow { lives: follow.lives - 1, ..follow });
            self.kill_at(next, follow.fence.map(|fence| self.now + fence));
        }
    }

    /// A template is dead: most of its pending forks fail.
    pub fn orphan(&mut self, template: WorkerId) {
        let orphans =
            self.workers.iter().filter(|(_, process)| process.unborn && process.forked_by == Some(template));
        let orphans: Vec<WorkerId> = orphans.map(|(worker, _)| *worker).collect();
        for worker in orphans {
            if !self.unlucky(30) {
                self.workers.remove(&worker);
                self.tell(Event::SpawnFailed(worker, "its template is dead".into()));
                // The supervisor may order another fork before it hears of the template's end.
                self.perform();
            }
        }
    }

    pub fn ends(&mut self, worker: WorkerId, job: JobId, outcome: Outcome) {
        if self.workers.get(&worker).is_some_and(|process| process.is_stuck) {
            return;
        }
        let runs = self.workers.get(&worker).is_some_and(|process| process.jobs.contains_key(&job));
        if runs && self.pool(worker).jobs_per_life == Some(1) && self.unlucky(7) {
            return self.stick(worker, ExitStatus::Code(0), Some((job, outcome)));
        }
        let there = self.workers.get_mut(&worker).and_then(|process| process.jobs.remove(&job));
        if let Some(fence) = there {
            self.checks.doomed.remove(&(worker, job.clone()));
            self.tell(Event::Finished { worker, job, fence, outcome });
            if self.pool(worker).jobs_per_life == Some(1) && !self.unlucky(5) {
                self.soon(500, Happening::Dies(worker, ExitStatus::Code(0)));
            }
        } else if self.dice.below(2) == 0 && self.supervisor_forgot(worker) {
            // A frame that was on its way when the worker died.
            let fence = Fence(self.jobs[&job].fence);
            self.tell(Event::Finished { worker, job, fence, outcome });
        }
    }

    pub fn supervisor_forgot(&self, worker: WorkerId) -> bool {
        !self.workers.contains_key(&worker)
    }

    pub fn fetch(&mut self, pool: u16, queues: Vec<QueueName>, take: Take, most: usize) {
        if self.unlucky(10) {
            return self.tell(Event::FetchFailed(pool));
        }
        let mut turns = Turns::new(take, queues);
        let mut fetched = Vec::new();
        while fetched.len() < most
            && let Some(queue) = turns.queue()
        {
            let next = self.jobs.iter_mut().find(|(_, work)| work.waiting && work.queue == *queue);
            let Some((id, work)) = next else {
                turns.had_none();
                continue;
            };
            turns.gave();
            work.fence += 1;
            (work.waiting, work.leased) = (false, true);
            let expires_at = self.now + self.settings.lease;
            let lease = Lease { job: id.clone(), fence: Fence(work.fence), expires_at };
            fetched.push(Fetched { job: Arc::new(job(id, work)), lease, waited: None });
        }
        for Fetched { job, lease, .. } in &fetched {
            self.checks.leases.insert((job.id.clone(), lease.fence), lease.expires_at);
            self.curse(&job.id, lease.fence);
        }
        self.tell(Event::Fetched(pool, fetched));
    }

    /// Revokes some leases at some time.
    pub fn curse(&mut self, job: &JobId, fence: Fence) {
        let reasons =
            [Revocation::LockLost, Revocation::Canceled, Revocation::Moved, Revocation::RenewRefused];
        if self.unlucky(30) {
            let why = reasons[self.dice.below(4) as usize];
            self.soon(15_000, Happening::Revoke { job: job.clone(), fence, why });
        }
    }

    pub fn settle(&mut self, id: JobId, fence: Fence, verdict: &Verdict, crashed: bool) {
        if self.unlucky(15) {
            return self.tell(Event::SettleFailed(id, fence));
        }
        let work = self.jobs.get_mut(&id).unwrap();
        let is_ours = work.leased && work.fence == fence.0;
        if is_ours {
            work.leased = false;
            work.crashes += u32::from(crashed);
            if let Verdict::Release { counts: Some(Count::UnknownClass), .. } = verdict {
                work.unknown += 1;
            }
            let mut back = |after: Duration, spent: u32| {
                work.attempt += spent;
                Some(after)
            };
            let after = match verdict {
                Verdict::Retry { after, .. } => back(*after, 1),
                Verdict::Release { after, .. } => back(*after, 0),
                Verdict::Complete { .. }
                | Verdict::Fail { .. }
                | Verdict::Hold { .. }
                | Verdict::Canceled => None,
            };
            work.over = after.is_none() || work.canceling;
            if let Some(after) = after.filter(|_| !work.canceling) {
                self.at(after, Happening::Due(id.clone()));
            }
        }
        if !self.unlucky(5) {
            return self.tell(Event::Settled {
                job: id,
                fence,
                became: is_ours.then_some(JobState::Complete),
            });
        }
        // The verdict is durable, but the answer was lost.
        self.tell(Event::SettleFailed(id, fence));
    }

    pub fn pool(&self, worker: WorkerId) -> &PoolSettings {
        &self.settings.pools[usize::from(worker.slot.pool)]
    }
}
