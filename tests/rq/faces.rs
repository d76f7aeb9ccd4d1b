//! taskvisor's own verbs on RQ's jobs.

use serde_json::{Value, json};

use crate::http;
use crate::redis_server::Monitor;
use crate::sandbox::{alive, kill, wait_until};
use crate::scene::{Scene, begun, stop};

#[test]
fn jobs_are_shown_listed_counted_canceled_retried_and_discarded() {
    let scene = Scene::new();
    let mut running = scene.start(&["-w", "1"]);
    let (job, file) = scene.put_waiting("shown", "");
    let failing = scene.put("q().enqueue(tasks.fails)");
    let waiting = scene.put("q().enqueue(tasks.add, 1, b=2)");
    let later = scene.put("q().enqueue_in(in_seconds(100), tasks.add, 1, 2)");
    let sandbox = &scene.sandbox;
    let ids = |args: &[&str]| -> Vec<String> {
        let jobs = sandbox.lines(&[&["job", "list", "--json"], args].concat());
        jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&["--state", "running"]), [&*job]);
    assert_eq!(ids(&["--state", "waiting"]), [&*waiting, &*failing], "the newest first");
    assert_eq!(ids(&["--state", "delayed"]), [&*later]);
    assert_eq!(ids(&["--class", "rq_tasks.fails"]), [&*failing]);
    let shown = sandbox.job(&waiting);
    assert_eq!((&shown["class"], &shown["state"]), (&json!("rq_tasks.add"), &json!("waiting")));
    assert_eq!(shown["data"], json!({"args": [1], "kwargs": {"b": 2}}));
    sandbox.ok(&["job", "cancel", &later]);
    assert_eq!(
        (scene.status(&later), scene.rq("len(CanceledJobRegistry('default', c))")),
        ("canceled".into(), json!(1))
    );
    let pid = begun(&file).unwrap();
    sandbox.ok(&["job", "cancel", &job]);
    wait_until("its process is dead", || !alive(pid));
    scene.wait(&job, "stopped");
    scene.wait(&waiting, "finished");
    assert_eq!(sandbox.job(&waiting)["result"], 3);
    assert_eq!(sandbox.job(&failing)["failure"]["group"], "ValueError");
    std::fs::remove_file(&file).unwrap();
    sandbox.ok(&["job", "retry", &job]);
    scene.wait(&job, "finished");
    assert_eq!(
        sandbox.json(&["queue", "list", "--json"])["default"]["jobs"],
        json!({"complete": 2, "failed": 1, "canceled": 1})
    );
    sandbox.ok(&["job", "discard", &failing]);
    assert_eq!(scene.status(&failing), "gone");
    assert!(stop(&mut running).success());
}

/// Each call is a small part of the work: no other client waits for all of it.
#[test]
fn ten_thousand_queues_are_listed_in_many_short_calls() {
    let scene = Scene::new();
    scene.rq("c.sadd('rq:queues', *[f'rq:queue:f{i}' for i in range(10000)])");
    let job = scene.put("q('last').enqueue(tasks.add, 1, 2)");
    scene.rq("[c.config_set('slowlog-log-slower-than', 0), c.config_set('slowlog-max-len', 100000)]");
    let url = scene.url();
    let calls = |args: &[&str], shown: &str| {
        scene.rq("c.slowlog_reset()");
        let said = scene.sandbox.ok(&[&["-b", &url], args].concat());
        assert!(said.contains(shown), "{said}");
        scene.rq("len(c.slowlog_get(100000))").as_u64().unwrap()
    };
    for (args, shown) in [
        (&["queue", "list"][..], "last"),
        (&["job", "list", "--json"], &*job),
        (&["why", "job", &job], "It waits in queue last"),
    ] {
        let calls = calls(args, shown);
        assert!(calls >= 50, "{args:?}: {calls} calls for 10,000 queues");
    }
}

/// Pages read from many lists: the names of all queues are asked for once for a hundred jobs, not for each.
#[test]
fn jobs_of_a_thousand_queues_are_listed_by_few_calls_and_each_once() {
    let scene = Scene::new();
    scene.rq(
        "[c.sadd('rq:queues', f'rq:queue:f{i}') and c.zadd(f'rq:failed:f{i}', {f'j{i}': 9e9}) and \
         c.hset(f'rq:job:j{i}', mapping={'origin': f'f{i}', 'status': 'failed', 'data': 'x'}) for i in range(1000)]",
    );
    let mut monitor = Monitor::new(&scene.server);
    let url = scene.url();
    let calls = "c.info('commandstats').get('cmdstat_evalsha', {}).get('calls', 0)";
    let said = |args: &[&str]| {
        let before = scene.rq(calls).as_u64().unwrap();
        let said = scene.sandbox.ok(&[&["-b", &url], args].concat());
        (said, scene.rq(calls).as_u64().unwrap() - before)
    };
    let (listed, count) = said(&["job", "list", "--state", "failed", "-n", "0", "--json"]);
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].to_string();
    let ids: std::collections::BTreeSet<String> = listed.lines().map(id).collect();
    assert_eq!((ids.len(), listed.lines().count()), (1000, 1000));
    assert!(count < 60, "{count} calls");
    let (groups, count) = said(&["failed"]);
    assert!(groups.contains("1000") && count < 60, "{count} calls: {groups}");
    let (retried, count) = said(&["job", "retry", "--failed"]);
    assert!(retried.contains("1000 jobs retried") && count < 1100, "{count} calls: {retried}");
    let (most, call) = monitor.most();
    assert!(most < 6_000, "{most} commands in one call of {call}");
}

#[test]
fn job_show_has_each_attempt_of_an_rq_job() {
    let scene = Scene::new();
    let mut running = scene.start(&["-w", "1"]);
    let failing = scene.put("q().enqueue(tasks.fails, retry=Retry(max=1))");
    let killed = scene.put("q().enqueue(tasks.dies)");
    let fine = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.wait(&fine, "finished");
    scene.wait(&failing, "failed");
    let sandbox = &scene.sandbox;
    let shown = sandbox.job(&failing);
    assert_eq!((&shown["attempt"], &shown["failure"]["message"]), (&json!(2), &json!("no luck")), "{shown}");
    let attempts = shown["history"].as_array().unwrap();
    let seen = |one: &Value| json!([one["attempt"]["attempt"], one["attempt"]["state"]]);
    let seen: Vec<Value> = attempts.iter().map(seen).collect();
    assert_eq!(seen, [json!([1, "waiting"]), json!([2, "failed"])], "{shown}");
    assert!(shown["worker"]["slot"].as_str().unwrap().ends_with(".1"), "{shown}");
    let shown = sandbox.job(&killed);
    assert_eq!(
        (&shown["forensics"]["exit"]["status"]["signal"], &shown["failure"]["group"]),
        (&json!(9), &json!("crashed"))
    );
    let shown = sandbox.job(&fine);
    assert_eq!((&shown["attempt"], &shown["history"]), (&json!(1), &json!(null)), "{shown}");
    assert!(shown["forensics"]["ran"].as_f64().is_some(), "{shown}");

    let (job, file) = scene.put_waiting("shown", "");
    let shown = sandbox.job(&job);
    assert_eq!((&shown["attempt"], &shown["expires_at"].is_string()), (&json!(1), &true), "{shown}");
    std::fs::remove_file(file).unwrap();
    scene.wait(&job, "finished");
    sandbox.ok(&["job", "retry", &failing]);
    wait_until("it has failed again", || sandbox.job(&failing)["history"].as_array().unwrap().len() == 4);
    assert_eq!(sandbox.job(&failing)["history"][2]["from_state"], "failed");
    assert!(sandbox.ok(&["why", "job", &failing]).contains("no luck"));
    assert!(stop(&mut running).success());
}

#[test]
fn progress_of_an_rq_job_is_shown_and_its_meta_is_its_own() {
    for flags in [&[][..], &["--native"]] {
        let scene = Scene::new();
        let mut running = scene.start_workers(&scene.sandbox, &scene.url(), &["-w", "1"], flags);
        let file = scene.file("reports");
        std::fs::write(&file, "").unwrap();
        let job = scene.put(&format!("q().enqueue(tasks.reports, {file:?}, retry=Retry(max=1))"));
        let half = json!({"fraction": 0.5, "message": "half of it"});
        wait_until("its progress is noted", || scene.sandbox.job(&job)["progress"] == half);
        assert!(scene.sandbox.ok(&["status"]).contains("half of it"), "{flags:?}");
        assert_eq!(scene.rq(&format!("job({job:?}).meta")), json!({"step": "first"}));
        kill(begun(&file).unwrap(), "KILL");
        std::fs::remove_file(&file).unwrap();
        scene.wait(&job, "finished");
        assert_eq!(scene.lines("reports.begun"), 2);
        assert!(stop(&mut running).success());
        assert_eq!(scene.rq(&format!("job({job:?}).meta")), json!({"step": "first"}));
    }
}

#[test]
fn rq_can_read_a_job_put_by_taskvisor() {
    let scene = Scene::new();
    let put = |args: &[&str]| {
        let url = scene.url();
        let args = [&["put", "--broker", &url, "default", "rq_tasks.add"], args].concat();
        scene.sandbox.ok(&args).trim().to_owned()
    };
    let job = put(&[r#"{"args": [1], "kwargs": {"b": 2}}"#]);
    assert_eq!(scene.rq(&format!("job({job:?}).kwargs")), json!({"b": 2}));
    assert_eq!(scene.rq(&format!("job({job:?}).func_name")), "rq_tasks.add");
    let _running = scene.start(&["-w", "1"]);
    scene.wait(&job, "finished");
    assert_eq!(scene.result(&job), 3);
}

#[test]
fn events_of_rq_jobs_are_published() {
    let scene = Scene::new();
    let mut running = scene.start(&["-w", "1"]);
    let file = scene.file("heard");
    let mut command = scene.sandbox.command(&["events", "--json"]);
    let mut listener = command.stdout(std::fs::File::create(&file).unwrap()).spawn().unwrap();
    wait_until("somebody listens", || {
        scene.put("q().enqueue(tasks.add, 1, 2)");
        std::fs::metadata(&file).unwrap().len() > 0
    });
    let job = scene.put("q().enqueue(tasks.fails, retry=Retry(max=1))");
    let told = || -> Vec<Value> {
        let text = std::fs::read_to_string(&file).unwrap();
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|event| event["job"] == *job).collect()
    };
    wait_until("its end is published", || told().iter().any(|event| event["kind"] == "failed"));
    let told = told();
    let kinds: Vec<&str> = told.iter().filter_map(|event| event["kind"].as_str()).collect();
    assert_eq!(kinds, ["fetched", "again", "fetched", "failed"]);
    for event in &told {
        assert_eq!((&event["class"], &event["queue"]), (&json!("rq_tasks.fails"), &json!("default")));
    }
    assert!(stop(&mut running).success());
    assert!(listener.wait().unwrap().success());
}

#[test]
fn pool_with_a_class_filter_leaves_other_jobs_in_their_queue() {
    let scene = Scene::new();
    let other = scene.put("q().enqueue(tasks.name)");
    let own: Vec<String> = (0..3).map(|_| scene.put("q().enqueue(tasks.add, 1, 2)")).collect();
    let mut running = scene.start(&["-w", "2", "--class", "rq_tasks.a*"]);
    own.iter().for_each(|job| scene.wait(job, "finished"));
    let later = scene.put("q().enqueue(tasks.add, 3, 4)");
    scene.wait(&later, "finished");
    assert_eq!(scene.status(&other), "queued");
    assert_eq!(scene.rq("q().job_ids"), json!([other]));
    assert!(stop(&mut running).success());
}

#[test]
fn retried_job_waits_for_what_it_needs_and_an_ended_one_keeps_nobody() {
    let scene = Scene::new();
    let mut running = scene.start(&["-w", "2"]);
    let (first, file) = scene.put_waiting("needed", "");
    let next = scene.put(&format!("q().enqueue(tasks.add, 1, 2, depends_on={first:?})"));
    let sandbox = &scene.sandbox;
    let refused = sandbox.run(&["job", "cancel", &first]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains(&next), "{refused:?}");
    sandbox.ok(&["job", "cancel", &next]);
    sandbox.ok(&["job", "retry", &next]);
    assert_eq!(scene.status(&next), "deferred", "the first one still runs");
    assert!(
        sandbox.ok(&["why", "job", &next]).contains(&format!("It waits until {first} (running) is complete"))
    );
    std::fs::remove_file(&file).unwrap();
    scene.wait(&next, "finished");

    let (first, _file) = scene.put_waiting("again", "");
    let next = scene.put(&format!("q().enqueue(tasks.add, 1, 2, depends_on={first:?})"));
    sandbox.ok(&["job", "cancel", &next]);
    sandbox.ok(&["job", "cancel", &first]);
    scene.wait(&first, "stopped");

    let failing = scene.put("q().enqueue(tasks.fails)");
    let waits = scene.put(&format!("q().enqueue(tasks.add, 1, 2, depends_on={failing:?})"));
    scene.wait(&failing, "failed");
    sandbox.ok(&["job", "discard", &failing]);
    assert!(sandbox.ok(&["why", "job", &waits]).contains("is canceled"), "what is gone does not complete");
    assert!(stop(&mut running).success());
}

#[test]
fn batch_of_rq_jobs_is_waited_for_and_rq_keeps_its_name() {
    let scene = Scene::new();
    let running = scene.start(&["-w", "1"]);
    let (first, file) = scene.put_waiting("first", "");
    let sandbox = &scene.sandbox;
    let put = |n: u32| {
        let args = ["put", "--batch", "sums", "default", "rq_tasks.add", &format!("[{n}, 1]")];
        sandbox.ok(&args).trim().to_owned()
    };
    let (one, two) = (put(1), put(2));
    let counted = |state: &str| sandbox.json(&["batch", "show", "--json", "sums"])["states"][state].clone();
    assert_eq!(counted("waiting"), 2);
    // A client of RQ that reads a job and writes it again leaves the tags alone.
    scene.rq(&format!("job({one:?}).save()"));
    assert_eq!(
        sandbox.json(&["job", "tag", "--json", &two, "add", "eu"])["tags"],
        json!(["batch:sums", "eu"])
    );
    let age = || {
        let since = |id: &str| sandbox.job(id)["put_at_ms"].as_i64().unwrap();
        std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64 - since(&two)
    };
    wait_until("they have waited for a second", || age() > 1100);
    std::fs::remove_file(&file).unwrap();
    scene.wait(&first, "finished");
    sandbox.ok(&["batch", "wait", "--timeout", "1m", "sums"]);
    assert_eq!((counted("complete"), sandbox.job(&one)["tags"].clone()), (json!(2), json!(["batch:sums"])));
    let shown = sandbox.job(&two);
    assert_eq!((&shown["attempt"], &shown["result"]), (&json!(1), &json!(3)));
    let edited = shown["history"].to_string();
    assert!(edited.contains("tags batch:sums eu"), "{shown}");
    let series: Value = serde_json::from_str(&http::get(sandbox, "/v1/series")).unwrap();
    let waits = series["series"][0]["wait_p95"].as_array().unwrap();
    let longest = waits.iter().filter_map(Value::as_f64).fold(0.0, f64::max);
    assert!((1.0..60.0).contains(&longest), "{series}");
    drop(running);
}
