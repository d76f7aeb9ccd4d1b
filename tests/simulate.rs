//! The predictions of `simulate` compared with taskvisor: the supervisor's decisions in the same virtual time, and the
//! real program with the embedded store.

#![expect(clippy::unwrap_used, reason = "what is missing here is a mistake in the test")]

#[path = "support/sandbox.rs"]
mod sandbox;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use model::{
    Bytes, Class, Fence, Fetched, Instant, Job, JobId, JobState, Lease, Order, Outcome, Payload,
    PoolSettings, QueueName, Settings, WorkerId,
};
use sandbox::{Sandbox, Setting, is_root};
use select::Turns;
use simulate::{Plan, Report, Workload, simulate};
use supervisor::{Command, Event, Supervisor};

const LATENCY: Duration = Duration::from_millis(1);

/// The supervisor with a broker and workers whose only cost is the latency of a fetch; returns the waits by queue in
/// seconds.
struct Replay<'a> {
    workload: &'a Workload,
    supervisor: Supervisor,
    now: Instant,
    next: usize,
    waiting: BTreeMap<QueueName, VecDeque<usize>>,
    /// The pending events, in order of time.
    soon: BTreeMap<(Instant, u64), Soon>,
    number: u64,
    waits: BTreeMap<String, Vec<f64>>,
}

enum Soon {
    Tell(Event),
    Answer(Command),
}

impl<'a> Replay<'a> {
    fn run(workload: &'a Workload, workers: u16, order: Order) -> BTreeMap<String, Vec<f64>> {
        let pool = PoolSettings {
            workers,
            jobs_per_life: None,
            order,
            queues: workload.queues().iter().map(|queue| queue.name.clone()).collect(),
            queue_priorities: workload
                .queues()
                .iter()
                .map(|queue| (queue.name.clone(), queue.priority))
                .collect(),
            ..PoolSettings::default()
        };
        let settings = Settings { pools: vec![pool], seed: 11, ..Settings::default() };
        let (supervisor, waiting) = (Supervisor::new(settings, Instant(0)), BTreeMap::new());
        let (soon, waits) = (BTreeMap::new(), BTreeMap::new());
        let mut replay =
            Replay { workload, supervisor, now: Instant(0), next: 0, waiting, soon, number: 0, waits };
        while replay.waits.values().map(Vec::len).sum::<usize>() < workload.jobs().len() {
            replay.obey();
            replay.turn();
        }
        replay.waits
    }

    fn later(&mut self, after: Duration, soon: Soon) {
        self.number += 1;
        self.soon.insert((self.now + after, self.number), soon);
    }

    fn obey(&mut self) {
        while let Some(command) = self.supervisor.next_command() {
            let none = Duration::ZERO;
            match command {
                Command::Spawn(worker) => self.later(none, Soon::Tell(Event::Ready(worker))),
                Command::Fetch { .. } => self.later(LATENCY, Soon::Answer(command)),
                Command::Assign { worker, job, fence, .. } => self.start(worker, &job, fence),
                Command::Settle(settlement) => {
                    let settled = Event::Settled {
                        job: settlement.job,
                        fence: settlement.fence,
                        became: Some(JobState::Complete),
                    };
                    self.later(none, Soon::Tell(settled));
                }
                Command::Renew(leases) => {
                    for lease in leases {
                        let lease = Lease { expires_at: self.now + Duration::from_secs(60), ..lease };
                        self.later(none, Soon::Tell(Event::Renewed(lease)));
                    }
                }
                Command::Fork(..)
                | Command::Cancel { .. }
                | Command::Signal { .. }
                | Command::KillAt(..)
                | Command::Follow(..)
                | Command::AskIdle(..)
                | Command::GiveUp(_)
                | Command::AskWaiting(..)
                | Command::Equip(..)
                | Command::LeaseLost { .. }
                | Command::Died { .. }
                | Command::VerdictUnconfirmed { .. }
                | Command::LeftAlive { .. }
                | Command::Exit => {}
            }
        }
    }

    fn start(&mut self, worker: WorkerId, job: &Job, fence: Fence) {
        let number: usize = job.id.as_str().parse().unwrap();
        let planned = self.workload.jobs()[number];
        let wait = Duration::from_nanos(self.now.0).saturating_sub(planned.arrival);
        self.waits.entry(job.queue.to_string()).or_default().push(wait.as_secs_f64());
        let outcome = Outcome::Complete { result: None, next: None };
        self.later(
            planned.run_time,
            Soon::Tell(Event::Finished { worker, job: job.id.clone(), fence, outcome }),
        );
    }

    fn turn(&mut self) {
        let arrival = self.workload.jobs().get(self.next).map(|job| Instant(0) + job.arrival);
        let soon = self.soon.first_key_value().map(|((at, _), _)| *at);
        let timeout = self.supervisor.poll_timeout();
        self.now = self.now.max([arrival, soon, timeout].into_iter().flatten().min().unwrap());
        while let Some(job) = self.workload.jobs().get(self.next)
            && Instant(0) + job.arrival <= self.now
        {
            let name = self.workload.queues()[job.queue as usize].name.clone();
            self.waiting.entry(name.clone()).or_default().push_back(self.next);
            self.next += 1;
            self.supervisor.handle(self.now, Event::Woken(name.into()));
        }
        while self.soon.first_key_value().is_some_and(|((at, _), _)| *at <= self.now) {
            let (_, soon) = self.soon.pop_first().unwrap();
            let event = match soon {
                Soon::Tell(event) => event,
                Soon::Answer(fetch) => self.fetched(fetch),
            };
            self.supervisor.handle(self.now, event);
        }
        self.supervisor.handle_all(self.now, []);
    }

    fn fetched(&mut self, fetch: Command) -> Event {
        let Command::Fetch { pool, queues, take, workers, .. } = fetch else { unreachable!() };
        let (mut turns, mut jobs) = (Turns::new(take, queues), Vec::new());
        while jobs.len() < workers.len()
            && let Some(queue) = turns.queue().cloned()
        {
            let Some(number) = self.waiting.get_mut(&queue).and_then(VecDeque::pop_front) else {
                turns.had_none();
                continue;
            };
            let id = JobId::from(number.to_string());
            let expires_at = self.now + Duration::from_secs(60);
            let lease = Lease { job: id.clone(), fence: Fence(1), expires_at };
            jobs.push(Fetched { job: Arc::new(job(id, queue)), lease, waited: None });
            turns.gave();
        }
        Event::Fetched(pool, jobs)
    }
}

fn job(id: JobId, queue: QueueName) -> Job {
    Job {
        id,
        queue,
        class: Class::from("mail"),
        payload: Payload::Data(Bytes::from("{}")),
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

/// Jobs that run for seconds, so that none is so short that a supervisor takes it ahead; a load of nine tenths.
const LOAD: &str = "\
duration: 2h
queues:
  high: {priority: 90, rate: 60/m, run_time: {median: 2s, p95: 6s}}
  mid: {priority: 30, rate: 30/m, run_time: {mean: 4s}}
  low: {priority: 2, rate: 20/m, run_time: 3s, burst: {every: 20m, lasts: 2m, times: 3}}
";

fn mean(waits: &[f64]) -> f64 {
    waits.iter().sum::<f64>() / waits.len() as f64
}

#[test]
fn waits_under_the_supervisor_match_the_simulation() {
    let workload = Workload::from_yaml(LOAD, 3).unwrap();
    let orders =
        [Order::Ordered, Order::RoundRobin, Order::StrictPriority, Order::ReducedLottery, Order::Lottery];
    for order in orders {
        let replayed = Replay::run(&workload, 7, order);
        let plan = Plan { workers: 7, order, latency: LATENCY, ..Plan::default() };
        let Report { queues, .. } = simulate(&workload, &plan);
        for queue in queues {
            let (real, foretold) = (mean(&replayed[&queue.name]), queue.mean.as_secs_f64());
            assert_eq!(replayed[&queue.name].len(), queue.jobs);
            // Random orders draw different numbers.
            let most = if matches!(order, Order::ReducedLottery | Order::Lottery) { 1.35 } else { 1.05 };
            let ratio = (real + 0.01) / (foretold + 0.01);
            assert!((1.0 / most..most).contains(&ratio), "{order:?} {}: {real} for {foretold}", queue.name);
        }
    }
}

#[test]
fn real_job_order_matches_the_simulation() {
    let sandbox = Sandbox::new(if is_root() { Setting::RootCgroup } else { Setting::Plain });
    let file = "pools:\n- name: p\n  workers: 1\n  queues: [low, high, mid]\n  order: strict_priority\n  queue_priorities: {high: 90, mid: 30, low: 2}\n";
    let settings = sandbox.path("settings.yaml");
    std::fs::write(&settings, file).unwrap();
    let mut table = String::new();
    for (number, queue) in ["low", "mid", "low", "high", "mid", "high"].iter().enumerate() {
        let word = format!("{queue}{number}");
        let log = sandbox.path("order");
        let line = format!("echo {word} >> {}", log.display());
        let put = sandbox.command(&["put", "-q", queue, "--", "sh", "-c", &line]).output().unwrap();
        assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
        table += &format!("{queue},0,1\n");
    }
    let started = sandbox.command(&["start", "--burst", "-c", settings.to_str().unwrap()]).output().unwrap();
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    let ran = std::fs::read_to_string(sandbox.path("order")).unwrap();
    let ran: Vec<&str> = ran.lines().map(|word| word.trim_end_matches(char::is_numeric)).collect();
    let mut workload = Workload::from_csv(&table, Duration::ZERO).unwrap();
    let priorities = [("high".into(), 90), ("mid".into(), 30), ("low".into(), 2)].into();
    workload.set_priorities(&priorities).unwrap();
    let plan = Plan { order: Order::StrictPriority, latency: Duration::ZERO, ..Plan::default() };
    // With one worker and one second for each job, a job waits as many seconds as jobs ran before it.
    for queue in simulate(&workload, &plan).queues {
        let before = |(at, name): (usize, &&str)| (*name == queue.name).then_some(at as f64);
        let waits: Vec<f64> = ran.iter().enumerate().filter_map(before).collect();
        assert_eq!(mean(&waits), queue.mean.as_secs_f64(), "{}: {ran:?}", queue.name);
    }
}

#[test]
fn simulate_reports_errors_in_files_with_their_line() {
    let sandbox = Sandbox::new(Setting::Plain);
    let (yaml, csv) = (sandbox.path("load.yaml"), sandbox.path("jobs.csv"));
    std::fs::write(&yaml, "duration: 1m\nqueues:\n  a:\n    run_time: 1s\n    rate: 20\n").unwrap();
    std::fs::write(&csv, "a,0,1\na,1\n").unwrap();
    let said = |args: &[&str]| {
        let output = sandbox.command(&[&["simulate"], args].concat()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (yaml, csv) = (yaml.to_str().unwrap(), csv.to_str().unwrap());
    let (code, text) = said(&[yaml]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains(&format!("error: {yaml}:5: queues.a: rate '20' is no number of jobs")), "{text}");
    assert!(said(&[csv]).1.contains(&format!("error: {csv}:2: has 2 columns")));
    assert!(said(&["/nowhere.csv"]).1.contains("failed to read /nowhere.csv: "));
    std::fs::write(csv, "a,0,1\na,0,1\n").unwrap();
    let (code, text) = said(&[csv, "--slo", "b<1s"]);
    assert!(code == Some(2) && text.contains("the workload has no queue 'b'\nhint: it has a\n"), "{text}");
    assert_eq!(said(&[csv, "-w", "1", "--slo", "a.max<1s"]).0, Some(1));
    assert_eq!(said(&[csv, "-w", "1..2", "--slo", "a.max<1s"]).0, Some(0));
    assert!(said(&[csv, "--priority", "b=1"]).1.contains("it has no queue 'b'; there are: a"));
    assert!(said(&[csv, "-w", "4..2"]).1.contains("the range begins above its end"));
}
