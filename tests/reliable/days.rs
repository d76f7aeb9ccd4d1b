//! Faults: no job is lost, and none runs at two places at a time.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::http::get;
use crate::proxy::{Loss, Proxy};
use crate::python;
use crate::sandbox::{Sandbox, Setting, alive, is_up, kill, wait_until, wait_within};
use crate::scene::{Scene, ids, start};
use crate::support::RedisServer;

/// A job long enough to run while the fault happens.
const SLOW: &str = "sleep 0.2";

impl Scene {
    fn pids(&self) -> Vec<i32> {
        self.said("pids").lines().map(|line| line.parse().unwrap()).collect()
    }

    /// A job that hangs in its first run and ends at once in later ones.
    fn stuck_once(&self, id: &str) {
        self.shell(id, "echo $$ >>pids; [ $(wc -l <pids) -gt 1 ] || exec sleep 600");
    }
}

#[test]
fn next_supervisor_reruns_the_jobs_of_a_killed_one_at_once() {
    let scene = Scene::new();
    scene.stuck_once("j");
    let _running = scene.start(&["-w", "1"]);
    wait_until("it runs", || scene.pids().len() == 1);
    kill(scene.sandbox.one("tv-supervisor"), "KILL");
    // Far less than the lease of 60 s.
    wait_within(Duration::from_secs(20), "it runs again", || scene.pids().len() == 2);
    wait_until("the ledger knows it", || python::counts(&scene.sandbox.job("j"))[2] == 1);
    scene.assert_done(&["j".into()]);
}

#[test]
fn end_that_the_server_refuses_to_take_is_told_until_it_is_taken() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    scene.shell("j", "touch begun; while [ ! -e go ]; do sleep 0.02; done");
    wait_until("it runs", || scene.sandbox.work("begun").exists());
    scene.raw::<()>(&["SET", "results", "x"]);
    fs::write(scene.sandbox.work("go"), "").unwrap();
    let why = "the key 'results' there is a string of another program";
    wait_until("status says so", || scene.sandbox.reasons().contains(why));
    let ready = get(&scene.sandbox, "/readyz");
    assert!(ready.contains("not ready: broker: cannot ") && ready.contains(why), "{ready}");
    let says = "taskvisor_failing_seconds{what=\"failed to settle\"} ";
    wait_until("the metrics say so", || get(&scene.sandbox, "/metrics").contains(says));
    scene.raw::<()>(&["DEL", "results"]);
    scene.sandbox.wait_healthy();
    scene.assert_done(&["j".into()]);
}

#[test]
fn removed_ledger_is_said_to_be_one_and_jobs_go_on() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    fs::remove_file(scene.sandbox.path("state").join("ledger.db")).unwrap();
    wait_until("status says so", || scene.sandbox.reasons().contains("the history of jobs is not kept: "));
    assert!(scene.sandbox.reasons().contains("ledger.db"), "{}", scene.sandbox.reasons());
    assert_eq!(get(&scene.sandbox, "/readyz").split(':').next(), Some("{\"degraded\""));
    scene.shell("j", "true");
    scene.assert_done(&["j".into()]);
    let log = scene.sandbox.stderr();
    assert!(log.contains("the history of jobs is not kept until the ledger is repaired"), "{log}");
    assert!(!log.contains("no job can be put"), "{log}");
}

#[test]
fn job_of_a_lost_host_is_taken_over_when_its_lease_ends() {
    let scene = Scene::new();
    scene.stuck_once("j");
    let other = Sandbox::new(Setting::Root);
    let mut first = start(&other, &scene.url, &["-w", "1", "--lease", "6s", "--grace", "1s"]);
    wait_until("it runs", || scene.pids().len() == 1);
    let _running = scene.start(&["-w", "1"]);
    first.signal("KILL");
    first.wait();
    wait_until("its processes are dead", || !alive(scene.pids()[0]));
    wait_within(Duration::from_secs(20), "it runs here", || scene.pids().len() == 2);
    scene.assert_done(&["j".into()]);
    drop(first);
    drop(other);
}

#[test]
fn job_that_ended_elsewhere_is_known_here_by_its_broker() {
    let scene = Scene::new();
    for id in ["dead", "done"] {
        scene.shell(id, "exit 1");
    }
    let file = scene.sandbox.path("later.yaml");
    fs::write(&file, "pools: [{workers: 2, retries: 9, retry_delay: 1h, retry_cap: 1h}]\n").unwrap();
    let _running = scene.start(&["--config", file.to_str().unwrap()]);
    let are = |state: &str| ["dead", "done"].map(|id| scene.sandbox.state(id)).iter().all(|is| is == state);
    wait_until("both are to be tried again", || scene.jobs(&[]).len() == 2 && are("delayed"));
    // As the script ends them for another host.
    scene.raw::<i64>(&["ZREM", "working", "dead", "done"]);
    scene.raw::<i64>(&["ZREM", "taskvisor:until", "dead", "done"]);
    scene.raw::<i64>(&["HDEL", "taskvisor:jobs", "dead", "done"]);
    let letter = r#"7 {"error":"interrupted: whoever ran it died, 5 times"}"#;
    scene.raw::<i64>(&["HSET", "taskvisor:dead", "dead", letter]);
    scene.raw::<i64>(&["HSET", "results", "done", "42"]);
    let dead = scene.sandbox.job("dead");
    assert_eq!(
        (&dead["state"], &dead["failure"]["group"]),
        (&"failed".into(), &"interrupted".into()),
        "{dead}"
    );
    assert!(dead["failure"]["message"].as_str().unwrap().contains("whoever ran it died, 5 times"), "{dead}");
    // Nobody asks about the other one.
    wait_until("the list knows it", || scene.jobs(&["--state", "complete"]).len() == 1);
    assert_eq!(scene.sandbox.job("done")["result"], 42);
    assert!(scene.jobs(&["--state", "delayed"]).is_empty());
}

#[test]
fn killed_worker_releases_its_job() {
    let scene = Scene::new();
    scene.stuck_once("j");
    let _running = scene.start(&["-w", "1", "--retries", "3"]);
    wait_until("it runs", || scene.pids().len() == 1);
    kill(scene.pids()[0], "KILL");
    wait_within(Duration::from_secs(20), "it runs again", || scene.pids().len() == 2);
    scene.assert_done(&["j".into()]);
}

#[test]
fn supervisor_death_at_any_failpoint_loses_no_job_and_repeats_no_ended_one() {
    for point in failpoint::ALL.into_iter().filter(|point| point.starts_with("supervisor")) {
        let scene = Scene::new();
        let points = scene.sandbox.work("points");
        fs::create_dir(&points).unwrap();
        let args = ["--broker", &scene.url, "-w", "1", "--grace", "500ms"];
        let _running = scene.sandbox.start_with(&args, |command| {
            command.env("TASKVISOR_FAILPOINTS", &points);
        });
        wait_until("all slots are up", || crate::sandbox::is_up(&scene.sandbox.status()));
        fs::write(points.join(point), "").unwrap();
        scene.shell("j", "echo ran >>out");
        wait_until("it has died there", || !points.join(point).exists());
        scene.assert_done(&["j".into()]);
        wait_until("the ledger knows it", || scene.jobs(&["--state", "complete"]).len() == 1);
        let has_ended = point.contains("8-") || point.contains("9-");
        assert!(!has_ended || scene.said("out") == "ran\n", "{point}: {}", scene.said("out"));
        assert!((1..=2).contains(&scene.said("out").lines().count()), "{point}");
    }
}

#[test]
fn two_supervisors_lose_no_job_while_one_is_killed_repeatedly() {
    let scene = Scene::new();
    let other = Sandbox::new(Setting::Root);
    let all = ids(60);
    all.iter().for_each(|id| scene.shell(id, &format!("echo {id} >>out; {SLOW}")));
    let _here = scene.start(&["-w", "3", "--grace", "1s"]);
    let _there = start(&other, &scene.url, &["-w", "3", "--grace", "1s"]);
    for count in [15, 30, 45] {
        wait_until("some are done", || scene.results().len() >= count);
        kill(other.one("tv-supervisor"), "KILL");
    }
    scene.assert_done(&all);
    wait_until("it is up again", || is_up(&other.status()));
    let there = other.lines(&["job", "list", "--json", "--state", "complete"]).len();
    assert!(there > 0 && there < all.len(), "{there} of {} ran there", all.len());
}

/// A server on this port that keeps its data in the directory.
fn durable(dir: &tempfile::TempDir, port: u16) -> Option<RedisServer> {
    let dir = dir.path().to_str().unwrap();
    RedisServer::start_at(port, &["--dir", dir, "--appendonly", "yes", "--appendfsync", "always"])
}

#[test]
fn restarted_server_loses_no_job() {
    let dir = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut scene = Scene::on(durable(&dir, port).expect("a server"));
    let (sandbox, url) = (Sandbox::new(Setting::Root), scene.url.clone());
    let all = ids(30);
    all.iter().for_each(|id| scene.shell(id, &format!("echo {id} >>out; {SLOW}")));
    let _running = start(&sandbox, &url, &["-w", "3"]);
    for count in [5, 15] {
        wait_until("some are done", || scene.results().len() >= count);
        kill(scene.server.pid() as i32, "KILL");
        let mut again = None;
        wait_until("the server is there again", || {
            again = durable(&dir, port);
            again.is_some()
        });
        scene.connect_again(again.unwrap());
    }
    scene.assert_done(&all);
    wait_until("all is well", || sandbox.status()["health"] == "healthy");
}

#[test]
fn server_that_stops_answering_for_a_while_loses_no_job() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "3", "--lease", "20s"]);
    let all = ids(20);
    all.iter().for_each(|id| scene.shell(id, &format!("echo {id} >>out; {SLOW}")));
    wait_until("some are done", || scene.results().len() >= 5);
    let pid = scene.server.pid() as i32;
    kill(pid, "STOP");
    wait_until("status reports it", || scene.sandbox.reasons().contains("does not answer"));
    kill(pid, "CONT");
    scene.assert_done(&all);
    scene.sandbox.wait_healthy();
}

#[test]
fn full_server_refuses_new_jobs_and_lets_existing_ones_complete() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "2"]);
    let all = ids(10);
    all.iter().for_each(|id| scene.shell(id, "until [ -e go ]; do sleep 0.05; done"));
    wait_until("two run", || scene.working().len() >= 2);
    scene.raw::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let (_, said) = scene.sandbox.refused(&["put", "--", "/bin/true"]);
    assert!(said.contains("maxmemory"), "{said}");
    fs::write(scene.sandbox.work("go"), "").unwrap();
    scene.assert_done(&all);
    scene.raw::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    scene.sandbox.ok(&["put", "--", "/bin/true"]);
    scene.sandbox.wait_healthy();
}

#[test]
fn supervisor_reports_keys_of_a_wrong_type_and_takes_no_job_meanwhile() {
    for key in ["working", "results", "values", "taskvisor:jobs"] {
        let scene = Scene::new();
        let _running = scene.start(&["-w", "1"]);
        scene.raw::<()>(&["SET", key, "of another program"]);
        scene.raw::<i64>(&["LPUSH", "pending", "j"]);
        wait_until("status reports it", || {
            scene.sandbox.reasons().contains(&format!("the key '{key}' there is a string of another program"))
        });
        assert_eq!(scene.pending(), ["j"], "{key}");
        scene.raw::<i64>(&["DEL", key, "pending"]);
        scene.shell("k", ":");
        scene.assert_done(&["k".into()]);
        scene.sandbox.wait_healthy();
    }
}

#[test]
fn wrong_password_is_reported_and_the_right_one_works() {
    let mut scene = Scene::new();
    scene.raw::<()>(&["CONFIG", "SET", "requirepass", "s3cret"]);
    scene.url = scene.url.replace("redis://", "redis://:wrong@");
    let (code, said) = scene.sandbox.refused(&["--broker", &scene.url, "put", "--", "/bin/true"]);
    assert!(code != 0 && said.contains("not the password") && !said.contains("wrong@"), "{said}");
    scene.url = scene.url.replace("wrong", "s3cret");
    let _running = scene.start(&["-w", "1"]);
    scene.shell("j", ":");
    scene.assert_done(&["j".into()]);
    assert!(!scene.sandbox.stderr().contains("s3cret"));
}

/// A job in a lost fetch answer runs soon, and a settlement whose answer was lost is sent again.
#[test]
fn lost_answer_loses_no_job_and_repeats_no_ended_one() {
    // Only the answer to a fetch contains the value, and only that to a settlement contains this word.
    for (text, loss) in
        [("a word in it", Loss::Break), ("a word in it", Loss::Silence), ("complete", Loss::Break)]
    {
        let mut scene = Scene::new();
        let proxy = Proxy::to(scene.server.port);
        scene.url = format!("reliable+{}?exec=yes", proxy.url());
        let _running = scene.start(&["-w", "2"]);
        proxy.lose_answer(text, loss);
        let began = Instant::now();
        scene.shell("j", "echo ran >>out; : a word in it");
        scene.assert_done(&["j".into()]);
        assert!(proxy.has_lost(), "{text}");
        assert!(began.elapsed() < Duration::from_secs(30), "not by the end of its lease");
        wait_until("the ledger knows it", || scene.sandbox.state("j") == "complete");
        assert_eq!(scene.said("out"), "ran\n", "{text}, {loss:?}");
    }
}
