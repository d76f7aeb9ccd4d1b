//! The API over TCP: which requests are accepted, and the commands with `--url`.

use super::*;

pub(super) const TOKEN: &str = "correct-horse-battery-staple";

/// Settings with a free port and a token.
pub(super) fn with_port(sandbox: &Sandbox, more: &str) -> String {
    fs::write(sandbox.work("token"), format!("{TOKEN}\n")).unwrap();
    fs::set_permissions(sandbox.work("token"), fs::Permissions::from_mode(0o600)).unwrap();
    let owner = fs::metadata(sandbox.path("work")).unwrap();
    std::os::unix::fs::chown(sandbox.work("token"), Some(owner.uid()), Some(owner.gid())).unwrap();
    let yaml = format!("api:\n  listen: 127.0.0.1:0\n  token_file: token\n{more}");
    fs::write(sandbox.work("api.yaml"), yaml).unwrap();
    sandbox.work("api.yaml").display().to_string()
}

/// The address from the log; the log is written asynchronously, so this waits for it.
pub(super) fn port(sandbox: &Sandbox) -> SocketAddr {
    let mut address = None;
    wait_until("the log says where it listens", || {
        let said = sandbox.stderr();
        let line = said.split_once("the API listens address=").and_then(|(_, rest)| rest.split_once('\n'));
        address = line.map(|(address, _)| address.parse().unwrap());
        address.is_some()
    });
    address.unwrap()
}

/// Sends a request with these headers over TCP; returns status and answer.
pub(super) fn by_tcp(sandbox: &Sandbox, first: &str, headers: &[&str], body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(port(sandbox)).unwrap();
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    write!(
        stream,
        "{first} HTTP/1.1\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[test]
fn reload_accepts_the_new_token_and_rejects_the_old_one() {
    let sandbox = Sandbox::new(Setting::Plain);
    let file = with_port(&sandbox, "");
    let mut running = sandbox.start(&["-w", "1", "-c", &file]);
    let code = |token: &str| {
        let bearer = format!("authorization: Bearer {token}");
        by_tcp(&sandbox, "GET /livez", &["host: localhost", &bearer], "").0
    };
    assert_eq!(code(TOKEN), 200);
    let rotated = "the-next-horse-has-another-battery";
    fs::write(sandbox.work("token"), rotated).unwrap();
    fs::set_permissions(sandbox.work("token"), fs::Permissions::from_mode(0o644)).unwrap();
    let refused = sandbox.run(&["reload"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the token file"), "{refused:?}");
    fs::set_permissions(sandbox.work("token"), fs::Permissions::from_mode(0o600)).unwrap();
    sandbox.ok(&["reload", "--dry-run"]);
    assert_eq!((code(TOKEN), code(rotated)), (200, 401), "nothing was taken in");
    sandbox.ok(&["reload"]);
    assert_eq!((code(TOKEN), code(rotated)), (401, 200));
    fs::write(sandbox.work("token"), TOKEN).unwrap();
    running.signal("HUP");
    wait_until("the signal has done the same", || code(TOKEN) == 200);
    assert_eq!(code(rotated), 401);
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}

#[test]
fn tcp_requests_need_the_token_and_a_known_host_name() {
    in_all_settings(|sandbox| {
        let config =
            with_port(sandbox, "  hosts: [jobs.example.org]\n  origins: ['https://jobs.example.org']\n");
        let _running = sandbox.start(&["-c", &config]);
        let knows = format!("authorization: Bearer {TOKEN}");
        let get = |path: &str, headers: &[&str]| by_tcp(sandbox, &format!("GET {path}"), headers, "").0;
        for path in ["/v1", "/v1/status", "/metrics", "/livez", "/readyz"] {
            assert_eq!(get(path, &["host: localhost:1", &knows]), 200, "{path}");
            // Probes alone come without it.
            let stranger = if path.ends_with('z') { 200 } else { 401 };
            assert_eq!(get(path, &["host: localhost:1"]), stranger, "{path}");
            assert_eq!(
                get(path, &["host: localhost:1", "authorization: Bearer correct-horse"]),
                401,
                "{path}"
            );
            assert_eq!(get(path, &["host: evil.example.org", &knows]), 403, "{path}");
            assert_eq!(
                get(path, &["host: localhost", &knows, "origin: https://evil.example.org"]),
                403,
                "{path}"
            );
        }
        assert_eq!(get("/nothing", &["host: localhost"]), 401, "not even what is not there");
        assert_eq!(get("/v1", &["host: jobs.example.org", &knows, "origin: https://jobs.example.org"]), 200);
        assert_eq!(by_tcp(sandbox, "DELETE /v1", &["host: localhost"], "").0, 401);
        assert!(by_tcp(sandbox, "GET /v1", &["host: localhost"], "").1.contains("www-authenticate: Bearer"));

        let headers = ["host: localhost", knows.as_str()];
        let put = |job: &str| by_tcp(sandbox, "POST /v1/jobs", &headers, &format!("{{\"jobs\":[{job}]}}"));
        let program =
            r#"{"queue":"default","class":"exec","exec":{"argv":["true"],"cwd":"/","umask":"022"}}"#;
        let data = r#"{"queue":"mail","class":"Welcome","data":1}"#;
        for jobs in [program, &format!("{data},{program}"), &data.replace("Welcome", "exec")] {
            let (code, answer) = put(jobs);
            assert!(code == 403 && answer.contains("programs cannot be put by TCP"), "{answer}");
        }
        let recur = |job: &str| {
            let every = r#"{"every":{"interval":60}}"#;
            let body = format!("{{\"schedule\":{every},\"job\":{job}}}");
            by_tcp(sandbox, "POST /v1/recurring/often", &headers, &body)
        };
        let (code, answer) = recur(program);
        assert!(code == 403 && answer.contains("programs cannot be put by TCP"), "{answer}");
        assert_eq!(recur(data).0, 200);
        assert_eq!(put(data).0, 200);
        assert_eq!(by_tcp(sandbox, "POST /v1/queues/mail/pause", &headers, "").0, 200);
        let queues = sandbox.json(&["queue", "list", "--json"]);
        let text = queues.to_string();
        assert!(text.contains("\"by\":\"127.0.0.1\"") && !text.contains("default"), "{text}");
    });
}

#[test]
fn tcp_clients_may_put_programs_only_with_allow_exec() {
    let sandbox = Sandbox::new(Setting::Plain);
    let config = with_port(&sandbox, "  allow_exec: true\n");
    let _running = sandbox.start(&["-c", &config]);
    let headers = ["host: 127.0.0.1", &format!("authorization: Bearer {TOKEN}")];
    let job = r#"{"jobs":[{"id":"j1","queue":"default","class":"exec","exec":{"argv":["true"],"cwd":"/","umask":"022"}}]}"#;
    assert_eq!(by_tcp(&sandbox, "POST /v1/jobs", &headers, job).0, 200);
    assert!(by_tcp(&sandbox, "GET /v1/jobs/j1/wait", &headers, "").1.contains("complete"));
}

#[test]
fn tcp_port_needs_a_long_private_token_and_valid_hosts() {
    let sandbox = Sandbox::new(Setting::Root);
    let token = sandbox.work("token");
    let refused = |yaml: &str, words: &str| {
        fs::write(sandbox.work("t.yaml"), yaml).unwrap();
        for verb in ["start", "check"] {
            let output = sandbox.run(&[verb, "-c", "t.yaml"]);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(78), "{said}");
            assert!(said.contains(words) && said.contains("hint: "), "{said}");
            assert!(!said.contains("horse"), "{said}");
        }
    };
    let write = |text: &str, mode| {
        fs::write(&token, text).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(mode)).unwrap();
    };
    let listen = "api:\n  listen: 127.0.0.1:0\n";
    refused(listen, "error: t.yaml:2:3: to listen by TCP takes a token");
    refused("api:\n  listen: 0.0.0.0:0\n", "error: t.yaml:2:3: to listen by TCP takes a token");
    refused("api:\n  listen: 9180\n  token_file: token\n", "t.yaml:2:3: '9180' is nothing to listen on");
    refused("api:\n  listen: localhost\n", "t.yaml:2:3: 'localhost' is nothing to listen on");
    refused("api:\n  token: correct-horse-battery\n", "t.yaml:2:3: unknown setting 'token'");
    let file = format!("{listen}  token_file: token\n");
    refused(&file, "t.yaml:3:3: the token file");
    refused(&file, "cannot be opened: No such file");
    write("", 0o600);
    refused(&file, "token is empty");
    write("short-horse", 0o600);
    refused(&file, "has 11 letters, and 16 are the least");
    write("correct horse battery staple", 0o600);
    refused(&file, "without blanks");
    write(&"horse".repeat(1000), 0o600);
    refused(&file, "has more than 4096 letters");
    for mode in [0o604, 0o602, 0o620] {
        write(TOKEN, mode);
        refused(&file, &format!("can be read or changed by others (mode {mode:o})"));
    }
    refused(&file.replace("token\n", "/tmp\n"), "is no file");
    write(TOKEN, 0o640);
    refused(&format!("{file}  hosts: ['http://x/']\n"), "'http://x/' in hosts is no name of a host");
    refused(&format!("{file}  origins: [x]\n"), "'x' in origins is none");
    fs::write(sandbox.work("t.yaml"), &file).unwrap();
    assert_eq!(sandbox.ok(&["check", "-c", "t.yaml"]), "fine\n");
    fs::remove_file(&token).unwrap();
    assert!(sandbox.ok(&["config", "show", "-c", "t.yaml"]).contains("token_file: token  # t.yaml:3:3"));
}

#[test]
fn start_fails_on_a_port_in_use_before_any_worker_runs() {
    let sandbox = Sandbox::new(Setting::Plain);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let config = with_port(&sandbox, "");
    let yaml = fs::read_to_string(&config).unwrap().replace("127.0.0.1:0", &address);
    fs::write(&config, yaml).unwrap();
    let mut running = sandbox.start_raw(&["-c", &config]);
    assert_eq!(running.wait().code(), Some(69), "{}", sandbox.stderr());
    let said = sandbox.stderr();
    assert!(
        said.contains(&format!("the supervisor ends: failed to listen on {address}: Address already in use")),
        "{said}"
    );
    assert!(!said.contains(TOKEN) && said.contains("hint="), "{said}");
    sandbox.assert_nothing_left();
}

#[test]
fn probes_without_the_token_learn_yes_or_no_and_nothing_else() {
    let sandbox = Sandbox::new(Setting::Plain);
    let config = with_port(&sandbox, "");
    let mut running = sandbox.start(&["-w", "1", "-c", &config]);
    // As the kubelet calls it: by the address of the pod.
    let host = "host: 10.1.2.3:9180";
    let probe = |first: &str, headers: &[&str]| by_tcp(&sandbox, first, headers, "");
    assert_eq!(probe("GET /livez", &[host]).0, 200);
    assert_eq!(probe("HEAD /livez", &[host]).0, 200);
    wait_until("it is ready", || probe("GET /readyz", &[host]).0 == 200);
    for (first, headers, code) in [
        ("POST /livez", &[host][..], 403),
        ("GET /readyz", &[host, "origin: https://evil.example.org"], 403),
        ("GET /readyz", &["host: localhost", "authorization: Bearer wrong"], 401),
        ("GET /livez/", &["host: localhost"], 401),
        ("GET /metrics", &[host], 403),
    ] {
        assert_eq!(probe(first, headers).0, code, "{first} {headers:?}");
    }
    sandbox.ok(&["pause", "default", "--reason", "the secret reason"]);
    let mut answer = String::new();
    wait_until("the answer of a second ago no longer holds", || {
        answer = probe("GET /readyz", &[host]).1;
        answer.starts_with("HTTP/1.1 503")
    });
    assert!(answer.contains("not ready") && !answer.contains("pool"), "{answer}");
    let told = probe("GET /readyz", &["host: localhost", &format!("authorization: Bearer {TOKEN}")]).1;
    assert!(told.contains("pool default: it is paused"), "{told}");
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}

#[test]
fn tcp_clients_that_use_all_connections_do_not_block_the_socket() {
    let sandbox = Sandbox::new(Setting::Plain);
    let config = with_port(&sandbox, "");
    let _running = sandbox.start(&["-c", &config]);
    let address = port(&sandbox);
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(4096), hard).unwrap();
    let silent: Vec<TcpStream> = (0..1000).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(get(&sandbox, "/livez").0, "HTTP/1.1 200 OK");
    sandbox.ok(&["put", "--", "true"]);
    // A new client is accepted as soon as another one has been silent for a second.
    let headers = ["host: localhost", &format!("authorization: Bearer {TOKEN}")];
    wait_until("one of the silent has made room", || {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET /livez HTTP/1.1\r\n{}\r\nconnection: close\r\n\r\n", headers.join("\r\n")).ok();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok();
        answer.starts_with("HTTP/1.1 200")
    });
    drop(silent);
}

#[test]
fn commands_work_over_tcp_with_the_token() {
    let sandbox = Sandbox::new(Setting::Plain);
    let config = with_port(&sandbox, "  allow_exec: true\n");
    let mut running = sandbox.start(&["-c", &config]);
    let url = format!("http://{}", port(&sandbox));
    let token = sandbox.work("token").display().to_string();
    // The command has no access to the run and state directories.
    let there = |args: &[&str]| {
        let mut command = sandbox.command(args);
        command.env("TASKVISOR_RUN_DIR", "/nowhere").env("TASKVISOR_STATE_DIR", "/nowhere");
        command.env("TASKVISOR_URL", &url).env("TASKVISOR_TOKEN_FILE", &token).output().unwrap()
    };
    let ok = |args: &[&str]| {
        let output = there(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let jid = ok(&["put", "--", "true"]).trim().to_owned();
    ok(&["job", "wait", &jid]);
    assert!(ok(&["job", "show", &jid]).contains("complete"));
    assert_eq!(ok(&["job", "list", "-n", "0", "--json"]).lines().count(), 1);
    ok(&["job", "retry", &jid]);
    ok(&["queue", "pause", "default"]);
    assert!(ok(&["queue", "list"]).contains("by 127.0.0.1"));
    ok(&["queue", "resume", "default"]);
    ok(&["why", "job", &jid]);
    ok(&["status", "--json"]);
    ok(&["scale", "default", "2"]);
    ok(&["drain"]);
    let refused = |args: &[&str], code: i32, words: &str| {
        let output = there(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(words), "{args:?}: {}", text(&output.stderr));
    };
    refused(&["status", "--url", "https://localhost:1"], 2, "TLS is a proxy's business");
    refused(
        &["status", "--token-file", "/nowhere/token"],
        78,
        "the token file /nowhere/token cannot be opened",
    );
    fs::write(sandbox.work("token"), "another-token-of-somebody\n").unwrap();
    refused(&["queue", "list"], 77, "this is not the token");
    refused(&["put", "--", "true"], 77, "this is not the token");
    fs::write(sandbox.work("token"), TOKEN).unwrap();
    ok(&["stop"]);
    running.wait();
    refused(&["queue", "list"], 3, "no supervisor listens on 127.0.0.1:");
    assert!(sandbox.json(&["job", "show", &jid, "--json"])["id"].is_string());
}

#[test]
fn workers_never_get_the_api_token_in_their_environment() {
    let sandbox = Sandbox::new(Setting::Plain);
    fs::write(sandbox.work("t.yaml"), "api: {listen: '127.0.0.1:0'}\npools:\n- env: {pass: ['*']}\n")
        .unwrap();
    let config = sandbox.work("t.yaml").display().to_string();
    let mut running = sandbox.start_with(&["-c", &config], |command| {
        command.env("TASKVISOR_API_TOKEN", TOKEN).env("SEEN", "yes");
    });
    let mut ready = false;
    wait_until("it listens", || {
        ready |= sandbox.stderr().contains("supervisor is up");
        ready
    });
    assert_eq!(
        by_tcp(&sandbox, "GET /v1", &["host: localhost", &format!("authorization: Bearer {TOKEN}")], "").0,
        200
    );
    let jid = sandbox.put(&["env"]);
    sandbox.ok(&["job", "wait", &jid]);
    let seen = sandbox.ok(&["job", "logs", &jid]);
    assert!(seen.contains("SEEN=yes") && !seen.contains("horse"), "{seen}");
    running.signal("TERM");
    running.wait();
}

#[test]
fn output_is_read_by_range_and_followed_by_tcp() {
    let sandbox = Sandbox::new(Setting::Plain);
    let file = with_port(&sandbox, "");
    let mut running = sandbox.start(&["-w", "1", "-c", &file]);
    let url = format!("http://{}", port(&sandbox));
    let token = sandbox.work("token").display().to_string();
    let far = |args: &[&str]| sandbox.command(&[&["--url", &url, "--token-file", &token], args].concat());
    let script = "printf 'one\\ntwo\\n'; until test -e go; do sleep 0.05; done; echo bad >&2";
    let jid = sandbox.put(&["sh", "-c", script]);
    let heard = fs::File::create(sandbox.path("heard")).unwrap();
    let mut follower = far(&["job", "logs", "-f", "-n", "1", &jid]).stdout(heard).spawn().unwrap();
    let told = || fs::read(sandbox.path("heard")).unwrap();
    wait_until("the first lines have come", || !told().is_empty());
    let bearer = format!("authorization: Bearer {TOKEN}");
    let ask = |jid: &str, query: &str, accept: &str| {
        let first = format!("GET /v1/jobs/{jid}/logs?{query}");
        by_tcp(&sandbox, &first, &["host: localhost", &bearer, &format!("accept: {accept}")], "")
    };
    let get = |query: &str, accept: &str| ask(&jid, query, accept);
    wait_until("both lines are written", || get("from=4&limit=3", "*/*").1.contains("two"));
    sandbox.script("go", "");
    assert!(follower.wait().unwrap().success());
    let heard = told();
    assert!(heard.ends_with(b"two\nbad\n") && heard.len() <= b"one\ntwo\nbad\n".len(), "{heard:?}");
    let (code, answer) = get("from=4&limit=3", "*/*");
    assert!(code == 200 && answer.contains("text/plain") && answer.contains("nosniff"), "{answer}");
    assert!(answer.contains("two") && !answer.contains("one") && !answer.contains("bad"), "{answer}");
    let (_, lines) = get("stream=stderr", "application/x-ndjson");
    assert!(lines.contains(r#""attempt":1,"stream":"stderr","text":"bad\n"}"#), "{lines}");
    assert!(lines.contains(r#"{"state":"complete","next":12}"#), "{lines}");
    let other = sandbox.put(&["printf", r"a\377\303"]);
    sandbox.ok(&["job", "wait", &other]);
    assert!(ask(&other, "from=1", "application/x-ndjson").1.contains(r#""text":{"b64":"/8M="}"#));
    assert_eq!((get("from=x", "*/*").0, get("", "*/*").0), (400, 200));
    let stamped = far(&["job", "logs", "-t", "--stream", "stderr", &jid]).output().unwrap();
    assert!(String::from_utf8(stamped.stdout).unwrap().ends_with("Z stderr bad\n"));
    let unknown = far(&["job", "logs", "--attempt", "2", &jid]).output().unwrap();
    assert!(String::from_utf8(unknown.stderr).unwrap().contains("has no attempt 2: it has had 1"));
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}
