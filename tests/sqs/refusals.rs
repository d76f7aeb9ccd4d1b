//! What is refused, and in which words: a person must know what was attempted, why it failed and what to do.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use crate::jobs::Scene;
use crate::sandbox::{Sandbox, Setting, alive, wait_until};

/// What `release status` says of a broker, with these variables.
fn said(sandbox: &Sandbox, url: &str, env: &[(&str, &str)]) -> String {
    let mut command = sandbox.command(&["--broker", url, "release", "status", "r42"]);
    command.env("AWS_EC2_METADATA_DISABLED", "true").envs(env.iter().copied());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    String::from_utf8(output.stderr).unwrap()
}

const CREDENTIALS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")];

/// A server that answers each connection with this text; its URL.
fn server(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("sqs://eu-west-1?endpoint=http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // A client may have gone.
            stream.read(&mut [0; 65_536]).and_then(|_| stream.write_all(answer.as_bytes())).ok();
        }
    });
    url
}

#[test]
fn failed_request_is_told_in_words_with_what_to_do() {
    let scene = Scene::in_sandbox(Sandbox::new(Setting::Root));
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = format!("sqs://eu-west-1?endpoint=http://{gone}");
    let html = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>";
    let denied = |scene: &Scene| {
        scene.fake.knobs(|knobs| knobs.access_denied = true);
        scene.url.clone()
    };
    for (url, env, words) in [
        (
            gone.clone(),
            &CREDENTIALS[..],
            "there is no connection to the service: Connection refused (os error 111)",
        ),
        (
            gone,
            &[],
            "AWS's usual chain has no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
        ),
        (server(html), &CREDENTIALS, "the answer is not one of SQS: Error at offset 0: unexpected token '<'"),
        (server(""), &CREDENTIALS, "the connection broke off: "),
        (denied(&scene), &CREDENTIALS, "; allow it in the policy of the credentials or of the queue"),
    ] {
        let said = said(&scene.sandbox, &url, env);
        assert!(said.starts_with("error: cannot count the messages of the SQS queue 'r42-': "), "{said}");
        assert!(said.contains(words), "{words}: {said}");
        assert!(!said.contains('{') || said.contains("one of '{'"), "no debug text of Rust: {said}");
    }
}

#[test]
fn put_that_sqs_refuses_is_told_in_its_words() {
    let scene = Scene::in_sandbox(Sandbox::new(Setting::Root));
    scene.fake.put("mail", []);
    let _running = scene.start(&["-w", "1", "-q", "other"]);
    let (code, said) = scene.sandbox.refused(&["put", "bad name", "X", "1"]);
    assert!(
        code == 2 && said.contains("'bad name': InvalidParameterValue: Can only include"),
        "{code} {said}"
    );
    let (code, said) = scene.sandbox.refused(&["put", "mail", "X", "\"\u{ffff}\""]);
    assert!(
        code == 2 && said.contains("'mail': InvalidMessageContents: Invalid characters"),
        "{code} {said}"
    );
}

#[test]
fn wait_for_a_job_that_another_host_may_take_is_refused_before_the_put() {
    let scene = Scene::in_sandbox(Sandbox::new(Setting::Root));
    scene.fake.put("mail", []);
    let _running = scene.start(&["-w", "1", "-q", "other"]);
    let refused = |args: &[&str]| {
        let (code, said) =
            scene.sandbox.refused(&[args, &["put", "-q", "mail", "--wait", "--", "/bin/true"]].concat());
        assert!(
            code == 8 && said.contains("nothing was put") && said.contains("taskvisor job wait"),
            "{code} {said}"
        );
        assert!(scene.is_empty("mail"));
    };
    refused(&[]);
    let elsewhere = scene.sandbox.path("elsewhere");
    refused(&["--broker", &scene.url, "--state-dir", elsewhere.to_str().unwrap()]);
}

/// What `release status` says with this file of AWS's settings, and these variables.
fn said_of_profile(scene: &Scene, config: &str, env: &[(&str, &str)]) -> String {
    let file = scene.sandbox.work("aws-config");
    fs::write(&file, config).unwrap();
    let file = file.to_str().unwrap();
    let files = [("AWS_CONFIG_FILE", file), ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")];
    said(&scene.sandbox, &scene.url, &[&files[..], env].concat())
}

#[test]
fn broken_profile_is_told_with_its_own_reason_each_time() {
    let scene = Scene::in_sandbox(Sandbox::new(Setting::Root));
    let sso = "[profile work]\nsso_session = x\nsso_account_id = 1\nsso_role_name = r\n\
               [sso-session x]\nsso_region = eu-west-1\nsso_start_url = https://example.org/start\n";
    let login = "[profile work]\nlogin_session = arn:aws:iam::1:user/me\n";
    for (config, profile, words) in [
        (sso, "work", "AWS_PROFILE=work: it signs in by SSO, which is not built in"),
        (login, "work", "AWS_PROFILE=work: it is a session of `aws login`, which is not built in"),
        (sso, "wrok", "AWS_PROFILE=wrok: "),
    ] {
        let said = said_of_profile(&scene, config, &[("AWS_PROFILE", profile)]);
        assert!(said.contains(words) && !said.contains("already taken"), "{words}: {said}");
    }
}

#[test]
fn proxies_of_the_environment_are_used_for_sqs() {
    let scene = Scene::in_sandbox(Sandbox::new(Setting::Root));
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let url = "sqs://eu-west-1?endpoint=http://sqs.invalid";
    let proxy = server("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let proxy = proxy.split_once("endpoint=").unwrap().1.to_owned();
    let with = |url: &str, name, proxy: &str| {
        said(&scene.sandbox, url, &[&CREDENTIALS[..], &[(name, proxy)]].concat())
    };
    let by_proxy = with(url, "HTTP_PROXY", &proxy);
    assert!(by_proxy.contains("the answer is not one of SQS"), "{by_proxy}");
    let gone_proxy = with("sqs://eu-west-1", "HTTPS_PROXY", &format!("http://{gone}"));
    assert!(gone_proxy.contains("there is no connection to the service: "), "{gone_proxy}");
    // The fake is on 127.0.0.1, which NO_PROXY excludes: it answers.
    let mut command = scene.sandbox.command(&["--broker", &scene.url, "release", "status", "r42"]);
    command.envs(CREDENTIALS).env("http_proxy", format!("http://{gone}")).env("no_proxy", "127.0.0.1");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no queue is called r42-"), "{said}");
}

#[test]
fn region_comes_from_the_environment_where_the_url_has_none() {
    let scene = Scene::in_sandbox(Sandbox::new(Setting::Root));
    let url = scene.url.replacen("eu-west-1", "", 1);
    let files = [("AWS_CONFIG_FILE", "/dev/null"), ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")];
    let none = said(&scene.sandbox, &url, &[&CREDENTIALS[..], &files].concat());
    assert!(none.contains("no region is known"), "{none}");
    let mut command = scene.sandbox.command(&["--broker", &url, "release", "status", "r42"]);
    command.envs(CREDENTIALS).env("AWS_REGION", "eu-west-1");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no queue is called r42-"), "{said}");
}

#[test]
fn pool_of_kales_tasks_is_refused_where_the_broker_has_no_key() {
    let scene = Scene::in_sandbox(Sandbox::new(Setting::Root));
    let file = scene.sandbox.work("kale.yaml");
    let text = |url: &str| {
        format!(
            "broker: {url}\npools:\n- name: kale\n  command: [python3, -m, taskvisor.kale]\n  queues: [mail]\n"
        )
    };
    let file = file.to_str().unwrap().to_owned();
    fs::write(&file, text("sqs://eu-west-1")).unwrap();
    let (code, said) = scene.sandbox.refused(&["check", "-c", &file]);
    let words = "kale.yaml:1:1: the broker sqs://eu-west-1 has no key for tasks of kale";
    assert!(code == 78 && said.contains(words), "{code} {said}");
    fs::write(&file, text("sqs://eu-west-1?default_key=yes")).unwrap();
    scene.sandbox.ok(&["check", "-c", &file]);
}

#[test]
fn check_reads_the_key_of_kales_messages() {
    let scene = Scene::in_sandbox(Sandbox::new(Setting::Root));
    let key = scene.sandbox.path("key");
    let url = format!("sqs://eu-west-1?key_file={}", key.display());
    let check = || scene.sandbox.refused(&["check", "--broker", &url]);
    for (text, words) in [
        (None, "No such file or directory"),
        (Some("open to others"), "others can read or change it (mode 644): chmod 600"),
        (Some("too short"), "UTIL_CRYPT_CIPHER has 9 bytes: a key of kale has 16, 24 or 32"),
        (Some("1234567890123456"), "kale's own default"),
    ] {
        text.into_iter().for_each(|text: &str| fs::write(&key, text).unwrap());
        let mode = if text == Some("open to others") { 0o644 } else { 0o600 };
        text.into_iter().for_each(|_| fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap());
        let (code, said) = check();
        let start = format!("cannot use the key in {}: ", key.display());
        assert!(code == 78 && said.contains(&start) && said.contains(words), "{code} {said}");
    }
    fs::write(&key, "sixteen bytes ok\n").unwrap();
    scene.sandbox.ok(&["check", "--broker", &url]);
}

#[test]
fn module_that_does_not_end_is_given_up_and_killed() {
    let scene = Scene::in_sandbox(Sandbox::new(Setting::Root));
    let module = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\nos.rename('pid', 'done')\ntime.sleep(600)\n";
    fs::write(scene.sandbox.work("slow.py"), module).unwrap();
    let (code, said) = scene.sandbox.refused(&["kale", "import", "slow", "-p", ".", "--timeout", "1s"]);
    let words = "failed to import the module slow with python3: it has not ended within 1s (--timeout)";
    assert!(code == 78 && said.contains(words), "{code} {said}");
    if let Ok(pid) = fs::read_to_string(scene.sandbox.work("done")) {
        let python = pid.parse().unwrap();
        wait_until("Python is dead", || !alive(python));
    }
}

#[test]
fn import_refuses_an_address_that_check_would_refuse() {
    let scene = Scene::in_sandbox(Sandbox::new(Setting::Root));
    let queue = "{name: mail, priority: 5, num_iterations: 2, long_poll_time_sec: 5, batch_size: 5, visibility_timeout_sec: 600}";
    fs::write(scene.sandbox.work("queues.yaml"), format!("mail: {queue}\n")).unwrap();
    for (region, endpoint, words) in [
        ("eu west", "", "it is a name such as eu-west-1"),
        ("eu-west-1", "localhost:9324", "an endpoint that is no http:// or https:// URL"),
        ("eu-west-1", "http://localhost/?a=b&c=d", "after its ?, and no others"),
    ] {
        let module = format!(
            "AWS_REGION = {region:?}\nMESSAGE_QUEUE_ENDPOINT_URL = {endpoint:?}\nQUEUE_CONFIG = 'queues.yaml'\n\
             UTIL_CRYPT_CIPHER = 'sixteen bytes ok'\n"
        );
        fs::write(scene.sandbox.work("wrong_settings.py"), module).unwrap();
        let args = ["kale", "import", "wrong_settings", "-p", ".", "--key-file", "new.key"];
        let (code, said) = scene.sandbox.refused(&args);
        assert!(
            code == 78 && said.contains("failed to import wrong_settings: ") && said.contains(words),
            "{code} {said}"
        );
        assert!(!scene.sandbox.work("new.key").exists());
    }
}

/// What kale itself takes: boto3 does not read the variable AWS_REGION.
#[test]
fn import_takes_the_region_that_boto3_takes_and_says_so() {
    let scene = Scene::in_sandbox(Sandbox::new(Setting::Root));
    let queue = "{name: mail, priority: 5, num_iterations: 2, long_poll_time_sec: 5, batch_size: 5, visibility_timeout_sec: 600}";
    fs::write(scene.sandbox.work("queues.yaml"), format!("mail: {queue}\n")).unwrap();
    fs::write(scene.sandbox.work("app_settings.py"), "AWS_REGION = ''\nQUEUE_CONFIG = 'queues.yaml'\n")
        .unwrap();
    let import = |boto3: &str, default: &str| {
        fs::write(scene.sandbox.work("boto3.py"), boto3).unwrap();
        let mut command = scene.sandbox.command(&["kale", "import", "app_settings", "-p", "."]);
        command.env("AWS_REGION", "us-east-1").env("AWS_DEFAULT_REGION", default);
        let output = command.output().unwrap();
        let [printed, said] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(output.status.success(), "{said}");
        (printed.lines().next().unwrap().to_owned(), said)
    };
    let session = |region: &str| format!("class Session:\n    region_name = {region}\n");
    let (broker, said) = import(&session("'eu-north-1'"), "eu-west-2");
    assert!(broker.starts_with("broker: sqs://eu-north-1?"), "{broker}");
    assert!(said.contains("the region eu-north-1 is what boto3 takes"), "{said}");
    let (broker, _) = import("raise ImportError('there is none')", "eu-west-2");
    assert!(broker.starts_with("broker: sqs://eu-west-2?"), "{broker}");
    let (broker, said) = import(&session("None"), "");
    assert!(broker.starts_with("broker: sqs://?"), "{broker}");
    assert!(said.contains("boto3 finds no region here"), "{said}");
}
