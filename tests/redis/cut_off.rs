//! A job that carries on while its Redis is away: what is said of it meanwhile, and a Redis that comes back without it.
//! That no outage repeats or doubles a job is in tests/outages.

use std::time::{Duration, Instant};

use crate::sandbox::{Running, Sandbox, Setting, alive, kill, stays, wait_until};
use crate::support::RedisServer;

/// The shortest lease that the grace allows.
const LEASE: Duration = Duration::from_secs(4);

/// A job that writes its pid and runs until the test lets it exit 0.
struct Cut<'a> {
    sandbox: &'a Sandbox,
    jid: String,
    pid: i32,
    _running: Running<'a>,
}

impl<'a> Cut<'a> {
    fn new(sandbox: &'a Sandbox, server: &RedisServer) -> Cut<'a> {
        let (file, url) = (sandbox.path("cut.yaml"), server.url());
        let pool = "pools: [{workers: 2, grace: 100ms, when_cut_off: carry_on}]";
        std::fs::write(&file, format!("lease: {}s\n{pool}\n", LEASE.as_secs())).unwrap();
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
        Cut { pid: said().unwrap(), sandbox, jid, _running: running }
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
fn why_job_says_at_once_what_is_known_here_while_redis_is_away() {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    let cut = Cut::new(&sandbox, &server);
    kill(server.pid() as i32, "STOP");
    let began = Instant::now();
    let (said, none) = (sandbox.run(&["why", "job", &cut.jid]), sandbox.run(&["why", "job", "no-such"]));
    let took = began.elapsed();
    let short = sandbox.run(&["why", "job", &cut.jid[..12]]);
    kill(server.pid() as i32, "CONT");
    let short = String::from_utf8(short.stdout).unwrap();
    assert!(short.starts_with("It runs in slot default."), "{short}");
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

/// What makes the server answer with an error, a part of that, and what mends it.
const REFUSALS: [(&str, &str, &str); 3] = [
    ("ACL SETUSER default -evalsha", "NOPERM", "ACL SETUSER default +evalsha"),
    ("CONFIG SET replica-serve-stale-data no, REPLICAOF 127.0.0.1 1", "MASTERDOWN", "REPLICAOF NO ONE"),
    ("CONFIG SET requirepass x, CLIENT KILL TYPE normal", "NOAUTH", ""),
];

#[test]
fn why_job_and_job_show_say_what_is_known_here_while_redis_answers_with_an_error() {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    let cut = Cut::new(&sandbox, &server);
    let mut redis = server.connect();
    for (spoils, error, mends) in REFUSALS {
        let mut ask = |lines: &str| {
            for line in lines.split(", ").filter(|line| !line.is_empty()) {
                let words: Vec<&str> = line.split(' ').collect();
                redis::cmd(words[0]).arg(&words[1..]).exec(&mut redis).expect(line);
            }
        };
        ask(spoils);
        let (whole, short) = (cut.jid.as_str(), &cut.jid[..12]);
        for command in [["why", "job", whole], ["job", "show", whole], ["why", "job", short]] {
            // The trouble that is known may still be that of the refusal before.
            wait_until(&format!("{command:?} says {error}"), || {
                let said = sandbox.run(&command);
                let told = String::from_utf8(said.stdout).unwrap();
                told.starts_with("It runs in slot default.")
                    && told.contains("The broker is in trouble: ")
                    && told.contains(error)
            });
        }
        ask(mends);
    }
    cut.end_well();
}

#[test]
fn carry_on_job_is_killed_when_the_returned_redis_does_not_know_it() {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    let cut = Cut::new(&sandbox, &server);
    let port = server.port;
    drop(server);
    cut.outlast_its_lease();
    assert!(alive(cut.pid));
    let _empty = RedisServer::start_at(port, &[]).expect("the port is free again");
    wait_until("it is ended", || !alive(cut.pid));
}
