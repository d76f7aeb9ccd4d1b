//! A soak test: no job may be lost, run twice or be reported falsely while processes die. `cargo bench --bench storm
//! -- 1h` kills, stops and freezes supervisors, keepers and jobs of every odd shape for that long. `-- 1m bomb
//! traced` selects some of the shapes.
//!
//! Judged from outside. A job and all its descendants hold a lock: a second run beside a process of the first cannot
//! take it, and a job reported as ended must have freed it.

#[path = "support/confines.rs"]
mod confines;
#[path = "../tests/support/freezer.rs"]
mod freezer;
#[path = "../tests/support/sandbox.rs"]
mod sandbox;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use confines::{Confines, Limit};
use freezer::Freezer;
use nix::fcntl::{Flock, FlockArg};
use sandbox::{Running, Sandbox, Setting, kill, wait_within};
use serde_json::Value;

/// The kinds of jobs and their relative frequency. See `support/beasts.py`.
const KINDS: [(&str, u64); 11] = [
    ("quick", 30),
    ("sleeper", 10),
    ("daemons", 10),
    ("hidden", 8),
    ("setuid", 8),
    ("deaf", 5),
    ("giant", 4),
    ("traced", 6),
    ("chain", 2),
    ("bomb", 2),
    ("swarm", 1),
];

/// The ways in which processes are disturbed.
#[derive(Clone, Copy, Debug)]
enum Blow {
    KillSupervisor,
    KillKeeper,
    StopBoth,
    FreezeJob,
    KillJob,
    Recycle,
}

const BLOWS: [(Blow, u64); 6] = [
    (Blow::KillSupervisor, 20),
    (Blow::KillKeeper, 10),
    (Blow::StopBoth, 10),
    (Blow::FreezeJob, 30),
    (Blow::KillJob, 20),
    (Blow::Recycle, 10),
];

/// Concurrent clients, for four slots.
const CLIENTS: usize = 8;

/// Limits that protect the machine.
const LIMITS: [Limit; 3] =
    [("pids", "pids.max", "1500"), ("memory", "memory.limit_in_bytes", "6G"), ("cpu", "cpu.shares", "256")];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let length = args.first().map_or(Duration::from_secs(60), |text| duration(text));
    let known = |kind: &&(&str, u64)| args.len() < 2 || args[1..].iter().any(|arg| arg == kind.0);
    let kinds: Vec<(&'static str, u64)> = KINDS.iter().filter(known).copied().collect();
    assert!(!kinds.is_empty(), "the kinds are {KINDS:?}");
    let settings = [Setting::RootCgroup, Setting::Root];
    let mut sound = sandbox::is_root();
    if !sound {
        println!("a storm needs root: it freezes processes and limits itself by cgroups");
    }
    for setting in settings.into_iter().filter(|_| sandbox::is_root()) {
        sound &= Storm::new(setting, kinds.clone()).run(length / 2);
    }
    std::process::exit(i32::from(!sound));
}

fn duration(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => 0,
    };
    let number: u64 = number.parse().unwrap_or(0);
    assert!(number * seconds > 0, "'{text}' is no duration like 60s, 30m or 1h");
    Duration::from_secs(number * seconds)
}

/// A pool in a storm.
struct Storm {
    confines: Confines,
    sandbox: Sandbox,
    script: String,
    kinds: Vec<(&'static str, u64)>,
    random: AtomicU64,
    /// Counters by name.
    counts: Mutex<BTreeMap<String, u64>>,
    /// The faults found.
    faults: Mutex<Vec<String>>,
}

impl Storm {
    fn new(setting: Setting, kinds: Vec<(&'static str, u64)>) -> Storm {
        let sandbox = Sandbox::new(setting);
        let home = Path::new(env!("CARGO_MANIFEST_DIR"));
        fs::copy(home.join("benches/support/beasts.py"), sandbox.work("beasts.py")).expect("the beasts");
        fs::create_dir(sandbox.work("locks")).expect("a directory");
        let sleep = sandbox.work("sleep-as-nobody");
        fs::copy("/bin/sleep", &sleep).expect("a copy");
        std::os::unix::fs::chown(&sleep, Some(65534), Some(65534)).expect("chown");
        fs::set_permissions(&sleep, fs::Permissions::from_mode(0o4755)).expect("chmod");
        let script = sandbox.script(
            "beast",
            "#!/bin/sh\nexec 9>>locks/$TASKVISOR_JOB\nflock -n 9 || echo $TASKVISOR_JOB >>doubles\n\
             python3 beasts.py $1 || exit 1\necho done >&9\n",
        );
        let limits = "limits: {time: 15s, processes: 1200}, grace: 1s";
        let pools = format!("pools: [{{name: default, workers: 4, {limits}}}]\nlease: 12s\n");
        fs::write(sandbox.work("pools.yaml"), pools).expect("the settings");
        let random = AtomicU64::new(1);
        Storm {
            confines: Confines::new("storm", &LIMITS),
            sandbox,
            script,
            kinds,
            random,
            counts: Mutex::default(),
            faults: Mutex::default(),
        }
    }

    /// Whether there was no fault.
    fn run(self, length: Duration) -> bool {
        println!("-- {:?}: {} s", self.sandbox.setting, length.as_secs());
        let end = Instant::now() + length;
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let storm = &self;
                scope.spawn(move || storm.be_client(client, end));
            }
            // A process that executes one program after another is hard to inspect.
            let churn = Command::new("sh").args(["-c", "while :; do /bin/true; done"]).spawn();
            let running = self.strike(end);
            churn.and_then(|mut churn| churn.kill().and_then(|()| churn.wait())).expect("the churn ends");
            self.calm(running);
        });
        self.report()
    }

    /// Puts a job, perhaps cancels it, waits for its end, and verifies the end.
    fn be_client(&self, client: usize, end: Instant) {
        let mut number = 0;
        while Instant::now() < end {
            number += 1;
            let (jid, kind) = (format!("{client}-{number}"), self.pick(&self.kinds));
            let put = ["put", "--jid", &jid, "--exists", "skip", "--", &self.script, kind];
            wait_within(Duration::from_secs(300), "a job is put", || self.sandbox.run(&put).status.success());
            if kind == "chain" {
                thread::park_timeout(Duration::from_secs(4));
            }
            if matches!(kind, "deaf" | "traced" | "chain" | "bomb" | "swarm") && self.dice(3) > 0
                || self.dice(8) == 0
            {
                thread::park_timeout(Duration::from_millis(self.dice(2000)));
                let canceled = self.sandbox.run(&["job", "cancel", "--wait", &jid]).status.success();
                self.count(if canceled { "cancels told" } else { "cancels refused" });
            }
            self.see_its_end(&jid, kind);
        }
    }

    fn see_its_end(&self, jid: &str, kind: &str) {
        let mut state = String::new();
        wait_within(Duration::from_secs(600), &format!("job {jid} ({kind}) ends"), || {
            self.sandbox.run(&["job", "wait", jid, "--timeout", "20s"]);
            let job = self.sandbox.run(&["job", "show", jid, "--json"]);
            let job: Value = serde_json::from_slice(&job.stdout).unwrap_or_default();
            state = job["state"].as_str().unwrap_or_default().to_owned();
            if state == "held" {
                self.count("held for a person, and retried");
                self.sandbox.run(&["job", "retry", jid]);
            }
            matches!(state.as_str(), "complete" | "failed" | "canceled")
        });
        self.count(&format!("jobs {state}"));
        let lock = self.sandbox.work("locks").join(jid);
        let Ok(file) = File::options().append(true).open(&lock) else {
            return if state == "complete" {
                self.fault(format!("{jid} is complete and never ran"))
            };
        };
        if state == "complete" && fs::read(&lock).is_ok_and(|text| text.is_empty()) {
            self.fault(format!("{jid} ({kind}) is complete and never came to its end"));
        }
        if Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err() {
            let job = self.sandbox.job(jid);
            self.fault(format!("{jid} ({kind}) is {state}, and something of it lives: {job}"));
        }
    }

    /// Disturbs processes until the end, and restarts killed keepers.
    fn strike(&self, end: Instant) -> Running<'_> {
        let (mut running, begin) = (self.start(), Instant::now());
        while Instant::now() < end {
            thread::park_timeout(Duration::from_millis(500 + self.dice(3500)));
            let blow = self.pick(&BLOWS);
            self.count(&format!("blows: {blow:?}"));
            println!("{:>8.1} {blow:?}", begin.elapsed().as_secs_f64());
            self.deal(blow);
            if let Ok(Some(status)) = running.child.try_wait() {
                self.count(&format!("starts after {status}"));
                running = self.start();
            }
        }
        running
    }

    fn deal(&self, blow: Blow) {
        let own =
            |comm: &str| self.sandbox.processes().into_iter().filter(|seen| seen.comm == comm).collect();
        let supervisors: Vec<sandbox::Seen> = own("tv-supervisor");
        let keepers: Vec<sandbox::Seen> = own("taskvisor");
        let all = |seen: &[sandbox::Seen], signal: &str| seen.iter().for_each(|one| kill(one.pid, signal));
        match blow {
            Blow::KillSupervisor => all(&supervisors, "KILL"),
            Blow::KillKeeper => all(&keepers, "KILL"),
            Blow::StopBoth => {
                [&supervisors, &keepers].into_iter().for_each(|seen| all(seen, "STOP"));
                thread::park_timeout(Duration::from_millis(self.dice(8000)));
                [&supervisors, &keepers].into_iter().for_each(|seen| all(seen, "CONT"));
            }
            Blow::FreezeJob => {
                let frozen = self.some_process().and_then(Freezer::around);
                thread::park_timeout(Duration::from_millis(self.dice(6000)));
                drop(frozen);
            }
            Blow::KillJob => self.some_process().into_iter().for_each(|pid| kill(pid, "KILL")),
            Blow::Recycle => drop(self.sandbox.run(&["recycle"])),
        }
    }

    fn some_process(&self) -> Option<i32> {
        let found = self.sandbox.job_processes();
        let at = self.dice(found.len().max(1) as u64) as usize;
        found.get(at).map(|seen| seen.pid)
    }

    /// Starts the pool within the limits.
    fn start(&self) -> Running<'_> {
        self.confines.start(&self.sandbox, &["-c", "pools.yaml"])
    }

    /// After the storm: waits for all jobs, and stops the pool.
    fn calm<'a>(&'a self, mut running: Running<'a>) {
        let up = || self.sandbox.status()["health"].is_string();
        wait_within(Duration::from_secs(300), "it is up again", || {
            if running.child.try_wait().is_ok_and(|status| status.is_some()) {
                running = self.start();
            }
            up()
        });
        let ended = || {
            let list = self.sandbox.run(&["job", "list", "--state", "running", "--json"]);
            let waits = self.sandbox.run(&["job", "list", "--state", "waiting", "--json"]);
            [list, waits].iter().all(|list| list.status.success() && list.stdout.is_empty())
        };
        wait_within(Duration::from_secs(600), "all jobs have ended", ended);
        if !self.sandbox.run(&["stop"]).status.success() || !running.wait().success() {
            self.fault("the pool could not be stopped".to_owned());
        }
        self.sandbox.assert_nothing_left();
    }

    fn report(&self) -> bool {
        let doubles = fs::read_to_string(self.sandbox.work("doubles")).unwrap_or_default();
        doubles.lines().for_each(|jid| self.fault(format!("{jid} ran beside what was left of its last run")));
        for (name, count) in &*self.counts.lock().unwrap_or_else(PoisonError::into_inner) {
            println!("{count:>8} {name}");
        }
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        println!("{:>8} faults", faults.len());
        faults.iter().for_each(|fault| println!("         {fault}"));
        faults.is_empty()
    }

    fn count(&self, name: &str) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default() += 1;
    }

    fn fault(&self, fault: String) {
        println!("FAULT: {fault}\n{}", self.sandbox.stderr());
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
    }

    /// A random number below `sides`.
    fn dice(&self, sides: u64) -> u64 {
        let word = self.random.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ (word >> 31)) % sides.max(1)
    }

    fn pick<T: Copy>(&self, table: &[(T, u64)]) -> T {
        let mut rest = self.dice(table.iter().map(|(_, weight)| weight).sum());
        for (one, weight) in table {
            match rest.checked_sub(*weight) {
                Some(less) => rest = less,
                None => return *one,
            }
        }
        table[0].0
    }
}
