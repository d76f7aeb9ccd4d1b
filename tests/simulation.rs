//! A hostile world, replayed from a seed, and checkers that watch every command.
//!
//! `TASKVISOR_SEEDS=N` runs N seeds, `TASKVISOR_SEED=S` replays one. A failure prints its seed and the last commands and events.

#![expect(clippy::unwrap_used, reason = "what is missing here is a mistake in the test")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use taskvisor::model::{
    Bytes, Class, ClassSettings, Classes, Count, Exit, ExitStatus, Failure, Fence, Fetched, Instant, Job,
    JobId, Lease, Order, Outcome, Payload, PoolSettings, QueueName, Retry, Revocation, Settings, Settlement,
    Signal, SlotId, Stop, Take, Usage, Verdict, WorkerId,
};
use taskvisor::select::Turns;
use taskvisor::supervisor::{Command, Event, Supervisor};

const SEEDS: u64 = 300;

const KILLED: ExitStatus = ExitStatus::Signal { signal: 9, core: false };

#[test]
fn in_a_hostile_world_no_rule_is_ever_broken() {
    for seed in seeds() {
        World::run(seed, Weather::Hostile);
    }
}

#[test]
fn in_a_kind_world_every_job_completes() {
    for seed in seeds() {
        let world = World::run(seed, Weather::Kind);
        let left: Vec<&JobId> = world.jobs.iter().filter(|(_, job)| !job.over).map(|(id, _)| id).collect();
        assert!(left.is_empty(), "seed {seed}: never ended: {left:?}");
        let complete = world.supervisor.settled().get("complete").copied();
        assert_eq!(complete, Some(world.jobs.len() as u64), "seed {seed}");
    }
}

/// The queue is never empty, so no slot would ever be empty by itself.
#[test]
fn under_constant_load_a_killer_is_held_and_none_of_its_99_neighbours_is_punished() {
    for seed in seeds().take(6) {
        let pool = PoolSettings {
            workers: 1 + (seed % 3) as u16,
            jobs_at_once: 100,
            jobs_per_life: None,
            retry: Retry::CLASS,
            queues: vec![QueueName::from("default"), QueueName::from("other")],
            ..PoolSettings::default()
        };
        let mut world =
            World::new(seed, Weather::Kind, Settings { pools: vec![pool], ..Settings::default() });
        let killer = JobId::from("j150");
        world.killer = Some(killer.clone());
        world.put(600, 1000);
        world.stop_at_the_end();
        world.live();
        for (id, job) in world.jobs.iter().filter(|(id, _)| **id != killer) {
            let fate = (job.over, job.attempt, job.crashes);
            assert_eq!(fate, (true, 1, 0), "seed {seed}: {id} is punished");
        }
        let settled = |word| world.supervisor.settled().get(word).copied();
        assert_eq!((settled("complete"), settled("held")), (Some(599), Some(1)), "seed {seed}");
        assert_eq!((world.jobs[&killer].crashes, world.checks.deaths), (3, 4), "seed {seed}");
    }
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse::<u64>().ok());
    match number("TASKVISOR_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TASKVISOR_SEEDS").unwrap_or(SEEDS),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Weather {
    Kind,
    Hostile,
}

/// Everything outside of the supervisor.
struct World {
    supervisor: Supervisor,
    settings: Settings,
    weather: Weather,
    dice: Dice,
    now: Instant,
    /// What will happen, in order of time.
    agenda: BTreeMap<(Instant, u64), Happening>,
    happenings: u64,
    workers: BTreeMap<WorkerId, Worker>,
    jobs: BTreeMap<JobId, Work>,
    checks: Checks,
    log: VecDeque<String>,
    /// The job that every worker dies of.
    killer: Option<JobId>,
    /// The supervisor hangs until then; what it is told waits here.
    hangs: Option<Instant>,
    inbox: Vec<Event>,
}

enum Happening {
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

struct Worker {
    jobs: BTreeMap<JobId, Fence>,
    ignores_term: bool,
    unborn: bool,
    /// The template that was asked for it.
    forked_by: Option<WorkerId>,
    /// The job that must have no company.
    alone: Option<JobId>,
    kill_at: Option<Instant>,
}

/// A job, as its broker sees it.
struct Work {
    queue: QueueName,
    class: Class,
    waiting: bool,
    over: bool,
    fence: u64,
    leased: bool,
    attempt: u32,
    crashes: u32,
    unknown: u32,
}

/// What was seen, to be held against the rules.
#[derive(Default)]
struct Checks {
    stopped: bool,
    exited: bool,
    termed: BTreeSet<WorkerId>,
    killed: BTreeSet<WorkerId>,
    ready: BTreeSet<WorkerId>,
    /// Lives whose end the supervisor has not been told.
    known: BTreeSet<WorkerId>,
    /// Where each lease was given.
    assigned: BTreeMap<(JobId, Fence), WorkerId>,
    /// What the workers of each pool know, as far as the supervisor was told.
    knows: BTreeMap<u16, Option<Arc<Classes>>>,
    asking: BTreeSet<u16>,
    stuck: BTreeSet<WorkerId>,
    /// Workers that died by themselves while they ran something.
    deaths: u64,
    /// Leases told as lost, why, and until when their worker may live.
    revoked: BTreeMap<(JobId, Fence), Revocation>,
    doomed: BTreeMap<(WorkerId, JobId), Instant>,
    settled: BTreeSet<(JobId, Fence)>,
    telling: BTreeSet<(JobId, Fence)>,
    fetching: BTreeSet<u16>,
    /// Latest expiry known of each lease.
    leases: BTreeMap<(JobId, Fence), Instant>,
    /// Starts of each slot.
    starts: BTreeMap<SlotId, VecDeque<Instant>>,
    /// Words that were said before the end was decided by us.
    ended: BTreeSet<(JobId, Fence)>,
    turns: u64,
    hung: bool,
}

impl World {
    fn run(seed: u64, weather: Weather) -> World {
        let mut dice = Dice(seed.wrapping_mul(0x2545_F491_4F6C_DD1D).wrapping_add(seed));
        let settings = settings(&mut dice, seed, weather);
        let mut world = World::new(seed, weather, settings);
        world.dice = dice;
        world.plan();
        world.live();
        world
    }

    fn new(seed: u64, weather: Weather, settings: Settings) -> World {
        let now = Instant::from_millis(1_000_000);
        let knows = settings.pools.iter().zip(0..).map(|(pool, number)| (number, pool.knows.clone()));
        let checks = Checks { knows: knows.collect(), ..Checks::default() };
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

    fn live(&mut self) {
        let seed = self.settings.seed;
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.turn_until_the_end()));
        if let Err(panic) = outcome {
            let log: Vec<String> = self.log.drain(..).collect();
            eprintln!("seed {seed}, the last of its transcript:\n{}", log.join("\n"));
            std::panic::resume_unwind(panic);
        }
    }

    /// Jobs are put over ten minutes; a hostile world is stopped at any moment, a kind one when all is done.
    fn plan(&mut self) {
        let jobs = self.dice.below(60) + 5;
        self.put(jobs, 600_000);
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

    fn put(&mut self, jobs: u64, within_ms: u64) {
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

    fn stop_at_the_end(&mut self) {
        self.at(Duration::from_secs(4000), Happening::Tell(Event::Stop(Stop::Drain)));
    }

    fn turn_until_the_end(&mut self) {
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
    fn hang_on(&mut self, next: Option<Instant>) {
        let until = self.hangs.unwrap();
        if next.is_some_and(|next| next <= until) {
            let ((at, _), happening) = self.agenda.pop_first().unwrap();
            self.now = self.now.max(at);
            return self.happen(happening);
        }
        self.now = self.now.max(until);
        self.hangs = None;
        for event in std::mem::take(&mut self.inbox) {
            if !self.checks.exited {
                self.tell(event);
                self.perform();
            }
        }
    }

    fn check_turn(&mut self, due: Option<Instant>, end: Instant) {
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

    fn note(&mut self, mark: &str, what: &dyn Debug) {
        let line = format!("{:>10} {mark} {what:?}", self.now.as_millis() - 1_000_000);
        self.log.push_back(line);
        if self.log.len() > 60 {
            self.log.pop_front();
        }
    }

    fn at(&mut self, after: Duration, happening: Happening) {
        self.happenings += 1;
        self.agenda.insert((self.now + after, self.happenings), happening);
    }

    fn soon(&mut self, within_ms: u64, happening: Happening) {
        let after = Duration::from_millis(self.dice.below(within_ms) + 1);
        self.at(after, happening);
    }

    /// Whether a misfortune of so many percent strikes.
    fn unlucky(&mut self, percent: u64) -> bool {
        self.weather == Weather::Hostile && self.dice.below(100) < percent
    }

    fn tell(&mut self, event: Event) {
        if self.hangs.is_some() {
            return self.inbox.push(event);
        }
        self.note("<", &event);
        self.watch_event(&event);
        // Facts may be told twice, now or much later, but for answers that carry something new.
        let told_once =
            matches!(event, Event::Fetched(..) | Event::Idle | Event::Finished(..) | Event::Knows(..));
        if !told_once && self.unlucky(3) {
            self.soon(60_000, Happening::Tell(event.clone()));
        }
        self.supervisor.handle(self.now, event);
    }
}

/// What happens outside.
impl World {
    fn happen(&mut self, happening: Happening) {
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

    fn born(&mut self, worker: WorkerId) {
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
            self.soon(60_000, Happening::Tell(Event::Faulty(worker, "unknown frame 'dome'".into())));
        }
    }

    fn dies(&mut self, worker: WorkerId, status: ExitStatus) {
        let Some(process) = self.workers.remove(&worker) else { return };
        self.checks.deaths += u64::from(!process.jobs.is_empty() && status != KILLED);
        self.orphan(worker);
        if process.unborn && process.forked_by.is_some() {
            return self.tell(Event::SpawnFailed(worker, "killed before it was there".into()));
        }
        self.checks.doomed.retain(|(doomed, _), _| *doomed != worker);
        let usage = Usage::default();
        let exit = Exit { status, usage, left_behind: 0, oom: false, proof: Duration::ZERO };
        self.tell(Event::Exited(worker, exit.clone()));
        if self.unlucky(10) {
            self.soon(60_000, Happening::Tell(Event::Ready(worker)));
            self.soon(60_000, Happening::Tell(Event::Exited(worker, exit)));
        }
    }

    /// A template is dead: what it was asked for and has not made yet will mostly not be made.
    fn orphan(&mut self, template: WorkerId) {
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

    fn ends(&mut self, worker: WorkerId, job: JobId, outcome: Outcome) {
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

    fn supervisor_forgot(&self, worker: WorkerId) -> bool {
        !self.workers.contains_key(&worker)
    }

    fn fetch(&mut self, pool: u16, queues: Vec<QueueName>, take: Take, most: usize) {
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
    fn curse(&mut self, job: &JobId, fence: Fence) {
        let reasons =
            [Revocation::LockLost, Revocation::Canceled, Revocation::Moved, Revocation::RenewRefused];
        if self.unlucky(30) {
            let why = reasons[self.dice.below(4) as usize];
            self.soon(15_000, Happening::Revoke(job.clone(), fence, why));
        }
    }

    fn settle(&mut self, id: JobId, fence: Fence, verdict: &Verdict, crashed: bool) {
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

    fn pool(&self, worker: WorkerId) -> &PoolSettings {
        &self.settings.pools[usize::from(worker.slot.pool)]
    }
}

/// What is done for the supervisor.
impl World {
    fn perform(&mut self) {
        while let Some(command) = self.supervisor.next_command() {
            self.note(">", &command);
            self.watch_command(&command);
            match command {
                Command::Spawn(worker) => self.spawn(worker),
                Command::Fork(worker, template) => self.fork(worker, template),
                Command::AskWaiting(pool, queues) => self.soon(100, Happening::AskWaiting(pool, queues)),
                Command::Assign(worker, job, fence, _) => self.assign(worker, &job, fence),
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
                Command::Exit => self.checks.exited = true,
            }
        }
    }

    fn spawn(&mut self, worker: WorkerId) {
        if self.unlucky(10) {
            return self.soon(500, Happening::Tell(Event::SpawnFailed(worker, "no memory".into())));
        }
        self.make(worker, None);
    }

    /// A template may be dead already, busy for long, or never come to it.
    fn fork(&mut self, worker: WorkerId, template: WorkerId) {
        if self.unlucky(10) || !self.workers.contains_key(&template) {
            return self.soon(500, Happening::Tell(Event::SpawnFailed(worker, "no template".into())));
        }
        self.make(worker, Some(template));
    }

    fn make(&mut self, worker: WorkerId, forked_by: Option<WorkerId>) {
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

    fn assign(&mut self, worker: WorkerId, job: &Job, fence: Fence) {
        let Some(process) = self.workers.get_mut(&worker) else { return };
        process.jobs.insert(job.id.clone(), fence);
        if self.killer.as_ref() == Some(&job.id) {
            return self.soon(2_000, Happening::Dies(worker, ExitStatus::Signal { signal: 11, core: true }));
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

    fn some_failure(&mut self) -> Outcome {
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

    fn signal(&mut self, worker: WorkerId, signal: Signal) {
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
    fn kill_at(&mut self, worker: WorkerId, at: Option<Instant>) {
        if let Some(process) = self.workers.get_mut(&worker) {
            process.kill_at = at;
        }
        if let Some(at) = at {
            self.happenings += 1;
            let late = Duration::from_millis(self.dice.below(20) * 50);
            self.agenda.insert((at.max(self.now) + late, self.happenings), Happening::SelfFence(worker, at));
        }
    }

    fn renew(&mut self, lease: Lease) {
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

/// The rules.
impl World {
    fn watch_event(&mut self, event: &Event) {
        match event {
            Event::Stop(_) => self.checks.stopped = true,
            Event::Exited(worker, _) | Event::SpawnFailed(worker, _) => {
                self.checks.known.remove(worker);
            }
            Event::Ready(worker) if self.checks.known.contains(worker) => {
                self.checks.ready.insert(*worker);
            }
            Event::Fetched(pool, _) | Event::FetchFailed(pool) => {
                self.checks.fetching.remove(pool);
            }
            Event::Renewed(lease) => {
                let known =
                    self.checks.leases.entry((lease.job.clone(), lease.fence)).or_insert(lease.expires_at);
                *known = lease.expires_at.max(*known);
            }
            Event::Revoked(job, fence, why) => {
                let key = (job.clone(), *fence);
                self.doom(&key);
                let lost = self.checks.revoked.entry(key).or_insert(*why);
                if *why != Revocation::Canceled {
                    *lost = *why;
                }
            }
            Event::Settled(job, fence) => {
                self.checks.telling.remove(&(job.clone(), *fence));
                self.checks.settled.insert((job.clone(), *fence));
            }
            Event::SettleFailed(job, fence) => {
                self.checks.telling.remove(&(job.clone(), *fence));
            }
            Event::Ready(_) | Event::Spawned(_) => {}
            Event::Knows(pool, classes) => {
                self.checks.knows.insert(*pool, Some(classes.clone()));
            }
            Event::Waiting(pool, _) => {
                self.checks.asking.remove(pool);
            }
            Event::Stuck(worker, _) => {
                self.checks.stuck.insert(*worker);
            }
            Event::Faulty(..) => {}
            Event::Finished(..) | Event::RenewFailed(..) | Event::Woken | Event::Idle => {}
        }
    }

    /// From here on the job's worker (or, in company, the job) has no longer than twice the grace.
    fn doom(&mut self, key: &(JobId, Fence)) {
        let Some(worker) = self.checks.assigned.get(key).copied() else { return };
        if self.jobs[&key.0].fence > key.1.0 {
            return; // An old word about a job that is back under another right.
        }
        if self.workers.get(&worker).is_some_and(|process| process.jobs.contains_key(&key.0)) {
            let until = self.now + self.pool(worker).grace * 2;
            self.checks.doomed.entry((worker, key.0.clone())).or_insert(until);
        }
    }

    fn watch_command(&mut self, command: &Command) {
        assert!(!self.checks.exited, "an order after the end: {command:?}");
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
            Command::Assign(worker, job, ..) => self.watch_assign(*worker, job),
            Command::Cancel(worker, job, _) => {
                assert!(!self.checks.killed.contains(worker), "cancels {job} in a killed worker");
            }
            Command::Signal(worker, Signal::Term, _) => {
                assert!(!self.checks.killed.contains(worker), "TERM after KILL: {worker}");
                assert!(self.checks.termed.insert(*worker), "TERM twice: {worker}");
            }
            Command::Signal(worker, Signal::Kill, _) => {
                assert!(self.checks.killed.insert(*worker), "KILL twice: {worker}");
            }
            Command::KillAt(worker, _) => assert!(self.checks.ready.contains(worker), "arms {worker}"),
            Command::Fetch { pool, workers, .. } => self.watch_fetch(*pool, workers),
            Command::Renew(leases) => {
                for lease in leases {
                    let lost = self.checks.revoked.get(&(lease.job.clone(), lease.fence));
                    assert!(lost.is_none_or(|why| *why == Revocation::Canceled), "renews what is lost");
                }
            }
            Command::Settle(settlement) => {
                self.watch_settle(settlement.job.clone(), settlement.fence, &settlement.verdict);
            }
            Command::AskIdle(_) => assert!(self.settings.burst, "asks without being in a burst"),
            Command::Dropped(..) => {}
            Command::Exit => {
                assert!(self.checks.stopped || self.settings.burst, "exits unasked");
                let left = self.workers.keys().find(|worker| !self.checks.stuck.contains(worker));
                assert!(left.is_none(), "exits with children: {left:?}");
            }
        }
    }

    fn watch_spawn(&mut self, worker: WorkerId) {
        assert!(!self.checks.stopped, "spawns after the stop");
        let (pool, index) = (self.pool(worker), worker.slot.index);
        assert!(index <= pool.workers && (index > 0 || pool.template), "there is no place for {worker}");
        let lives = self.workers.keys().find(|other| other.slot == worker.slot);
        assert!(lives.is_none(), "{worker} beside {lives:?}");
        self.checks.known.insert(worker);
        let starts = self.checks.starts.entry(worker.slot).or_default();
        starts.push_back(self.now);
        if starts.len() > 60 {
            let first = starts.pop_front().unwrap();
            let good = self.checks.assigned.values().filter(|other| other.slot == worker.slot).count();
            assert!(good > 20 || self.now.since(first) > Duration::from_secs(60), "spawns in a storm");
        }
    }

    fn watch_fork(&mut self, worker: WorkerId, template: WorkerId) {
        let Checks { known, ready, termed, killed, .. } = &self.checks;
        assert_eq!(template.slot, SlotId { pool: worker.slot.pool, index: 0 }, "not its template");
        assert!(known.contains(&template) && ready.contains(&template), "forks from {template}, not ready");
        assert!(!termed.contains(&template) && !killed.contains(&template), "forks from {template}, ending");
        self.watch_spawn(worker);
    }

    /// A job that a worker may have died of has the worker for itself.
    fn watch_company(&mut self, worker: WorkerId, job: &Job, again: bool) {
        let alone = self.pool(worker).jobs_at_once > 1 && (again || job.crashes > 0);
        let Some(process) = self.workers.get_mut(&worker) else { return };
        assert!(!alone || process.jobs.is_empty(), "{} is not alone in {worker}", job.id);
        let with = process.alone.as_ref().filter(|other| process.jobs.contains_key(other));
        assert!(with.is_none(), "{} keeps {with:?} company", job.id);
        process.alone = alone.then(|| job.id.clone());
    }

    fn watch_assign(&mut self, worker: WorkerId, job: &Job) {
        let knows = &self.checks.knows[&worker.slot.pool];
        let known = knows.as_ref().is_none_or(|classes| classes.contains_key(&job.class));
        assert!(worker.slot.index > 0, "{worker} takes no jobs");
        assert!(known, "a job of class {}, which {worker} does not know", job.class);
        let ready = self.checks.ready.contains(&worker);
        assert!(ready, "assigns to {worker}, which is not ready");
        assert!(!self.checks.stopped, "assigns after the stop");
        assert!(!self.checks.termed.contains(&worker), "assigns to a worker on its way out");
        let fence = Fence(self.jobs[&job.id].fence);
        let elsewhere = self.workers.iter().find(|(_, process)| process.jobs.contains_key(&job.id));
        assert!(elsewhere.is_none(), "{} runs in {:?} already", job.id, elsewhere.map(|(id, _)| id));
        let pool = self.pool(worker);
        let taken = self.workers.get(&worker).map_or(0, |process| process.jobs.len());
        assert!(taken < pool.jobs_at_once as usize, "more jobs at once than {worker} can");
        let before = self.checks.assigned.insert((job.id.clone(), fence), worker);
        let died = before.is_none_or(|before| before != worker && !self.workers.contains_key(&before));
        assert!(died, "assigns a lease twice");
        self.watch_company(worker, job, before.is_some());
        let lost = self.checks.revoked.get(&(job.id.clone(), fence));
        assert!(lost.is_none(), "assigns what is lost: {lost:?}");
    }

    fn watch_fetch(&mut self, pool: u16, workers: &[WorkerId]) {
        assert!(!self.checks.stopped, "fetches after the stop");
        assert!(self.checks.fetching.insert(pool), "two fetches at once");
        assert!(!workers.is_empty(), "fetches for nobody");
        for worker in workers {
            assert!(self.checks.ready.contains(worker), "fetches for {worker}, which is not ready");
        }
    }

    fn watch_settle(&mut self, job: JobId, fence: Fence, verdict: &Verdict) {
        let key = (job, fence);
        assert!(!self.checks.settled.contains(&key), "settles {key:?} again");
        assert!(self.checks.telling.insert(key.clone()), "settles {key:?} twice at once");
        match self.checks.revoked.get(&key) {
            None => {}
            Some(Revocation::Canceled) => assert_eq!(*verdict, Verdict::Canceled, "{key:?}"),
            Some(why) => panic!("settles {key:?} after {why:?}"),
        }
        let Some(worker) = self.checks.assigned.get(&key) else { return };
        let runs = self.workers.get(worker).is_some_and(|process| process.jobs.contains_key(&key.0));
        let latest = self.jobs[&key.0].fence == key.1.0;
        assert!(!(runs && latest), "settles {key:?} while it runs");
        let proven = !self.workers.contains_key(worker);
        assert!(proven || self.pool(*worker).jobs_per_life != Some(1), "settles {key:?} without proof");
        let expired = self.checks.leases.get(&key).is_some_and(|until| *until <= self.now);
        let first = self.checks.ended.insert(key.clone());
        // What ended while the supervisor hung is told all the same: the broker compares the fence.
        assert!(!(first && expired && !self.checks.hung), "settles {key:?} after its lease");
    }
}

fn settings(dice: &mut Dice, seed: u64, weather: Weather) -> Settings {
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
            time_limit: [None, Some(Duration::from_secs(150))][dice.below(2) as usize],
            retry: [Retry::NONE, Retry::CLASS][dice.below(2) as usize],
            ..PoolSettings::default()
        }
    };
    let pools = (0..dice.below(2) + 1).map(|number| pool(dice, number)).collect();
    let burst = dice.below(8) == 0;
    Settings { pools, burst, seed, lease: Duration::from_secs(30), ..Settings::default() }
}

fn job(id: &JobId, work: &Work) -> Job {
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

fn classes(names: &[&str]) -> Arc<Classes> {
    Arc::new(names.iter().map(|name| (Class::from(*name), ClassSettings::default())).collect())
}

fn complete() -> Outcome {
    Outcome::Complete { result: None }
}

/// xorshift64*, so that a world is its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 |= 1 << 63;
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % sides
    }
}
