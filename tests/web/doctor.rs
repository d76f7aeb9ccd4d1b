//! What the machine of a supervisor lacks, by the API and on its page.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::http::get;
use crate::page::{Served, status};
use crate::redis_server::RedisServer;
use crate::sandbox::{Sandbox, Setting, in_all_settings, kill, wait_until};

fn asked(sandbox: &Sandbox) -> Value {
    let said = get(sandbox, "/v1/doctor");
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// The findings, without the figures that differ from one measurement to the next.
fn findings(document: &Value) -> Vec<Value> {
    let mut all = document["checks"].as_array().unwrap_or_else(|| panic!("{document}")).clone();
    for check in &mut all {
        if ["fsync", "room"].contains(&check["name"].as_str().unwrap()) {
            check["found"].take();
        }
    }
    all
}

fn finding<'a>(document: &'a Value, name: &str) -> &'a Value {
    let checks = document["checks"].as_array().unwrap_or_else(|| panic!("{document}"));
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}: {document}"))
}

#[test]
fn doctor_of_a_supervisor_finds_what_the_command_finds() {
    in_all_settings(|sandbox| {
        fs::write(sandbox.work("t.yaml"), "pools: [{workers: 3}]\n").unwrap();
        let _running = sandbox.start(&["-c", "t.yaml"]);
        let by_api = asked(sandbox);
        let command: Value =
            serde_json::from_slice(&sandbox.run(&["doctor", "-c", "t.yaml", "--json"]).stdout).unwrap();
        assert_eq!(by_api["schema"], command["schema"]);
        match sandbox.setting {
            Setting::Root | Setting::Plain => {
                assert_eq!(findings(&by_api), findings(&command));
                assert_eq!(by_api["well"], command["well"]);
            }
            // The command has another cgroup, or another process 1.
            Setting::RootCgroup | Setting::Pid1 => {
                let names =
                    |of: &Value| findings(of).iter().map(|one| one["name"].clone()).collect::<Vec<_>>();
                assert_eq!(names(&by_api), names(&command));
            }
        }
        if sandbox.stderr().contains("cgroup=true") {
            let seen = finding(&by_api, "cgroup v2");
            assert_eq!(seen["state"], "ok", "the cgroup of the supervisor: {seen}");
        }
        // It leaves nothing behind, and the supervisor goes on.
        sandbox.ok(&["job", "wait", &sandbox.put(&["true"])]);
        sandbox.assert_calm();
    });
}

#[test]
fn doctor_page_shows_each_finding_with_what_to_do_and_counts_the_slots_of_a_reload() {
    let sandbox = Sandbox::new(Setting::Root);
    fs::write(sandbox.work("t.yaml"), "pools: [{workers: 1}]\n").unwrap();
    let _running = sandbox.start(&["-c", "t.yaml"]);
    let page = Served::start(&sandbox, &[]);
    let (cookie, document) = (page.enter(), asked(&sandbox));
    let shown = page.ask("GET", "/doctor", &[&cookie], "");
    assert_eq!(status(&shown), 200, "{shown}");
    let text = |value: &Value| {
        value.as_str().unwrap().replace('&', "&amp;").replace('"', "&quot;").replace('\'', "&#39;")
    };
    for check in findings(&document) {
        assert!(shown.contains(&format!("data-key=\"{}\"", text(&check["name"]))), "{check}: {shown}");
        for word in ["found", "effect", "remedy"] {
            let said = check[word].as_str().map(|_| text(&check[word])).unwrap_or_default();
            assert!(shown.contains(&said), "{said}: {shown}");
        }
    }
    assert!(shown.contains("switched off by TASKVISOR_WITHOUT"), "without cgroups: {shown}");
    let slots = |of: &Value| finding(of, "descriptors")["found"].as_str().unwrap().to_owned();
    assert!(slots(&document).ends_with("for slots: 1"), "{document}");
    fs::write(sandbox.work("t.yaml"), "pools: [{workers: 2}]\n").unwrap();
    sandbox.ok(&["reload"]);
    assert!(slots(&asked(&sandbox)).ends_with("for slots: 2"));
}

#[test]
fn doctor_names_a_server_that_is_away_and_tells_no_password() {
    let redis = RedisServer::start_with(&["--requirepass", "canary"]);
    let sandbox = Sandbox::new(Setting::Root);
    let url = redis.url().replace("redis://", "redis://:canary@");
    let _running = sandbox.start(&["-b", &url]);
    let document = asked(&sandbox);
    let command: Value =
        serde_json::from_slice(&sandbox.run(&["doctor", "-b", &url, "--json"]).stdout).unwrap();
    assert_eq!(finding(&document, "store"), finding(&command, "store"));
    kill(redis.pid() as i32, "STOP");
    let away = asked(&sandbox);
    assert_eq!((&finding(&away, "store")["state"], &away["well"]), (&"bad".into(), &false.into()));
    assert!(!(away.to_string() + &document.to_string()).contains("canary"), "{document} {away}");
}

/// The child of a supervisor that looks, once it is stopped.
fn stopped(supervisor: i64) -> Option<i32> {
    let tasks = fs::read_dir(format!("/proc/{supervisor}/task")).ok()?;
    let children = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
    let child: i32 = children.collect::<String>().split_whitespace().next()?.parse().ok()?;
    // Before its own program runs, the supervisor's thread waits for it.
    if fs::read_to_string(format!("/proc/{child}/comm")).ok()?.trim() != "tv-doctor" {
        return None;
    }
    kill(child, "STOP");
    let stat = fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
    (!stat.contains(") Z ")).then_some(child)
}

#[test]
fn doctor_that_hangs_is_ended_in_time_and_holds_up_nothing() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "1"]);
    let supervisor = sandbox.status()["supervisor"]["pid"].as_i64().unwrap();
    thread::scope(|scope| {
        // A look is short: it may be over before it is caught.
        let (mut asking, mut caught) = (None, None);
        wait_until("a look is caught", || {
            let ask = scope.spawn(|| (get(&sandbox, "/v1/doctor"), Instant::now()));
            while caught.is_none() && !ask.is_finished() {
                caught = stopped(supervisor);
            }
            asking = Some(ask);
            caught.is_some()
        });
        let (begun, second) = (Instant::now(), scope.spawn(|| get(&sandbox, "/v1/doctor")));
        let child = caught.unwrap();
        let environ = fs::read(format!("/proc/{child}/environ")).unwrap();
        assert!(!String::from_utf8_lossy(&environ).contains("TASKVISOR_BROKER"), "a secret is there");
        // Jobs run meanwhile, and the supervisor answers.
        sandbox.ok(&["job", "wait", &sandbox.put(&["true"])]);
        assert_eq!(sandbox.status()["health"], "healthy");
        let (said, ended) = asking.unwrap().join().unwrap();
        assert!(said.contains("was not done within 10 s; it was ended"), "{said}");
        assert!(ended - begun < Duration::from_secs(25), "{:?}", ended - begun);
        assert_eq!(second.join().unwrap(), said, "both have the same answer");
        wait_until("it is gone", || !fs::exists(format!("/proc/{child}")).unwrap());
    });
    assert_eq!(asked(&sandbox)["schema"], "taskvisor.doctor/1");
    sandbox.assert_calm();
}

#[test]
fn doctor_dies_with_its_supervisor() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "1"]);
    let [keeper, supervisor] =
        ["keeper", "supervisor"].map(|which| sandbox.status()[which]["pid"].as_i64().unwrap());
    thread::scope(|scope| {
        let mut caught = None;
        wait_until("a look is caught", || {
            let ask = scope.spawn(|| get(&sandbox, "/v1/doctor"));
            while caught.is_none() && !ask.is_finished() {
                caught = stopped(supervisor);
            }
            caught.is_some()
        });
        // The keeper would end it, too, and not as soon: it may not.
        kill(keeper as i32, "STOP");
        kill(supervisor as i32, "KILL");
        let child = caught.unwrap();
        let stat = || fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
        // The keeper, which is stopped, cannot take it in.
        wait_until("it has ended", || stat().contains(") Z "));
        // Not of the HUP that comes to a stopped process whose group nobody leads any more.
        assert!(stat().trim_end().ends_with(" 9"), "{}", stat());
        kill(keeper as i32, "CONT");
    });
    wait_until("the next one looks", || get(&sandbox, "/v1/doctor").contains("taskvisor.doctor/1"));
}
