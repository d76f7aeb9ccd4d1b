//! Servers that refuse, and servers that cannot hold jobs: each refusal is reported with what to do.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::sandbox::{Sandbox, Setting, reasons, wait_until};
use crate::supervisors::Scene;
use crate::support::RedisServer;

/// The error of a `put` to a broker that cannot be used.
fn refusal(sandbox: &Sandbox, url: &str) -> String {
    let (code, said) = sandbox.refused(&["--broker", url, "put", "--", "true"]);
    assert_ne!(code, 0);
    said
}

#[test]
fn supervisor_reports_an_endless_script_and_waits_for_its_end() {
    let scene = Scene::on(RedisServer::start_with(&["--lua-time-limit", "50"]));
    let _running = scene.start(&["-w", "1"]);
    let mut busy = scene.other();
    let endless = std::thread::spawn(move || {
        redis::cmd("EVAL").arg("while true do end").arg(0).query::<redis::Value>(&mut busy.redis)
    });
    let mut said = String::new();
    wait_until("the script keeps the server", || {
        said = String::from_utf8_lossy(&scene.sandbox.run(&["-b", &scene.url, "put", "--", "true"]).stderr)
            .into();
        said.contains("BUSY")
    });
    assert!(said.contains("SCRIPT KILL ends that one"), "{said}");
    let client = redis::Client::open(scene.url.as_str()).unwrap();
    let mut other = client.get_connection().unwrap();
    let _: redis::Value = redis::cmd("SCRIPT").arg("KILL").query(&mut other).unwrap();
    assert!(endless.join().unwrap().is_err());
    scene.assert_goes_on();
}

#[test]
fn supervisor_reloads_flushed_scripts() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    scene.assert_goes_on();
    let (jid, pid) = scene.a_long_job();
    let _: redis::Value = scene.other().raw("SCRIPT FLUSH");
    scene.ok(&["job", "cancel", "--wait", &jid]);
    assert!(!crate::sandbox::alive(pid));
    scene.assert_goes_on();
}

#[test]
fn missing_acl_right_is_named() {
    let scene = Scene::new();
    let mut other = scene.other();
    for (rights, word) in [
        ("~* &* +@all -evalsha", "evalsha"),
        ("~* &* +@all -time", "time"),
        ("~* &* +@all -hset", "ACL LOG names"),
        ("~other:* &* +@all", "ACL LOG names"),
    ] {
        let _: redis::Value = other.raw(&format!("ACL SETUSER one reset on >pw {rights}"));
        let url = scene.url.replace("://", "://one:pw@");
        let said = refusal(&scene.sandbox, &url);
        assert!(said.contains(word) && said.contains("'s ACL must allow"), "{rights}: {said}");
        assert!(!said.contains(":pw@"), "{said}");
    }
    // A user who may put but not subscribe gets the error when jobs are fetched.
    let _: redis::Value = other.raw("ACL SETUSER one reset on >pw ~* &* +@all -psubscribe");
    let running = scene.sandbox.start_raw(&["-w", "1", "-b", &scene.url.replace("://", "://one:pw@")]);
    wait_until("status names it", || {
        let said = reasons(&scene.sandbox.status());
        said.contains("psubscribe") && said.contains("ACL must allow")
    });
    let _: redis::Value = other.raw("ACL SETUSER one +psubscribe");
    scene.assert_goes_on();
    drop(running);
    // The recommended rights are enough.
    let _: redis::Value = other.raw("ACL SETUSER one reset on >pw ~ql:* &* +@all -@dangerous +info");
    let _running = scene.start_by(&scene.url.replace("://", "://one:pw@"), &["-w", "1"]);
    scene.assert_goes_on();
}

/// Only published events need PUBSUB NUMSUB; jobs run without it.
#[test]
fn jobs_run_without_the_right_to_pubsub_numsub_and_the_log_names_it() {
    let scene = Scene::new();
    let _: redis::Value = scene.other().raw("ACL SETUSER one reset on >pw ~ql:* &* +@all -pubsub");
    let url = scene.url.replace("://", "://one:pw@");
    let _running = scene.start_by(&url, &["-w", "1"]);
    let jid = scene.ok(&["put", "--", "true"]).trim().to_owned();
    scene.ok(&["job", "wait", &jid]);
    let said = scene.sandbox.stderr();
    assert!(said.contains("the user may not call PUBSUB NUMSUB"), "{said}");
}

#[test]
fn wrong_or_missing_password_is_reported_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("redis.sock");
    let args = ["--requirepass", "right", "--unixsocket", socket.to_str().unwrap()];
    let server = RedisServer::start_with(&args);
    let sandbox = Sandbox::new(Setting::Root);
    let by_socket = |query: &str| format!("unix://{}{query}", socket.display());
    let by_port = |user: &str| server.url().replace("://", &format!("://{user}"));
    for (url, words) in [
        (by_port(""), ["NOAUTH", "it wants a password: give it in the URL, as redis://:PASSWORD@HOST"]),
        (by_port(":wrong@"), ["WRONGPASS", "not the password of its user 'default'"]),
        (by_port("nobody:right@"), ["WRONGPASS", "no such user with that password"]),
        (by_socket(""), ["NOAUTH", "unix:///PATH?pass=PASSWORD"]),
        (by_socket("?pass=wrong"), ["WRONGPASS", "unix:///PATH?user=USER&pass=PASSWORD"]),
        (by_socket("?user=nobody&pass=right"), ["WRONGPASS", "no such user with that password"]),
    ] {
        let said = refusal(&sandbox, &url);
        assert!(words.iter().all(|word| said.contains(word)), "{url}: {said}");
        assert!(!said.contains("wrong@") && !said.contains("right") && !said.contains("nobody"), "{said}");
    }
    sandbox.ok(&["-b", &by_socket("?db=2&user=default&pass=right"), "put", "--", "true"]);
    let open = RedisServer::start();
    let said = refusal(&sandbox, &open.url().replace("://", "://:right@"));
    assert!(said.contains("it wants no password") && !said.contains("right"), "{said}");
}

/// One connection is for requests, one for messages: both are refused, and one must not contradict the other.
#[test]
fn status_and_log_say_of_each_connection_that_no_password_is_wanted() {
    let open = RedisServer::start();
    let sandbox = Sandbox::new(Setting::Root);
    let url = open.url().replace("://", "://:pw@");
    let _running = sandbox.start_raw(&["-w", "1", "-b", &url]);
    wait_until("both are logged", || {
        let log = sandbox.stderr();
        log.contains("events of Redis are not heard") && log.contains("failed to fetch from default")
    });
    let (log, said) = (sandbox.stderr(), reasons(&sandbox.status()));
    assert!(said.contains("it wants no password"), "{said}");
    assert!(!format!("{log}{said}").contains("not the password"), "{log}\n{said}");
}

#[test]
fn wrong_url_is_refused_as_a_wrong_setting() {
    let sandbox = Sandbox::new(Setting::Root);
    for (url, word) in [
        ("redis://127.0.0.1?foo=1", "'foo='"),
        ("rediss://127.0.0.1?cafile=/x", "'ca=' may be meant"),
        ("redis://127.0.0.1/abc", "number of a database"),
        ("redis://127.0.0.1:99999", "1 to 65535"),
        ("redis://one,two/0", "several hosts"),
        ("redis://", "needs a host, or a path, after its //"),
    ] {
        for verb in [&["put", "--", "true"][..], &["start", "-w", "1"]] {
            let (code, said) = sandbox.refused(&[&["-b", url], verb].concat());
            assert!(code == 78 && said.contains(word), "{url}: {code}, {said}");
        }
    }
}

#[test]
fn missing_or_forbidden_database_is_explained() {
    let scene = Scene::new();
    let said = refusal(&scene.sandbox, &scene.url.replace("/0", "/99"));
    assert!(said.contains("'databases'") && said.contains("begin with 0"), "{said}");
    let _: redis::Value = scene.other().raw("ACL SETUSER one reset on >pw ~* &* +@all -select");
    let by_one = scene.url.replace("://", "://one:pw@");
    let said = refusal(&scene.sandbox, &by_one.replace("/0", "/1"));
    assert!(said.contains("ACL must allow SELECT"), "{said}");
    scene.sandbox.ok(&["-b", &by_one, "put", "--", "true"]);
}

/// A command that ends with an error must not promise to reconnect.
#[test]
fn unknown_host_is_reported_with_a_hint_to_check_its_spelling() {
    let said = refusal(&Sandbox::new(Setting::Root), "redis://nosuch.invalid/0");
    assert!(said.contains("is it spelled right?") && !said.contains("made again"), "{said}");
}

/// Several operations fail while there is no connection: each error names its own operation.
#[test]
fn each_failed_operation_is_reported_by_its_own_name() {
    let scene = Scene::on(RedisServer::start());
    scene.server_dies();
    let _running = scene.sandbox.start_raw(&["-w", "1", "-b", &scene.url]);
    wait_until("it is logged", || scene.sandbox.stderr().contains("what recurs is not put"));
    for _ in 0..3 {
        let said = refusal(&scene.sandbox, &scene.url);
        assert!(said.contains("cannot put jobs into"), "{said}");
    }
    let log = scene.sandbox.stderr();
    let of = |what: &str| log.lines().find(|line| line.contains(what)).unwrap_or_default().to_owned();
    assert!(of("what recurs is not put").contains("cannot look for what recurs in"), "{log}");
    assert!(of("given back once").contains("cannot release jobs in"), "{log}");
}

#[test]
fn node_of_a_redis_cluster_is_refused() {
    let server = RedisServer::start_with(&["--cluster-enabled", "yes"]);
    let sandbox = Sandbox::new(Setting::Root);
    let said = refusal(&sandbox, &server.url());
    assert!(said.contains("node of a Redis Cluster"), "{said}");
    let _running = sandbox.start_raw(&["-w", "1", "-b", &server.url()]);
    wait_until("status says it", || reasons(&sandbox.status()).contains("node of a Redis Cluster"));
}

/// A server that answers each client with one text.
fn answering(text: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // The client may be gone by then.
            let _ = stream.read(&mut [0; 1024]).and_then(|_| stream.write(text.as_bytes()));
        }
    });
    port
}

#[test]
fn server_that_is_no_redis_is_recognized() {
    let sandbox = Sandbox::new(Setting::Root);
    for text in ["HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n"] {
        let url = format!("redis://127.0.0.1:{}/0", answering(text));
        let said = refusal(&sandbox, &url);
        assert!(said.contains("no Redis; check host and port"), "{text}: {said}");
    }
}

#[test]
fn supervisor_connects_by_a_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("redis.sock");
    let server = RedisServer::start_with(&["--unixsocket", socket.to_str().unwrap()]);
    let scene = Scene::on(server);
    let url = format!("unix://{}", socket.display());
    let _running = scene.start_by(&url, &["-w", "1"]);
    scene.assert_goes_on();
    let jid = scene.sandbox.ok(&["-b", &url, "put", "--", "true"]);
    scene.sandbox.ok(&["-b", &url, "job", "wait", jid.trim()]);
    let gone = refusal(&Sandbox::new(Setting::Root), "unix:///none/redis.sock");
    assert!(gone.contains("unix:///none/redis.sock") && gone.contains("No such file"), "{gone}");
}
