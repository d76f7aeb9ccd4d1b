//! Recurring jobs in a Redis, the real binary: from a host without a supervisor; while supervisors and connections die.

use qless::script::SCRIPT;
use serde_json::{Value, json};

use crate::sandbox::{Running, Sandbox, Setting, wait_until};
use crate::support::{RedisServer, Scripted};

/// A host with its own state directory on a shared Redis.
struct Host {
    sandbox: Sandbox,
    url: String,
}

impl Host {
    fn of(server: &RedisServer) -> Host {
        Host { sandbox: Sandbox::new(Setting::Plain), url: server.url() }
    }

    fn ok(&self, args: &[&str]) -> String {
        self.sandbox.ok(&[&["-b", &self.url], args].concat())
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(args)).expect("JSON")
    }

    /// The error of a verb that is refused.
    fn refused(&self, args: &[&str]) -> String {
        self.sandbox.refused(&[&["-b", &self.url], args].concat()).1
    }

    fn start(&self) -> Running<'_> {
        self.sandbox.start(&["-b", &self.url, "-w", "1"])
    }

    /// The jobs of `tick`, oldest first; none if they cannot be listed.
    fn ticks(&self) -> Vec<Value> {
        let list = ["-b", &self.url, "job", "list", "--json", "-n", "1000", "--recurring", "tick"];
        let list = String::from_utf8(self.sandbox.run(&list).stdout).expect("text");
        let mut jobs: Vec<Value> =
            list.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        jobs.reverse();
        jobs
    }

    fn wait_for(&self, count: usize) {
        wait_until(&format!("there are {count} jobs"), || self.ticks().len() >= count);
    }
}

const TICK: [&str; 10] =
    ["recur", "put", "tick", "--every", "1s", "--overlap", "allow", "--json", "--", "true"];

/// Asserts that the jobs are numbered without a gap and that each has another time of the schedule.
fn assert_each_once(jobs: &[Value], first: &Value) {
    let ids: Vec<&str> = jobs.iter().map(|job| job["id"].as_str().expect("an id")).collect();
    assert_eq!(ids, (1..=jobs.len()).map(|n| format!("tick-{n}")).collect::<Vec<_>>());
    let first = first["next_at_ms"].as_i64().expect("a time");
    let times: Vec<i64> = jobs.iter().map(|job| job["put_at_ms"].as_i64().expect("a time")).collect();
    assert!(times.iter().all(|at| (at - first) % 1000 == 0), "{first}: {times:?}");
    assert!(times.is_sorted_by(|one, other| one < other), "{times:?}");
}

#[test]
fn recur_verbs_work_from_a_host_without_a_supervisor() {
    let server = RedisServer::start();
    let (one, other) = (Host::of(&server), Host::of(&server));
    let yearly = ["recur", "put", "n", "--cron", "0 0 1 jan *", "--tz", "Europe/Vienna", "--json"];
    let put = one.json(&[&yearly[..], &["--priority", "-3", "mail", "Report", "[1]"]].concat());
    assert_eq!((put["next_at_ms"].as_i64().expect("a time") + 3_600_000) % 86_400_000, 0);
    assert_eq!(other.json(&["recur", "show", "n", "--json"]), put);
    assert_eq!(other.ok(&["recur", "run", "n"]), "n-1\n");
    let job = one.json(&["job", "show", "n-1", "--json"]);
    assert_eq!(
        (&job["recurring"], &job["priority"], &job["class"]),
        (&json!("n"), &json!(-3), &json!("Report"))
    );
    assert!(job["put_by"].as_str().is_some_and(|by| by.ends_with(", recurring n")), "{job}");
    assert_eq!(other.ok(&["recur", "pause", "n"]), "n paused\n");
    assert!(one.ok(&["recur", "list"]).lines().any(|line| line.starts_with("n ") && line.contains("paused")));
    assert_eq!(one.ok(&["recur", "resume", "n"]), "n resumed\n");
    let why = other.refused(&["queue", "forget", "--discard", "mail"]);
    assert!(why.contains("it has jobs (1 waiting)"), "{why}");
    other.ok(&["job", "cancel", "n-1"]);
    let why = other.refused(&["queue", "forget", "--discard", "mail"]);
    assert!(why.contains("recurring jobs are put into it: n"), "{why}");
    assert_eq!(other.ok(&["recur", "remove", "n"]), "n removed\n");
    for verb in ["show", "run", "pause", "resume", "remove"] {
        assert_eq!(one.refused(&["recur", verb, "n"]), "error: no recurring job is called 'n'\n");
    }
    assert_eq!(one.ok(&["recur", "list"]), "");
    let why = one.refused(&["recur", "put", "n", "--cron", "@daily", "--tz", "Vienna", "--", "true"]);
    assert!(why.contains("did you mean Europe/Vienna?"), "{why}");
}

#[test]
fn each_occurrence_fires_once_whichever_host_dies() {
    let server = RedisServer::start();
    let hosts = [Host::of(&server), Host::of(&server)];
    let first = hosts[0].json(&TICK);
    assert_eq!(hosts[1].ticks().len(), 0, "nobody runs");
    let mut running = [hosts[0].start(), hosts[1].start()];
    for round in 0..4 {
        hosts[0].wait_for(2 * (round + 1));
        let dies = &mut running[round % 2];
        dies.signal("KILL");
        dies.wait();
        hosts[0].wait_for(2 * (round + 1) + 1);
        running[round % 2] = hosts[round % 2].start();
    }
    hosts[1].ok(&["recur", "remove", "tick"]);
    let jobs = hosts[0].ticks();
    assert_each_once(&jobs, &first);
    wait_until("all are complete", || hosts[0].ticks().iter().all(|job| job["state"] == "complete"));
    for mut running in running {
        running.signal("TERM");
        assert!(running.wait().success());
    }
}

#[test]
fn recurring_job_survives_disconnects_but_not_the_loss_of_the_server() {
    let mut server = RedisServer::start();
    let (port, host) = (server.port, Host::of(&server));
    let _running = host.start();
    let first = host.json(&TICK);
    for round in 1..=3 {
        host.wait_for(round);
        let mut shell = Scripted::new(&server, SCRIPT);
        for kind in ["pubsub", "normal"] {
            let _: i64 = shell.raw(&format!("CLIENT KILL TYPE {kind} SKIPME yes"));
        }
    }
    host.wait_for(5);
    assert_each_once(&host.ticks(), &first);
    // A server that comes back empty has no recurring jobs until they are put again.
    drop(server);
    server = RedisServer::start_at(port, &[]).expect("the port is free again");
    wait_until("it is reached again", || {
        host.refused(&["recur", "show", "tick"]).contains("no recurring job")
    });
    let first = host.json(&TICK);
    host.wait_for(2);
    assert_each_once(&host.ticks(), &first);
    drop(server);
}

#[test]
fn recurring_names_are_unique_except_for_foreign_scripts_and_remove_drops_both() {
    let server = RedisServer::start();
    let host = Host::of(&server);
    let mut shell = Scripted::new(&server, SCRIPT);
    host.ok(&["recur", "put", "rep", "--cron", "0 3 * * *", "--", "true"]);
    let refusal = shell.refusal(&["recur", "5", "q", "rep", "Foo", "{}", "interval", "3", "0"]);
    assert!(refusal.contains("a recurring job of taskvisor is called \"rep\""), "{refusal}");
    assert_eq!(host.ok(&["recur", "list", "--json"]).lines().count(), 1);
    // As the script of qless writes it.
    let _: i64 = shell.raw("HSET ql:r:rep jid rep klass Foo data {} queue q interval 3 count 0");
    let _: i64 = shell.raw("ZADD ql:q:q-recur 9999999999 rep");
    let _: i64 = shell.raw("ZADD ql:queues 5 q");
    assert_eq!(host.ok(&["recur", "list", "--json"]).lines().count(), 2);
    host.ok(&["recur", "remove", "rep"]);
    assert!(host.refused(&["recur", "show", "rep"]).contains("no recurring job"));
    assert_eq!(shell.raw::<i64>("EXISTS ql:r:rep ql:q:q-recur"), 0);
    shell.line::<String>("recur 5 q rep Foo {} interval 3 0");
}
