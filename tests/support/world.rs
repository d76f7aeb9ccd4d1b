//! Everything outside of the supervisor, at its worst or at its best.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use taskvisor::model::{
    Bytes, Change, Class, ClassSettings, Classes, Count, Excess, Exit, ExitStatus, Failure, Fence, Fetched,
    Instant, Job, JobId, Lease, Limits, Order, Outcome, Payload, PoolSettings, QueueName, Retry, Revocation,
    Scale, Settings, Settlement, Signal, Stop, Take, Usage, Verdict, WorkerId,
};
use taskvisor::select::Turns;
use taskvisor::supervisor::{Command, Event, Supervisor};

use super::rules::Checks;

/// How a killed process ends.
pub const KILLED: ExitStatus = ExitStatus::Signal { signal: 9, core: false };

#[derive(Clone, Copy, PartialEq)]
pub enum Weather {
    Kind,
    Hostile,
}

/// Everything outside of the supervisor.
pub struct World {
    pub supervisor: Supervisor,
    pub settings: Settings,
    pub weather: Weather,
    pub dice: Dice,
    pub now: Instant,
    /// What will happen, in order of time.
    pub agenda: BTreeMap<(Instant, u64), Happening>,
    pub happenings: u64,
    pub workers: BTreeMap<WorkerId, Worker>,
    pub jobs: BTreeMap<JobId, Work>,
    pub checks: Checks,
    pub log: VecDeque<String>,
    /// The job that every worker dies of.
    pub killer: Option<JobId>,
    /// The supervisor hangs until then; what it is told waits here.
    pub hangs: Option<Instant>,
    pub inbox: Vec<Event>,
}

pub enum Happening {
    /// The supervisor is told.
    Tell(Event),
    /// The process is there.
    Born(WorkerId),
    /// The process dies by itself.
    Dies(WorkerId, ExitStatus),
    /// The worker ends a job.
    Ends(WorkerId, JobId, Outcome),
    /// The keeper kills by itself, unless it has been told another time.
    SelfFence(WorkerId, Instant),
    /// The broker takes a right away.
    Revoke(JobId, Fence, Revocation),
    /// The broker is asked for jobs.
    Fetch(u16, Vec<QueueName>, Take, usize),
    /// The broker is asked whether jobs wait.
    AskWaiting(u16, Vec<QueueName>),
    /// The broker is told.
    Settle(JobId, Fence, Verdict, bool),
    /// The broker gives back what was delayed.
    Due(JobId),
}

pub struct Worker {
    pub jobs: BTreeMap<JobId, Fence>,
    pub ignores_term: bool,
    pub unborn: bool,
    /// The template that was asked for it.
    pub forked_by: Option<WorkerId>,
    /// The job that must have no company.
    pub alone: Option<JobId>,
    pub kill_at: Option<Instant>,
}

/// A job, as its broker sees it.
pub struct Work {
    pub queue: QueueName,
    pub class: Class,
    pub waiting: bool,
    pub over: bool,
    pub fence: u64,
    pub leased: bool,
    pub attempt: u32,
    pub crashes: u32,
    pub unknown: u32,
}

impl World {
    pub fn run(seed: u64, weather: Weather) -> World {
        let mut dice = Dice(seed.wrapping_mul(0x2545_F491_4F6C_DD1D).wrapping_add(seed));
        let settings = settings(&mut dice, seed, weather);
        let mut world = World::new(seed, weather, settings);
        world.dice = dice;
        world.plan();
        world.live();
        world
    }

    pub fn new(seed: u64, weather: Weather, settings: Settings) -> World {
        let now = Instant::from_millis(1_000_000);
        let knows = settings.pools.iter().zip(0..).map(|(pool, number)| (number, pool.knows.clone()));
        let most = settings.pools.iter().map(|pool| pool.workers).max().unwrap_or(0);
        let checks = Checks { knows: knows.collect(), most, ..Checks::default() };
        World {
            supervisor: Supervisor::new(settings.clone(), now),
            settings,
            weather,
            dice: Dice(seed + 1),
            now,
            agenda: BTreeMap::new(),
            happenings: 0,
            workers: BTreeMap::new(),
            jobs: BTreeMap::new(),
            checks,
            log: VecDeque::new(),
            killer: None,
            hangs: None,
            inbox: Vec::new(),
        }
    }

    pub fn live(&mut self) {
        let seed = self.settings.seed;
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.turn_until_the_end()));
        if let Err(panic) = outcome {
            let log: Vec<String> = self.log.drain(..).collect();
            eprintln!("seed {seed}, the last of its transcript:\n{}", log.join("\n"));
            std::panic::resume_unwind(panic);
        }
    }

    /// Jobs are put over ten minutes; a hostile world is stopped at any moment, a kind one when all is done.
    pub fn plan(&mut self) {
        let jobs = self.dice.below(60) + 5;
        self.put(jobs, 600_000);
        self.plan_changes();
        if self.weather == Weather::Kind {
            return self.stop_at_the_end();
        }
        let stage = [Stop::Drain, Stop::Terminate, Stop::Kill][self.dice.below(3) as usize];
        self.soon(900_000, Happening::Tell(Event::Stop(stage)));
        self.at(Duration::from_secs(901), Happening::Tell(Event::Stop(Stop::Drain)));
        for _ in 0..self.dice.below(30) {
            self.soon(900_000, Happening::Tell(Event::Woken));
        }
        for pool in 0..self.settings.pools.len() as u16 {
            let known = [&["mail"][..], &["mail", "odd"], &["odd"]][self.dice.below(3) as usize];
            self.soon(900_000, Happening::Tell(Event::Knows(pool, classes(known))));
        }
    }

    /// Other settings, other sizes, pauses: in a kind world such that every job can still run.
    fn plan_changes(&mut self) {
        for _ in 0..self.dice.below(6) {
            let event = match self.dice.below(4) {
                0 => Event::Reload(self.other_settings()),
                1 => Event::Change(None, Change::Recycle),
                2 => Event::Change(
                    None,
                    Change::Scale(Scale::By(
                        self.dice.below(3) as i32 - i32::from(self.weather == Weather::Hostile),
                    )),
                ),
                _ => Event::Change(None, Change::Pause),
            };
            if event == Event::Change(None, Change::Pause) {
                self.at(Duration::from_secs(910), Happening::Tell(Event::Change(None, Change::Resume)));
            }
            self.soon(900_000, Happening::Tell(event));
        }
    }

    fn other_settings(&mut self) -> Settings {
        let mut settings = self.settings.clone();
        for pool in &mut settings.pools {
            pool.outfit += self.dice.below(2) as u32;
            pool.workers = self.dice.below(4) as u16 + 1;
            pool.min_workers = None;
            pool.recycle.jobs = Some(self.dice.below(3) + 1).filter(|_| pool.jobs_per_life.is_none());
            pool.recycle.age = Some(Duration::from_secs(self.dice.below(100) + 1));
        }
        if self.weather == Weather::Hostile && self.dice.below(3) == 0 {
            let number = self.dice.below(settings.pools.len() as u64) as usize;
            settings.pools[number].name += "x";
        }
        settings
    }

    pub fn put(&mut self, jobs: u64, within_ms: u64) {
        for number in 0..jobs {
            let id = JobId::from(format!("j{number}"));
            let queue = QueueName::from(["default", "other"][self.dice.below(2) as usize]);
            let class = Class::from(if self.dice.below(5) == 0 { "odd" } else { "mail" });
            let fresh = Work {
                waiting: false,
                over: false,
                fence: 0,
                leased: false,
                attempt: 1,
                crashes: 0,
                unknown: 0,
                queue,
                class,
            };
            self.jobs.insert(id.clone(), fresh);
            self.soon(within_ms, Happening::Due(id));
        }
    }

    pub fn stop_at_the_end(&mut self) {
        self.at(Duration::from_secs(4000), Happening::Tell(Event::Stop(Stop::Drain)));
    }

    pub fn turn_until_the_end(&mut self) {
        let end = self.now + Duration::from_secs(6000);
        self.perform();
        while !self.checks.exited {
            let next = self.agenda.keys().next().map(|(at, _)| *at);
            let due = self.supervisor.poll_timeout();
            self.check_turn(due, end);
            if self.hangs.is_some() {
                self.hang_on(next);
                continue;
            }
            if self.dice.below(300) == 0 && self.unlucky(50) {
                let hang = Duration::from_millis(self.dice.below(40_000));
                self.checks.doomed.values_mut().for_each(|until| *until = *until + hang);
                self.hangs = Some(self.now + hang);
                self.checks.hung = true;
                continue;
            }
            match (next, due) {
                (Some(next), due) if due.is_none_or(|due| next <= due) => {
                    self.now = self.now.max(next);
                    let (_, happening) = self.agenda.pop_first().unwrap();
                    self.happen(happening);
                }
                (_, Some(due)) => {
                    self.now = self.now.max(due);
                    self.supervisor.handle_timeout(self.now);
                    let again = self.supervisor.poll_timeout();
                    assert!(again.is_none_or(|again| again > self.now), "spins at {:?}", self.now);
                }
                (_, None) => panic!("nothing will ever happen again"),
            }
            self.perform();
        }
        assert_eq!(self.supervisor.poll_timeout(), None, "wants to be woken after its end");
        self.supervisor.handle(self.now, Event::Woken);
        assert_eq!(self.supervisor.next_command(), None, "gives orders after its end");
    }

    /// The world goes on without the supervisor, which then hears all of it at once.
    pub fn hang_on(&mut self, next: Option<Instant>) {
        let until = self.hangs.unwrap();
        if next.is_some_and(|next| next <= until) {
            let ((at, _), happening) = self.agenda.pop_first().unwrap();
            self.now = self.now.max(at);
            return self.happen(happening);
        }
        self.now = self.now.max(until);
        self.hangs = None;
        let inbox = std::mem::take(&mut self.inbox);
        // All at once, as when much has happened while it looked away. (A job that is fetched and lost at once is assigned
        // and ended: the rules could not tell that from one that is assigned too late.)
        let loses = inbox.iter().any(|event| matches!(event, Event::Revoked(..)));
        if !loses && self.unlucky(50) {
            inbox.iter().for_each(|event| self.announce(event));
            self.supervisor.handle_all(self.now, inbox);
            return self.perform();
        }
        for event in inbox {
            if !self.checks.exited {
                self.tell(event);
                self.perform();
            }
        }
    }

    pub fn check_turn(&mut self, due: Option<Instant>, end: Instant) {
        self.checks.turns += 1;
        assert!(self.checks.turns < 200_000, "spins: {:?} is due at {:?}", due, self.now);
        assert!(self.now < end, "does not end");
        for (worker, process) in &self.workers {
            for job in process.jobs.keys() {
                let lease = self.checks.leases.get(&(job.clone(), Fence(self.jobs[job].fence)));
                let holder = self.checks.assigned.get(&(job.clone(), Fence(self.jobs[job].fence)));
                let over = lease.is_some_and(|until| *until < self.now) && holder == Some(worker);
                assert!(!over, "{worker} runs {job} after its lease");
            }
        }
        if self.hangs.is_some() {
            return;
        }
        let late = self.checks.doomed.iter().find(|(_, until)| **until < self.now);
        assert!(late.is_none(), "lives on without the right to: {late:?}");
    }

    pub fn note(&mut self, mark: &str, what: &dyn Debug) {
        let line = format!("{:>10} {mark} {what:?}", self.now.as_millis() - 1_000_000);
        self.log.push_back(line);
        if self.log.len() > 60 {
            self.log.pop_front();
        }
    }

    pub fn at(&mut self, after: Duration, happening: Happening) {
        self.happenings += 1;
        self.agenda.insert((self.now + after, self.happenings), happening);
    }

    pub fn soon(&mut self, within_ms: u64, happening: Happening) {
        let after = Duration::from_millis(self.dice.below(within_ms) + 1);
        self.at(after, happening);
    }

    /// Whether a misfortune of so many percent strikes.
    pub fn unlucky(&mut self, percent: u64) -> bool {
        self.weather == Weather::Hostile && self.dice.below(100) < percent
    }

    pub fn tell(&mut self, event: Event) {
        if self.hangs.is_some() {
            return self.inbox.push(event);
        }
        self.announce(&event);
        self.supervisor.handle(self.now, event);
    }

    fn announce(&mut self, event: &Event) {
        self.note("<", event);
        self.watch_event(event);
        // Facts may be told twice, now or much later, but for answers that carry something new.
        let told_once =
            matches!(event, Event::Fetched(..) | Event::Idle | Event::Finished(..) | Event::Knows(..));
        if !told_once && self.unlucky(3) {
            self.soon(60_000, Happening::Tell(event.clone()));
        }
    }
}

/// What happens outside.
impl World {
    pub fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Tell(event) => self.tell(event),
            Happening::Born(worker) => self.born(worker),
            Happening::Dies(worker, status) => self.dies(worker, status),
            Happening::Ends(worker, job, outcome) => self.ends(worker, job, outcome),
            Happening::SelfFence(worker, at) => {
                if self.workers.get(&worker).is_some_and(|process| process.kill_at == Some(at)) {
                    self.dies(worker, KILLED);
                }
            }
            Happening::Revoke(job, fence, why) => {
                if let Some(work) = self.jobs.get_mut(&job)
                    && work.fence == fence.0
                    && work.leased
                {
                    work.leased = false;
                    work.over |= why == Revocation::Canceled;
                    work.waiting = !work.over;
                    self.tell(Event::Revoked(job, fence, why));
                    self.tell(Event::Woken);
                }
            }
            Happening::Fetch(pool, queues, take, most) => self.fetch(pool, queues, take, most),
            Happening::AskWaiting(pool, queues) => {
                let waiting = self.jobs.values().any(|work| work.waiting && queues.contains(&work.queue));
                self.tell(Event::Waiting(pool, waiting));
            }
            Happening::Settle(job, fence, verdict, crashed) => self.settle(job, fence, &verdict, crashed),
            Happening::Due(job) => {
                let work = self.jobs.get_mut(&job).unwrap();
                if !work.over && !work.leased {
                    work.waiting = true;
                    self.tell(Event::Woken);
                }
            }
        }
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
            self.soon(60_000, Happening::Tell(Event::Faulty(worker, "unknown frame 'dome'".into())));
        }
    }

    pub fn dies(&mut self, worker: WorkerId, status: ExitStatus) {
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
        self.tell(Event::Exited(worker, exit.clone()));
        if self.unlucky(10) {
            self.soon(60_000, Happening::Tell(Event::Ready(worker)));
            self.soon(60_000, Happening::Tell(Event::Exited(worker, exit)));
        }
    }

    /// A template is dead: what it was asked for and has not made yet will mostly not be made.
    pub fn orphan(&mut self, template: WorkerId) {
        let orphans =
            self.workers.iter().filter(|(_, process)| process.unborn && process.forked_by == Some(template));
        let orphans: Vec<WorkerId> = orphans.map(|(worker, _)| *worker).collect();
        for worker in orphans {
            if !self.unlucky(30) {
                self.workers.remove(&worker);
                self.tell(Event::SpawnFailed(worker, "its template is dead".into()));
            }
        }
    }

    pub fn ends(&mut self, worker: WorkerId, job: JobId, outcome: Outcome) {
        let there = self.workers.get_mut(&worker).and_then(|process| process.jobs.remove(&job));
        if let Some(fence) = there {
            self.checks.doomed.remove(&(worker, job.clone()));
            self.tell(Event::Finished(worker, job, fence, outcome));
            if self.pool(worker).jobs_per_life == Some(1) && !self.unlucky(5) {
                self.soon(500, Happening::Dies(worker, ExitStatus::Code(0)));
            }
        } else if self.dice.below(2) == 0 && self.supervisor_forgot(worker) {
            // A word that was on its way when the worker died.
            let fence = Fence(self.jobs[&job].fence);
            self.tell(Event::Finished(worker, job, fence, outcome));
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
            fetched.push(Fetched { job: Arc::new(job(id, work)), lease });
        }
        for Fetched { job, lease } in &fetched {
            self.checks.leases.insert((job.id.clone(), lease.fence), lease.expires_at);
            self.curse(&job.id, lease.fence);
        }
        self.tell(Event::Fetched(pool, fetched));
    }

    /// Some rights are taken away at some time.
    pub fn curse(&mut self, job: &JobId, fence: Fence) {
        let reasons =
            [Revocation::LockLost, Revocation::Canceled, Revocation::Moved, Revocation::RenewRefused];
        if self.unlucky(30) {
            let why = reasons[self.dice.below(4) as usize];
            self.soon(15_000, Happening::Revoke(job.clone(), fence, why));
        }
    }

    pub fn settle(&mut self, id: JobId, fence: Fence, verdict: &Verdict, crashed: bool) {
        if self.unlucky(15) {
            return self.tell(Event::SettleFailed(id, fence));
        }
        let work = self.jobs.get_mut(&id).unwrap();
        if work.leased && work.fence == fence.0 {
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
            work.over = after.is_none();
            if let Some(after) = after {
                self.at(after, Happening::Due(id.clone()));
            }
        }
        if !self.unlucky(5) {
            return self.tell(Event::Settled(id, fence));
        }
        // It is durable, but the answer got lost.
        self.tell(Event::SettleFailed(id, fence));
    }

    pub fn pool(&self, worker: WorkerId) -> &PoolSettings {
        &self.settings.pools[usize::from(worker.slot.pool)]
    }
}

/// What is done for the supervisor.
impl World {
    pub fn perform(&mut self) {
        while let Some(command) = self.supervisor.next_command() {
            self.note(">", &command);
            self.watch_command(&command);
            match command {
                Command::Spawn(worker) => self.spawn(worker),
                Command::Fork(worker, template) => self.fork(worker, template),
                Command::AskWaiting(pool, queues) => self.soon(100, Happening::AskWaiting(pool, queues)),
                Command::Assign(worker, job, fence, ..) => self.assign(worker, &job, fence),
                Command::Cancel(worker, job, _) => {
                    if !self.unlucky(30) {
                        self.soon(3_000, Happening::Ends(worker, job, complete()));
                    }
                }
                Command::Signal(worker, signal, _) => self.signal(worker, signal),
                Command::KillAt(worker, at) => self.kill_at(worker, at),
                Command::Dropped(..) => {}
                Command::Fetch { pool, queues, take, workers, .. } => {
                    self.soon(200, Happening::Fetch(pool, queues, take, workers.len()));
                }
                Command::Renew(leases) => leases.into_iter().for_each(|lease| self.renew(lease)),
                Command::Settle(settlement) => {
                    let Settlement { job, fence, verdict, crashed, .. } = settlement;
                    self.soon(300, Happening::Settle(job, fence, verdict, crashed));
                }
                Command::AskIdle(_) => {
                    if self.jobs.values().all(|job| job.over) {
                        self.soon(100, Happening::Tell(Event::Idle));
                    }
                }
                Command::Equip(number, pool) => {
                    self.checks.knows.insert(number, pool.knows.clone());
                    // An heir begins with as many as there were, which may be more than its settings say: somebody may
                    // have scaled the pool since.
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

    /// A template may be dead already, busy for long, or never come to it.
    pub fn fork(&mut self, worker: WorkerId, template: WorkerId) {
        if self.unlucky(10) || !self.workers.contains_key(&template) {
            return self.soon(500, Happening::Tell(Event::SpawnFailed(worker, "no template".into())));
        }
        self.make(worker, Some(template));
    }

    pub fn make(&mut self, worker: WorkerId, forked_by: Option<WorkerId>) {
        let ignores_term = self.unlucky(20);
        let process = Worker {
            jobs: BTreeMap::new(),
            ignores_term,
            unborn: true,
            forked_by,
            alone: None,
            kill_at: None,
        };
        self.workers.insert(worker, process);
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
            self.soon(10_000, Happening::Tell(Event::Exceeded(worker, job.id.clone(), fence, excess)));
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
        self.soon(longest, Happening::Ends(worker, job.id.clone(), outcome));
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
        match self.dice.below(5) {
            4 => Outcome::UnknownClass,
            0 => Outcome::Failed(failure),
            1 => Outcome::FailedForGood(failure),
            2 => Outcome::RetryAfter(wait, failure),
            _ => Outcome::Snoozed(wait),
        }
    }

    pub fn signal(&mut self, worker: WorkerId, signal: Signal) {
        let Some(process) = self.workers.get(&worker) else { return };
        match signal {
            Signal::Term if process.ignores_term || process.unborn => {}
            Signal::Term => {
                self.soon(3_000, Happening::Dies(worker, ExitStatus::Signal { signal: 15, core: false }));
            }
            Signal::Kill => {
                self.soon(100, Happening::Dies(worker, KILLED));
                if self.unlucky(5) {
                    self.soon(99, Happening::Tell(Event::Stuck(worker, "in state D".into())));
                }
            }
        }
    }

    /// The keeper is late by a moment, so that the supervisor is often first.
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
            return; // The answer never comes: the fence must see to it.
        }
        match ours {
            true => {
                let expires_at = self.now + self.settings.lease;
                self.soon(300, Happening::Tell(Event::Renewed(Lease { job, fence, expires_at })));
            }
            false => {
                let refused = Event::Revoked(job, fence, Revocation::RenewRefused);
                self.soon(300, Happening::Tell(refused));
            }
        }
    }
}

pub fn settings(dice: &mut Dice, seed: u64, weather: Weather) -> Settings {
    let pool = |dice: &mut Dice, number: u64| {
        let (jobs_at_once, jobs_per_life) =
            [(1, Some(1)), (1, None), (1, Some(3)), (3, None), (3, Some(10))][dice.below(5) as usize];
        let workers = dice.below(4) as u16 + 1;
        // In a kind world no class is unknown.
        let knows = [None, Some(classes(&["mail", "odd"])), Some(classes(&["mail"]))];
        let which = if weather == Weather::Kind { 2 } else { 3 };
        PoolSettings {
            name: format!("p{number}"),
            workers,
            min_workers: (dice.below(3) == 0).then(|| dice.below(u64::from(workers)) as u16),
            template: dice.below(3) == 0,
            order: [Order::Ordered, Order::RoundRobin, Order::Shuffled][dice.below(3) as usize],
            knows: knows[dice.below(which) as usize].clone(),
            jobs_at_once,
            jobs_per_life,
            queues: vec![QueueName::from("default"), QueueName::from("other")],
            grace: Duration::from_secs([1, 5, 10][dice.below(3) as usize]),
            boot_timeout: Duration::from_secs(5),
            limits: Limits {
                time: [None, Some(Duration::from_secs(150))][dice.below(2) as usize],
                ..Limits::default()
            },
            retry: [Retry::NONE, Retry::CLASS][dice.below(2) as usize],
            ..PoolSettings::default()
        }
    };
    let pools = (0..dice.below(2) + 1).map(|number| pool(dice, number)).collect();
    let burst = dice.below(8) == 0;
    Settings { pools, burst, seed, lease: Duration::from_secs(30), ..Settings::default() }
}

pub fn job(id: &JobId, work: &Work) -> Job {
    Job {
        id: id.clone(),
        queue: work.queue.clone(),
        class: work.class.clone(),
        payload: Payload::Data(Bytes::from("{}")),
        priority: 0,
        tags: Vec::new(),
        attempt: work.attempt,
        crashes: work.crashes,
        interrupted: 0,
        unknown: work.unknown,
        retry: None,
        time_limit: None,
    }
}

pub fn classes(names: &[&str]) -> Arc<Classes> {
    Arc::new(names.iter().map(|name| (Class::from(*name), ClassSettings::default())).collect())
}

pub fn complete() -> Outcome {
    Outcome::Complete { result: None, next: None }
}

/// xorshift64*, so that a world is its seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, sides: u64) -> u64 {
        self.0 |= 1 << 63;
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % sides
    }
}
