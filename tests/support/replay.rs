//! Workloads of `taskvisor simulate` on the real program: the jobs come when they should, to a fake of Amazon SQS, and
//! sleep as long as they should run. The waits are those of the job records.

// Each binary uses only a part of this module.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::Order;
use serde_json::{Value, json};
use simulate::{Latency, Plan, Report, Sqs, Workload, simulate};

use crate::sandbox::{Sandbox, Setting, is_up, wait_until, wait_within};
use crate::sqs::FakeSqs;

/// The first job comes this long after the beginning: by then a poll waits at each queue.
const AFTER: Duration = Duration::from_secs(2);

/// A workload, and the fleet that it meets.
pub struct Replay {
    pub workload: Workload,
    pub order: Order,
    pub workers: u16,
    /// How long a call to SQS takes.
    pub call: Duration,
    /// From a fetch to the start of its jobs.
    pub latency: Duration,
}

/// What a replay was like.
pub struct Seen {
    /// How long the jobs of each queue waited, in seconds.
    pub waits: BTreeMap<String, Vec<f64>>,
    /// How many calls reached the service, by action.
    pub calls: BTreeMap<String, u64>,
}

/// A figure as it was foretold and as it was, in seconds.
pub struct Pair {
    pub queue: String,
    pub figure: &'static str,
    /// How many jobs it is of.
    pub jobs: usize,
    pub foretold: f64,
    pub real: f64,
}

impl Pair {
    /// Whether they differ by no more than a share and a few moments.
    pub fn fits(&self, share: f64, moments: Duration) -> bool {
        (self.real - self.foretold).abs() <= self.foretold * share + moments.as_secs_f64()
    }
}

impl Replay {
    /// What `simulate` says of it.
    pub fn foretold(&self) -> Report {
        self.report(Some(Sqs { call: self.call, ..Sqs::default() }))
    }

    /// What it would say of a broker that knows what waits in every queue.
    pub fn foretold_of_the_store(&self) -> Report {
        self.report(None)
    }

    fn report(&self, sqs: Option<Sqs>) -> Report {
        let Replay { order, workers, latency, .. } = *self;
        simulate(&self.workload, &Plan { workers, order, latency, sqs, ..Plan::default() })
    }

    /// Measures how long it takes here from a fetch to the start of its jobs: the median of jobs that find a worker and
    /// an open poll, without the way of its answer.
    pub fn latency(call: Duration) -> Duration {
        let table: String = (0..40).map(|number| format!("probe,{}ms,10ms\n", number * 150)).collect();
        let workload = later(&Workload::from_csv(&table, Duration::ZERO).expect("a table of jobs"));
        let probe = Replay { workload, order: Order::Ordered, workers: 2, call, latency: Duration::ZERO };
        let mut waits = probe.run().waits.remove("probe").expect("its queue");
        waits.sort_by(f64::total_cmp);
        Duration::from_secs_f64(waits[waits.len() / 2]).saturating_sub(call / 2)
    }

    /// The mean and the p95 of each queue in a forecast, beside what was.
    pub fn pairs(report: &Report, seen: &Seen) -> Vec<Pair> {
        let pair = |queue: &Latency| {
            let Latency { name, jobs, mean, p95, .. } = queue;
            let mut real = seen.waits[name].clone();
            real.sort_by(f64::total_cmp);
            assert_eq!(real.len(), *jobs, "jobs of {name}");
            let rank = (jobs * 95).div_ceil(100).saturating_sub(1);
            let found = [("mean", *mean, real.iter().sum::<f64>() / *jobs as f64), ("p95", *p95, real[rank])];
            found.map(|(figure, foretold, real)| {
                let (queue, foretold) = (name.clone(), foretold.as_secs_f64());
                Pair { queue, figure, jobs: *jobs, foretold, real }
            })
        };
        report.queues.iter().flat_map(pair).collect()
    }

    /// Runs it with the real program.
    pub fn run(&self) -> Seen {
        let (fake, sandbox) = (FakeSqs::start(), Sandbox::new(Setting::Root));
        fake.knobs(|knobs| knobs.latency = self.call);
        let settings = sandbox.work("pools.yaml");
        fs::write(&settings, self.settings()).expect("the settings");
        let url = format!("sqs://eu-west-1?endpoint={}&create=yes", fake.endpoint());
        let args = ["--broker", &url, "-c", settings.to_str().expect("UTF-8")];
        let _running = sandbox.start_with(&args, |command| {
            command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        });
        wait_until("all slots are up", || is_up(&sandbox.status()));
        fake.forget_calls();
        self.send(&fake);
        let queues = || self.workload.queues().iter().map(|queue| queue.name.as_str());
        let left = || queues().map(|queue| fake.counts(queue).iter().sum::<usize>()).sum::<usize>();
        wait_within(Duration::from_secs(300), "all jobs have run", || left() == 0);
        let calls = fake.calls();
        let mut waits: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for job in sandbox.lines(&["job", "list", "-n", "0", "--json"]) {
            assert_eq!(job["attempt"].as_u64().unwrap_or(1), 1, "{job}");
            let at = |name: &str| job[name].as_i64().unwrap_or_else(|| panic!("{name}: {job}"));
            let wait = at("started_at_ms") - at("put_at_ms");
            let queue = job["queue"].as_str().expect("a queue").to_owned();
            waits.entry(queue).or_default().push(wait as f64 / 1000.0);
        }
        Seen { waits, calls }
    }

    fn settings(&self) -> String {
        let (mut names, mut priorities) = (String::new(), String::new());
        for queue in self.workload.queues() {
            let _ = write!(names, "{}, ", queue.name);
            let _ = write!(priorities, "{}: {}, ", queue.name, queue.priority);
        }
        let root = env!("CARGO_MANIFEST_DIR");
        format!(
            "pools:\n- name: naps\n  mode: prefork\n  workers: {}\n  order: {}\n  queues: [{names}]\n  queue_priorities: \
             {{{priorities}}}\n  env: {{set: {{PYTHONPATH: '{root}/python:{root}/tests/support', PYTHONDONTWRITEBYTECODE: \
             '1'}}}}\n  command: python3 -m taskvisor.worker naps\n",
            self.workers,
            self.order.as_str()
        )
    }

    /// Has the jobs come to the fake from now on.
    fn send(&self, fake: &FakeSqs) {
        let begin = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        for (index, queue) in (0..).zip(self.workload.queues()) {
            let jobs = self.workload.jobs().iter().filter(|job| job.queue == index);
            let messages = jobs.map(|job| {
                let at = u64::try_from((begin + job.arrival).as_millis()).expect("a few years");
                let body: Value = json!({"class": "nap", "data": {"seconds": job.run_time.as_secs_f64()}});
                (at, body.to_string())
            });
            fake.put_later(queue.name.as_str(), messages);
        }
    }
}

/// The workload of a description, whose first job comes as late as on the real program.
pub fn workload(description: &str, seed: u64) -> Workload {
    later(&Workload::from_yaml(description, seed).expect("a workload"))
}

/// The same workload with all jobs later, as a table of jobs has it.
pub fn later(workload: &Workload) -> Workload {
    let mut table = String::new();
    for job in workload.jobs() {
        let name = &workload.queues()[job.queue as usize].name;
        let at = (job.arrival + AFTER).as_millis();
        let _ = writeln!(table, "{name},{at}ms,{}ms", job.run_time.as_millis());
    }
    let mut later = Workload::from_csv(&table, Duration::ZERO).expect("a table of jobs");
    let priorities = workload.queues().iter().map(|queue| (queue.name.clone(), queue.priority));
    later.set_priorities(&priorities.collect()).expect("the same queues");
    later
}
