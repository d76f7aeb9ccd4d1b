//! The rules that no command of the supervisor may break, whatever the world does.

use std::time::Duration;

use model::{Change, Fence, Instant, Job, JobId, Revocation, Settlement, Signal, SlotId, Verdict, WorkerId};
use taskvisor_supervisor::{Command, Event};

use super::{Checks, Work, Worker, World};

/// The rules.
impl World {
    pub fn watch_event(&mut self, event: &Event) {
        match event {
            Event::Stop(_) => self.checks.stopped = true,
            Event::Exited { worker, followed, .. } => self.watch_end(*worker, *followed),
            Event::SpawnFailed(worker, _) => _ = self.checks.known.remove(worker),
            Event::Ready(worker) if self.checks.known.contains(worker) => {
                self.checks.ready.insert(*worker);
            }
            Event::Fetched(pool, jobs) => {
                self.checks.fetching.remove(pool);
                let now = self.now;
                self.checks.given.extend(jobs.iter().map(|fetched| (fetched.job.id.clone(), now)));
            }
            Event::FetchFailed(pool) => _ = self.checks.fetching.remove(pool),
            Event::Renewed(lease) => {
                self.renewal_answered(&lease.job, lease.fence);
                let known =
                    self.checks.leases.entry((lease.job.clone(), lease.fence)).or_insert(lease.expires_at);
                *known = lease.expires_at.max(*known);
            }
            Event::Revoked { job, fence, why } => self.watch_revoked((job.clone(), *fence), *why),
            Event::Settled { job, fence, .. } => {
                self.checks.untold.remove(&(job.clone(), *fence));
                self.checks.telling.remove(&(job.clone(), *fence));
                self.checks.settled.insert((job.clone(), *fence));
            }
            Event::SettleFailed(job, fence) => {
                self.checks.telling.remove(&(job.clone(), *fence));
            }
            Event::Knows(pool, classes) => {
                self.checks.knows.insert(*pool, Some(classes.clone()));
            }
            Event::Waiting(pool, waiting) => {
                self.checks.asking.remove(pool);
                *self.checks.grown.entry(*pool).or_default() += usize::from(*waiting);
            }
            Event::Stuck(worker, _) => {
                self.checks.stuck.insert(*worker);
            }
            Event::Exceeded { worker, job, fence, .. } => {
                let key = (job.clone(), *fence);
                if self.checks.assigned.get(&key) == Some(worker) {
                    self.doom(&key);
                }
            }
            Event::RenewFailed(job, fence) => self.renewal_answered(job, *fence),
            Event::Finished { job, fence, outcome, .. } if !outcome.is_of_a_begun_job() => {
                self.checks.unbegun.insert((job.clone(), *fence));
            }
            Event::Ready(_) | Event::Spawned(_) | Event::Leaving(..) | Event::Faulty(..) => {}
            Event::Finished { .. } | Event::Woken(_) | Event::Counted(_) | Event::Idle(_) => {}
            Event::Reload(settings) => self.most_of(settings.pools.iter().map(|pool| pool.workers).max()),
            Event::Resized(_, workers) => self.most_of(Some(*workers)),
            Event::Change(_, Change::Scale(by)) => self.most_of(Some(by.of(self.checks.most))),
            Event::Change(_, Change::Recycle | Change::Pause | Change::Resume) | Event::Outgrown(_) => {}
            Event::Stands { .. } => {}
        }
    }

    fn watch_end(&mut self, worker: WorkerId, followed: bool) {
        let first_time = self.checks.known.remove(&worker);
        self.checks.known.extend((first_time && followed).then(|| worker.next()));
    }

    fn watch_revoked(&mut self, key: (JobId, Fence), why: Revocation) {
        self.doom(&key);
        if why.is_anothers() {
            self.hurry(&key);
        }
        let lost = self.checks.revoked.entry(key).or_insert(why);
        if why != Revocation::Canceled {
            *lost = why;
        }
    }

    /// From now on the job's worker (or the job, in a coroutine worker) may live at most twice the grace.
    pub fn doom(&mut self, key: &(JobId, Fence)) {
        let Some(worker) = self.checks.assigned.get(key).copied() else { return };
        if self.jobs[&key.0].fence > key.1.0 {
            return; // An old event of a job that now has another lease.
        }
        let is_there = |process: &Worker| process.jobs.contains_key(&key.0) && !process.is_stuck;
        if self.workers.get(&worker).is_some_and(is_there) {
            let until = self.now + self.pool(worker).grace * 2;
            self.checks.doomed.entry((worker, key.0.clone())).or_insert(until);
        }
    }

    /// Another worker may run the job: its worker has no grace, or that of a coroutine worker.
    fn hurry(&mut self, key: &(JobId, Fence)) {
        let Some(worker) = self.checks.assigned.get(key).copied() else { return };
        let pool = self.pool(worker);
        let grace = if pool.jobs_at_once > 1 { Duration::from_secs(1) } else { Duration::ZERO };
        let until = self.now + grace.max(pool.lost_grace) + pool.grace;
        if let Some(doomed) = self.checks.doomed.get_mut(&(worker, key.0.clone())) {
            *doomed = until.min(*doomed);
        }
    }

    pub fn watch_command(&mut self, command: &Command) {
        assert!(!self.checks.exited, "an order after the end: {command:?}");
        self.check_signal(command);
        self.checks.seen.insert(word(command));
        match command {
            Command::Spawn(worker) => {
                let forked = self.pool(*worker).template && worker.slot.index > 0;
                assert!(!forked, "{worker} is not forked");
                self.watch_spawn(*worker);
            }
            Command::Fork(worker, template) => self.watch_fork(*worker, *template),
            Command::AskWaiting(pool, _) => {
                assert!(self.checks.asking.insert(*pool), "asks twice at once whether jobs wait");
                assert!(!self.checks.stopped, "asks for more jobs after the stop");
            }
            Command::Assign { worker, job, fence, .. } => self.watch_assign(*worker, job, *fence),
            Command::Cancel { worker, job, .. } => {
                assert!(!self.checks.killed.contains(worker), "cancels {job} in a killed worker");
            }
            Command::Signal { worker, why, .. } if why == "self_fenced" && self.carries_on(*worker) => {
                panic!("ends {worker} at the end of its leases, though it is to carry on");
            }
            Command::KillAt(worker, Some(_)) if self.carries_on(*worker) => {
                panic!("arms {worker}, which is to carry on")
            }
            Command::Signal { worker, signal: Signal::Term, why } => {
                assert!(!self.checks.killed.contains(worker), "TERM after KILL: {worker}");
                assert!(self.checks.termed.insert(*worker), "TERM twice: {worker}");
                if why == "idle" {
                    self.watch_shrink(*worker);
                }
            }
            Command::Signal { worker, signal: Signal::Kill, .. } => {
                assert!(self.checks.killed.insert(*worker), "KILL twice: {worker}");
            }
            Command::KillAt(worker, _) => assert!(self.checks.known.contains(worker), "arms {worker}"),
            Command::Follow(worker, _) => assert_eq!(self.pool(*worker).jobs_per_life, Some(1), "{worker}"),
            Command::Fetch { pool, workers, .. } => self.watch_fetch(*pool, workers),
            Command::Renew(leases) => {
                leases.iter().for_each(|lease| self.watch_renew(lease));
            }
            Command::Settle(settlement) => {
                self.watch_forensics(settlement);
                self.watch_settle(settlement.job.clone(), settlement.fence, &settlement.verdict);
            }
            Command::AskIdle(..) => assert!(self.settings.burst, "asks without being in a burst"),
            Command::LeaseLost { job, fence, .. } => _ = self.checks.untold.remove(&(job.clone(), *fence)),
            Command::Equip(..) | Command::Died { .. } => {}
            Command::VerdictUnconfirmed { job, fence, .. } => {
                assert!(
                    self.checks.untold.remove(&(job.clone(), *fence)),
                    "leaves {job} untold, which it is not"
                );
            }
            Command::GiveUp(why) => assert!(self.settings.burst, "gives up, and is no burst: {why:?}"),
            Command::LeftAlive { worker, .. } => {
                assert!(self.checks.stuck.contains(worker), "leaves {worker} alive, which can die");
            }
            Command::Exit => self.watch_exit(),
        }
    }

    pub fn watch_exit(&self) {
        let untold = &self.checks.untold;
        assert!(untold.is_empty(), "exits and does not say that these are untold: {untold:?}");
        assert!(self.checks.stopped || self.settings.burst, "exits unasked");
        let left = self.workers.keys().find(|worker| !self.checks.stuck.contains(worker));
        assert!(left.is_none(), "exits with children: {left:?}");
    }

    /// A pool may have this many workers from now on, if that is more than before.
    pub fn most_of(&mut self, workers: Option<u16>) {
        self.checks.most = self.checks.most.max(workers.unwrap_or(0));
    }

    pub fn watch_spawn(&mut self, worker: WorkerId) {
        assert!(!self.checks.stopped, "spawns after the stop");
        assert!(worker.slot.index > 0 || self.pool(worker).template, "there is no place for {worker}");
        let lives = self.workers.keys().find(|other| other.slot == worker.slot);
        assert!(lives.is_none(), "{worker} beside {lives:?}");
        self.checks.known.insert(worker);
        let Checks { known, termed, killed, stuck, .. } = &self.checks;
        let stays = |other: &&WorkerId| ![termed, killed, stuck].iter().any(|ends| ends.contains(*other));
        let of_pool = |other: &&WorkerId| other.slot.pool == worker.slot.pool && other.slot.index > 0;
        // The program of a job that is over ends by itself, and its slot may be the one that a smaller pool gives up.
        let is_spent = |other: &&WorkerId| {
            let has_run = || self.checks.assigned.values().any(|worker| worker == *other);
            let is_empty = self.workers.get(*other).is_some_and(|process| process.jobs.is_empty());
            self.pool(**other).jobs_per_life == Some(1) && is_empty && has_run()
        };
        let staying = known.iter().filter(of_pool).filter(stays).filter(|other| !is_spent(other)).count();
        let most = usize::from(self.checks.most);
        assert!(staying <= most, "{staying} workers of {most} at most");
        let grown = self.checks.grown.get(&worker.slot.pool).copied().unwrap_or_default();
        let min = self.pool(worker).min_workers.map_or(usize::MAX, |min| usize::from(min) + grown);
        assert!(staying <= min, "{staying} workers, asked for {min}");
        let booting = known.iter().filter(of_pool).filter(|other| !self.checks.ready.contains(other)).count();
        let shown = known.iter().filter(of_pool).count() > booting;
        assert!(shown || booting <= 64, "{booting} boot at a time, and nobody works");
        let starts = self.checks.starts.entry(worker.slot).or_default();
        starts.push_back(self.now);
        if starts.len() > 60 {
            let first = starts.pop_front().unwrap();
            let good = self.checks.assigned.values().filter(|other| other.slot == worker.slot).count();
            assert!(good > 20 || self.now.since(first) > Duration::from_secs(60), "spawns in a storm");
        }
    }

    pub fn watch_shrink(&self, worker: WorkerId) {
        let idle = self.workers.get(&worker).is_none_or(|process| process.jobs.is_empty());
        assert!(idle, "ends {worker} as idle, which is not");
        let Checks { known, ready, termed, killed, .. } = &self.checks;
        let able = known.iter().filter(|other| other.slot.pool == worker.slot.pool && other.slot.index > 0);
        let able =
            able.filter(|other| ready.contains(other) && !termed.contains(other) && !killed.contains(other));
        let min = self.pool(worker).min_workers.map(usize::from);
        assert!(min.is_some_and(|min| able.count() >= min), "fewer than {min:?} workers without {worker}");
    }

    pub fn watch_fork(&mut self, worker: WorkerId, template: WorkerId) {
        let Checks { known, ready, termed, killed, .. } = &self.checks;
        assert_eq!(template.slot, SlotId { pool: worker.slot.pool, index: 0 }, "not its template");
        assert!(known.contains(&template) && ready.contains(&template), "forks from {template}, not ready");
        assert!(!termed.contains(&template) && !killed.contains(&template), "forks from {template}, ending");
        self.watch_spawn(worker);
    }

    /// A job that may have killed its worker must run alone in a worker.
    pub fn watch_company(&mut self, worker: WorkerId, job: &Job, again: bool) {
        let alone = self.pool(worker).jobs_at_once > 1 && (again || job.crashes > 0);
        let Some(process) = self.workers.get_mut(&worker) else { return };
        assert!(!alone || process.jobs.is_empty(), "{} is not alone in {worker}", job.id);
        let with = process.alone.as_ref().filter(|other| process.jobs.contains_key(other));
        assert!(with.is_none(), "{} keeps {with:?} company", job.id);
        process.alone = alone.then(|| job.id.clone());
        self.checks.seen.extend(alone.then(|| "assign alone".into()));
    }

    /// A suspect runs alone on the host, except for unkillable processes. It may begin beside earlier jobs after a long
    /// wait, and other jobs may begin long after its own begin; but never two suspects at once.
    pub fn watch_suspects(&mut self, job: &Job) {
        let others = self.workers.iter().filter(|(worker, _)| !self.checks.stuck.contains(worker));
        let others: Vec<&JobId> = others.flat_map(|(_, process)| process.jobs.keys()).collect();
        let is_suspect = |other: &&&JobId| self.jobs[**other].interrupted >= Job::SUSPECTED_AFTER;
        let second = others.iter().find(is_suspect);
        let began = second.map(|suspect| self.now.since(self.checks.begun[*suspect]));
        let may_join = began.is_none_or(|ago| ago.is_zero() || ago >= Job::ALONE_FOR);
        assert!(may_join, "{} keeps {second:?} company, which began {began:?} ago", job.id);
        let mut word = began.filter(|ago| !ago.is_zero()).map(|_| "assign beside suspect");
        if job.is_suspect() {
            assert_eq!(second, None, "{} begins beside another suspect", job.id);
            let waited = self.now.since(self.checks.given[&job.id]);
            let is_alone = others.is_empty() && self.checks.fetching.is_empty();
            let fetching = &self.checks.fetching;
            let may_begin = is_alone || waited >= Job::ALONE_FOR;
            assert!(may_begin, "{} begins after {waited:?} beside {others:?} and {fetching:?}", job.id);
            word = Some(if is_alone { "assign suspect" } else { "assign suspect in company" });
        }
        self.checks.seen.extend(word.map(String::from));
        self.checks.begun.insert(job.id.clone(), self.now);
    }

    /// A suspect blocks fetches no longer than allowed.
    pub fn watch_idleness(&self, due: Option<Instant>) {
        let is_here = |work: &Work| work.leased && work.interrupted >= Job::SUSPECTED_AFTER;
        if !self.jobs.values().any(is_here) {
            return;
        }
        let suspects = self.supervisor.status(self.now).into_iter().find_map(|pool| pool.suspect);
        let Some(suspect) = suspects else { return };
        let (given, begun) = (self.checks.given.get(&suspect), self.checks.begun.get(&suspect));
        let until = given.max(begun).map(|since| *since + Job::ALONE_FOR);
        assert!(
            until.is_some_and(|until| self.now < until),
            "{suspect} has the host since {given:?}, {begun:?}"
        );
        assert!(due.is_some_and(|due| Some(due) <= until), "nobody looks at {suspect} at {until:?}");
    }

    pub fn watch_assign(&mut self, worker: WorkerId, job: &Job, fence: Fence) {
        let knows = &self.checks.knows[&worker.slot.pool];
        let known = knows.as_ref().is_none_or(|classes| classes.contains_key(&job.class));
        assert!(worker.slot.index > 0, "{worker} takes no jobs");
        assert!(known, "a job of class {}, which {worker} does not know", job.class);
        let ready = self.checks.ready.contains(&worker);
        assert!(ready, "assigns to {worker}, which is not ready");
        assert!(!self.checks.stopped, "assigns after the stop");
        assert!(!self.checks.termed.contains(&worker), "assigns to a worker on its way out");
        let elsewhere = self.workers.iter().find(|(_, process)| process.jobs.contains_key(&job.id));
        assert!(elsewhere.is_none(), "{} runs in {:?} already", job.id, elsewhere.map(|(id, _)| id));
        let pool = self.pool(worker);
        let taken = self.workers.get(&worker).map_or(0, |process| process.jobs.len());
        assert!(taken < pool.jobs_at_once as usize, "more jobs at once than {worker} can");
        let before = self.checks.assigned.insert((job.id.clone(), fence), worker);
        let died = before.is_none_or(|before| before != worker && !self.workers.contains_key(&before));
        assert!(died, "assigns a lease twice");
        if before.is_some() {
            self.checks.again.insert((job.id.clone(), fence));
        }
        self.watch_company(worker, job, before.is_some());
        self.watch_suspects(job);
        self.checks.asked.entry((job.id.clone(), fence)).or_insert(self.now);
        let lost = self.checks.revoked.get(&(job.id.clone(), fence));
        assert!(lost.is_none(), "assigns what is lost: {lost:?}");
    }

    pub fn watch_fetch(&mut self, pool: u16, workers: &[WorkerId]) {
        assert!(!self.checks.stopped, "fetches after the stop");
        assert!(self.checks.fetching.insert(pool), "two fetches at once");
        assert!(!workers.is_empty(), "fetches for nobody");
        let in_doubt = self.workers.values().flat_map(|process| &process.jobs).find(|(job, fence)| {
            let key = ((*job).clone(), **fence);
            let over = self.checks.leases.get(&key).is_some_and(|until| *until <= self.now);
            over && !self.checks.revoked.contains_key(&key)
        });
        assert!(in_doubt.is_none(), "fetches, though it is not known whether {in_doubt:?} is ours");
        // Very short jobs are fetched ahead, for this life or the next one of the slot.
        let mut ahead = 0;
        for worker in workers.iter().filter(|worker| !self.checks.ready.contains(worker)) {
            let there = self.checks.known.iter().any(|other| other.slot == worker.slot);
            let may = there && self.pool(*worker).jobs_at_once == 1;
            assert!(may, "fetches for {worker}, which is not ready");
            ahead += 1;
        }
        // As many workers as a pool has had room for: it may have been scaled.
        assert!(ahead <= 16 * usize::from(self.checks.most), "fetches {ahead} jobs ahead");
    }

    /// The verdict of a job that ran again names the worker that died before.
    fn watch_forensics(&self, Settlement { job, fence, forensics, .. }: &Settlement) {
        let again = self.checks.again.contains(&(job.clone(), *fence));
        let told = forensics.as_ref().map(|left| left.died_before.is_some());
        assert!(told.is_none_or(|told| told == again), "{job} ran again: {again}, but {forensics:?}");
    }

    pub fn watch_settle(&mut self, job: JobId, fence: Fence, verdict: &Verdict) {
        let key = (job, fence);
        assert!(!self.checks.settled.contains(&key), "settles {key:?} again");
        assert!(self.checks.telling.insert(key.clone()), "settles {key:?} twice at once");
        self.checks.untold.insert(key.clone());
        match self.checks.revoked.get(&key) {
            None => {}
            // An earlier end is reported as it was; the broker decides.
            Some(Revocation::Canceled) => {
                let worker = self.checks.assigned.get(&key);
                let had_ended = matches!(verdict, Verdict::Complete { .. })
                    || worker.is_some_and(|worker| self.checks.stuck.contains(worker));
                assert!(had_ended || *verdict == Verdict::Canceled, "{key:?}: {verdict:?}");
            }
            Some(why) => panic!("settles {key:?} after {why:?}"),
        }
        let Some(worker) = self.checks.assigned.get(&key) else { return };
        let runs = self.workers.get(worker).is_some_and(|process| process.jobs.contains_key(&key.0));
        let latest = self.jobs[&key.0].fence == key.1.0;
        assert!(!(runs && latest), "settles {key:?} while it runs");
        let proven = !self.workers.contains_key(worker) || self.checks.unbegun.contains(&key);
        assert!(proven || self.pool(*worker).jobs_per_life != Some(1), "settles {key:?} without proof");
        let expired = self.checks.leases.get(&key).is_some_and(|until| *until <= self.now);
        let first = self.checks.ended.insert(key.clone());
        // An end while the supervisor hung, or a late death, is reported all the same: the broker compares the fence.
        let late = self.checks.stuck.contains(worker) || matches!(verdict, Verdict::Release { .. });
        let may = late || self.checks.hung || self.carries_on(*worker);
        assert!(!(first && expired && !may), "settles {key:?} after its lease");
    }
}

/// The kind of a command.
pub fn word(command: &Command) -> String {
    match command {
        Command::Spawn(_) => "spawn".into(),
        Command::Fork(..) => "fork".into(),
        Command::Assign { .. } => "assign".into(),
        Command::Cancel { .. } => "cancel".into(),
        Command::Signal { why, .. } => format!("signal {why}"),
        Command::KillAt(..) => "kill at".into(),
        Command::Follow(..) => "follow".into(),
        Command::Fetch { .. } => "fetch".into(),
        Command::Renew(_) => "renew".into(),
        Command::Settle(_) => "settle".into(),
        Command::AskIdle(..) => "ask idle".into(),
        Command::GiveUp(why) => format!("give up {why:?}"),
        Command::AskWaiting(..) => "ask waiting".into(),
        Command::LeaseLost { .. } => "drop".into(),
        Command::VerdictUnconfirmed { .. } => "untold".into(),
        Command::LeftAlive { .. } => "left alive".into(),
        Command::Equip(..) => "equip".into(),
        Command::Died { .. } => "died".into(),
        Command::Exit => "exit".into(),
    }
}
