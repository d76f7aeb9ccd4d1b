//! Tasks of kale in SQS as kale sends them: read here, run by kale's own classes, republished as kale reads them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use crate::jobs::Scene;
use crate::python;
use crate::sandbox::{Running, wait_until};

const STANDIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/tests/kale_standin");
const KEY: &str = "sixteen bytes ok";

impl Scene {
    /// A broker with the encryption key, and the application in the work directory.
    fn of_kale() -> Scene {
        let mut scene = Scene::in_sandbox(python::new());
        let key = scene.sandbox.path("key");
        fs::write(&key, format!("{KEY}\n")).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        scene.url = format!("{}&key_file={}", scene.url, key.display());
        scene
    }

    fn start_kale(&self, mode: &str) -> Running<'_> {
        self.start_kale_on("mail", mode)
    }

    fn start_kale_on(&self, queue: &str, mode: &str) -> Running<'_> {
        let path = format!("PYTHONPATH={}:{STANDIN}", python::path());
        let key = format!("KALE_STANDIN_KEY={KEY}");
        let env = ["--env", &path, "--env", &key];
        let last = ["--env", "PYTHONDONTWRITEBYTECODE=1", "--env", "KALE_SETTINGS_MODULE=kale_jobs_settings"];
        let pool = ["-m", mode, "-w", "1", "-q", queue, "--retries", "0"];
        let worker = ["--", "python3", "-m", "taskvisor.kale", "-m", "kale_jobs"];
        self.start(&[&pool[..], &env, &last, &worker].concat())
    }

    /// Publishes a task with the body that an application of kale would send.
    fn publish(&self, expression: &str) {
        self.publish_to("mail", expression);
    }

    fn publish_to(&self, queue: &str, expression: &str) {
        let script = format!(
            "import kale_jobs\nfrom kale.message import KaleMessage\nprint(KaleMessage(task_class=kale_jobs.{expression}).encode())"
        );
        let output = Command::new("python3")
            .args(["-c", &script])
            .current_dir(self.sandbox.path("work"))
            .env("PYTHONPATH", format!("{}:{STANDIN}:.", python::path()))
            .env("KALE_STANDIN_KEY", KEY)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.send(queue, String::from_utf8(output.stdout).unwrap().trim());
    }

    fn only_job(&self) -> Value {
        self.jobs(&[]).into_iter().next().unwrap_or_default()
    }
}

#[test]
fn task_of_kale_runs_and_so_does_the_task_it_publishes() {
    for mode in ["prefork", "fork"] {
        let scene = Scene::of_kale();
        let _running = scene.start_kale(mode);
        scene.publish(
            "SendAll, task_id='SendAll_uuid_1', payload={'args': (), 'kwargs': {'people': ['ann']}}",
        );
        wait_until("both are complete", || scene.jobs(&["--state", "complete"]).len() == 2);
        wait_until("both are deleted", || scene.is_empty("mail"));
        let jobs = scene.jobs(&[]);
        let all = jobs.iter().find(|job| job["class"] == "kale_jobs.SendAll").unwrap();
        assert_eq!(all["title"], "kale_jobs.SendAll(people=['ann'])");
        let page = scene.sandbox.ok(&["job", "show", all["id"].as_str().unwrap()]);
        let decoded = "kale task   kale_jobs.SendAll(people=['ann']), retry 0, failure 0, published by ";
        assert!(page.contains(decoded), "{page}");
        let sent = jobs.into_iter().find(|job| job["class"] == "kale_jobs.Send").unwrap();
        let log = scene.sandbox.ok(&["job", "logs", sent["id"].as_str().unwrap()]);
        assert_eq!(log, "to ann None\n", "{mode}: no worker has credentials");
    }
}

#[test]
fn put_sends_the_message_that_kale_reads() {
    let mut scene = Scene::of_kale();
    scene.url += "&put=kale";
    let _running = scene.start_kale("prefork");
    let call = r#"{"args": ["ann"], "app_data": {"n": 1}}"#;
    let id = scene.sandbox.ok(&["put", "mail", "kale_jobs.Send", call]);
    wait_until("it is complete", || scene.jobs(&["--state", "complete"]).len() == 1);
    assert_eq!(scene.only_job()["class"], "kale_jobs.Send");
    assert_eq!(scene.sandbox.ok(&["job", "logs", id.trim()]), "to ann None\n");
    wait_until("its message is deleted", || scene.is_empty("mail"));
    let (code, said) = scene.sandbox.refused(&["put", "mail", "kale_jobs.Send", r#"{"to": "ann"}"#]);
    assert!(code == 2 && said.contains("it has no 'to'"), "{code} {said}");
}

#[test]
fn failed_task_is_republished_as_kale_does_and_stays_one_job() {
    for (queue, letters) in [("mail", "dlq-mail"), ("mail.fifo", "dlq-mail.fifo")] {
        let scene = Scene::of_kale();
        let _running = scene.start_kale_on(queue, "prefork");
        scene.publish_to(queue, "Fails, task_id='Fails_uuid_1', payload={'args': (), 'kwargs': {}}");
        wait_until("it has failed for good", || scene.only_job()["state"] == "failed");
        assert_eq!(scene.jobs(&[]).len(), 1, "three messages, one job");
        let id = scene.only_job()["id"].as_str().unwrap().to_owned();
        let log = scene.sandbox.ok(&["job", "logs", &id]);
        assert_eq!(log.lines().filter(|line| *line == "fails").count(), 3, "max_retries is 2: {log}");
        wait_until("it is a dead letter alone", || {
            scene.is_empty(queue) && scene.fake.bodies(letters).len() == 1
        });
    }
}

#[test]
fn messages_that_no_key_opens_stay_and_the_pool_says_so() {
    let scene = Scene::of_kale();
    fs::write(scene.sandbox.path("key"), "another 16 bytes").unwrap();
    let _running = scene.start_kale("prefork");
    for task in 1..=3 {
        scene.publish(&format!(
            "Send, task_id='Send_uuid_{task}', payload={{'args': ('ann',), 'kwargs': {{}}}}"
        ));
    }
    let words = "no message of the SQS queue 'mail' can be read so far, and none is moved: it ";
    wait_until("status says so", || scene.sandbox.reasons().contains(words));
    wait_until("it is logged once", || scene.sandbox.stderr().contains(words));
    assert_ne!(scene.sandbox.status()["health"], "healthy");
    assert_eq!(scene.fake.bodies("mail").len(), 3, "all are still there");
}

#[test]
fn message_encrypted_with_another_key_is_dead_lettered_where_others_are_read() {
    let scene = Scene::of_kale();
    let _running = scene.start_kale("prefork");
    scene.publish("Send, task_id='Send_uuid_1', payload={'args': ('ann',), 'kwargs': {}}");
    wait_until("one is read", || scene.jobs(&["--state", "complete"]).len() == 1);
    let sealed = base64_of_blocks();
    scene.send("mail", &sealed);
    wait_until("it is a dead letter", || scene.is_empty("mail") && scene.fake.bodies("dlq-mail").len() == 1);
    wait_until("it is logged", || scene.sandbox.stderr().contains("it was encrypted with another key"));
    scene.sandbox.wait_healthy();
}

/// What a task looks like that was encrypted with another key: base64 of blocks of 16 bytes.
fn base64_of_blocks() -> String {
    "q83vASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4mrze8BI0VniavN7wEjRWeJ".repeat(4)
}

#[test]
fn well_known_default_key_is_refused() {
    let scene = Scene::of_kale();
    fs::write(scene.sandbox.path("key"), "1234567890123456").unwrap();
    let (code, said) = scene.sandbox.refused(&["start", "--broker", &scene.url, "-w", "1", "-q", "mail"]);
    assert_eq!(code, 78, "{said}");
    assert!(said.contains("default"), "{said}");
}

#[test]
fn imported_kale_application_runs_with_the_printed_settings() {
    let scene = Scene::of_kale();
    let settings = format!(
        "AWS_REGION = 'eu-west-1'\nMESSAGE_QUEUE_ENDPOINT_URL = {:?}\nUTIL_CRYPT_CIPHER = {KEY:?}\n\
         QUEUE_CONFIG = 'queues.yaml'\nRATE = float('nan')\nprint('it is imported')\n",
        scene.fake.endpoint()
    );
    fs::write(scene.sandbox.work("live_settings.py"), settings).unwrap();
    let queue = "name: mail\n  priority: 5\n  num_iterations: 2\n  long_poll_time_sec: 5\n  batch_size: 5\n  \
                 visibility_timeout_sec: 600\n";
    fs::write(scene.sandbox.work("queues.yaml"), format!("mail:\n  {queue}")).unwrap();
    let printed = scene.sandbox.ok(&["kale", "import", "live_settings", "-p", ".", "--key-file", "live.key"]);
    let mode = fs::metadata(scene.sandbox.work("live.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fs::write(scene.sandbox.work("t.yaml"), printed).unwrap();
    let explained = scene.sandbox.ok(&["kale", "check", "queues.yaml"]);
    assert!(explained.starts_with("mail: priority 5, messages hidden for 600 s\n"), "{explained}");

    let path = format!("PYTHONPATH={}:{STANDIN}:.", python::path());
    let key = format!("KALE_STANDIN_KEY={KEY}");
    let more = ["--env", &path, "--env", &key, "--env", "PYTHONDONTWRITEBYTECODE=1"];
    let _running = scene.sandbox.start_with(&[&["-c", "t.yaml"][..], &more].concat(), |command| {
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    });
    scene.publish("Send, task_id='Send_uuid_1', payload={'args': ('ann',), 'kwargs': {}}");
    wait_until("the task is complete", || scene.jobs(&["--state", "complete"]).len() == 1);
    assert!(!scene.sandbox.stderr().contains("IMDS"), "the URL has the region: nobody else is asked for it");

    let settings = "QUEUE_CLASS = 'app.nope.X'\nQUEUE_CONFIG = 'queues.yaml'\nUTIL_CRYPT_CIPHER = 'x' * 32\n";
    fs::write(scene.sandbox.work("odd_settings.py"), settings).unwrap();
    let odd = scene.sandbox.run(&["kale", "import", "odd_settings", "-p", ".", "--key-file", "odd.key"]);
    let noted = String::from_utf8_lossy(&odd.stderr);
    let why = "QUEUE_CLASS is app.nope.X, which could not be asked for the names of queues (ModuleNotFoundError: No module \
               named 'app'";
    assert!(noted.contains(why), "{noted}");

    // A second import does not overwrite the key; a file with an empty queue is refused with its line.
    let again = ["kale", "import", "live_settings", "-p", ".", "--key-file", "live.key"];
    let (code, said) = scene.sandbox.refused(&again);
    assert!(code == 74 && said.contains("failed to write the key to "), "{code} {said}");
    fs::write(scene.sandbox.work("queues.yaml"), "mail:\nreports:\n").unwrap();
    let (code, said) = scene.sandbox.refused(&["kale", "check", "queues.yaml"]);
    assert!(code == 78 && said.contains("line 1") && said.contains("line 2"), "{code} {said}");
    let (code, said) = scene.sandbox.refused(&["kale", "import", "no.such", "-p", "."]);
    assert!(code == 78 && said.contains("No module named 'no'"), "{code} {said}");
}
