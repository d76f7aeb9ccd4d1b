//! Reload, scale, recycle, pause and drain while jobs run: the real binary, by its signals and its verbs.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/python.rs"]
mod python;
#[path = "support/sandbox.rs"]
mod sandbox;

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use python::{ended, put_lines, result, touch, word};
use sandbox::{Running, Sandbox, alive, wait_until};
use serde_json::{Value, json};

/// A pool whose workers have their version in the environment.
fn version(number: u32, more: &str) -> String {
    let env = format!(
        "env: {{set: {{PYTHONPATH: '{}', PYTHONDONTWRITEBYTECODE: '1', VERSION: 'v{number}'}}}}",
        python::path()
    );
    format!("pools:\n  - {{name: app, {env}, {more}, command: python3 -m taskvisor.worker app}}\n")
}

fn write(sandbox: &Sandbox, text: &str) {
    // Atomic, by a rename, as good editors write.
    fs::write(sandbox.work("new.yaml"), text).unwrap();
    fs::rename(sandbox.work("new.yaml"), sandbox.work("pools.yaml")).unwrap();
}

fn start<'a>(sandbox: &'a Sandbox, text: &str) -> Running<'a> {
    write(sandbox, text);
    sandbox.start(&["-c", &file(sandbox)])
}

fn file(sandbox: &Sandbox) -> String {
    sandbox.work("pools.yaml").display().to_string()
}

/// The slots of all pools with this name, as one list.
fn slots(sandbox: &Sandbox) -> Vec<Value> {
    let status = sandbox.status();
    let pools = status["pools"].as_array().cloned().unwrap_or_default();
    pools.iter().flat_map(|pool| pool["slots"].as_array().cloned().unwrap_or_default()).collect()
}

fn works(slot: &Value) -> bool {
    slot["state"] == "ready" || slot["state"] == "busy"
}

/// The lives that work, each with its process if it has one: an idle slot of programs has none.
fn lives(sandbox: &Sandbox) -> HashSet<String> {
    let life = |slot: &Value| format!("{}#{} {}", slot["slot"], slot["generation"], slot["process"]["pid"]);
    slots(sandbox).iter().filter(|slot| works(slot)).map(life).collect()
}

fn all_ready(sandbox: &Sandbox, count: usize) -> HashSet<String> {
    let mut found = HashSet::new();
    wait_until(&format!("{count} workers, all ready"), || {
        found = lives(sandbox);
        found.len() == count && slots(sandbox).len() == count
    });
    found
}

fn version_of_a_job(sandbox: &Sandbox) -> Value {
    let jid = sandbox.ok(&["put", "default", "version"]).trim().to_owned();
    result(&ended(sandbox, &jid))
}

fn check_exchange(mode: &str) {
    let sandbox = python::new();
    let running = start(&sandbox, &version(1, &format!("mode: {mode}, workers: 4")));
    let old = all_ready(&sandbox, 4);
    let long = sandbox.ok(&["put", "default", "hold", "[\"long\"]"]).trim().to_owned();
    word(&sandbox, "begun-long");
    let jids = put_lines(&sandbox, "default", "version", &[], &vec!["null".into(); 300]);
    write(&sandbox, &version(2, &format!("mode: {mode}, workers: 4")));
    running.signal("HUP");
    // At every moment some worker takes jobs, and each slot has at most one extra process.
    wait_until("a job is run by the new version", || {
        let seen = slots(&sandbox);
        assert!(seen.iter().any(works), "{seen:?}");
        assert!(seen.len() <= 8, "{seen:?}");
        version_of_a_job(&sandbox) == "v2"
    });
    for jid in &jids {
        let job = ended(&sandbox, jid);
        assert!(matches!(result(&job).as_str(), Some("v1" | "v2")), "{job}");
        assert_eq!(python::counts(&job), [1, 0, 0], "{job}");
    }
    assert_eq!(sandbox.state(&long), "running");
    touch(&sandbox, "go");
    assert_eq!(ended(&sandbox, &long)["state"], "complete");
    let new = all_ready(&sandbox, 4);
    assert!(old.is_disjoint(&new));
    assert_eq!(version_of_a_job(&sandbox), "v2");
}

#[test]
fn reload_replaces_busy_workers_and_loses_no_job() {
    check_exchange("prefork");
}

#[test]
fn reload_replaces_a_template_and_its_workers() {
    check_exchange("fork");
}

#[test]
fn reload_keeps_the_old_workers_when_new_ones_cannot_boot() {
    let sandbox = python::new();
    let running = start(&sandbox, &version(1, "workers: 2"));
    let old = all_ready(&sandbox, 2);
    write(&sandbox, &version(2, "workers: 2").replace("worker app", "worker no_such_module"));
    running.signal("HUP");
    wait_until("status gives the reason", || {
        let status = sandbox.status().to_string();
        status.contains("no_such_module") && status.contains("before they were ready")
    });
    assert_eq!(version_of_a_job(&sandbox), "v1");
    assert!(old.is_subset(&lives(&sandbox)));
    write(&sandbox, &version(3, "workers: 2"));
    running.signal("HUP");
    wait_until("the mended version works", || version_of_a_job(&sandbox) == "v3");
    all_ready(&sandbox, 2);
}

#[test]
fn reload_of_wrong_settings_changes_nothing_and_reports_the_line() {
    let sandbox = python::new();
    let _running = start(&sandbox, &version(1, "workers: 2"));
    let old = all_ready(&sandbox, 2);
    let good = fs::read_to_string(sandbox.work("pools.yaml")).unwrap();
    fs::write(sandbox.work("token"), "sixteen-letters-or-more").unwrap();
    fs::set_permissions(sandbox.work("token"), fs::Permissions::from_mode(0o600)).unwrap();
    let wrong = [
        ("pools:\n  - name: app\n    wrokers: 3\n", "pools.yaml:3:5"),
        ("pools: [\n", "pools.yaml:"),
        ("", "empty"),
        ("broker: 'memory:'\n", "broker is not what it was, and changes with a restart only"),
        (
            "api: {listen: '127.0.0.1:0', token_file: token}\n",
            "api.listen is not what it was, and changes with a",
        ),
        ("pools:\n  - {name: app, command: /no/such/program}\n", "/no/such/program"),
    ];
    for (text, shown) in wrong {
        write(&sandbox, text);
        let output = sandbox.run(&["reload"]);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(78) && words.contains(shown), "{text:?}: {words}");
        let seen = sandbox.status();
        assert_eq!(seen["health"], "degraded");
        assert!(seen["reasons"].to_string().contains(shown), "{text:?}: {}", seen["reasons"]);
        assert_eq!(lives(&sandbox), old);
    }
    fs::remove_file(sandbox.work("pools.yaml")).unwrap();
    assert!(!sandbox.run(&["reload"]).status.success());
    assert_eq!(lives(&sandbox), old);
    write(&sandbox, &good);
    assert_eq!(sandbox.ok(&["reload"]), "app: unchanged\n");
    assert_eq!(sandbox.status()["health"], "healthy");
    assert_eq!(lives(&sandbox), old);
}

#[test]
fn reload_without_a_settings_file_reports_nothing_to_reload() {
    let sandbox = python::new();
    let running = sandbox.start(&["-w", "2"]);
    let output = sandbox.run(&["reload"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "default: unchanged\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("started without a file"), "{output:?}");
    assert_eq!(sandbox.json(&["reload", "--json"])["file"], Value::Null);
    running.signal("HUP");
    wait_until("the log says so", || sandbox.stderr().contains("nothing to reload"));
    assert_eq!(sandbox.status()["health"], "healthy");
}

#[test]
fn next_supervisor_uses_the_settings_in_force_not_the_edited_file() {
    let sandbox = python::new();
    let running = start(&sandbox, &version(1, "workers: 1"));
    all_ready(&sandbox, 1);
    write(&sandbox, &version(2, "workers: 1"));
    sandbox.ok(&["reload"]);
    wait_until("the second version works", || version_of_a_job(&sandbox) == "v2");
    for text in ["pools: [", "", &version(3, "workers: 1")] {
        write(&sandbox, text);
        let supervisor = sandbox.one("tv-supervisor");
        sandbox::kill(supervisor, "KILL");
        wait_until("another one is there", || !alive(supervisor) && sandbox.status().is_object());
        assert_eq!(version_of_a_job(&sandbox), "v2", "{text:?}");
    }
    running.signal("HUP");
    wait_until("the third version works", || version_of_a_job(&sandbox) == "v3");
}

#[test]
fn scale_and_pause_of_a_pool_survive_the_supervisor_and_the_pause_also_the_keeper() {
    let sandbox = python::new();
    let other = "  - {name: other, workers: 1, queues: [other]}\n";
    let mut running = start(&sandbox, &(version(1, "workers: 1") + other));
    all_ready(&sandbox, 2);
    let seen = || {
        let of = |pool: &Value| (pool["scaled"].as_u64(), pool["paused"] == true);
        Some(sandbox.status()["pools"].as_array()?.iter().map(of).collect::<Vec<_>>())
    };
    sandbox.ok(&["scale", "app", "+2"]);
    for (change, paused) in [("pause", true), ("resume", false)] {
        sandbox.ok(&[change, "other"]);
        let supervisor = sandbox.one("tv-supervisor");
        sandbox::kill(supervisor, "KILL");
        wait_until("another one is there", || !alive(supervisor) && seen().is_some());
        assert_eq!(seen().unwrap(), [(Some(3), false), (None, paused)]);
        all_ready(&sandbox, 4);
    }
    running.signal("USR2");
    wait_until("all are paused", || seen().is_some_and(|pools| pools.iter().all(|(_, paused)| *paused)));
    sandbox.ok(&["stop"]);
    running.wait();
    let _running = sandbox.start(&["-c", &file(&sandbox)]);
    assert_eq!(seen().unwrap(), [(None, true), (None, true)]);
    sandbox.ok(&["resume"]);
    all_ready(&sandbox, 2);
    assert_eq!(version_of_a_job(&sandbox), "v1");
}

#[test]
fn reload_touches_only_changed_pools() {
    let sandbox = python::new();
    let other = "  - {name: other, workers: 1, queues: [other]}\n";
    let _running = start(&sandbox, &(version(1, "workers: 2") + other));
    let old = all_ready(&sandbox, 3);
    write(&sandbox, &version(1, "workers: 3, grace: 3s, queues: [a, default]"));
    let told = sandbox.ok(&["reload", "--dry-run"]);
    for line in
        ["app: changed, with the same workers", "  workers: 2 -> 3", "  grace: 10s -> 3s", "other: taken out"]
    {
        assert!(told.lines().any(|told| told == line), "no {line:?} in {told}");
    }
    assert_eq!(lives(&sandbox), old);
    assert_eq!(sandbox.ok(&["reload"]), told);
    let new = all_ready(&sandbox, 3);
    assert_eq!(old.intersection(&new).count(), 2);
    let jid = sandbox.ok(&["put", "a", "version"]).trim().to_owned();
    assert_eq!(result(&ended(&sandbox, &jid)), "v1");
}

#[test]
fn slots_and_pools_keep_their_names_and_their_order_through_recycle_and_reload() {
    let sandbox = python::new();
    let other = |name: &str| format!("  - {{name: {name}, workers: 1, queues: [{name}]}}\n");
    let _running = start(&sandbox, &(version(1, "workers: 1") + &other("two")));
    let first = all_ready(&sandbox, 2);
    let seen = || {
        let status = sandbox.status();
        let pools = status["pools"].as_array().expect("pools").iter().map(|pool| {
            (pool["name"].clone(), pool["slots"][0]["slot"].clone(), pool["slots"][0]["generation"].as_u64())
        });
        pools.collect::<Vec<_>>()
    };
    let before = seen();
    sandbox.ok(&["recycle", "app"]);
    wait_until("another worker has come", || {
        let now = lives(&sandbox);
        now.len() == 2 && slots(&sandbox).len() == 2 && now != first
    });
    let after = seen();
    let names = |seen: &[(Value, Value, Option<u64>)]| {
        seen.iter().map(|(pool, slot, _)| (pool.clone(), slot.clone())).collect::<Vec<_>>()
    };
    assert_eq!(names(&after), [("app".into(), "app.1".into()), ("two".into(), "two.1".into())]);
    assert!(after[0].2 > before[0].2, "a life is named once: {before:?} {after:?}");
    let jid = sandbox.ok(&["put", "default", "version"]).trim().to_owned();
    let job = ended(&sandbox, &jid);
    assert_eq!((&job["worker"]["slot"], &job["forensics"]["worker"]), (&"app.1".into(), &job["worker"]));
    let asked = sandbox.ok(&["why", "slot", "app.1"]);
    assert!(asked.contains("Slot app.1, generation ") && asked.contains("worker app.1#"), "{asked}");
    // The third pool gets the number that the first generation of pool app had.
    write(&sandbox, &(other("three") + &version(1, "workers: 1").replace("pools:\n", "") + &other("two")));
    let text = std::fs::read_to_string(sandbox.work("pools.yaml")).unwrap();
    write(&sandbox, &format!("pools:\n{text}"));
    sandbox.ok(&["reload"]);
    all_ready(&sandbox, 3);
    let pools = names(&seen());
    assert_eq!(pools.iter().map(|(pool, _)| pool).collect::<Vec<_>>(), ["three", "app", "two"]);
    let decisions = sandbox.json(&["why", "pool", "three", "--json"])["decisions"].to_string();
    assert!(decisions.contains("three.1#") && !decisions.contains("app.1#"), "{decisions}");
}

#[test]
fn a_pool_is_scaled_by_verb_and_by_signal_and_its_jobs_end_first() {
    let sandbox = python::new();
    let running = start(&sandbox, &version(1, "workers: 2"));
    all_ready(&sandbox, 2);
    let said = sandbox.ok(&["scale", "app", "+2"]);
    assert_eq!(said, "pool app: 2 -> 4 workers, takes jobs\n");
    all_ready(&sandbox, 4);
    running.signal("TTIN");
    all_ready(&sandbox, 5);
    let jid = sandbox.ok(&["put", "default", "hold", "[\"long\"]"]).trim().to_owned();
    word(&sandbox, "begun-long");
    sandbox.ok(&["scale", "app", "0"]);
    wait_until("only the one that has a job is left", || slots(&sandbox).len() == 1);
    assert_eq!(sandbox.state(&jid), "running");
    touch(&sandbox, "go");
    assert_eq!(ended(&sandbox, &jid)["state"], "complete");
    wait_until("none is left", || slots(&sandbox).is_empty());
    running.signal("TTIN");
    all_ready(&sandbox, 1);
    running.signal("TTOU");
    wait_until("none is left", || slots(&sandbox).is_empty());
    let now: Value = serde_json::from_str(&sandbox.ok(&["pause", "app", "--json"])).unwrap();
    let pool = json!({"pool": "app", "workers_before": 0, "workers": 0, "paused": true});
    assert_eq!(now, json!({ "pools": [pool] }));
    assert_eq!(sandbox.ok(&["resume"]), "pool app: 0 workers, takes jobs\n");
    let output = sandbox.run(&["scale", "nobody", "3"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no pool is called 'nobody'; there are: app"));
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn recycle_replaces_the_workers_of_a_pool_a_quarter_at_a_time() {
    let sandbox = python::new();
    let _running = start(&sandbox, &version(1, "workers: 4"));
    let old = all_ready(&sandbox, 4);
    sandbox.ok(&["recycle", "app"]);
    wait_until("all are new", || {
        let seen = slots(&sandbox);
        assert!(seen.iter().filter(|slot| works(slot)).count() >= 4, "{seen:?}");
        lives(&sandbox).is_disjoint(&old)
    });
    all_ready(&sandbox, 4);
    assert_eq!(version_of_a_job(&sandbox), "v1");
}

#[test]
fn paused_pool_takes_no_jobs_and_drain_waits_for_running_ones() {
    let sandbox = python::new();
    let running = start(&sandbox, &version(1, "workers: 2"));
    let jid = sandbox.ok(&["put", "default", "hold", "[\"long\"]"]).trim().to_owned();
    word(&sandbox, "begun-long");
    running.signal("USR2");
    wait_until("it is paused", || sandbox.status()["pools"][0]["paused"] == true);
    let waiting = sandbox.ok(&["put", "default", "version"]).trim().to_owned();
    let output = sandbox.run(&["drain", "--wait", "--timeout", "200ms"]);
    assert_eq!(output.status.code(), Some(124));
    assert_eq!((sandbox.state(&jid), sandbox.state(&waiting)), ("running".into(), "waiting".into()));
    touch(&sandbox, "go");
    sandbox.ok(&["drain", "--wait"]);
    assert_eq!((sandbox.state(&jid), sandbox.state(&waiting)), ("complete".into(), "waiting".into()));
    // `drain` is a person's pause: CONT, which also wakes a keeper that was stopped, does not end it.
    running.signal("CONT");
    wait_until("it is said", || sandbox.stderr().contains("SIGCONT resumes what SIGUSR2 has paused"));
    assert_eq!(sandbox.state(&waiting), "waiting");
    sandbox.ok(&["resume"]);
    assert_eq!(result(&ended(&sandbox, &waiting)), "v1");
    running.signal("USR2");
    wait_until("it is paused", || sandbox.status()["pools"][0]["paused"] == true);
    running.signal("CONT");
    wait_until("it goes on", || sandbox.status()["pools"][0]["paused"] != true);
    sandbox.ok(&["pause", "app"]);
    assert_eq!(sandbox.status()["pools"][0]["paused"], true);
    sandbox.ok(&["resume", "app"]);
    assert_eq!(version_of_a_job(&sandbox), "v1");
}

#[test]
fn pause_of_a_pool_lasts_with_its_reason_over_a_stop_and_a_start_until_the_resume() {
    let sandbox = python::new();
    let pools = "pools: [{name: a, workers: 1, queues: [a]}, {name: b, workers: 1, queues: [b]}]\n";
    let stop = |mut running: Running| {
        sandbox.ok(&["stop"]);
        assert!(running.wait().success());
    };
    let says = |words: &[&str], all: &[&str]| {
        let said = String::from_utf8(sandbox.run(words).stdout).unwrap();
        all.iter().for_each(|one| assert!(said.contains(one), "no {one:?} in {said}"));
    };
    let running = start(&sandbox, pools);
    sandbox.ok(&["scale", "b", "2"]);
    sandbox.ok(&["recycle", "b"]);
    says(&["why", "pool", "b"], &["It was scaled to 2 by uid ", "Its workers were last recycled by uid "]);
    says(&["status"], &["scaled to 2 by uid ", "recycled by uid "]);
    sandbox.ok(&["pause", "b", "--reason", "the printer burns"]);
    sandbox.ok(&["drain", "--wait"]);
    running.signal("CONT");
    wait_until("it is said", || sandbox.stderr().contains("SIGCONT resumes what SIGUSR2 has paused"));
    stop(running);
    // What `drain` paused was for the stop.
    let running = start(&sandbox, pools);
    let run = |queue: &str| ended(&sandbox, sandbox.ok(&["put", "-q", queue, "--", "true"]).trim());
    assert_eq!(run("a")["state"], "complete");
    let waits = sandbox.ok(&["put", "-q", "b", "--", "true"]).trim().to_owned();
    says(&["status"], &["pool b is paused by uid ", ": the printer burns: taskvisor resume b"]);
    says(&["why", "pool", "b"], &["It is paused since ", ": the printer burns. taskvisor resume b"]);
    says(&["why", "job", &waits], &["Pool b is paused by uid ", ": the printer burns."]);
    stop(running);
    let mut burst = sandbox.start_raw(&["--burst", "-c", &file(&sandbox)]);
    assert_eq!(burst.wait().code(), Some(1));
    assert!(sandbox.stderr().contains("pool b is paused by uid "), "{}", sandbox.stderr());
    let running = start(&sandbox, "pools: [{name: c, workers: 1, queues: [b]}]\n");
    assert!(sandbox.stderr().contains("a pool of this name was paused, and is not there any more"));
    assert_eq!(ended(&sandbox, &waits)["state"], "complete");
    sandbox.ok(&["pause", "c"]);
    sandbox.ok(&["resume", "c"]);
    stop(running);
    let _running = start(&sandbox, "pools: [{name: c, workers: 1, queues: [b]}]\n");
    assert_eq!(run("b")["state"], "complete");
}

#[test]
fn who_pauses_is_told_that_the_next_start_will_not_know_and_sigcont_ends_a_kept_pause_of_sigusr2() {
    let sandbox = python::new();
    let mut running = start(&sandbox, &version(1, "workers: 1"));
    let is_paused = || sandbox.status()["pools"][0]["paused"] == true;
    let blocker = sandbox.path("state").join("pauses.json");
    fs::create_dir_all(blocker.join("x")).unwrap();
    for change in ["pause", "pause", "resume"] {
        let refused = sandbox.run(&[change, "app"]);
        assert_eq!(refused.status.code(), Some(69), "{refused:?}");
        assert!(
            String::from_utf8_lossy(&refused.stderr)
                .contains("the next start does not know which pools are paused")
        );
        assert_eq!(is_paused(), change == "pause");
    }
    let words = "the next start does not know which pools are paused: failed to write to ";
    wait_until("status says so", || sandbox.reasons().contains(words));
    assert!(sandbox.ok(&["why", "pool", "app"]).contains(words));
    fs::remove_dir_all(&blocker).unwrap();
    sandbox.wait_healthy();
    running.signal("USR2");
    wait_until("it is paused", is_paused);
    sandbox.ok(&["stop"]);
    running.wait();
    let running = sandbox.start(&["-c", &file(&sandbox)]);
    assert!(is_paused());
    running.signal("CONT");
    wait_until("it goes on", || !is_paused());
    assert_eq!(version_of_a_job(&sandbox), "v1");
}

fn check_worn(rule: &str, why: &str) {
    let sandbox = python::new();
    let pools = version(1, &format!("workers: 4, recycle: {{{rule}}}"));
    // Planned recycling is logged at debug.
    write(&sandbox, &format!("log: {{level: debug}}\n{pools}"));
    // On a slow machine one worker is always being replaced, so status may never show all four ready.
    let _running = sandbox.start_raw(&["-c", &file(&sandbox)]);
    wait_until("all are others", || {
        let seen = slots(&sandbox);
        let others = seen.iter().filter(|slot| slot["generation"].as_u64() > Some(1)).count();
        let at_work = seen.iter().filter(|slot| works(slot)).count();
        assert!(others == 0 || at_work >= 3, "more than a quarter is away: {seen:?}");
        others == 4
    });
    assert!(sandbox.stderr().contains(why), "{}", sandbox.stderr());
    assert_eq!(version_of_a_job(&sandbox), "v1");
    assert!(slots(&sandbox).iter().all(|slot| slot["restarts"] == 0));
}

#[test]
fn old_or_idle_workers_are_recycled_one_of_four_at_a_time() {
    check_worn("age: 500ms", "recycled: age");
    check_worn("idle: 300ms", "recycled: idle");
}

#[test]
fn keeper_uses_the_stop_deadline_of_the_last_reload() {
    let sandbox = python::new();
    let mut running = start(&sandbox, "stop_deadline: 1h\n");
    write(&sandbox, "stop_deadline: 10ms\n");
    sandbox.ok(&["reload"]);
    // Its next answer comes after its word to the keeper.
    assert!(sandbox.status().is_object());
    // The stopped supervisor does not read the order to stop; the keeper waits for the stop deadline and 10 s more.
    sandbox::kill(sandbox.one("tv-supervisor"), "STOP");
    running.signal("TERM");
    assert_eq!(running.wait().code(), Some(124));
    sandbox.assert_nothing_left();
}
