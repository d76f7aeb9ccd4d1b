//! The setting `when_cut_off`: jobs that run while their Redis does not answer, beyond the end of their leases.

use std::time::{Duration, Instant};

use crate::sandbox::{Running, Sandbox, Setting, alive, kill, stays, wait_until};
use crate::support::RedisServer;

/// The shortest lease that the grace allows.
const LEASE: Duration = Duration::from_secs(4);

/// A job that writes its pid and runs until the test lets it exit 0.
struct Cut<'a> {
    sandbox: &'a Sandbox,
    url: String,
    jid: String,
    pid: i32,
    _running: Running<'a>,
}

impl<'a> Cut<'a> {
    fn new(sandbox: &'a Sandbox, server: &RedisServer, when_cut_off: &str) -> Cut<'a> {
        let (file, url) = (sandbox.path("cut.yaml"), server.url());
        let pool = format!("pools: [{{workers: 2, grace: 100ms, when_cut_off: {when_cut_off}}}]\n");
        std::fs::write(&file, format!("lease: {}s\n{pool}", LEASE.as_secs())).unwrap();
        let running = sandbox.start(&["--config", file.to_str().unwrap(), "--broker", &url]);
        let (pid, end) = (sandbox.work("pid"), sandbox.work("end"));
        let line = format!(
            "echo $$ >{0}.new; mv {0}.new {0}; until [ -e {1} ]; do sleep 0.05; done",
            pid.display(),
            end.display()
        );
        let jid = sandbox.ok(&["--broker", &url, "put", "--", "sh", "-c", &line]).trim().to_owned();
        let said = || std::fs::read_to_string(&pid).ok().and_then(|text| text.trim().parse().ok());
        wait_until("the job runs", || said().is_some());
        Cut { pid: said().unwrap(), sandbox, url, jid, _running: running }
    }

    fn job(&self) -> serde_json::Value {
        self.sandbox.json(&["--broker", &self.url, "job", "show", &self.jid, "--json"])
    }

    fn end_well(&self) {
        std::fs::write(self.sandbox.work("end"), "").unwrap();
    }

    /// Waits until the lease is over, and as long again as the keeper would need to act.
    fn outlast_its_lease(&self) {
        stays(LEASE + LEASE / 2, "the job runs", || alive(self.pid));
    }
}

#[test]
fn job_is_killed_before_its_lease_ends_by_default() {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    let cut = Cut::new(&sandbox, &server, "kill");
    kill(server.pid() as i32, "STOP");
    let began = Instant::now();
    wait_until("it is killed", || !alive(cut.pid));
    assert!(began.elapsed() < LEASE);
    kill(server.pid() as i32, "CONT");
    // The job waits for the end of its lease and runs again.
    wait_until("it runs again", || cut.job()["history"][0].is_object() && cut.job()["state"] == "running");
    cut.end_well();
    wait_until("it is complete", || cut.job()["state"] == "complete");
}

#[test]
fn why_job_says_at_once_what_is_known_here_while_redis_is_away() {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    let cut = Cut::new(&sandbox, &server, "carry_on");
    kill(server.pid() as i32, "STOP");
    let began = Instant::now();
    let (said, none) = (sandbox.run(&["why", "job", &cut.jid]), sandbox.run(&["why", "job", "no-such"]));
    let took = began.elapsed();
    kill(server.pid() as i32, "CONT");
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(
        said.starts_with("It runs in slot default.") && said.contains("The broker is in trouble: "),
        "{said}"
    );
    let none = String::from_utf8(none.stdout).unwrap();
    assert!(none.starts_with("No slot here runs it"), "{none}");
    // Requests to the server itself are given up after 5 s each: had both waited for it, these were 10 s.
    assert!(took < Duration::from_secs(10), "{took:?}");
    cut.end_well();
}

#[test]
fn carry_on_job_keeps_its_lease_if_untaken_and_completes_in_its_first_attempt() {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    let cut = Cut::new(&sandbox, &server, "carry_on");
    kill(server.pid() as i32, "STOP");
    cut.outlast_its_lease();
    assert!(alive(cut.pid));
    kill(server.pid() as i32, "CONT");
    let renewals = || cut.job()["renewals"].as_u64().unwrap();
    wait_until("its lease is renewed", || renewals() > 1);
    assert!(alive(cut.pid));
    cut.end_well();
    wait_until("it is complete", || cut.job()["state"] == "complete");
    let job = cut.job();
    assert_eq!((&job["attempt"], &job["interruptions"]), (&1.into(), &0.into()), "{job}");
}

#[test]
fn carry_on_job_that_ends_while_redis_is_away_completes_when_it_is_back() {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    let cut = Cut::new(&sandbox, &server, "carry_on");
    kill(server.pid() as i32, "STOP");
    cut.outlast_its_lease();
    cut.end_well();
    wait_until("it has ended", || !alive(cut.pid));
    kill(server.pid() as i32, "CONT");
    wait_until("it is complete", || cut.job()["state"] == "complete");
    assert_eq!(cut.job()["attempt"], 1);
}

/// Whoever could not renew while the server stood still does so before anybody's lease is taken for over.
#[test]
fn redis_that_stood_still_for_longer_than_leases_and_their_grace_has_no_job_run_twice() {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    let cut = Cut::new(&sandbox, &server, "carry_on");
    sandbox.ok(&["--broker", &cut.url, "option", "set", "grace", "100ms"]);
    let (ended, runs) = (sandbox.work("ended"), sandbox.work("runs"));
    let line = format!("echo >>{}; until [ -e {} ]; do sleep 0.05; done", runs.display(), ended.display());
    let second = sandbox.ok(&["--broker", &cut.url, "put", "--", "sh", "-c", &line]).trim().to_owned();
    wait_until("both run", || runs.exists());
    let other = Sandbox::new(Setting::Root);
    let _waits = other.start(&["--broker", &cut.url, "-w", "2"]);
    kill(server.pid() as i32, "STOP");
    cut.outlast_its_lease();
    std::fs::write(&ended, "").unwrap();
    cut.outlast_its_lease();
    kill(server.pid() as i32, "CONT");
    let of = |jid: &str| sandbox.json(&["--broker", &cut.url, "job", "show", jid, "--json"]);
    wait_until("the one that has ended is complete", || of(&second)["state"] == "complete");
    wait_until("the other's lease is renewed", || cut.job()["renewals"].as_u64() > Some(1));
    assert!(alive(cut.pid));
    cut.end_well();
    wait_until("it is complete", || cut.job()["state"] == "complete");
    for job in [of(&second), cut.job()] {
        assert_eq!((&job["attempt"], &job["interruptions"]), (&1.into(), &0.into()), "{job}");
    }
    assert_eq!(std::fs::read_to_string(&runs).unwrap().lines().count(), 1);
}

#[test]
fn carry_on_job_is_killed_when_the_returned_redis_does_not_know_it() {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    let cut = Cut::new(&sandbox, &server, "carry_on");
    let port = server.port;
    drop(server);
    cut.outlast_its_lease();
    assert!(alive(cut.pid));
    let _empty = RedisServer::start_at(port, &[]).expect("the port is free again");
    wait_until("it is ended", || !alive(cut.pid));
}
