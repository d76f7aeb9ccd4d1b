//! The queue on servers reached by TLS, by a unix socket and through sentinels.

use crate::certificates::{certificates, flags};
use crate::scene::{Scene, ids};
use crate::sentinel::Sentinel;
use crate::support::RedisServer;

/// Asserts that jobs of an old producer and one put by taskvisor run with this URL.
fn runs(mut scene: Scene, url: String) {
    let reached = url.clone();
    scene.url = url;
    let _running = scene.start(&["-w", "2"]);
    ids(4).iter().for_each(|id| scene.shell(id, "true"));
    let put = scene.sandbox.ok(&["-b", &reached, "put", "--jid", "put", "--", "true"]);
    assert_eq!(put, "put\n");
    scene.assert_done(&[ids(4), vec!["put".into()]].concat());
    // The blocking wait works by this URL, too: a new job on an idle host begins at once.
    scene.shell("late", "true");
    scene.assert_done(&["late".into()]);
    assert_eq!(scene.jobs(&["-s", "complete"]).len(), 6);
}

#[test]
fn reliable_queue_works_over_tls_with_a_private_ca() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path(), &["server"]);
    let (port, flags) = flags(dir.path(), "no");
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let scene = Scene::on(RedisServer::start_with(&flags));
    let plain = format!("reliable+rediss://127.0.0.1:{port}/0?exec=yes");
    let (code, said) = scene.sandbox.refused(&["-b", &plain, "put", "--", "true"]);
    assert!(code != 0 && said.contains("UnknownIssuer"), "{said}");
    let ca = dir.path().join("ca.pem");
    runs(scene, format!("{plain}&ca={}", ca.display()));
}

#[test]
fn reliable_queue_works_over_a_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("redis.sock").display().to_string();
    let scene = Scene::on(RedisServer::start_with(&["--unixsocket", &socket]));
    runs(scene, format!("reliable+unix://{socket}?exec=yes"));
}

#[test]
fn reliable_queue_works_through_sentinels() {
    let primary = RedisServer::start();
    let sentinel = Sentinel::of(&RedisServer::program(), primary.port, "");
    let scene = Scene::on(primary);
    let url = format!("reliable+redis+sentinel://127.0.0.1:1,127.0.0.1:{}/jobs/0?exec=yes", sentinel.port);
    runs(scene, url);
}
