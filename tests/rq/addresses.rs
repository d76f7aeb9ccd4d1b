//! Addresses of RQ's Redis: TLS, a unix socket, a Sentinel. The workers use the same address.

use crate::certificates::{certificates, flags};
use crate::redis_server::RedisServer;
use crate::scene::{NEWEST, Scene, stop};
use crate::sentinel::Sentinel;

/// Asserts that a job whose code uses Redis runs, and that RQ's client sees the worker.
fn works(scene: &Scene, url: &str) {
    let mut running = scene.start_in(&scene.sandbox, url, &["-w", "1"]);
    let job = scene.put("q().enqueue(tasks.notes_in_redis, 'seen')");
    scene.wait(&job, "finished");
    assert_eq!(scene.text("job(c.get('seen').decode()).id"), job);
    assert_eq!(scene.rq(&format!("job({job:?}).meta")), serde_json::json!({"noted": true}));
    assert_eq!(scene.sandbox.job(&job)["state"], "complete");
    assert!(stop(&mut running).success());
}

#[test]
fn rq_jobs_run_over_tls_with_a_private_ca() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path(), &["server", "client"]);
    let (port, flags) = flags(dir.path(), "yes");
    let scene = Scene::on(NEWEST, &flags.iter().map(String::as_str).collect::<Vec<_>>());
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (ca, cert, key) = (file("ca.pem"), file("client.pem"), file("client.key"));
    works(&scene, &format!("rq+rediss://127.0.0.1:{port}/0?ca={ca}&cert={cert}&key={key}"));
}

#[test]
fn rq_jobs_run_over_a_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("redis.sock").display().to_string();
    let scene = Scene::on(NEWEST, &["--unixsocket", &socket]);
    works(&scene, &format!("rq+unix://{socket}?db=0&name=by%20a%20socket"));
}

#[test]
fn rq_jobs_run_through_a_sentinel() {
    let scene = Scene::new();
    let sentinel = Sentinel::of(&RedisServer::program(), scene.server.port, "");
    works(&scene, &format!("rq+redis+sentinel://127.0.0.1:{}/jobs/0", sentinel.port));
}
