//! Connections that break, and connections that stay open but carry nothing.

use std::time::{Duration, Instant};

use super::{behind_a_proxy, calls};
use crate::proxy::{Flow, Loss};
use crate::sandbox::{alive, reasons, stays, wait_until};
use crate::supervisors::Scene;
use crate::support::RedisServer;

#[test]
fn supervisor_detects_a_silent_network_and_recovers() {
    for flow in [Flow::Answers, Flow::Questions, Flow::Both] {
        let (scene, proxy) = behind_a_proxy();
        let _running = scene.start_by(&proxy.url(), &["-w", "1"]);
        let (jid, pid) = scene.a_long_job();
        proxy.swallow(flow);
        // A put fails with the reason; the running job continues.
        let said = scene.sandbox.run(&["--broker", &proxy.url(), "put", "--", "true"]);
        let stderr = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!said.status.success() && stderr.contains("does not answer"), "{stderr}");
        assert!(alive(pid));
        proxy.pass_on();
        scene.ok(&["job", "cancel", "--wait", &jid]);
        assert!(!alive(pid));
        scene.assert_goes_on();
    }
}

/// Calls are answered all the while: only its own published messages show a supervisor that its subscription is dead.
#[test]
fn supervisor_detects_a_dead_subscription_and_finds_missed_cancels() {
    let (scene, proxy) = behind_a_proxy();
    let _running = scene.start_by(&proxy.url(), &["-w", "1"]);
    let (jid, pid) = scene.a_long_job();
    proxy.deafen();
    let _: Vec<String> = scene.other().call(&["cancel", &Scene::now(), &jid]);
    let began = Instant::now();
    wait_until("the canceled job is dead", || !alive(pid));
    assert!(began.elapsed() < Duration::from_secs(30));
    scene.assert_goes_on();
}

#[test]
fn repeated_disconnects_end_no_job() {
    let (scene, proxy) = behind_a_proxy();
    let _running = scene.start_by(&proxy.url(), &["-w", "2"]);
    let (jid, pid) = scene.a_long_job();
    for _ in 0..5 {
        proxy.cut();
        scene.assert_goes_on();
    }
    assert!(alive(pid));
    assert_eq!(scene.job(&jid)["attempt"], 1);
}

/// A lasting problem is logged when it begins and when it ends, not at each retry.
#[test]
fn log_reports_once_that_redis_is_away_and_once_that_it_is_back() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1", "--lease", "12s", "--grace", "1s"]);
    let _ = scene.a_long_job();
    scene.server_dies();
    let log = || scene.sandbox.stderr();
    let troubles = ["the events of Redis are not heard", "failed to renew"];
    wait_until("the log names each trouble", || {
        troubles.iter().all(|what| log().contains(&format!("{what}; retrying")))
    });
    let why = scene.sandbox.ok(&["why", "pool", "default"]);
    assert!(!why.contains("No job waits") && !why.contains("?."), "{why}");
    assert!(
        why.contains("How many jobs wait for it cannot be told") && why.contains("running there?\n"),
        "{why}"
    );
    scene.server_comes(&[]);
    wait_until("it is over", || {
        log().lines().any(|line| line.contains("recovered after") && line.contains(troubles[0]))
    });
    for what in troubles {
        let told =
            log().lines().filter(|line| line.contains(what) && !line.contains("recovered after")).count();
        assert_eq!(told, 1, "{what}: {}", log());
    }
}

#[test]
fn killed_clients_reconnect() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "2"]);
    let (jid, pid) = scene.a_long_job();
    let mut other = scene.other();
    for kind in ["normal", "pubsub"] {
        let killed: i64 = other.raw(&format!("CLIENT KILL TYPE {kind} SKIPME yes"));
        assert!(killed > 0, "{kind}");
        scene.assert_goes_on();
    }
    assert!(alive(pid));
    assert_eq!(scene.job(&jid)["attempt"], 1);
}

/// A job whose fetch answer was lost runs at once, not only after its lease ends.
#[test]
fn lost_fetch_answer_loses_no_job() {
    for loss in [Loss::Break, Loss::Silence] {
        let (scene, proxy) = behind_a_proxy();
        let _running = scene.start_by(&proxy.url(), &["-w", "2"]);
        proxy.lose_answer("unheard", loss);
        scene.ok(&["put", "--jid", "unheard", "--", "true"]);
        let began = Instant::now();
        let mut other = scene.other();
        // Verbs would use the supervisor's connection, and must not lose their answers.
        wait_until("it is complete", || other.field("unheard", "state").as_deref() == Some("complete"));
        assert!(proxy.has_lost());
        assert!(began.elapsed() < Duration::from_secs(30), "not by the end of its lease");
        let job = scene.job("unheard");
        assert_eq!((&job["attempt"], &job["interruptions"]), (&1.into(), &0.into()), "{loss:?}");
    }
}

/// All leases are gone with the data: their jobs end, and the supervisor does not poll in a loop.
#[test]
fn server_that_comes_back_empty_runs_new_jobs() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    let (jid, pid) = scene.a_long_job();
    scene.server_dies();
    scene.server_comes(&[]);
    wait_until("the job that Redis lost is dead", || !alive(pid));
    scene.assert_goes_on();
    assert!(!scene.sandbox.run(&["--broker", &scene.url, "job", "show", &jid]).status.success());
    let before = calls(&scene);
    stays(Duration::from_secs(1), "fewer than 10 calls", || calls(&scene) - before < 10);
}

#[test]
fn supervisor_waits_for_a_loading_server() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    let scene = Scene::on(RedisServer::start_with(&["--dir", place, "--rdbcompression", "no"]));
    let _running = scene.start(&["-w", "1"]);
    let mut other = scene.other();
    // A loading server answers each time it has read 1,024 bytes: with values of that size, after
    // each key, so every 10 ms.
    let fill = "local v = string.rep('v', 1024) for i = 1, 8000 do redis.call('SET', 'fill:' .. i, v) end";
    let _: redis::Value = other.raw_call(&["EVAL", fill, "0"]);
    let _: redis::Value = other.raw("SAVE");
    drop(other);
    scene.server_dies();
    let slow =
        ["--dir", place, "--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"];
    let loading = RedisServer::start_until("Loading RDB", scene.port, &slow).unwrap();
    *scene.server.borrow_mut() = Some(loading);
    let mut said = String::new();
    wait_until("a put says LOADING", || {
        let put = scene.sandbox.run(&["--broker", &scene.url, "put", "--", "true"]);
        said = String::from_utf8_lossy(&put.stderr).into_owned();
        said.contains("LOADING")
    });
    assert!(said.contains("reading its data"), "{said}");
    wait_until("status says it", || reasons(&scene.sandbox.status()).contains("LOADING"));
    let client = redis::Client::open(scene.url.as_str()).unwrap();
    let mut plain = client.get_connection().unwrap();
    let _: redis::Value =
        redis::cmd("CONFIG").arg(&["SET", "key-load-delay", "0"]).query(&mut plain).unwrap();
    scene.assert_goes_on();
}
