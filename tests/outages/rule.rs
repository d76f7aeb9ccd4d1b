//! The rule that holds in every outage, and the story that shows it.

use std::fs;
use std::time::{Duration, Instant};

use crate::outage::Outage;
use crate::sandbox::{Running, Sandbox, Setting, alive, is_up, kill, stays, wait_until, wait_within};
use crate::servers::{Broker, Server};
use crate::states::{State, Told};

/// The shortest lease that the grace allows.
const LEASE: Duration = Duration::from_secs(6);
/// From the beginning of an outage to its end.
const LASTS: Duration = Duration::from_secs(9);
/// Longest wait for a rerun: leases must expire first, and a Redis that came back is given time to settle.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asserts the rule for jobs that must end before their leases and for those that carry on, beside each other.
pub fn holds(broker: Broker, outage: Outage) {
    std::thread::scope(|scope| {
        for when_cut_off in ["kill", "carry_on"] {
            scope.spawn(move || Story::tell(broker, outage, when_cut_off));
        }
    });
}

/// A job in each state, and an outage.
struct Story<'a> {
    sandbox: &'a Sandbox,
    when_cut_off: &'static str,
    outage: Outage,
    server: Server,
    jobs: Vec<Told<'a>>,
}

impl<'a> Story<'a> {
    fn tell(broker: Broker, outage: Outage, when_cut_off: &'static str) {
        let (sandbox, other) = (Sandbox::new(Setting::Root), Sandbox::new(Setting::Root));
        let server = Server::start(broker, &sandbox);
        let mut story = Story { sandbox: &sandbox, when_cut_off, outage, server, jobs: Vec::new() };
        let _running = story.start(&sandbox);
        story.jobs = Told::put_all(&story.server, &sandbox);
        let has_witness = outage.is_for_all() && broker.is_shared();
        let _witness = has_witness.then(|| story.start(&other));
        story.pass(&other);
        story.assert_rule();
    }

    fn start<'b>(&self, sandbox: &'b Sandbox) -> Running<'b> {
        let file = sandbox.path("outage.yaml");
        let settings = format!(
            "lease: {}s\nbroker: '{}'\npools:\n- {{workers: 4, grace: 500ms, when_cut_off: {}{}}}\n",
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
            sandbox.ok(&["option", "set", "grace", "500ms"]);
        }
        running
    }

    fn job(&self, state: State) -> &Told<'a> {
        self.jobs.iter().find(|job| job.state == state).unwrap()
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
    fn pass(&mut self, other: &Sandbox) {
        let pid_of = |state| self.job(state).runs()[0];
        let (runs, canceled) = (pid_of(State::Runs), pid_of(State::Canceled));
        let still = self.still(other);
        self.sandbox.ok(&["job", "cancel", &self.job(State::Canceled).id]);
        let began = Instant::now();
        self.server.begin(self.outage);
        still.iter().for_each(|pid| kill(*pid, "STOP"));
        if !self.outage.stops_jobs() {
            self.job(State::Ends).go();
            wait_until("one has ended", || self.job(State::Ends).has_ended());
        }
        if self.is_cut_off() {
            wait_until("those that run are ended before their leases", || !alive(runs) && !alive(canceled));
            assert!(began.elapsed() < LEASE + Duration::from_millis(500), "{:?}", began.elapsed());
            // What SQS does not hide any more it gives to whoever asks, as soon as the last renewal is over.
            let may_run = || self.outage == Outage::Unhidden && began.elapsed() >= LEASE / 2;
            let is_over = || match self.job(State::Runs).runs().as_slice() {
                [one] => *one == runs,
                [one, _] | [one, _, _] => *one == runs && may_run(),
                _ => false,
            };
            stays(LASTS.saturating_sub(began.elapsed()), "it does not run again", is_over);
        } else {
            stays(LASTS.saturating_sub(began.elapsed()), "one runs on", || alive(runs));
        }
        self.server.end(self.outage);
        still.iter().for_each(|pid| kill(*pid, "CONT"));
    }

    /// Whether a job that runs on is ended.
    fn is_cut_off(&self) -> bool {
        self.outage.cuts_off() && self.when_cut_off == "kill"
    }

    fn assert_rule(&self) {
        if self.outage.stops_jobs() {
            self.job(State::Ends).go();
            wait_until("the log says so", || {
                self.sandbox.stderr().contains("this process did not run for up to")
            });
        }
        self.job(State::Ends).assert_end("complete", 1);
        // RQ has no other word for a job that was told to end.
        let canceled = if self.server.broker == Broker::rq { "failed" } else { "canceled" };
        self.job(State::Canceled).assert_end(canceled, 1);
        self.job(State::Retries).assert_end("complete", 2);
        let (runs, count) = (self.job(State::Runs), if self.is_cut_off() { 2 } else { 1 });
        wait_within(PATIENCE, "one runs again if it was ended", || runs.runs().len() >= count);
        // Where nothing is hidden, its second life may be cut off as well before the outage is over.
        let most = if self.outage == Outage::Unhidden && count == 2 { 3 } else { count };
        let is_right = |ran: usize| (count..=most).contains(&ran);
        assert!(is_right(runs.runs().len()), "{} {}", self.when_cut_off, runs.said());
        if count == 1 {
            let pid = runs.runs()[0];
            stays(LEASE, "nobody ends it for what is over", || alive(pid) && runs.runs() == [pid]);
        }
        runs.go();
        wait_within(PATIENCE, "it ends", || runs.has_ended());
        let ran = runs.runs().len();
        assert!(is_right(ran), "{} {}", self.when_cut_off, runs.said());
        runs.assert_end("complete", ran);
        self.jobs
            .iter()
            .filter(|job| job.state.needs().is_some())
            .for_each(|job| job.assert_end("complete", 1));
        self.assert_well();
    }

    fn assert_well(&self) {
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
}
