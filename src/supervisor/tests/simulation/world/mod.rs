//! Everything outside of the supervisor, at its worst or at its best.

mod checks;
mod commands;
mod dice;
mod happenings;
mod rules;
mod stuck;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use checks::Checks;
pub use dice::*;
use model::{
    Bytes, Change, Class, ClassSettings, Classes, Count, CutOff, Excess, Exit, ExitStatus, Failure, Fence,
    Fetched, Follow, Instant, Job, JobId, JobState, Lease, Limits, Order, Outcome, Payload, PoolSettings,
    QueueName, QueueSet, Retry, Revocation, Scale, Settings, Settlement, Signal, SlotId, Stop, Take,
    Unproven, Usage, Verdict, Waiting, WorkerId,
};
use select::Turns;
use stuck::unproven;
use taskvisor_supervisor::{Command, Event, Supervisor};

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
    /// The pending events, in order of time.
    pub agenda: BTreeMap<(Instant, u64), Happening>,
    pub happenings: u64,
    pub workers: BTreeMap<WorkerId, Worker>,
    pub jobs: BTreeMap<JobId, Work>,
    pub checks: Checks,
    pub log: VecDeque<String>,
    /// Number of its lines that are kept.
    pub lines: usize,
    /// The job that kills every worker.
    pub killer: Option<JobId>,
    /// Longest duration of jobs in milliseconds; `None` as in `assign`.
    pub longest: Option<u64>,
    /// The supervisor hangs until then; its events wait here.
    pub hangs: Option<Instant>,
    pub inbox: Vec<Event>,
}

pub enum Happening {
    /// An event reaches the supervisor.
    Tell(Event),
    /// The process has started.
    Born(WorkerId),
    /// The process dies by itself.
    Dies(WorkerId, ExitStatus),
    /// The last unkillable process of a life is dead.
    Proven(WorkerId, ExitStatus),
    /// The worker ends a job.
    Ends { worker: WorkerId, job: JobId, outcome: Outcome },
    /// The keeper kills at the fence, unless the fence has moved.
    SelfFence(WorkerId, Instant),
    /// The broker revokes a lease.
    Revoke { job: JobId, fence: Fence, why: Revocation },
    /// A fetch reaches the broker.
    Fetch { pool: u16, queues: Vec<QueueName>, take: Take, most: usize },
    /// A query whether jobs wait reaches the broker.
    AskWaiting(u16, Vec<QueueName>),
    /// A settlement reaches the broker.
    Settle { job: JobId, fence: Fence, verdict: Verdict, crashed: bool },
    /// A delayed job becomes waiting.
    Due(JobId),
    /// The whole machine stands still for this time.
    StandStill(Duration),
}

pub struct Worker {
    pub jobs: BTreeMap<JobId, Fence>,
    pub ignores_term: bool,
    pub unborn: bool,
    /// The template that was ordered to fork it.
    pub forked_by: Option<WorkerId>,
    /// The job that must run alone in it.
    pub alone: Option<JobId>,
    /// Whether its first process has ended while another of its processes does not die.
    pub is_stuck: bool,
    /// The outcome of its job, known only at the proof of death.
    pub last_word: Option<(JobId, Outcome)>,
    pub kill_at: Option<Instant>,
    /// The followers that the keeper makes by itself.
    pub follow: Option<Follow>,
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
    pub interrupted: u32,
    pub unknown: u32,
    /// Whether a person has canceled it; it is leased until that is settled.
    pub canceling: bool,
}

impl World {
    pub fn run(seed: u64, weather: Weather) -> World {
        let mut dice = Dice(seed.wrapping_mul(0x2545_F491_4F6C_DD1D).wrapping_add(seed));
        let mut settings = settings(&mut dice, seed, weather);
        let now = Instant::from_millis(1_000_000);
        if weather == Weather::Hostile && dice.below(4) == 0 {
            settings.first_generation = 9;
            settings.unproven = vec![unproven(&mut dice, now, settings.lease)];
        }
        let mut world = World::new(seed, weather, settings);
        world.dice = dice;
        world.inherit();
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
            lines: crate::number("TASKVISOR_LINES").map_or(60, |lines| lines as usize),
            killer: None,
            longest: None,
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

    /// Puts jobs over ten minutes; a hostile world is stopped at any moment, a kind one when all jobs are done.
    pub fn plan(&mut self) {
        let jobs = self.dice.below(60) + 5;
        self.put(jobs, 600_000);
        // Supervisors have died during some of them.
        for number in 0..jobs {
            let died = if self.dice.below(20) == 0 { 2 } else { 0 };
            self.jobs.get_mut(&JobId::from(format!("j{number}"))).unwrap().interrupted = died;
        }
        self.plan_changes();
        if self.weather == Weather::Kind {
            return self.stop_at_the_end();
        }
        let stage = [Stop::Drain, Stop::Terminate, Stop::Kill][self.dice.below(3) as usize];
        self.soon(900_000, Happening::Tell(Event::Stop(stage)));
        self.at(Duration::from_secs(901), Happening::Tell(Event::Stop(Stop::Drain)));
        for _ in 0..self.dice.below(30) {
            self.soon(900_000, Happening::Tell(Event::Woken(QueueSet::All)));
            let jobs = self.dice.below(3);
            let waiting = Waiting { jobs, age: Some(Duration::from_secs(jobs)) };
            let counts = [(QueueName::from("other"), waiting)].into();
            self.soon(900_000, Happening::Tell(Event::Counted(counts)));
        }
        let resizes = if self.dice.below(4) == 0 { 3 } else { 0 };
        for _ in 0..resizes {
            let workers = self.dice.below(4) as u16 + 1;
            self.soon(900_000, Happening::Tell(Event::Resized("p0".into(), workers)));
        }
        for pool in 0..self.settings.pools.len() as u16 {
            let known = [&["mail"][..], &["mail", "odd"], &["odd"]][self.dice.below(3) as usize];
            self.soon(900_000, Happening::Tell(Event::Knows(pool, classes(known))));
        }
    }

    /// Reloads, scales and pauses; in a kind world every job can still run.
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
            pool.spec += self.dice.below(2) as u32;
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
                interrupted: 0,
                unknown: 0,
                canceling: false,
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
        let end = self.now + Duration::from_secs(12_000);
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
                    self.supervisor.handle_all(self.now, []);
                    let again = self.supervisor.poll_timeout();
                    assert!(again.is_none_or(|again| again > self.now), "spins at {:?}", self.now);
                }
                (_, None) => panic!("nothing will ever happen again"),
            }
            self.perform();
        }
        assert_eq!(self.supervisor.poll_timeout(), None, "wants to be woken after its end");
        self.supervisor.handle(self.now, Event::Woken(QueueSet::All));
        assert_eq!(self.supervisor.next_command(), None, "gives orders after its end");
    }

    /// The supervisor hangs while the world continues; then it gets all events at once.
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
        // All at once, as after a hang. (A job that is fetched, and lost at once, stopped or of an unknown class, is
        // assigned: the rules could not distinguish that from one assigned too late.)
        let rules_out =
            |event: &Event| matches!(event, Event::Revoked { .. } | Event::Stop(_) | Event::Knows(..));
        if inbox.is_empty() || !inbox.iter().any(rules_out) && self.unlucky(50) {
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

    /// Whether the jobs of a worker carry on after the end of their leases.
    pub fn carries_on(&self, worker: WorkerId) -> bool {
        self.pool(worker).when_cut_off == CutOff::CarryOn
    }

    pub fn check_turn(&mut self, due: Option<Instant>, end: Instant) {
        self.checks.turns += 1;
        assert!(self.checks.turns < 200_000, "spins: {:?} is due at {:?}", due, self.now);
        assert!(self.now < end, "does not end");
        self.watch_idleness(due);
        let dies = |(worker, process): &(&WorkerId, &Worker)| !self.carries_on(**worker) && !process.is_stuck;
        for (worker, process) in self.workers.iter().filter(dies) {
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
        self.check_stuck();
        let late = self.checks.doomed.iter().find(|(_, until)| **until < self.now);
        assert!(late.is_none(), "lives on without the right to: {late:?}");
    }

    pub fn note(&mut self, mark: &str, what: &dyn Debug) {
        let line = format!("{:>10} {mark} {what:?}", self.now.as_millis() - 1_000_000);
        self.log.push_back(line);
        if self.log.len() > self.lines {
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

    /// Draws whether a misfortune of this probability in percent happens.
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
        // Events may be repeated, now or much later, except answers that carry something new.
        let told_once =
            matches!(event, Event::Fetched(..) | Event::Idle(_) | Event::Finished { .. } | Event::Knows(..));
        if !told_once && self.unlucky(3) {
            self.soon(60_000, Happening::Tell(event.clone()));
        }
    }
}
