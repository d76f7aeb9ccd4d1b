//! Servers with TLS and certificates of a private CA.

use std::path::Path;

use crate::certificates::{certificates, flags};
use crate::sandbox::{Sandbox, Setting, wait_until};
use crate::supervisors::Scene;
use crate::support::RedisServer;

/// Starts a server with TLS and returns it with its TLS port; `asks` says whether it requires client certificates.
fn server(dir: &Path, asks: &str) -> (RedisServer, u16) {
    let (port, flags) = flags(dir, asks);
    (RedisServer::start_with(&flags.iter().map(String::as_str).collect::<Vec<_>>()), port)
}

#[test]
fn server_with_a_private_ca_is_trusted_when_the_url_names_the_ca() {
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
    // Events arrive over TLS, too.
    let (jid, pid) = scene.a_long_job();
    scene.sandbox.ok(&["-b", &url, "job", "cancel", "--wait", &jid]);
    assert!(!crate::sandbox::alive(pid));
    // A host name that is not in the certificate is refused.
    let wrong = url.replace("127.0.0.1", "localhost");
    let said = Sandbox::new(Setting::Root).refused(&["-b", &wrong, "put", "--", "true"]).1;
    assert!(said.contains("not for the host as the URL calls it"), "{said}");
    // A wrong CA, even of the same name, gives another error than no CA.
    let other = tempfile::tempdir().unwrap();
    certificates(other.path(), &[]);
    let wrong = format!("{plain}?ca={}", other.path().join("ca.pem").display());
    let said = Sandbox::new(Setting::Root).refused(&["-b", &wrong, "put", "--", "true"]).1;
    assert!(said.contains("not signed by a CA in the file that the URL names"), "{said}");
    // TLS to a plain port, and plain text to a TLS port.
    let said = scene.sandbox.refused(&["-b", &scene.url.replace("redis:", "rediss:"), "put", "--", "true"]).1;
    assert!(said.contains("may have no TLS there (redis:// is without)"), "{said}");
    let said = scene.sandbox.refused(&["-b", &plain.replace("rediss:", "redis:"), "put", "--", "true"]).1;
    assert!(said.contains("may want TLS (rediss://)"), "{said}");
}

#[test]
fn client_certificate_is_sent_to_a_server_that_requires_it() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path(), &["server", "client"]);
    let (server, port) = server(dir.path(), "yes");
    let scene = Scene::on(server);
    let file = |name: &str| dir.path().join(name).display().to_string();
    let without = format!("rediss://127.0.0.1:{port}/0?ca={}", file("ca.pem"));
    let url = format!("{without}&cert={}&key={}", file("client.pem"), file("client.key"));
    let said = scene.sandbox.refused(&["-b", &without, "put", "--", "true"]).1;
    assert!(said.contains("&cert=FILE&key=FILE"), "{said}");
    // A client certificate that no CA of the server has signed.
    let other = tempfile::tempdir().unwrap();
    certificates(other.path(), &["stranger"]);
    let strange = |name: &str| other.path().join(name).display().to_string();
    let stranger = format!("{without}&cert={}&key={}", strange("stranger.pem"), strange("stranger.key"));
    let said = scene.sandbox.refused(&["-b", &stranger, "put", "--", "true"]).1;
    assert!(said.contains("does not take our certificate"), "{said}");
    // The key of another certificate, and a file that is no key.
    for (key, word) in [("server.key", "not the key of the certificate"), ("ca.pem", "no private key in it")]
    {
        let wrong = format!("{without}&cert={}&key={}", file("client.pem"), file(key));
        let (code, said) = scene.sandbox.refused(&["-b", &wrong, "put", "--", "true"]);
        assert!(code == 78 && said.contains(word) && said.contains(key), "{said}");
    }
    let keyless = format!("rediss://127.0.0.1:{port}/0?ca={}", file("server.key"));
    let (code, said) = scene.sandbox.refused(&["-b", &keyless, "put", "--", "true"]);
    assert!(code == 78 && said.contains("there is no certificate in it"), "{said}");
    let jid = scene.sandbox.ok(&["-b", &url, "put", "--", "true"]);
    let _running = scene.start_by(&url, &["-w", "1"]);
    wait_until("it is complete", || scene.state(jid.trim()) == "complete");
}

#[test]
fn invalid_certificate_files_are_named() {
    let sandbox = Sandbox::new(Setting::Root);
    for (query, word) in
        [("ca=/none/ca.pem", "/none/ca.pem"), ("ca=/dev/null", "no PEM"), ("cert=/x", "'key'")]
    {
        let (code, said) =
            sandbox.refused(&["-b", &format!("rediss://127.0.0.1:1/0?{query}"), "put", "--", "true"]);
        assert!(code != 0 && said.contains(word), "{query}: {said}");
    }
}
