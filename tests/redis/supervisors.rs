//! Supervisors on a Redis: what other clients do to its jobs, and failures of the server, judged from outside.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use qless::script::SCRIPT;
use serde_json::Value;

use crate::sandbox::{Sandbox, Setting, alive, stays, wait_until};
use crate::support::{RedisServer, Scripted};

/// A taskvisor with its own Redis.
pub struct Scene {
    /// `None` while the server is away.
    pub server: RefCell<Option<RedisServer>>,
    pub port: u16,
    pub url: String,
    pub sandbox: Sandbox,
}

impl Scene {
    pub fn new() -> Scene {
        Scene::on(RedisServer::start())
    }

    pub fn on(server: RedisServer) -> Scene {
        let (port, url) = (server.port, server.url());
        Scene { server: RefCell::new(Some(server)), port, url, sandbox: Sandbox::new(Setting::Root) }
    }

    /// Kills the server.
    pub fn server_dies(&self) {
        drop(self.server.borrow_mut().take());
    }

    /// Starts a server again on the same port.
    pub fn server_comes(&self, args: &[&str]) {
        let server = RedisServer::start_at(self.port, args).expect("the port is free again");
        *self.server.borrow_mut() = Some(server);
    }

    /// Arguments with the broker's URL.
    pub fn with<'a>(url: &'a str, args: &[&'a str]) -> Vec<&'a str> {
        [&["--broker", url], args].concat()
    }

    pub fn ok(&self, args: &[&str]) -> String {
        self.sandbox.ok(&Scene::with(&self.url, args))
    }

    pub fn start(&self, args: &[&str]) -> crate::sandbox::Running<'_> {
        self.sandbox.start(&Scene::with(&self.url, args))
    }

    /// A supervisor that reaches the server by another URL.
    pub fn start_by(&self, url: &str, args: &[&str]) -> crate::sandbox::Running<'_> {
        self.sandbox.start(&Scene::with(url, args))
    }

    /// Asserts that new jobs run.
    pub fn assert_goes_on(&self) {
        let put = Scene::with(&self.url, &["put", "--", "true"]);
        let mut jid = String::new();
        wait_until("a job is put", || {
            let output = self.sandbox.run(&put);
            jid = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            output.status.success()
        });
        wait_until("it is complete", || self.state(&jid) == "complete");
    }

    pub fn job(&self, jid: &str) -> Value {
        serde_json::from_str(&self.ok(&["job", "show", jid, "--json"])).unwrap()
    }

    pub fn state(&self, jid: &str) -> String {
        self.job(jid)["state"].as_str().unwrap().to_owned()
    }

    /// Puts a job that writes its pid and stays; returns its id and pid once it runs.
    pub fn a_long_job(&self) -> (String, i32) {
        let file = self.sandbox.work("pid");
        std::fs::remove_file(&file).ok();
        let line = format!("echo $$ >{0}.new; mv {0}.new {0}; exec sleep 1000", file.display());
        let jid = self.ok(&["put", "--", "sh", "-c", &line]).trim().to_owned();
        let mut pid = 0;
        wait_until("the job runs", || {
            pid = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
            pid != 0
        });
        (jid, pid)
    }

    /// Another client of qless.
    pub fn other(&self) -> Scripted {
        Scripted::new(self.server.borrow().as_ref().unwrap(), SCRIPT)
    }

    /// The current time as clients of qless send it.
    pub fn now() -> String {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_secs_f64().to_string()
    }
}

#[test]
fn supervisor_runs_jobs_put_before_and_after_its_start() {
    let scene = Scene::new();
    let before = scene.ok(&["put", "--", "true"]);
    let _running = scene.start(&["-w", "2"]);
    let later = scene.ok(&["put", "--", "sh", "-c", "exit 3"]);
    scene.ok(&["job", "wait", before.trim()]);
    wait_until("the other has failed", || scene.state(later.trim()) == "failed");
    let queues: Value = serde_json::from_str(&scene.ok(&["queue", "list", "--json"])).unwrap();
    let text = queues.to_string();
    assert!(text.contains("\"complete\":1") && text.contains("\"failed\":1"), "{text}");
}

/// Each way in which another client takes a job from its worker.
#[test]
fn job_taken_away_by_another_client_is_killed_with_all_its_processes() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    let mut other = scene.other();
    for event in ["cancel", "timeout", "put"] {
        let (jid, pid) = scene.a_long_job();
        // The supervisor checks a hold younger than a second with Redis first, an older one not.
        let now = Scene::now();
        match event {
            "put" => {
                other.try_call(&["put", &now, "somebody", "elsewhere", &jid, "exec", "{}", "0"]).unwrap();
            }
            event => {
                other.try_call(&[event, &now, &jid]).unwrap();
            }
        }
        wait_until(event, || !alive(pid));
        match event {
            "cancel" => {
                assert!(!scene.sandbox.run(&["--broker", &scene.url, "job", "show", &jid]).status.success())
            }
            "put" => assert_eq!(scene.job(&jid)["queue"], "elsewhere"),
            _ => {
                // The job is fetched again at once.
                wait_until("it runs again", || scene.state(&jid) == "running");
                scene.ok(&["job", "cancel", "--wait", &jid]);
            }
        }
    }
}

#[test]
fn cancel_from_another_host_ends_the_job_within_moments() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    let (jid, pid) = scene.a_long_job();
    let began = Instant::now();
    // Another state directory acts as another host.
    let elsewhere = Sandbox::new(Setting::Root);
    elsewhere.ok(&Scene::with(&scene.url, &["job", "cancel", "--wait", &jid]));
    assert!(!alive(pid), "canceled is said after the proof");
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(scene.state(&jid), "canceled");
}

#[test]
fn killed_supervisor_gets_its_jobs_back_unspent() {
    let scene = Scene::new();
    let mut running = scene.start(&["-w", "1"]);
    let (jid, pid) = scene.a_long_job();
    running.signal("KILL");
    running.wait();
    wait_until("the job is dead", || !alive(pid));
    let _again = scene.start(&["-w", "1"]);
    wait_until("it runs again", || {
        let job = scene.job(&jid);
        job["state"] == "running" && job["interruptions"] == 1 && job["attempt"] == 1
    });
}

#[test]
fn supervisor_that_starts_before_its_redis_works_once_redis_is_up() {
    let scene = Scene::new();
    scene.server_dies();
    let _running = scene.start(&["-w", "1"]);
    let put = ["--broker", &scene.url, "put", "--", "true"];
    let said = scene.sandbox.run(&put);
    assert!(!said.status.success());
    let stderr = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(stderr.contains("redis://127.0.0.1") && stderr.contains("is it running there?"), "{stderr}");
    scene.server_comes(&[]);
    wait_until("a job is put", || scene.sandbox.run(&put).status.success());
    wait_until("it is complete", || scene.ok(&["queue", "list", "--json"]).contains("\"complete\":1"));
}

#[test]
fn killed_durable_redis_comes_back_without_losing_a_job() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    let durable = ["--appendonly", "yes", "--appendfsync", "always", "--dir", place];
    let scene = Scene::on(RedisServer::start_with(&durable));
    let _running = scene.start(&["-w", "2"]);
    let (long, pid) = scene.a_long_job();
    scene.server_dies();
    scene.server_comes(&durable);
    let put = ["--broker", &scene.url, "put", "--", "true"];
    wait_until("a job is put", || scene.sandbox.run(&put).status.success());
    wait_until("it is complete", || scene.ok(&["queue", "list", "--json"]).contains("\"complete\":1"));
    // The lease holds: the job ran on undisturbed.
    assert!(alive(pid));
    assert_eq!(scene.job(&long)["attempt"], 1);
    scene.ok(&["job", "cancel", "--wait", &long]);
    assert!(!alive(pid));
}

#[test]
fn redis_password_is_shown_nowhere() {
    let server = RedisServer::start_with(&["--requirepass", "s3cr3t/word"]);
    let sandbox = Sandbox::new(Setting::Root);
    let url = format!("redis://:s3cr3t%2Fword@127.0.0.1:{}/0", server.port);
    let running = sandbox.start_with(&["-w", "1"], |command| {
        command.env("TASKVISOR_BROKER", &url);
    });
    let asked = |args: &[&str]| {
        let output = sandbox.command(args).env("TASKVISOR_BROKER", &url).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let put = sandbox.command(&["put", "--", "true"]).env("TASKVISOR_BROKER", &url).output().unwrap();
    let jid = String::from_utf8(put.stdout).unwrap();
    assert!(asked(&["job", "wait", jid.trim()]).contains("complete"));
    for args in [&["status"][..], &["status", "--json"], &["config", "show"], &["doctor"]] {
        let shown = asked(args);
        assert!(!shown.contains("s3cr3t"), "{args:?}: {shown}");
    }
    assert!(asked(&["doctor"]).contains("answers"));
    for process in sandbox.processes() {
        let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains("s3cr3t"));
    }
    assert!(!sandbox.stderr().contains("s3cr3t"));
    drop(running);
    let wrong =
        sandbox.command(&["put", "--", "true"]).env("TASKVISOR_BROKER", server.url()).output().unwrap();
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("NOAUTH"), "{said}");
}

/// Whatever another program writes into a job's hash: other jobs run, and the job can be canceled.
#[test]
fn job_with_missing_or_foreign_fields_stops_no_other_job() {
    let scene = Scene::new();
    let mut other = scene.other();
    let fields = [
        "klass",
        "data",
        "priority",
        "tags",
        "state",
        "queue",
        "retries",
        "remaining",
        "time",
        "order",
        "policy",
        "exec",
        "attempt",
        "hold",
        "worker",
        "expires",
        "put_at",
    ];
    let spoil = |other: &mut Scripted, jid: &str, field: &str| {
        let key = format!("ql:j:{jid}");
        let _: redis::Value = match jid.ends_with("gone") {
            true => other.raw_call(&["HDEL", &key, field]),
            false => other.raw_call(&["HSET", &key, field, "[no:\u{7}number"]),
        };
    };
    let mut spoiled = Vec::new();
    for field in fields {
        for kind in ["gone", "odd"] {
            let jid = format!("{field}-{kind}");
            scene.ok(&["put", "--jid", &jid, "--", "sleep", "0"]);
            spoil(&mut other, &jid, field);
            spoiled.push(jid);
        }
    }
    let _: redis::Value = other.raw_call(&["DEL", "ql:j:klass-gone"]);
    let _: redis::Value = other.raw_call(&["RPUSH", "ql:j:time-gone-history", "no json"]);
    let good = scene.ok(&["put", "--", "true"]);
    let _running = scene.start(&["-w", "2"]);
    wait_until("the good one is complete", || scene.state(good.trim()) == "complete");
    // The same fields of a running job.
    let (jid, pid) = scene.a_long_job();
    for field in fields {
        spoil(&mut other, &jid, field);
    }
    let last = scene.ok(&["put", "--", "true"]);
    wait_until("the last one is complete", || scene.state(last.trim()) == "complete");
    scene.ok(&["job", "list", "--limit", "0"]);
    scene.ok(&["queue", "list"]);
    for jid in spoiled.iter().chain([&jid]) {
        let _ = scene.sandbox.run(&["--broker", &scene.url, "job", "cancel", jid]);
    }
    // Its lease cannot be proven any more: by the next renewal it is lost, and the job is ended.
    let _: redis::Value = other.raw_call(&["PUBLISH", "ql:taskvisor", "default"]);
    scene.ok(&["stop", "--now"]);
    wait_until("the spoiled one is gone", || !alive(pid));
}

#[test]
fn put_refused_by_redis_is_reported_with_what_to_do_and_works_later() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    let mut other = scene.other();
    let put = ["--broker", &scene.url, "put", "--", "true"];
    for (break_it, mend_it, words) in [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", ["OOM", "maxmemory"]),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", ["READONLY", "primary"]),
    ] {
        let _: redis::Value = other.raw(break_it);
        let refused = scene.sandbox.run(&put);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && words.iter().all(|word| said.contains(word)), "{said}");
        let _: redis::Value = other.raw(mend_it);
        scene.assert_goes_on();
    }
}

#[test]
fn two_supervisors_share_the_work() {
    let scene = Scene::new();
    let second = Sandbox::new(Setting::Root);
    let lease = ["-w", "1", "--broker", &scene.url];
    let _one = scene.sandbox.start(&lease);
    let _two = second.start(&lease);
    let line = "echo $TASKVISOR_JOB; sleep 0.05";
    let jids: Vec<String> =
        (0..20).map(|_| scene.ok(&["put", "--", "sh", "-c", line]).trim().to_owned()).collect();
    for jid in &jids {
        scene.ok(&["job", "wait", jid]);
    }
    let instances: std::collections::BTreeSet<String> = jids
        .iter()
        .map(|jid| {
            let other = &mut scene.other();
            other.field(jid, "held_by").unwrap()
        })
        .collect();
    assert_eq!(instances.len(), 2, "{instances:?}");
}

/// Events wake the supervisor when other clients make jobs runnable; it does not wait for its periodic look.
#[test]
fn jobs_released_by_other_clients_are_taken_at_once() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    let mut other = scene.other();
    scene.ok(&["queue", "pause", "default"]);
    // A due job in a paused queue must not cause repeated fetches.
    let late = scene.ok(&["put", "--delay", "10ms", "--", "true"]);
    let calls = |other: &mut Scripted| -> u64 {
        let text: String = other.raw("INFO commandstats");
        let line = text.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap().to_owned();
        line.split(['=', ',']).nth(1).unwrap().parse().unwrap()
    };
    let before = calls(&mut other);
    stays(Duration::from_secs(1), "fewer than 20 calls", || calls(&mut other) - before < 20);
    let now = Scene::now();
    other.try_call(&["unpause", &now, "default"]).unwrap();
    let began = Instant::now();
    wait_until("it is complete", || scene.state(late.trim()) == "complete");
    assert!(began.elapsed() < Duration::from_secs(20), "not by the look once a minute");
}

/// Keys of a wrong type beside a job do not block other jobs.
#[test]
fn keys_of_a_wrong_type_stop_no_queue() {
    let scene = Scene::new();
    let mut other = scene.other();
    scene.ok(&["queue", "pause", "default"]);
    let put = |jid: &str, args: &[&str]| {
        scene.ok(&[&["put", "--jid", jid], args, &["--", "true"]].concat());
    };
    put("gone", &[]);
    put("late", &["--delay", "10ms"]);
    ["history", "dependents", "good"].iter().for_each(|jid| put(jid, &[]));
    for key in ["gone", "late", "history-history", "dependents-dependents"] {
        let key = format!("ql:j:{key}");
        let _: redis::Value = other.raw_call(&["DEL", &key]);
        let _: redis::Value = other.raw_call(&["SET", &key, "what is this"]);
    }
    scene.ok(&["queue", "resume", "default"]);
    let _running = scene.start(&["-w", "2"]);
    for jid in ["good", "history", "dependents"] {
        scene.ok(&["job", "wait", jid]);
    }
    wait_until("what is no job is in no list", || {
        let waiting: u64 = other.raw("ZCARD ql:q:default-work");
        let due: u64 = other.raw("ZCARD ql:q:default-scheduled");
        waiting + due == 0
    });
    let kept: String = other.raw("GET ql:j:gone");
    assert_eq!(kept, "what is this", "it is somebody's");
}

/// Under max_concurrency, a job that another client completes leaves room.
#[test]
fn room_below_max_concurrency_left_by_another_client_is_used_at_once() {
    let scene = Scene::new();
    let mut other = scene.other();
    scene.ok(&["option", "set", "max_concurrency", "1", "--queue", "default"]);
    let first = scene.ok(&["put", "--", "true"]).trim().to_owned();
    let now = Scene::now();
    other.try_call(&["pop", &now, "default", "another", "1"]).unwrap();
    let _running = scene.start(&["-w", "1"]);
    let second = scene.ok(&["put", "--", "true"]).trim().to_owned();
    other.try_call(&["complete", &Scene::now(), &first, "another", "default", "{}"]).unwrap();
    let began = Instant::now();
    scene.ok(&["job", "wait", &second]);
    assert!(began.elapsed() < Duration::from_secs(20), "not by the look once a minute");
}

#[test]
fn retry_runs_on_time_on_an_idle_supervisor() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "3"]);
    // Without events an idle supervisor looks once a minute.
    let jid =
        scene.ok(&["put", "--retries", "1", "--", "sh", "-c", "test -e tried || { touch tried; exit 3; }"]);
    wait_until("its second attempt has ended", || scene.state(jid.trim()) == "complete");
    let job = scene.job(jid.trim());
    let ended = job["history"][0]["at_ms"].as_i64().unwrap_or_else(|| panic!("{job}"));
    let took = job["ended_at_ms"].as_i64().unwrap() - ended;
    assert!((900..10_000).contains(&took), "{job}");
}

#[test]
fn false_event_on_the_channel_of_a_worker_ends_no_job() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _running = scene.start(&["-w", "2"]);
    let (jid, pid) = scene.a_long_job();
    let worker = other.field(&jid, "worker").unwrap();
    for event in ["canceled", "lock_lost", "put"] {
        let text = format!("{{\"jid\":\"{jid}\",\"event\":\"{event}\",\"worker\":\"{worker}\"}}");
        assert_eq!(other.raw_call::<i64>(&["PUBLISH", &format!("ql:w:{worker}"), &text]), 1);
    }
    // The supervisor receives later events on the same connection and checks the job in Redis.
    scene.assert_goes_on();
    assert!(alive(pid));
    assert_eq!(scene.state(&jid), "running");
    scene.ok(&["job", "cancel", "--wait", &jid]);
}

#[test]
fn flushed_server_ends_its_jobs_and_is_logged() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _running = scene.start(&["-w", "1"]);
    let (jid, pid) = scene.a_long_job();
    wait_until("a sign of life is there", || other.raw::<i64>("EXISTS ql:taskvisor:seen") == 1);
    let _: String = other.raw("FLUSHALL");
    wait_until("its job is dead", || !alive(pid));
    wait_until("it is logged", || scene.sandbox.stderr().contains("Redis has forgotten what it held"));
    let (_, said) = scene.sandbox.refused(&["why", "job", &jid]);
    assert!(
        said.contains("no job has the id") && said.contains("Redis has forgotten what it held"),
        "{said}"
    );
}

#[test]
fn status_names_a_malformed_key_that_blocks_a_queue() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _running = scene.start(&["-w", "1"]);
    let _: String = other.raw("SET ql:q:default-work x");
    let _: i64 = other.raw("PUBLISH ql:taskvisor default");
    wait_until("it is degraded", || {
        let status = scene.sandbox.status().to_string();
        status.contains("\"degraded\"") && status.contains("ql:q:default-work (string)")
    });
    let _: i64 = other.raw("DEL ql:q:default-work");
    scene.assert_goes_on();
    wait_until("it is healthy", || scene.sandbox.status().to_string().contains("\"healthy\""));
}

#[test]
fn start_and_doctor_report_a_redis_without_persistence() {
    let scene = Scene::new();
    let running = scene.start(&["-w", "1"]);
    assert!(scene.sandbox.stderr().contains("it writes nothing to disk"), "{}", scene.sandbox.stderr());
    drop(running);
    let told = scene.sandbox.run(&["-b", &scene.url, "doctor"]);
    assert!(String::from_utf8_lossy(&told.stdout).contains("it writes nothing to disk"), "{told:?}");
    let kept = Scene::on(RedisServer::start_with(&["--appendonly", "yes"]));
    let _running = kept.start(&["-w", "1"]);
    assert!(!kept.sandbox.stderr().contains("it writes nothing"), "{}", kept.sandbox.stderr());
}
