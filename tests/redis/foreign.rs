//! Jobs that another program has put or holds: the verbs show what is known and nothing else.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::RedisServer;
use crate::sandbox::wait_until;
use crate::supervisors::Scene;

/// The timeline's lines without their times.
fn timeline(page: &str) -> Vec<String> {
    let lines = page.lines().skip_while(|line| *line != "timeline").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  2"));
    lines
        .map(|line| {
            line[2..]
                .splitn(3, ' ')
                .nth(2)
                .unwrap_or_default()
                .trim_start_matches(|letter| "+0123456789.msh ".contains(letter))
                .to_owned()
        })
        .collect()
}

/// The current time as clients of qless send it, shifted by some seconds.
fn at(seconds: f64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    format!("{:.3}", now + seconds)
}

#[test]
fn redis_that_drops_keys_when_it_is_full_is_told_at_start_and_in_status() {
    let args = ["--maxmemory", "200mb", "--maxmemory-policy", "allkeys-lru", "--appendonly", "yes"];
    let scene = Scene::on(RedisServer::start_with(&args));
    let _running = scene.start(&["-w", "1"]);
    let words = "it drops keys when its memory is full, those of jobs too, and tells nobody (maxmemory-policy allkeys-lru)";
    assert!(scene.sandbox.stderr().contains(words), "{}", scene.sandbox.stderr());
    wait_until("status says so", || scene.sandbox.reasons().contains(words));
    assert_eq!(scene.sandbox.status()["health"], "degraded");
    let told = scene.sandbox.run(&["-b", &scene.url, "doctor"]);
    assert!(String::from_utf8_lossy(&told.stdout).contains(words), "{told:?}");
    // What was set while it was connected is heard, too.
    let mut other = scene.other();
    let mut set = |policy: &str| other.raw::<()>(&format!("CONFIG SET maxmemory-policy {policy}"));
    set("noeviction");
    wait_until("it is well again", || scene.sandbox.status()["health"] == "healthy");
    set("allkeys-random");
    wait_until("status says so again", || {
        scene.sandbox.reasons().contains("maxmemory-policy allkeys-random")
    });
    // Who may not ask any more says what was last known, and nothing of a server that was never asked.
    other.raw::<()>("ACL SETUSER default -info");
    wait_until("status says that it is not known any more", || {
        scene.sandbox.reasons().contains(
            "allkeys-random): set maxmemory-policy noeviction, which refuses new jobs \
                                          instead. It said so before it refused INFO",
        )
    });
    other.raw::<()>("CLIENT KILL TYPE normal SKIPME yes");
    wait_until("nothing is known of the server", || scene.sandbox.status()["health"] == "healthy");
}

#[test]
fn job_page_names_a_foreign_worker_and_its_lease_and_invents_nothing() {
    let scene = Scene::new();
    let mut other = scene.other();
    scene.ok(&["put", "-q", "elsewhere", "--jid", "j", "--", "true"]);
    let _: String = other.call(&["pop", &at(0.0), "elsewhere", "host-1", "1"]);
    let page = scene.ok(&["job", "show", "j"]);
    assert!(page.contains("running, leased to worker host-1 of another program until 2"), "{page}");
    assert!(!page.contains("attempt"), "{page}");
    let told = timeline(&page);
    assert!(told[0].starts_with("put by uid"), "{page}");
    assert_eq!(told[1..], ["popped by host-1"], "{page}");
    let why = scene.ok(&["why", "job", "j"]);
    assert!(why.contains("Worker host-1 of another program has had it for "), "{why}");
    assert!(why.contains("Its lease ends in ") && !why.contains("Attempt"), "{why}");
    assert_eq!(scene.job("j")["holder"], "host-1");
}

#[test]
fn timeline_shows_what_other_clients_did_in_order() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _running = scene.start(&["-w", "1"]);
    let (jid, _) = scene.a_long_job();
    // Else it may be taken again between the two.
    scene.ok(&["queue", "pause", "default"]);
    let _: redis::Value = other.call(&["timeout", &Scene::now(), &jid]);
    let _: String = other.call(&["put", &Scene::now(), "me", "elsewhere", &jid, "k", "{}", "0"]);
    let page = scene.ok(&["job", "show", &jid]);
    let told = timeline(&page);
    let is = |number: usize, text: &str| told.get(number).is_some_and(|line| line.starts_with(text));
    assert!(is(0, "put by ") && is(1, "attempt 1 assigned"), "{page}");
    assert_eq!(told[2..], ["timed-out", "put into queue elsewhere"], "{page}");
}

#[test]
fn delayed_foreign_job_shows_its_put_before_its_pop() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _: String = other.call(&["put", &at(-9.0), "me", "elsewhere", "j", "k", "{}", "5"]);
    let _: String = other.call(&["pop", &at(0.0), "elsewhere", "host-1", "1"]);
    assert_eq!(timeline(&scene.ok(&["job", "show", "j"])), ["put", "popped by host-1"]);
    let age =
        &scene.sandbox.json(&["-b", &scene.url, "job", "list", "--state", "running", "--json"])["put_at_ms"];
    assert_eq!(*age, scene.job("j")["put_at_ms"]);
    assert!(scene.job("j")["started_at_ms"].as_i64().unwrap() - age.as_i64().unwrap() >= 8000);
}

#[test]
fn unknown_dates_are_not_shown() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _: i64 = other.raw("HSET ql:j:bare state waiting queue elsewhere klass k data {}");
    let _: i64 = other.raw("ZADD ql:q:elsewhere-work 0 bare");
    let _: i64 = other.raw("ZADD ql:queues 1 elsewhere");
    let _: i64 = other.raw("SADD ql:paused_queues elsewhere");
    let _: String = other.call(&["recur", &at(0.0), "elsewhere", "rep", "k", "{}", "interval", "60", "0"]);
    for line in
        ["job show bare", "job list --queue elsewhere", "why job bare", "recur show rep", "queue list"]
    {
        let shown = scene.ok(&line.split(' ').collect::<Vec<_>>());
        assert!(
            !shown.contains("1970") && !shown.contains("000d") && !shown.contains("y ago"),
            "{line}: {shown}"
        );
        assert!(!shown.contains("paused 2"), "{line}: {shown}");
    }
    let rep = scene.ok(&["recur", "show", "rep"]);
    assert!(rep.contains("at an unknown time by another program"), "{rep}");
}

/// No call may hold Redis for long, however many queues other programs have.
#[test]
fn hundreds_of_foreign_queues_are_counted_in_parts() {
    let scene = Scene::new();
    let mut other = scene.other();
    let fill = "for i = 1, 450 do redis.call('ZADD', 'ql:queues', i, 'queue' .. i) end return 1";
    let _: i64 = other.raw_call(&["EVAL", fill, "0"]);
    let _: String = other.raw("CONFIG RESETSTAT");
    let shown = scene.ok(&["queue", "list"]);
    assert!(shown.contains("queue1 ") && shown.contains("queue450 "), "{shown}");
    // Three parts, after their names and the counts of ended jobs.
    let stats: String = other.raw("INFO commandstats");
    let of =
        |command: &str| stats.lines().find(|line| line.starts_with(command)).unwrap_or_default().to_owned();
    assert!(of("cmdstat_evalsha:").starts_with("cmdstat_evalsha:calls=5,"), "{stats}");
}

/// Failed jobs of another program, made by one call of its own script.
fn fail_many(other: &mut crate::support::Scripted, count: usize) {
    let script = "for i = 1, tonumber(ARGV[1]) do \
        redis.call('HSET', 'ql:j:f' .. i, 'jid', 'f' .. i, 'klass', 'k', 'data', '{}', 'priority', '0', 'tags', '{}', \
            'state', 'failed', 'worker', '', 'expires', '', 'queue', 'elsewhere', 'retries', '5', 'remaining', '5', \
            'time', '1', 'failure', '{\"group\":\"g\",\"message\":\"m\",\"when\":1,\"worker\":\"w\"}') \
        redis.call('LPUSH', 'ql:f:g', 'f' .. i) end \
        redis.call('SADD', 'ql:failures', 'g') redis.call('ZADD', 'ql:queues', 1, 'elsewhere') return 1";
    let _: i64 = other.raw_call(&["EVAL", script, "0", &count.to_string()]);
}

#[test]
fn thousands_of_foreign_jobs_can_be_listed_retried_and_discarded() {
    let scene = Scene::new();
    let mut other = scene.other();
    fail_many(&mut other, 7_000);
    let shown = scene.ok(&["job", "list", "--state", "failed", "--json", "-n", "0"]);
    assert_eq!(shown.lines().count(), 7_000, "{}", &shown[..200.min(shown.len())]);
    // Some jobs have a list position already, and some positions are of jobs that are gone.
    let _: i64 = other.raw("DEL ql:taskvisor:jobs");
    let _: i64 = other.raw("ZADD ql:taskvisor:jobs 1 f5 2 f6 3 gone");
    let retried = scene.ok(&["job", "retry", "--failed"]);
    assert!(retried.contains("7000 jobs retried"), "{retried}");
    assert_eq!(other.raw::<i64>("ZCARD ql:q:elsewhere-work"), 7_000);
    assert_eq!(other.raw::<i64>("EXISTS ql:f:g"), 0);
    let _: i64 = other.raw("DEL ql:taskvisor:jobs ql:q:elsewhere-work");
    fail_many(&mut other, 3_000);
    let discarded = scene.ok(&["job", "discard", "--failed"]);
    assert!(discarded.contains("3000 jobs discarded"), "{discarded}");
}

#[test]
fn job_list_shows_foreign_jobs() {
    let scene = Scene::new();
    let mut other = scene.other();
    scene.ok(&["put", "-q", "elsewhere", "--jid", "ours", "--", "true"]);
    let put = |other: &mut crate::support::Scripted, jid: &str, delay: &str| {
        let _: String = other.call(&["put", &at(0.0), "me", "elsewhere", jid, "k", "{}", delay]);
    };
    put(&mut other, "first", "0");
    put(&mut other, "second", "0");
    put(&mut other, "later", "1000");
    let ids = || {
        let list = scene.ok(&["job", "list", "--json"]);
        let id = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].clone();
        list.lines().map(|line| id(line).as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids().last().map(String::as_str), Some("ours"));
    let mut all = ids();
    all.sort();
    assert_eq!(all, ["first", "later", "ours", "second"]);
    // The newest job is on top.
    put(&mut other, "third", "0");
    assert_eq!((ids().len(), ids()[0].as_str()), (5, "third"));
}

/// The longest class that fits into the environment of a program runs. Of one that does not fit no slot goes down.
#[test]
fn job_whose_class_no_program_can_be_given_fails_by_itself() {
    let scene = Scene::new();
    let mut other = scene.other();
    let classes = [("long", "k".repeat(131_056)), ("nul", "a\0b".into()), ("fits", "k".repeat(131_055))];
    for (jid, class) in &classes {
        let _: String = other.call(&["put", &at(0.0), "me", "default", jid, class, "{}", "0"]);
    }
    let yaml = format!("{{broker: '{}', pools: [{{name: a, workers: 1, run: [/bin/true]}}]}}", scene.url);
    fs::write(scene.sandbox.work("pool.yaml"), yaml).unwrap();
    let _running = scene.sandbox.start(&["-c", "pool.yaml"]);
    for (jid, state) in [("long", "failed"), ("nul", "failed"), ("fits", "complete")] {
        wait_until("it has ended", || ["failed", "complete"].contains(&&*scene.state(jid)));
        assert_eq!(scene.state(jid), state, "{jid}");
    }
    let why = |jid| {
        scene.ok(&["job", "show", jid]).lines().find(|line| line.starts_with("why")).unwrap().to_owned()
    };
    assert!(why("long").ends_with("may have 131071 bytes, this has 131072"), "{}", why("long"));
    assert!(why("nul").contains("its class has a NUL byte"), "{}", why("nul"));
    scene.sandbox.wait_healthy();
    assert!(!scene.sandbox.stderr().contains("is down"));
}

#[test]
fn foreign_job_gets_a_list_position_when_fetched_and_loses_it_when_gone() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _running = scene.start(&["-w", "1", "-q", "elsewhere"]);
    let _: String = other.call(&["put", &at(0.0), "me", "elsewhere", "j", "k", "{}", "0"]);
    wait_until("it was fetched", || other.raw::<Option<String>>("ZSCORE ql:taskvisor:jobs j").is_some());
    let _: i64 = other.raw("ZADD ql:taskvisor:jobs 1000 gone");
    let _: redis::Value = other.line("taskvisor.sign 5 c i {}");
    assert_eq!(other.raw::<Option<String>>("ZSCORE ql:taskvisor:jobs gone"), None);
    assert!(other.raw::<Option<String>>("ZSCORE ql:taskvisor:jobs j").is_some());
}

#[test]
fn cancel_notifies_a_foreign_worker_and_does_not_claim_that_it_stopped() {
    let scene = Scene::new();
    let mut other = scene.other();
    for (jid, more, code) in [("now", None, 0), ("waits", Some("--wait"), 1)] {
        let _: String = other.call(&["put", &at(0.0), "me", "elsewhere", jid, "k", "{}", "0"]);
        let _: String = other.call(&["pop", &at(0.0), "elsewhere", "host-1", "1"]);
        let mut ears = crate::support::Ears::new(scene.server.borrow().as_ref().unwrap());
        let args: Vec<&str> = ["-b", &scene.url, "job", "cancel", jid].into_iter().chain(more).collect();
        let output = scene.sandbox.run(&args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{jid} canceled\n"));
        assert!(
            said.contains("worker host-1 of another program") && said.contains("nobody here can tell"),
            "{said}"
        );
        assert_eq!(output.status.code(), Some(code), "{said}");
        let heard = ears.heard();
        let of_worker: Vec<&String> = heard.iter().filter(|line| line.starts_with("ql:w:host-1 ")).collect();
        assert!(of_worker[0].contains("canceled") && of_worker[1].contains("lock_lost"), "{heard:?}");
        assert_eq!(of_worker.len(), 2, "{heard:?}");
    }
}

#[test]
fn job_completed_by_another_program_shows_its_queue_and_attempts() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _: String = other.call(&["put", &at(0.0), "me", "elsewhere", "j", "k", "{}", "0"]);
    let _: String = other.call(&["pop", &at(0.0), "elsewhere", "host-1", "1"]);
    let _: String = other.call(&["complete", &at(0.0), "j", "host-1", "elsewhere", "{}"]);
    let job = scene.job("j");
    assert_eq!((&job["queue"], &job["attempt"]), (&"elsewhere".into(), &1.into()), "{job}");
    let _: i64 = other.raw_call(&["HSET", "ql:j:j", "happened", "{\"at\":1790000000000,\"what\":7}"]);
    let page = scene.ok(&["job", "show", "j"]);
    assert!(page.contains("a line that cannot be read: {"), "{page}");
}

#[test]
fn traceback_takes_one_line_in_the_table() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _: String = other.call(&["put", &at(0.0), "me", "elsewhere", "j", "k", "{}", "0"]);
    let _: String = other.call(&["pop", &at(0.0), "elsewhere", "host-1", "1"]);
    let trace = "Traceback (most recent call last):\n  File \"a.py\", line 1\nValueError: no such film\n";
    let _: String = other.call(&["fail", &at(0.0), "j", "host-1", "g", trace]);
    for args in [&["failed"][..], &["failed", "g"], &["job", "list", "--state", "failed"]] {
        let table = scene.ok(args);
        assert!(table.contains("ValueError: no such film") && !table.contains("Traceback"), "{table}");
    }
}

/// Each way in which another program's script makes a job runnable with few or no events.
#[test]
fn idle_supervisor_soon_runs_jobs_that_other_clients_release() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _running = scene.start(&["-w", "1"]);
    let done = |what: &str, jid: &str| {
        wait_until(what, || ["complete", "failed", "held"].contains(&&*scene.state(jid)));
    };
    // Advance to the next queue, published as `advanced`.
    scene.ok(&["put", "-q", "elsewhere", "--jid", "next", "--", "true"]);
    let _: String = other.call(&["pop", &at(0.0), "elsewhere", "host-1", "1"]);
    let data = other.field("next", "data").unwrap();
    let _: String =
        other.call(&["complete", &at(0.0), "next", "host-1", "elsewhere", &data, "next", "default"]);
    done("it goes on", "next");
    // A dependent: only the completion of its dependency is published.
    scene.ok(&["put", "-q", "elsewhere", "--jid", "first", "--", "true"]);
    scene.ok(&["put", "--jid", "second", "--depends", "first", "--", "true"]);
    let script = "redis.call('SREM', 'ql:j:second-dependencies', 'first') redis.call('DEL', 'ql:j:first-dependents') \
        redis.call('ZREM', 'ql:q:default-depends', 'second') redis.call('ZADD', 'ql:q:default-work', 0, 'second') \
        redis.call('HSET', 'ql:j:second', 'state', 'waiting') \
        redis.call('PUBLISH', 'ql:log', '{\"jid\":\"first\",\"event\":\"completed\",\"queue\":\"elsewhere\"}') return 1";
    let _: i64 = other.raw_call(&["EVAL", script, "0"]);
    done("it is free", "second");
    // A resumed queue: nothing is published.
    let _: i64 = other.raw("SADD ql:paused_queues default");
    scene.ok(&["put", "--jid", "paused", "--", "true"]);
    let _: i64 = other.raw("SREM ql:paused_queues default");
    done("the queue goes on", "paused");
}

#[test]
fn throttles_of_reqless_are_obeyed() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _: i64 = other.raw("HSET ql:th:gpu id gpu maximum 1");
    for jid in ["a", "b", "c"] {
        scene.ok(&["put", "--jid", jid, "--", "sleep", "1000"]);
        let _: i64 =
            other.raw_call(&["HSET", &format!("ql:j:{jid}"), "throttles", r#"["gpu","ql:q:default"]"#]);
    }
    let _running = scene.start(&["-w", "3"]);
    wait_until("two are held up", || other.raw::<i64>("ZCARD ql:q:default-throttled") == 2);
    assert_eq!(other.raw::<Vec<String>>("ZRANGE ql:th:gpu-locks 0 -1"), ["a"]);
    assert_eq!(other.raw::<Vec<String>>("ZRANGE ql:th:ql:q:default-locks 0 -1"), ["a"]);
    assert_eq!(["a", "b", "c"].map(|jid| scene.state(jid)), ["running", "waiting", "waiting"]);
    let queues = scene.ok(&["queue", "list", "--json"]);
    assert!(queues.contains(r#""waiting":2"#), "{queues}");
    assert_eq!(scene.ok(&["job", "list", "--state", "waiting", "--json"]).lines().count(), 2);
    // A throttled job can be canceled, and the end of a running one lets the next one run.
    assert_eq!(scene.ok(&["job", "cancel", "c"]), "c canceled\n");
    assert_eq!(other.raw::<Vec<String>>("ZRANGE ql:th:gpu-pending 0 -1"), ["b"]);
    scene.ok(&["job", "cancel", "--wait", "a"]);
    wait_until("the next one runs", || scene.state("b") == "running");
    assert_eq!(other.raw::<Vec<String>>("ZRANGE ql:th:gpu-locks 0 -1"), ["b"]);
    scene.ok(&["job", "cancel", "--wait", "b"]);
    assert_eq!(other.raw::<i64>("EXISTS ql:th:gpu-locks ql:th:gpu-pending ql:q:default-throttled"), 0);
}
