//! Keys of ours that another program has overwritten with another type.

use crate::sandbox::wait_until;
use crate::supervisors::Scene;

/// The lines of a table by their first column.
fn names(table: &str) -> Vec<&str> {
    table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn key_of_a_wrong_type_hides_no_other_job_and_is_named_for_its_own() {
    let scene = Scene::new();
    let mut other = scene.other();
    let good = scene.ok(&["put", "-q", "good", "--tag", "t", "--", "true"]).trim().to_owned();
    for line in [
        "SET ql:j:strjob foo",
        "ZADD ql:queues 1 q9",
        "ZADD ql:q:q9-work 5 strjob",
        "ZADD ql:t:t 5 strjob",
        "ZADD ql:queues 1 qq",
        "SET ql:q:qq-work str",
        "SET ql:q:qq-recur str",
        "SADD ql:failures odd",
        "SET ql:f:odd str",
        "SET ql:s:wait:1:qq str",
    ] {
        let _: redis::Value = other.raw(line);
    }
    let queues = scene.ok(&["queue", "list"]);
    assert_eq!(names(&queues), ["good", "q9", "qq"], "{queues}");
    assert_eq!(names(&scene.ok(&["job", "list"])), [&good]);
    assert_eq!(names(&scene.ok(&["job", "list", "--tag", "t"])), [&good]);
    assert_eq!(names(&scene.ok(&["job", "list", "--state", "waiting"])), [&good]);
    for line in ["failed", "recur list", "status --fleet", "queue stats qq", "stats --statsd 127.0.0.1:9"] {
        scene.ok(&line.split(' ').collect::<Vec<_>>());
    }
    // A malformed key beside a job does not hide the job.
    let _: redis::Value = other.raw(&format!("SET ql:j:{good}-dependents str"));
    assert_eq!(scene.state(&good), "waiting");
    for verb in [
        "job show strjob",
        "job cancel strjob",
        "why job strjob",
        "job tag strjob add x",
        "job retry strjob",
        "job wait strjob",
        "put --jid strjob -- true",
        "put --jid strjob --exists skip -- true",
        "put --depends strjob -- true",
    ] {
        let args: Vec<&str> = verb.split(' ').collect();
        let (code, said) = scene.sandbox.refused(&Scene::with(&scene.url, &args));
        let told = "the key ql:j:strjob is a string of another program";
        assert!(
            code == 1 && said.contains(told) && said.contains("redis-cli DEL ql:j:strjob"),
            "{verb}: {said}"
        );
    }
    assert_eq!(other.raw::<String>("GET ql:j:strjob"), "foo");
    let _: i64 = other.raw("DEL ql:j:strjob");
    scene.ok(&["put", "--jid", "strjob", "--", "true"]);
}

/// A put is refused before it has written anything: what was refused must not run.
#[test]
fn shared_key_of_a_wrong_type_refuses_a_put_as_a_whole() {
    let scene = Scene::new();
    let mut other = scene.other();
    for key in ["ql:taskvisor:jobs", "ql:taskvisor:order", "ql:queues", "ql:completed", "ql:q:default-work"] {
        let _: redis::Value = other.raw_call(&["DEL", key]);
        let _: redis::Value = other.raw_call(&["LPUSH", key, "x"]);
        let (code, stderr) =
            scene.sandbox.refused(&Scene::with(&scene.url, &["put", "--jid", "refused", "--", "true"]));
        assert!(code == 1 && stderr.contains(key) && stderr.contains("list"), "{code} {stderr}");
        let there: u64 = other.raw("EXISTS ql:j:refused");
        assert_eq!(there, 0, "{key}");
        let _: redis::Value = other.raw_call(&["DEL", key]);
    }
    scene.ok(&["put", "--jid", "refused", "--", "true"]);
}

#[test]
fn spoiled_index_of_all_jobs_is_named_by_lists_and_status() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _running = scene.start(&["-w", "1"]);
    scene.ok(&["queue", "pause", "default"]);
    let job = scene.ok(&["put", "--", "true"]).trim().to_owned();
    let key = "ql:taskvisor:jobs";
    let _: redis::Value = other.raw_call(&["DEL", key]);
    let _: redis::Value = other.raw_call(&["SET", key, "x"]);
    for line in ["job list", "job list --state waiting", "job discard --complete"] {
        let args: Vec<&str> = line.split(' ').collect();
        let (code, said) = scene.sandbox.refused(&Scene::with(&scene.url, &args));
        let is_told = said.contains("the key ql:taskvisor:jobs is a string of another program");
        assert!(code == 1 && is_told && said.contains("redis-cli DEL ql:taskvisor:jobs"), "{line}: {said}");
    }
    // A change of the pool has the supervisor look at once.
    scene.ok(&["scale", "default", "2"]);
    let told = "no job can be put: the key ql:taskvisor:jobs is a string of another program";
    wait_until("status names the key", || scene.sandbox.reasons().contains(told));
    let _: redis::Value = other.raw_call(&["DEL", key]);
    scene.ok(&["scale", "default", "1"]);
    scene.sandbox.wait_healthy();
    assert_eq!(names(&scene.ok(&["job", "list"])), [&job], "the index is made again");
}

/// A job that a fetch cannot hand out stays in its queue, and `why job` gives the reason.
#[test]
fn job_that_a_spoiled_key_keeps_from_running_waits_for_it_and_says_so() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _running = scene.start(&["-w", "1"]);
    scene.ok(&["queue", "pause", "default"]);
    let job = scene.ok(&["put", "--", "true"]).trim().to_owned();
    let _: i64 = other.raw(&format!("HSET ql:j:{job} throttles [\"t\"]"));
    let key = "ql:th:t-locks";
    let _: String = other.raw_call(&["SET", key, "x"]);
    scene.ok(&["queue", "resume", "default"]);
    let told =
        format!("job '{job}' of queue 'default' has to wait: another program has spoiled the key {key}");
    wait_until("status says so", || scene.sandbox.reasons().contains(&told));
    assert!(scene.ok(&["why", "job", &job]).contains(&told));
    // It does not stop others.
    scene.assert_goes_on();
    assert_eq!(scene.state(&job), "waiting");
    let _: i64 = other.raw_call(&["DEL", key]);
    wait_until("it is complete", || scene.state(&job) == "complete");
    assert_eq!(scene.job(&job)["attempt"], 1);
    scene.sandbox.wait_healthy();
}

#[test]
fn dependent_is_set_free_when_its_queue_can_be_written_again() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _running = scene.start(&["-w", "1"]);
    let need = scene.ok(&["put", "--delay", "1s", "--", "true"]).trim().to_owned();
    let job = scene.ok(&["put", "-q", "q2", "--depends", &need, "--", "true"]).trim().to_owned();
    let _: String = other.raw("SET ql:q:q2-work x");
    wait_until("the other is complete", || scene.state(&need) == "complete");
    assert_eq!(scene.state(&job), "depends");
    let why = scene.ok(&["why", "job", &job]);
    assert!(why.contains("It needs no other job any more"), "{why}");
    let _: i64 = other.raw("DEL ql:q:q2-work");
    wait_until("it waits for a worker", || scene.state(&job) == "waiting");
    assert_eq!(other.raw::<Vec<String>>("ZRANGE ql:q:q2-work 0 -1"), [job]);
    assert_eq!(other.raw::<i64>("EXISTS ql:q:q2-depends ql:taskvisor:stray"), 0);
}
