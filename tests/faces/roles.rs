//! Tokens with roles over TCP: for everything, for looking, for putting.

use super::tcp::by_tcp;
use super::*;

const ALL: &str = "the-horse-that-may-do-everything";
const VIEW: &str = "the-horse-that-only-looks-around";
const PUT: &str = "the-horse-that-carries-jobs-here";

/// Writes the token files, and settings that name these.
fn with_tokens(sandbox: &Sandbox, settings: &[&str]) -> String {
    let owner = fs::metadata(sandbox.path("work")).unwrap();
    for (name, token) in [("token", ALL), ("view_token", VIEW), ("put_token", PUT)] {
        fs::write(sandbox.work(name), token).unwrap();
        fs::set_permissions(sandbox.work(name), fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(sandbox.work(name), Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    let files: String = settings.iter().map(|name| format!("  {name}_file: {name}\n")).collect();
    fs::write(sandbox.work("api.yaml"), format!("api:\n  listen: 127.0.0.1:0\n  allow_exec: true\n{files}"))
        .unwrap();
    sandbox.work("api.yaml").display().to_string()
}

fn with(sandbox: &Sandbox, token: &str, request: &str, body: &str) -> (u16, String) {
    by_tcp(sandbox, request, &["host: localhost", &format!("authorization: Bearer {token}")], body)
}

#[test]
fn web_application_puts_and_sees_its_own_jobs_and_prometheus_only_looks() {
    let sandbox = Sandbox::new(Setting::Plain);
    let file = with_tokens(&sandbox, &["token", "view_token", "put_token"]);
    let mut running = sandbox.start(&["-w", "1", "-c", &file]);
    let code = |token: &str, request: &str, body: &str| with(&sandbox, token, request, body).0;
    let job = r#"{"jobs": [{"id": "own", "queue": "mail", "class": "send"}]}"#;
    assert_eq!(code(PUT, "POST /v1/jobs", job), 200);
    assert_eq!(code(VIEW, "POST /v1/jobs", job), 403);
    let other = sandbox.ok(&["put", "mail", "send", "--jid", "other"]);
    let (status, shown) = with(&sandbox, PUT, "GET /v1/jobs/own", "");
    assert!(status == 200 && shown.contains(r#""put_by":"127.0.0.1 (put token)""#), "{shown}");
    assert!(sandbox.ok(&["job", "show", "own"]).contains("by 127.0.0.1 (put token)"));
    let (status, said) = with(&sandbox, PUT, &format!("GET /v1/jobs/{}", other.trim()), "");
    assert!(status == 403 && said.contains("was not put with it"), "{said}");
    let program = r#"{"jobs": [{"queue": "default", "class": "exec", "exec": {"argv": ["true"], "cwd": "/", "umask": "022"}}]}"#;
    assert_eq!((code(PUT, "POST /v1/jobs", program), code(ALL, "POST /v1/jobs", program)), (403, 200));
    for request in ["GET /metrics", "GET /v1/status", "GET /v1/jobs", "GET /v1/jobs/other"] {
        assert_eq!((code(VIEW, request, ""), code(PUT, request, "")), (200, 403), "{request}");
    }
    for request in ["POST /v1/stop", "POST /v1/queues/mail/pause", "POST /v1/jobs/own/discard"] {
        assert_eq!((code(VIEW, request, "{}"), code(PUT, request, "{}")), (403, 403), "{request}");
    }
    assert_eq!((code(PUT, "GET /livez", ""), code("none-of-the-three-horses", "GET /livez", "")), (200, 401));
    // A reload takes a new token in, and one for everything away.
    with_tokens(&sandbox, &["view_token", "put_token"]);
    fs::write(sandbox.work("put_token"), "the-next-horse-that-carries-jobs").unwrap();
    sandbox.ok(&["reload"]);
    assert_eq!(code(PUT, "GET /v1/jobs/own", ""), 401);
    assert_eq!(code("the-next-horse-that-carries-jobs", "GET /v1/jobs/own", ""), 200);
    assert_eq!((code(ALL, "GET /v1/status", ""), code(VIEW, "GET /v1/status", "")), (401, 200));
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}

#[test]
fn each_token_file_is_private_and_has_a_token_of_its_own() {
    let sandbox = Sandbox::new(Setting::Root);
    let refused = |settings: &[&str], change: &dyn Fn(), words: &str| {
        let file = with_tokens(&sandbox, settings);
        change();
        let output = sandbox.run(&["check", "-c", &file]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{said}");
        assert!(said.contains(words) && !said.contains("horse"), "{said}");
    };
    for name in ["view_token", "put_token"] {
        let open = || fs::set_permissions(sandbox.work(name), fs::Permissions::from_mode(0o644)).unwrap();
        refused(&[name], &open, &format!("api.yaml:4:3: the token file {}", sandbox.work(name).display()));
        let same = || fs::write(sandbox.work(name), ALL).unwrap();
        refused(&["token", name], &same, "is that of another setting");
    }
    let same = || fs::write(sandbox.work("put_token"), VIEW).unwrap();
    refused(&["view_token", "put_token"], &same, "is that of another setting");
    let file = with_tokens(&sandbox, &["view_token"]);
    assert!(!sandbox.ok(&["check", "-c", &file]).contains("error"));
}
