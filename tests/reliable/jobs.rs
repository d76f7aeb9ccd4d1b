//! Jobs on the tutorial's queue, judged by the keys, by files and by the program's output.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::sandbox::{stays, wait_until, wait_within};
use crate::scene::Scene;

#[test]
fn job_is_put_run_answered_and_kept_in_the_ledger() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "2"]);
    let id = scene.sandbox.ok(&["put", "--", "/bin/sh", "-c", "echo hello; echo ran >>out"]);
    let id = id.trim();
    wait_until("the job is complete", || scene.sandbox.state(id) == "complete");
    assert_eq!((scene.said("out").as_str(), scene.result(id).as_deref()), ("ran\n", Some("null")));
    assert_eq!(scene.sandbox.ok(&["job", "logs", id]), "hello\n");
    assert_eq!(scene.jobs(&["--state", "complete"])[0]["id"], id);
    scene.assert_done(&[id.to_owned()]);
}

/// Producers only push: they publish nothing.
#[test]
fn pushed_value_runs_at_once_and_an_idle_host_polls_little() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "2"]);
    let calls = || {
        let text: String = scene.raw(&["INFO", "stats"]);
        let count = text.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
        count.unwrap().trim().parse::<u64>().unwrap()
    };
    scene.shell("first", ":");
    wait_until("the first is done", || scene.result("first").is_some());
    // Commands inside scripts count too: one look for due jobs takes some twenty.
    let (before, mut looks) = (calls(), 0);
    stays(Duration::from_secs(3), "fewer than 60 commands a second at rest", || {
        looks += 1;
        calls() - before < 180 + looks
    });
    let mut slowest = Duration::ZERO;
    for n in 0..5 {
        let pushed = Instant::now();
        scene.shell(&format!("j{n}"), &format!("echo >>began-{n}"));
        wait_until("it begins", || scene.sandbox.work(&format!("began-{n}")).exists());
        slowest = slowest.max(pushed.elapsed());
        wait_until("it is done", || scene.result(&format!("j{n}")).is_some());
    }
    // Unprompted, the supervisor polls after 5 s or later; this machine may be slow.
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
}

#[test]
fn failed_job_is_retried_then_dead_lettered_and_can_be_requeued() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1", "--retries", "1"]);
    scene.shell("j", "echo try >>tries; [ -e good ] || exit 3");
    wait_until("it is dead", || scene.dead("j").is_some());
    assert_eq!(scene.said("tries"), "try\ntry\n");
    assert!(scene.dead("j").unwrap().to_string().contains("exit 3"), "{:?}", scene.dead("j"));
    wait_until("the ledger says so", || scene.sandbox.state("j") == "failed");
    assert!(scene.sandbox.ok(&["failed"]).contains("exit 3"));
    assert_eq!(scene.result("j"), None);
    assert!(scene.working().is_empty() && scene.pending().is_empty());
    // As the card says.
    fs::write(scene.sandbox.work("good"), "").unwrap();
    scene.raw::<i64>(&["LPUSH", "pending", "j"]);
    scene.assert_done(&["j".into()]);
    assert_eq!(scene.said("tries"), "try\ntry\ntry\n");
}

#[test]
fn delayed_job_waits_where_old_clients_do_not_take_it() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    let id = scene.sandbox.ok(&["put", "--delay", "2s", "--", "/bin/sh", "-c", "echo ran >>out"]);
    let id = id.trim().to_owned();
    let began = Instant::now();
    assert_eq!((scene.working(), scene.pending().len()), (vec![id.clone()], 0));
    let due: f64 = scene.raw(&["ZSCORE", "working", &id]);
    assert!(due > scene.time(), "no tidying of another client takes it for stale");
    scene.assert_done(&[id]);
    assert!(began.elapsed() > Duration::from_millis(1900), "{:?}", began.elapsed());
}

#[test]
fn ids_without_a_value_are_dropped_and_poison_is_dead_lettered() {
    let scene = Scene::new();
    for n in 0..3 {
        scene.raw::<i64>(&["LPUSH", "pending", &format!("half-{n}")]);
    }
    scene.enqueue("poison", r#"{"class": "exec", "data": {"argv": 5}}"#);
    scene.shell("good", ":");
    let _running = scene.start(&["-w", "1"]);
    wait_until("the good one is done", || scene.result("good").is_some());
    assert_eq!(scene.raw::<i64>(&["HGET", "taskvisor:counts", "dropped"]), 3);
    assert!(
        scene.sandbox.reasons().contains("3 ids in 'pending' had no value"),
        "{}",
        scene.sandbox.reasons()
    );
    assert!(scene.dead("poison").unwrap().to_string().contains("its program cannot be read"));
    assert!(scene.raw::<bool>(&["HEXISTS", "values", "poison"]), "its value is kept");
}

#[test]
fn unsupported_verbs_are_refused_with_an_alternative() {
    let scene = Scene::new();
    scene.shell("j", ":");
    let _running = scene.start(&["-w", "1"]);
    wait_until("the job is done", || scene.jobs(&["--state", "complete"]).len() == 1);
    for (args, word) in [
        (&["job", "retry", "j"] as &[&str], "redis-cli LPUSH pending"),
        (&["queue", "pause", "default"], "taskvisor pause"),
        (&["put", "--priority", "3", "--", "/bin/true"], "database of its own"),
        (&["status", "--fleet"], "ask each host"),
    ] {
        let (code, said) = scene.sandbox.refused(args);
        assert_eq!(code, 8, "{args:?}: {said}");
        assert!(said.contains(word) && said.contains("the broker reliable cannot"), "{args:?}: {said}");
    }
    let (_, said) = scene.sandbox.refused(&["put", "-q", "other", "--", "/bin/true"]);
    assert!(said.contains("this broker has one queue, 'default'"), "{said}");
}

#[test]
fn pool_leaves_jobs_of_other_classes_in_the_queue() {
    let scene = Scene::new();
    let file = scene.sandbox.path("pools.yaml");
    fs::write(&file, "pools: [{name: programs, workers: 1, classes: [exec]}]\n").unwrap();
    let file = file.display().to_string();
    for n in 0..5 {
        scene.enqueue(&format!("mail-{n}"), r#"{"class": "mail", "data": 1}"#);
    }
    scene.shell("j", ":");
    let _running = scene.start(&["-c", &file]);
    wait_until("the program ran", || scene.result("j").is_some());
    let left: Vec<String> = (0..5).rev().map(|n| format!("mail-{n}")).collect();
    assert_eq!((scene.pending(), scene.working().len()), (left, 0), "in the order in which they came");
}

#[test]
fn stale_job_of_an_old_worker_is_requeued_or_done_if_it_has_a_result() {
    let mut scene = Scene::new();
    scene.url += "&stale_time=1&tidy_interval=200ms";
    let clocks = [("behind", -86_400.0), ("right", 0.0), ("ahead", 86_400.0)];
    for (id, skew) in clocks {
        scene.shell(id, "echo $(basename $0) >>out");
        scene.raw::<i64>(&["LREM", "pending", "1", id]);
        scene.raw::<i64>(&["ZADD", "working", &(scene.time() + skew).to_string(), id]);
    }
    // Recorded as the tutorial does: the id stays in `working`.
    scene.raw::<i64>(&["ZADD", "working", &scene.time().to_string(), "done"]);
    scene.raw::<i64>(&["HSET", "results", "done", "theirs"]);
    let began = Instant::now();
    let _running = scene.start(&["-w", "1"]);
    scene.assert_done(&clocks.map(|(id, _)| id.to_owned()));
    assert!(began.elapsed() >= Duration::from_secs(1), "each had its time, whatever its clock says");
    assert_eq!(scene.result("done").as_deref(), Some("theirs"));
    assert_eq!(scene.said("out").lines().count(), 3);
}

/// An old client whose clock is far ahead considers our running job stale.
#[test]
fn running_job_that_another_client_requeues_runs_once() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "3", "--lease", "10s", "--grace", "1s"]);
    scene.shell("j", "echo ran >>out; until [ -e go ]; do sleep 0.05; done");
    wait_until("it runs", || scene.said("out") == "ran\n");
    for _ in 0..5 {
        scene.raw::<i64>(&["ZREM", "working", "j"]);
        scene.raw::<i64>(&["LPUSH", "pending", "j"]);
        wait_until("it is in working again", || scene.working() == ["j"] && scene.pending().is_empty());
    }
    fs::write(scene.sandbox.work("go"), "").unwrap();
    scene.assert_done(&["j".into()]);
    assert_eq!(scene.said("out"), "ran\n");
}

#[test]
fn job_longer_than_its_lease_is_renewed_and_runs_once() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "2", "--lease", "8s", "--grace", "100ms"]);
    scene.shell("j", "echo ran >>out; sleep 12");
    wait_until("it runs", || scene.said("out") == "ran\n");
    let till: f64 = scene.raw(&["ZSCORE", "working", "j"]);
    wait_until("it is renewed", || {
        scene.raw::<Option<f64>>(&["ZSCORE", "working", "j"]).is_some_and(|now| now > till + 5.0)
    });
    scene.assert_done(&["j".into()]);
    assert_eq!(scene.said("out"), "ran\n");
}

#[test]
fn values_and_results_expire_after_the_keep_time_of_the_url() {
    let mut scene = Scene::new();
    scene.url += "&keep=1";
    let _running = scene.start(&["-w", "1"]);
    scene.shell("j", ":");
    scene.raw::<i64>(&["HSET", "values", "theirs", "x"]);
    wait_until("it is done", || scene.jobs(&["--state", "complete"]).len() == 1);
    wait_within(Duration::from_secs(20), "it is forgotten", || {
        !scene.raw::<bool>(&["HEXISTS", "values", "j"])
    });
    assert_eq!((scene.result("j"), scene.raw::<i64>(&["ZCARD", "taskvisor:done"])), (None, 0));
    assert!(scene.raw::<bool>(&["HEXISTS", "values", "theirs"]));
}

#[test]
fn canceled_job_ends_and_its_keys_are_removed() {
    let scene = Scene::new();
    scene.shell("j", "echo $$ >>pids; sleep 600");
    let _running = scene.start(&["-w", "1"]);
    wait_until("it runs", || !scene.said("pids").is_empty());
    scene.sandbox.ok(&["job", "cancel", "--wait", "j"]);
    wait_until("it is gone", || !scene.raw::<bool>(&["HEXISTS", "values", "j"]));
    assert_eq!(scene.sandbox.state("j"), "canceled");
    assert!(scene.working().is_empty() && scene.pending().is_empty());
}

/// The class of a value, and the data that its worker gets, as in docs/reliable.md.
#[test]
fn worker_with_a_class_in_the_url_gets_each_value_unchanged() {
    let mut scene = Scene::new();
    scene.url = scene.url.replace("exec=yes", "class=echo");
    let env = format!("PYTHONPATH={}", crate::python::path());
    let worker =
        ["-m", "prefork", "-w", "1", "--env", &env, "--", "python3", "-m", "taskvisor.worker", "app"];
    let _running = scene.start(&worker);
    scene.enqueue("json", r#"{"to": "ann"}"#);
    scene.enqueue("text", "hello, you");
    scene.enqueue("number", "42");
    let given = |id: &str| -> serde_json::Value {
        wait_until("it has a result", || scene.result(id).is_some());
        serde_json::from_str(&scene.result(id).unwrap()).unwrap()
    };
    assert_eq!([given("json"), given("number")], [json!({"data": {"to": "ann"}}), json!({"data": 42})]);
    assert_eq!(given("text"), json!({"bytes": b"hello, you"}));
    let put = scene.sandbox.ok(&["put", "default", "echo", "[1,2]"]);
    assert_eq!(scene.raw::<String>(&["HGET", "values", put.trim()]), "[1,2]");
    assert_eq!(given(put.trim()), json!({"data": [1, 2]}));
}

/// Some parsers of JSON, also that of Redis, read these values otherwise than taskvisor.
#[test]
fn values_that_parsers_read_differently_run_in_the_pool_of_their_class() {
    let mut scene = Scene::new();
    scene.url = scene.url.replace("?exec=yes", "");
    let module = "import os\n\nfrom taskvisor import current_job, job\n\n\ndef which(*words, **named):\n    \
                  return [os.environ[\"POOL\"], current_job().class_name]\n\n\njob(\"mail\")(which)\njob(\"value\")(which)\n";
    fs::write(scene.sandbox.work("kinds.py"), module).unwrap();
    let pool = |name: &str, classes: &str| {
        format!(
            "  - {{name: {name}, workers: 1, mode: prefork, {classes}, command: [python3, -m, taskvisor.worker, kinds],\n     \
             env: {{set: {{POOL: {name}, PYTHONDONTWRITEBYTECODE: '1', PYTHONPATH: '{}'}}}}}}\n",
            crate::python::path()
        )
    };
    let pools = [pool("values", "classes: [value]"), pool("others", "except_classes: [value]")].concat();
    let file = scene.sandbox.path("pools.yaml");
    fs::write(&file, format!("pools:\n{pools}")).unwrap();
    let values: [(&str, &[u8]); 7] = [
        ("value", b"{\"class\": \"mail\", \"data\": NaN}"),
        ("value", b"{\"class\": \"mail\", \"data\": 0x10}"),
        ("value", b"{\"class\": \"mail\", \"data\": \"\xff\"}"),
        ("value", b"{\"class\": \"mail\", \"class\": \"mail\", \"data\": 1}"),
        ("value", b"[\"mail\", 1]"),
        ("mail", b"{\"class\": \"mail\", \"data\": 1}"),
        ("mail", b"{\"class\": \"mail\", \"to\": \"\\ud83d\\ude00\"}"),
    ];
    let mut redis = scene.server.connect();
    for (n, (_, value)) in values.iter().enumerate() {
        let id = format!("j{n}");
        redis::cmd("HSET").arg("values").arg(&id).arg(*value).exec(&mut redis).unwrap();
        redis::cmd("LPUSH").arg("pending").arg(&id).exec(&mut redis).unwrap();
    }
    let _running = scene.start(&["-c", &file.display().to_string()]);
    scene.assert_done(&crate::scene::ids(values.len()));
    for (n, (class, value)) in values.iter().enumerate() {
        let pool = if *class == "value" { "values" } else { "others" };
        let expected = format!("[\"{pool}\",\"{class}\"]");
        assert_eq!(scene.result(&format!("j{n}")), Some(expected), "{}", String::from_utf8_lossy(value));
    }
    assert_eq!(scene.raw::<i64>(&["EXISTS", "taskvisor:classes"]), 0, "what has run is not remembered");
}

#[test]
fn batch_counts_what_was_taken_here_and_is_not_waited_for() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    let id = scene.sandbox.ok(&["put", "--batch", "letters", "--", "true"]);
    wait_until("the job is complete", || scene.sandbox.state(id.trim()) == "complete");
    assert_eq!(scene.sandbox.json(&["batch", "show", "--json", "letters"])["states"]["complete"], 1);
    let (code, said) = scene.sandbox.refused(&["batch", "wait", "letters"]);
    assert!(code == 8 && said.contains("shows a job once this host has taken it"), "{code} {said}");
    assert!(said.contains("taskvisor batch show letters"), "{said}");
}
