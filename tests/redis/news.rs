//! Job events of a Redis as supervisors publish them: from any client, each event once and in order.

use std::cell::RefCell;
use std::fs::File;
use std::process::{Child, Stdio};

use qless::script::SCRIPT;
use serde_json::{Value, json};

use crate::sandbox::{Running, Sandbox, Setting, kill, wait_until};
use crate::support::{Ears, RedisServer, Scripted};

/// A Redis, and a host whose supervisor takes no jobs from `default`.
struct Scene {
    server: RefCell<Option<RedisServer>>,
    port: u16,
    url: String,
    /// The host with the subscriber.
    host: Sandbox,
}

/// A running `taskvisor events`.
struct Listener<'a> {
    child: Child,
    host: &'a Sandbox,
}

impl Scene {
    fn new() -> Scene {
        let server = RedisServer::start();
        let (port, url) = (server.port, server.url());
        Scene { server: RefCell::new(Some(server)), port, url, host: Sandbox::new(Setting::Root) }
    }

    fn start<'a>(&self, host: &'a Sandbox, queue: &str) -> Running<'a> {
        host.start(&["-w", "1", "-q", queue, "--broker", &self.url])
    }

    /// Starts a subscriber; returns once it receives events.
    fn listen(&self) -> Listener<'_> {
        let before = self.listeners();
        let heard = File::create(self.host.path("heard")).unwrap();
        let mut command = self.host.command(&["events", "--json", "--broker", &self.url]);
        let child = command.stdout(heard).stderr(Stdio::null()).spawn().unwrap();
        wait_until("somebody listens", || self.listeners() > before);
        Listener { child, host: &self.host }
    }

    /// The number of supervisors that subscribe to events.
    fn listeners(&self) -> u64 {
        let (_, count): (String, u64) = self.script().raw("PUBSUB NUMSUB ql:taskvisor:news");
        count
    }

    fn script(&self) -> Scripted {
        Scripted::new(self.server.borrow().as_ref().unwrap(), SCRIPT)
    }

    fn put(&self, args: &[&str]) -> String {
        let args = [&["put", "--broker", &self.url], args].concat();
        self.host.ok(&args).trim().to_owned()
    }

    /// Puts a job; retries, because the first call may find the connection broken.
    fn put_once_it_is_there(&self) -> String {
        let mut jid = String::new();
        wait_until("a job is put", || {
            let put = self.host.run(&["put", "--broker", &self.url, "--", "true"]);
            jid = String::from_utf8_lossy(&put.stdout).trim().to_owned();
            put.status.success()
        });
        jid
    }
}

impl Listener<'_> {
    fn heard(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.host.path("heard")).unwrap();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The events of a job, as `kind queue state tags`.
    fn of(&self, jid: &str) -> Vec<String> {
        let words = |news: &Value| {
            let tags = news["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let tags = tags.collect::<Vec<_>>().join(" ");
            let word = |name: &str| news[name].as_str().unwrap_or("-").to_owned();
            format!("{} {} {} {tags}", word("kind"), word("queue"), word("state")).trim_end().to_owned()
        };
        self.heard().iter().filter(|news| news["job"] == jid).map(words).collect()
    }

    fn has(&self, what: &str) -> bool {
        self.heard().iter().any(|news| news["kind"] == what)
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        // The command may have ended with its supervisor.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn events_of_one_host_are_published_once_and_in_order_on_another() {
    let (scene, worker) = (Scene::new(), Sandbox::new(Setting::Root));
    let _listening = scene.start(&scene.host, "other");
    let _working = scene.start(&worker, "default");
    let listener = scene.listen();
    let good = scene.put(&["--tag", "x", "--", "true"]);
    let bad = scene.put(&["--tag", "y", "--", "sh", "-c", "exit 3"]);
    let long = scene.put(&["--", "sh", "-c", "exec sleep 1000"]);
    wait_until("the long one runs", || listener.of(&long).len() == 2);
    worker.ok(&["job", "cancel", "--wait", &long, "--broker", &scene.url]);
    worker.ok(&["job", "retry", &bad, "--broker", &scene.url]);
    wait_until("it has failed again", || listener.of(&bad).len() == 6);
    worker.ok(&["job", "discard", &bad, "--broker", &scene.url]);
    wait_until("it is gone", || listener.of(&bad).len() == 7);
    let expected = ["put default waiting x", "fetched default running x", "complete default complete x"];
    assert_eq!(listener.of(&good), expected);
    let expected = [
        "put default waiting y",
        "fetched default running y",
        "failed default failed y",
        "retried default waiting y",
        "fetched default running y",
        "failed default failed y",
        "removed default failed y",
    ];
    assert_eq!(listener.of(&bad), expected);
    let expected = [
        "put default waiting",
        "fetched default running",
        "canceling default canceling",
        "canceled default canceled",
    ];
    assert_eq!(listener.of(&long), expected);
    let numbers: Vec<u64> = listener.heard().iter().map(|news| news["n"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    assert!(!listener.has("lost"), "{:?}", listener.heard());
}

#[test]
fn commands_of_qless_clients_through_our_script_are_published_once() {
    let scene = Scene::new();
    let _listening = scene.start(&scene.host, "other");
    let listener = scene.listen();
    let mut script = scene.script();
    for line in [
        r#"put 1 me q ours klass {} 0 tags ["x"]"#,
        "pop 2 q w 1",
        "retry 3 ours q w 60",
        "put 4 me q ours klass {} 0",
        "pop 5 q w 1",
        "complete 6 ours w q {} next then",
        "pop 7 then w 1",
        "fail 8 ours w group message",
        "unfail 9 then group",
        "priority 10 ours 3",
        "tag 11 add ours y",
        "cancel 12 ours",
        "put 13 me q last klass {} 0",
    ] {
        let _: redis::Value = script.line(line);
    }
    wait_until("the last is published", || !listener.of("last").is_empty());
    let expected = [
        "put q waiting x",
        "fetched q running x",
        "again q delayed x",
        "put q waiting x",
        "fetched q running x",
        "advanced then waiting x",
        "fetched then running x",
        "failed then failed x",
        "retried then waiting x",
        "edited then waiting x",
        "edited then waiting x y",
        "canceled then canceled x y",
    ];
    assert_eq!(listener.of("ours"), expected);
    assert_eq!(listener.heard().len(), expected.len() + 1, "{:?}", listener.heard());
}

/// Other scripts publish only their lines on `ql:log`.
#[test]
fn events_of_other_scripts_are_published_with_the_known_fields_of_the_job() {
    let scene = Scene::new();
    let _listening = scene.start(&scene.host, "other");
    let listener = scene.listen();
    let mut script = scene.script();
    let fields = ["HSET", "ql:j:theirs", "queue", "q", "state", "scheduled", "tags", r#"["z"]"#];
    let _: redis::Value = script.raw_call(&fields);
    for said in [
        json!({"jid": "theirs", "event": "put", "queue": "q"}),
        json!({"option": "heartbeat", "event": "config_set", "value": "7"}),
        json!({"jid": "theirs", "event": "lock_lost", "worker": "w"}),
        json!({"jid": "theirs", "to": "then", "event": "advanced", "queue": "q"}),
        json!({"message": "m", "jid": "theirs", "group": "g", "event": "failed", "worker": "w"}),
        json!({"jid": "theirs", "event": "completed", "queue": "then"}),
        json!({"jid": "gone", "queue": "q", "event": "canceled", "worker": ""}),
        json!({"jid": "nobody", "queue": false, "event": "canceled", "worker": false}),
        json!({"jid": "last", "event": "put", "queue": "q"}),
    ] {
        let _: redis::Value = script.raw_call(&["PUBLISH", "ql:log", &said.to_string()]);
    }
    wait_until("the last is published", || !listener.of("last").is_empty());
    let expected = [
        "put q delayed z",
        "lock_lost q delayed z",
        "advanced then delayed z",
        "failed q failed z",
        "complete then complete z",
    ];
    assert_eq!(listener.of("theirs"), expected);
    assert_eq!(listener.of("gone"), ["canceled q canceled"]);
    assert_eq!(listener.heard().len(), expected.len() + 2, "{:?}", listener.heard());
}

#[test]
fn events_missed_while_redis_was_away_are_reported_as_lost() {
    let scene = Scene::new();
    let _listening = scene.start(&scene.host, "other");
    let listener = scene.listen();
    let before = scene.put(&["--", "true"]);
    wait_until("it is published", || listener.of(&before) == ["put default waiting"]);
    assert!(!listener.has("lost"));
    drop(scene.server.borrow_mut().take());
    *scene.server.borrow_mut() = RedisServer::start_at(scene.port, &[]);
    wait_until("the loss is published", || listener.has("lost"));
    let lost = listener.heard().into_iter().find(|news| news["kind"] == "lost").unwrap();
    assert_eq!((&lost["why"], &lost["count"]), (&json!("the connection to Redis was broken"), &Value::Null));
    let after = scene.put_once_it_is_there();
    wait_until("it is published", || listener.of(&after) == ["put default waiting"]);
}

/// A subscriber that starts while Redis is away is accepted at once, and gets a `lost` event.
#[test]
fn subscriber_that_starts_while_redis_is_away_gets_later_events() {
    let scene = Scene::new();
    let _listening = scene.start(&scene.host, "other");
    drop(scene.server.borrow_mut().take());
    let heard = File::create(scene.host.path("heard")).unwrap();
    let mut command = scene.host.command(&["events", "--json", "--broker", &scene.url]);
    let child = command.stdout(heard).stderr(Stdio::null()).spawn().unwrap();
    let listener = Listener { child, host: &scene.host };
    wait_until("it is known that Redis is away", || {
        scene.host.stderr().contains("the news of Redis are not heard")
    });
    *scene.server.borrow_mut() = RedisServer::start_at(scene.port, &[]);
    wait_until("the loss is published", || listener.has("lost"));
    let after = scene.put_once_it_is_there();
    wait_until("it is published", || listener.of(&after) == ["put default waiting"]);
}

/// The supervisor detects an open but silent connection by a ping.
#[test]
fn silent_redis_connection_is_reported_as_lost_events() {
    let scene = Scene::new();
    let _listening = scene.start(&scene.host, "other");
    let listener = scene.listen();
    let pid = scene.server.borrow().as_ref().unwrap().pid() as i32;
    kill(pid, "STOP");
    wait_until("it is found out", || scene.host.stderr().contains("the news of Redis are not heard"));
    kill(pid, "CONT");
    wait_until("the loss is published", || listener.has("lost"));
    let after = scene.put_once_it_is_there();
    wait_until("it is published", || listener.of(&after) == ["put default waiting"]);
}

#[test]
fn events_are_published_only_while_somebody_subscribes() {
    let scene = Scene::new();
    let worker = Sandbox::new(Setting::Root);
    let (_listening, _working) = (scene.start(&scene.host, "other"), scene.start(&worker, "default"));
    let mut ears = Ears::new(scene.server.borrow().as_ref().unwrap());
    let mut is_told = || {
        let jid = scene.put(&["--", "true"]);
        worker.ok(&["job", "wait", &jid, "--broker", &scene.url]);
        let heard = ears.heard();
        assert!(heard.iter().any(|said| said.contains(&jid) && said.contains("completed")), "{heard:?}");
        heard.iter().any(|said| said.starts_with("ql:taskvisor:news"))
    };
    assert!(!is_told());
    let listener = scene.listen();
    assert!(is_told());
    drop(listener);
    wait_until("there is no subscriber", || scene.listeners() == 0);
    assert!(!is_told());
}
