//! Servers that speak TLS, with certificates that a CA of one's own has signed.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::sandbox::{Sandbox, Setting, wait_until};
use crate::supervisors::Scene;
use crate::support::RedisServer;

/// Makes `ca.pem`, and `NAME.pem` with `NAME.key` that it has signed.
fn certificates(dir: &Path, names: &[&str]) {
    let openssl = |line: &str| {
        let output =
            Command::new("openssl").args(line.split(' ')).current_dir(dir).output().expect("openssl");
        assert!(output.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=the-ca"));
    std::fs::write(dir.join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    for name in names {
        openssl(&format!("req {key} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {name}.pem"
        ));
    }
}

/// A server that speaks TLS on the port that is given back, and asks clients for certificates if `asks`.
fn server(dir: &Path, asks: &str) -> (RedisServer, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = |name: &str| dir.join(name).display().to_string();
    let server = RedisServer::start_with(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &file("server.pem"),
        "--tls-key-file",
        &file("server.key"),
        "--tls-ca-cert-file",
        &file("ca.pem"),
        "--tls-auth-clients",
        asks,
    ]);
    (server, port)
}

#[test]
fn a_server_with_a_ca_of_ones_own_is_believed_when_the_url_names_it() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path(), &["server"]);
    let (server, port) = server(dir.path(), "no");
    let scene = Scene::on(server);
    let plain = format!("rediss://127.0.0.1:{port}/0");
    let said = scene.sandbox.refused(&["-b", &plain, "put", "--", "true"]).1;
    assert!(said.contains("UnknownIssuer") && said.contains("?ca=FILE"), "{said}");
    let url = format!("{plain}?ca={}", dir.path().join("ca.pem").display());
    let _running = scene.start_by(&url, &["-w", "1"]);
    scene.assert_goes_on();
    // By TLS the events are heard as well.
    let (jid, pid) = scene.a_long_job();
    scene.sandbox.ok(&["-b", &url, "job", "cancel", "--wait", &jid]);
    assert!(!crate::sandbox::alive(pid));
    // To a name that the certificate does not have nobody speaks.
    let wrong = url.replace("127.0.0.1", "localhost");
    let said = Sandbox::new(Setting::Root).refused(&["-b", &wrong, "put", "--", "true"]).1;
    assert!(said.contains("certificate"), "{said}");
}

#[test]
fn a_server_that_asks_for_our_certificate_gets_it() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path(), &["server", "client"]);
    let (server, port) = server(dir.path(), "yes");
    let scene = Scene::on(server);
    let file = |name: &str| dir.path().join(name).display().to_string();
    let without = format!("rediss://127.0.0.1:{port}/0?ca={}", file("ca.pem"));
    let url = format!("{without}&cert={}&key={}", file("client.pem"), file("client.key"));
    assert_ne!(scene.sandbox.run(&["-b", &without, "put", "--", "true"]).status.code(), Some(0));
    let jid = scene.sandbox.ok(&["-b", &url, "put", "--", "true"]);
    let _running = scene.start_by(&url, &["-w", "1"]);
    wait_until("it is complete", || scene.state(jid.trim()) == "complete");
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let sandbox = Sandbox::new(Setting::Root);
    for (query, word) in
        [("ca=/none/ca.pem", "/none/ca.pem"), ("ca=/dev/null", "no PEM"), ("cert=/x", "'key'")]
    {
        let (code, said) =
            sandbox.refused(&["-b", &format!("rediss://127.0.0.1:1/0?{query}"), "put", "--", "true"]);
        assert!(code != 0 && said.contains(word), "{query}: {said}");
    }
}
