//! The rule that holds in every outage, and the story that shows it.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::outage::Outage;
use crate::sandbox::{Running, Sandbox, Setting, alive, is_up, kill, stays, wait_until, wait_within};
use crate::servers::{Broker, Server};

/// The shortest lease that the grace allows.
const LEASE: Duration = Duration::from_secs(6);
/// From the beginning of an outage to its end.
const LASTS: Duration = Duration::from_secs(9);
/// Longest wait for a rerun: leases must expire first, and a Redis that came back is given time to settle.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asserts the rule for jobs that must end before their leases and for those that carry on, beside each other.
pub fn holds(broker: Broker, outage: Outage) {
    std::thread::scope(|scope| {
        for when_cut_off in ["kill", "carry_on"] {
            scope.spawn(move || Story::tell(broker, outage, when_cut_off));
        }
    });
}

/// Two jobs in an outage: one ends in it, the other runs on.
struct Story<'a> {
    sandbox: &'a Sandbox,
    when_cut_off: &'static str,
    outage: Outage,
    server: Server,
}

/// A job that says when it begins and ends, and when it runs beside itself.
struct Told<'a> {
    sandbox: &'a Sandbox,
    name: &'static str,
    id: String,
}

impl Told<'_> {
    fn said(&self) -> String {
        fs::read_to_string(self.sandbox.work(self.name)).unwrap_or_default()
    }

    /// The pids of its runs.
    fn runs(&self) -> Vec<i32> {
        self.said().lines().filter_map(|line| line.strip_prefix("begun ")?.parse().ok()).collect()
    }

    fn go(&self) {
        fs::write(self.sandbox.work(&format!("{}.go", self.name)), "").unwrap();
    }

    fn has_ended(&self) -> bool {
        self.said().lines().any(|line| line == "ended")
    }
}

impl<'a> Story<'a> {
    fn tell(broker: Broker, outage: Outage, when_cut_off: &'static str) {
        let (sandbox, other) = (Sandbox::new(Setting::Root), Sandbox::new(Setting::Root));
        let server = Server::start(broker, &sandbox);
        let mut story = Story { sandbox: &sandbox, when_cut_off, outage, server };
        let _running = story.start(&sandbox);
        let (ends, runs) = (story.put("ends"), story.put("runs"));
        let has_witness = outage.is_for_all() && broker.is_shared();
        let _witness = has_witness.then(|| story.start(&other));
        story.pass(&ends, &runs, &other);
        story.assert_rule(&ends, &runs);
    }

    fn start<'b>(&self, sandbox: &'b Sandbox) -> Running<'b> {
        let file = sandbox.path("outage.yaml");
        let settings = format!(
            "lease: {}s\nbroker: '{}'\npools:\n- {{workers: 2, grace: 100ms, when_cut_off: {}{}}}\n",
            LEASE.as_secs(),
            self.server.url(),
            self.when_cut_off,
            self.server.pool()
        );
        fs::write(&file, settings).unwrap();
        let running = sandbox.start_with(&["--config", file.to_str().unwrap()], |command| {
            command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        });
        wait_until("all slots are up", || is_up(&sandbox.status()));
        if matches!(self.server.broker, Broker::embedded | Broker::qless) {
            sandbox.ok(&["option", "set", "grace", "100ms"]);
        }
        running
    }

    /// Puts a job, and waits until it runs.
    fn put(&self, name: &'static str) -> Told<'a> {
        let path = self.sandbox.work(name);
        let path = path.display();
        let script = format!(
            "exec 9>>{path}.lock; flock -n 9 || echo twice >>{path}; echo begun $$ >>{path}; \
             until [ -e {path}.go ]; do sleep 0.02; done; echo ended >>{path}"
        );
        let id = self.server.put(self.sandbox, &script);
        let told = Told { sandbox: self.sandbox, name, id };
        wait_until("the job runs", || told.runs().len() == 1);
        told
    }

    /// The processes that stand still in the outage.
    fn still(&self, other: &Sandbox) -> Vec<i32> {
        match self.outage {
            Outage::SupervisorStopped => vec![self.sandbox.one("tv-supervisor")],
            Outage::HostStill | Outage::AllStill => {
                [self.sandbox, other].iter().flat_map(|one| one.processes()).map(|seen| seen.pid).collect()
            }
            Outage::StoreLocked
            | Outage::ServerStill
            | Outage::ServerKilled
            | Outage::ReadOnly
            | Outage::Full
            | Outage::NetworkLost
            | Outage::Unanswered
            | Outage::Unhidden
            | Outage::Gone
            | Outage::Denied => Vec::new(),
        }
    }

    /// Goes through the outage.
    fn pass(&mut self, ends: &Told<'_>, runs: &Told<'_>, other: &Sandbox) {
        let (began, pid) = (Instant::now(), runs.runs()[0]);
        let still = self.still(other);
        self.server.begin(self.outage);
        still.iter().for_each(|pid| kill(*pid, "STOP"));
        if !self.outage.stops_jobs() {
            ends.go();
            wait_until("one has ended", || ends.has_ended());
        }
        if self.outage.cuts_off() && self.when_cut_off == "kill" {
            wait_until("the other is ended before its lease", || !alive(pid));
            assert!(began.elapsed() < LEASE + Duration::from_millis(500), "{:?}", began.elapsed());
            stays(LASTS.saturating_sub(began.elapsed()), "it does not run again", || runs.runs() == [pid]);
        } else {
            stays(LASTS.saturating_sub(began.elapsed()), "the other runs", || alive(pid));
        }
        self.server.end(self.outage);
        still.iter().for_each(|pid| kill(*pid, "CONT"));
    }

    fn assert_rule(&self, ends: &Told<'_>, runs: &Told<'_>) {
        if self.outage.stops_jobs() {
            ends.go();
            wait_until("the log says so", || {
                self.sandbox.stderr().contains("this process did not run for up to")
            });
        }
        self.assert_complete(ends, 1);
        let count = if self.outage.cuts_off() && self.when_cut_off == "kill" { 2 } else { 1 };
        wait_within(PATIENCE, "the other runs, once more if it was ended", || runs.runs().len() == count);
        if count == 1 {
            let pid = runs.runs()[0];
            stays(LEASE, "nobody ends it for what is over", || alive(pid) && runs.runs() == [pid]);
        }
        runs.go();
        self.assert_complete(runs, count);
        let began = Instant::now();
        wait_until("nothing is left", || self.server.left().is_empty());
        let mut reasons = String::new();
        let is_well =
            (0..).map_while(|_| (began.elapsed() < PATIENCE).then(|| self.sandbox.status())).any(|status| {
                reasons = crate::sandbox::reasons(&status);
                status["health"] == "healthy"
            });
        assert!(is_well, "{reasons}");
    }

    /// Asserts that the job is complete after `runs` runs, no two at a time, and that only the last one counts.
    fn assert_complete(&self, told: &Told<'_>, runs: usize) {
        let job = || -> Value {
            let output = self.sandbox.run(&["job", "show", &told.id, "--json"]);
            serde_json::from_slice(&output.stdout).unwrap_or_default()
        };
        wait_within(PATIENCE, "a job is complete", || job()["state"] == "complete");
        let (job, said) = (job(), told.said());
        // A ledger does not know of attempts at other hosts.
        let attempt = job["attempt"].as_u64().unwrap();
        assert!(attempt <= 1 && job["interruptions"] == 0, "{}: {job}", told.name);
        assert!(!said.contains("twice"), "{}: {said}", told.name);
        assert_eq!((told.runs().len(), said.matches("ended").count()), (runs, 1), "{}: {said}", told.name);
    }
}
