//! One round: a supervisor on a broker, jobs, blows, calm, and the judgement.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::ask;
use crate::blows::{Blow, Strikes, now};
use crate::jobs::{Job, Jobs, Putter, Said};
use crate::judge::Case;
use crate::outage::Outage;
use crate::python;
use crate::random::Random;
use crate::sandbox::{Running, Sandbox, Setting, alive, is_up, kill, reasons};
use crate::servers::{Broker, Server};
use crate::tally::Tally;
use crate::watch::watch;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Longer than the lease.
const LASTS: Duration = Duration::from_secs(13);
/// Until all jobs have ended, on a busy machine: a suspect may have to wait for others, and they for it.
const UNTIL_ENDED: Duration = Duration::from_secs(240);
const UNTIL_WELL: Duration = Duration::from_secs(60);
/// Limits of each process: none of a round needs more.
const LIMITS: [&str; 6] = ["nice", "-n", "5", "prlimit", "--as=8589934592", "--core=0"];

/// With the address of the broker, and keys for the fake of SQS.
pub fn with_broker(mut command: Command, url: &str) -> Command {
    command
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("TASKVISOR_BROKER", url);
    command
}

pub struct Round<'a> {
    broker: Broker,
    what: String,
    tally: &'a Tally,
    random: Random,
    sandbox: Sandbox,
    /// The address of the broker.
    url: String,
    pools: Vec<&'static str>,
    when_cut_off: &'static str,
    jobs: Jobs,
    strikes: Strikes,
}

impl<'a> Round<'a> {
    pub fn new(broker: Broker, seed: u64, tally: &'a Tally) -> Round<'a> {
        let (random, sandbox) = (Random::new(seed), Sandbox::new(Setting::Root));
        fs::create_dir(sandbox.work("said")).unwrap();
        fs::create_dir(sandbox.path("state")).unwrap();
        fs::copy(format!("{ROOT}/tests/soak/job.sh"), sandbox.work("job.sh")).unwrap();
        let small = ["-t", "tmpfs", "-o", "size=24m,mode=700", "none"];
        let mounted = Command::new("mount").args(small).arg(sandbox.path("state")).status().unwrap();
        assert!(mounted.success(), "a small disk");
        let python = random.pick(&["prefork", "fork", "coroutine"]).unwrap();
        let pools = match broker {
            Broker::rq => vec!["default"],
            Broker::reliable => vec!["programs"],
            Broker::embedded | Broker::qless | Broker::sqs => vec!["programs", python],
        };
        let when_cut_off = random.pick(&["kill", "carry_on"]).unwrap();
        let what = format!("{broker:?}, seed {seed}, {pools:?}, {when_cut_off}");
        let (jobs, strikes) = (Jobs::default(), Strikes::default());
        let url = String::new();
        Round { broker, what, tally, random, sandbox, url, pools, when_cut_off, jobs, strikes }
    }

    /// Deals so many blows, and judges.
    pub fn pass(mut self, blows: usize) {
        let found = self.tally.found();
        let mut server = Server::start_with(self.broker, &self.sandbox.path("state/jobs.db"));
        self.url = server.url();
        self.write_settings(&server, 2);
        let mut running = self.start(&server);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let putter = Putter::new(&server, &self.sandbox, &self.pools, &self.random, &self.jobs);
            let mut putter = putter;
            scope.spawn(|| watch(&self.sandbox, &self.strikes, self.tally, &self.what, &over));
            let over = &over;
            let this = &self;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    this.tally.add("puts asked for", putter.put());
                    std::thread::park_timeout(Duration::from_millis(100 + this.random.dice(600)));
                }
            });
            for number in 0..blows {
                std::thread::park_timeout(Duration::from_millis(500 + self.random.dice(3_000)));
                let blow = Blow::draw(self.broker, number, &self.random);
                self.strike(blow, &mut server, &mut running);
            }
            over.store(true, Ordering::Relaxed);
        });
        self.calm(&server, &mut running);
        if self.tally.found() > found {
            self.keep();
        }
    }

    fn violation(&self, what: &str) {
        self.tally.violation(format!("{}: {what}", self.what));
    }

    fn settings(&self) -> PathBuf {
        self.sandbox.path("soak.yaml")
    }

    fn write_settings(&self, server: &Server, workers: u64) {
        let path = format!("{}:{ROOT}/tests/soak", python::path());
        let env = format!("env: {{set: {{PYTHONPATH: '{path}', PYTHONDONTWRITEBYTECODE: '1'}}}}");
        let pool = |name: &&str| {
            let how = match *name {
                "default" => {
                    server.pool().replace("PYTHONPATH: '", &format!("PYTHONPATH: '{ROOT}/tests/soak:"))
                }
                "programs" => String::new(),
                mode => format!(", mode: {mode}, command: python3 -m taskvisor.worker soak_jobs, {env}"),
            };
            let retries = if *name == "default" { "" } else { ", retries: 6, retry_delay: 300ms" };
            format!(
                "- {{name: {name}, queues: [{}], workers: {workers}, grace: 500ms, when_cut_off: {}{retries}{how}}}\n",
                if *name == "programs" { "default" } else { name },
                self.when_cut_off
            )
        };
        let pools: String = self.pools.iter().map(pool).collect();
        let logs = self.sandbox.work("logs");
        let text = format!(
            "lease: 6s\nheld_degrades: false\nbroker: '{}'\nlog: {{dir: {}}}\npools:\n{pools}",
            server.url(),
            logs.display()
        );
        fs::write(self.settings(), text).unwrap();
    }

    fn run(&self, args: &[&str]) -> std::process::Output {
        with_broker(self.sandbox.command(args), &self.url).output().unwrap()
    }

    /// Starts it, again while something of the last life is still to be ended.
    fn start(&self, server: &Server) -> Running<'_> {
        let began = Instant::now();
        loop {
            self.write_settings(server, 2);
            let file = self.settings().display().to_string();
            let wrapper =
                [&["env", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test"][..], &LIMITS].concat();
            let mut running = self.sandbox.start_under(&wrapper, &["--config", &file]);
            let keeper = running.child.id();
            let ended = loop {
                std::thread::park_timeout(Duration::from_millis(100));
                let status = ask::json(&self.sandbox, "/v1/status");
                if status["keeper"]["pid"] == keeper && is_up(&status) || began.elapsed() > UNTIL_WELL {
                    break None;
                }
                if let Some(status) = running.child.try_wait().unwrap() {
                    break Some(status);
                }
            };
            match ended {
                Some(_) if began.elapsed() < UNTIL_WELL => self.tally.add("starts refused", 1),
                _ => {
                    if began.elapsed() >= UNTIL_WELL {
                        self.violation(&format!("it does not come up: {ended:?}\n{}", self.sandbox.stderr()));
                    }
                    if matches!(self.broker, Broker::embedded | Broker::qless) {
                        self.run(&["option", "set", "grace", "500ms"]);
                    }
                    return running;
                }
            }
        }
    }

    /// Deals a blow, and undoes what does not end by itself.
    fn strike<'b>(&'b self, blow: Blow, server: &mut Server, running: &mut Running<'b>) {
        println!("    {} {blow:?}", now());
        self.tally.add(&format!("{blow:?}"), 1);
        self.strikes.begin(blow);
        match blow {
            Blow::KillSupervisor => self.signal("tv-supervisor", "KILL"),
            Blow::KillKeeper => running.signal("KILL"),
            Blow::KillBoth => {
                self.signal("tv-supervisor", "STOP");
                running.signal("STOP");
                self.signal("tv-supervisor", "KILL");
                running.signal("KILL");
            }
            Blow::KillJob => self.kill_job(),
            Blow::KillWorker => self.kill_worker(),
            Blow::Outage(outage) => self.outage(outage, server),
            Blow::Slow => server.slow(),
            Blow::DiskFull => self.fill_disk(),
            Blow::Reload => {
                self.write_settings(server, 1 + self.random.dice(3));
                self.run(&["reload"]);
            }
            Blow::Recycle => drop(self.run(&["recycle"])),
            Blow::Scale => {
                let workers = (1 + self.random.dice(3)).to_string();
                self.run(&["scale", self.pools[0], &workers]);
            }
            Blow::Pause => {
                self.run(&["pause"]);
                std::thread::park_timeout(Duration::from_millis(self.random.dice(3_000)));
                self.run(&["resume"]);
            }
            Blow::StopStart => drop(self.run(&["stop", "--timeout", "90s"])),
            Blow::Sweep => {
                fs::remove_dir_all(self.sandbox.path("run")).ok();
                fs::remove_file(self.settings()).ok();
            }
            Blow::Cancel => self.cancel(),
            Blow::Retry => self.retry(),
        }
        self.see_to_the_keeper(blow, server, running);
        if blow == Blow::Slow && self.broker == Broker::sqs {
            std::thread::park_timeout(Duration::from_secs(4));
            server.end(Outage::Gone);
        }
        self.strikes.end();
    }

    /// A keeper ends only if it is killed or told to stop; then it is started again.
    fn see_to_the_keeper<'b>(&'b self, blow: Blow, server: &Server, running: &mut Running<'b>) {
        let ends = matches!(blow, Blow::KillKeeper | Blow::KillBoth | Blow::StopStart);
        let ended = if ends { Some(running.wait()) } else { running.child.try_wait().unwrap() };
        if let Some(status) = ended {
            if !ends {
                self.violation(&format!("the keeper ended by itself, {status}\n{}", self.sandbox.stderr()));
            } else if blow == Blow::StopStart && !status.success() {
                self.violation(&format!("a stop in order ended with {status}\n{}", self.sandbox.stderr()));
            }
            *running = self.start(server);
        }
    }

    fn signal(&self, name: &str, signal: &str) {
        let seen = self.sandbox.processes();
        seen.iter().filter(|seen| seen.comm == name).for_each(|seen| kill(seen.pid, signal));
    }

    /// Stops the processes with these names, or all.
    fn stand_still(&self, names: &[&str]) {
        let pids: Vec<i32> = self
            .sandbox
            .processes()
            .iter()
            .filter(|seen| names.is_empty() || names.contains(&seen.comm.as_str()))
            .map(|seen| seen.pid)
            .collect();
        pids.iter().for_each(|pid| kill(*pid, "STOP"));
        std::thread::park_timeout(LASTS);
        pids.iter().for_each(|pid| kill(*pid, "CONT"));
    }

    fn outage(&self, outage: Outage, server: &mut Server) {
        server.begin(outage);
        if outage.stops_jobs() {
            self.stand_still(&[]);
        } else if outage == Outage::SupervisorStopped {
            self.stand_still(&["tv-supervisor"]);
        } else {
            std::thread::park_timeout(LASTS);
        }
        server.end(outage);
    }

    /// Kills the process of a job that runs.
    fn kill_job(&self) {
        let running = |job: &Job| {
            let said = Said::of(&self.sandbox, &job.name);
            said.begun.last().map(|(pid, _)| *pid).filter(|pid| said.ended.is_empty() && alive(*pid))
        };
        let pids: Vec<i32> = self.jobs.all().iter().filter_map(running).collect();
        let ours: Vec<i32> = self.sandbox.job_processes().iter().map(|seen| seen.pid).collect();
        let pids: Vec<i32> = pids.into_iter().filter(|pid| ours.contains(pid)).collect();
        self.random.pick(&pids).into_iter().for_each(|pid| kill(pid, "KILL"));
    }

    fn kill_worker(&self) {
        let seen = self.sandbox.job_processes();
        let pids: Vec<i32> =
            seen.iter().filter(|seen| seen.comm.starts_with("python")).map(|seen| seen.pid).collect();
        self.random.pick(&pids).into_iter().for_each(|pid| kill(pid, "KILL"));
    }

    /// Fills the disk of the state directory for a while.
    fn fill_disk(&self) {
        let path = self.sandbox.path("state/filler");
        let full = Command::new("dd").arg("if=/dev/zero").arg(format!("of={}", path.display())).output();
        full.unwrap();
        std::thread::park_timeout(LASTS);
        fs::remove_file(path).unwrap();
    }

    fn cancel(&self) {
        let open: Vec<Job> = self
            .jobs
            .all()
            .into_iter()
            .filter(|job| Said::of(&self.sandbox, &job.name).ended.is_empty())
            .collect();
        let Some(at) = (!open.is_empty()).then(|| self.random.dice(open.len() as u64) as usize) else {
            return;
        };
        self.jobs.change(&open[at].id, |job| job.canceled = true);
        let canceled = self.run(&["job", "cancel", &open[at].id]).status.success();
        self.tally.add(if canceled { "cancels told" } else { "cancels refused" }, 1);
    }

    fn retry(&self) {
        // The others keep no failed job that could be retried here.
        let can = matches!(self.broker, Broker::embedded | Broker::qless);
        let failed = |job: &&Job| can && job.fails > job.retries && !job.retried;
        let jobs = self.jobs.all();
        let Some(job) = jobs.iter().filter(failed).find(|job| self.record(&job.id)["state"] == "failed")
        else {
            return;
        };
        self.jobs.change(&job.id, |job| job.retried = true);
        let retried = self.run(&["job", "retry", &job.id]);
        if !retried.status.success() {
            println!("    {}", String::from_utf8_lossy(&retried.stderr));
        }
        self.tally.add(if retried.status.success() { "retries told" } else { "retries refused" }, 1);
    }

    /// Null if nobody can tell.
    fn record(&self, id: &str) -> Value {
        ask::json(&self.sandbox, &format!("/v1/jobs/{id}"))
    }

    /// After the blows: all jobs come to their ends, all is well, and a stop leaves nothing.
    fn calm(&self, server: &Server, running: &mut Running<'_>) {
        let calm = now();
        self.write_settings(server, 2);
        // With the workers of its beginning: one alone takes longer than [`UNTIL_ENDED`] for 300 jobs.
        for pool in &self.pools {
            self.run(&["scale", pool, "2"]);
        }
        let (began, mut ended) = (Instant::now(), Vec::new());
        let mut open = self.jobs.all();
        self.tally.add("puts acknowledged", open.len());
        while !open.is_empty() && began.elapsed() < UNTIL_ENDED {
            std::thread::park_timeout(Duration::from_millis(200));
            open.retain(|job| {
                let record = self.record(&job.id);
                let is_over = is_over(&record);
                ended.extend(is_over.then(|| (job.clone(), record)));
                !is_over
            });
        }
        for job in &open {
            let why = self.run(&["why", "job", &job.id]);
            let record = self.record(&job.id);
            self.violation(&format!("lost: {job:?}\n{record}\n{}", String::from_utf8_lossy(&why.stdout)));
        }
        self.judge(server, &ended, calm);
        self.assert_well();
        self.stop(running);
    }

    fn judge(&self, server: &Server, ended: &[(Job, Value)], end: u64) {
        let strikes = self.strikes.all();
        for (job, record) in ended {
            let said = Said::of(&self.sandbox, &job.name);
            self.tally.add("runs", said.begun.len());
            self.tally.add(&format!("jobs {}", record["state"].as_str().unwrap_or("nowhere")), 1);
            self.tally.add("second ends", said.ended.len().saturating_sub(1));
            let copies = server.copies(&job.id);
            let case = Case { broker: self.broker, job, copies, said: &said, record, strikes: &strikes, end };
            case.wrongs().iter().for_each(|wrong| self.violation(wrong));
        }
    }

    fn assert_well(&self) {
        let (began, mut last) = (Instant::now(), Value::Null);
        while last["health"] != "healthy" && began.elapsed() < UNTIL_WELL {
            std::thread::park_timeout(Duration::from_millis(300));
            last = ask::json(&self.sandbox, "/v1/status");
        }
        if last["health"] != "healthy" {
            self.violation(&format!("it is {} after all is over: {}", last["health"], reasons(&last)));
        }
    }

    fn stop(&self, running: &mut Running<'_>) {
        self.run(&["stop", "--timeout", "90s"]);
        let began = Instant::now();
        while running.child.try_wait().unwrap().is_none() && began.elapsed() < UNTIL_WELL {
            std::thread::park_timeout(Duration::from_millis(50));
        }
        let left = self.sandbox.processes();
        if !left.is_empty() {
            self.violation(&format!("a stop in order left {left:?}\n{}", self.sandbox.stderr()));
        }
        let log = fs::read_to_string(self.sandbox.work("logs/taskvisor.log")).unwrap_or_default();
        log.lines()
            .filter(|line| line.contains("panicked"))
            .for_each(|line| self.violation(&format!("a panic: {line}")));
    }

    /// Keeps the log of a round with violations.
    fn keep(&self) {
        let dir = format!("{ROOT}/target/tmp/soak-{}", self.what.replace([' ', ',', '"', '[', ']'], ""));
        Command::new("cp").arg("-rT").arg(self.sandbox.work("logs")).arg(&dir).status().unwrap();
        println!("its log is kept in {dir}");
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        // Whatever runs there would keep it busy.
        self.sandbox.processes().iter().for_each(|seen| kill(seen.pid, "KILL"));
        Command::new("umount").arg("-l").arg(self.sandbox.path("state")).status().ok();
    }
}

fn is_over(record: &Value) -> bool {
    matches!(record["state"].as_str(), Some("complete" | "failed" | "canceled" | "held"))
}
