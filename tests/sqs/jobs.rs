//! Supervisors on a fake of SQS, judged by the queues, by files and by the program's output.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bad_days::ok;
use crate::sandbox::{Running, Sandbox, Setting, is_up, wait_until, wait_within};
use crate::sqs::FakeSqs;

/// A fake SQS and a taskvisor on it.
pub struct Scene {
    pub fake: FakeSqs,
    pub url: String,
    pub sandbox: Sandbox,
    /// The directory of the failpoints, if any.
    pub points: RefCell<Option<PathBuf>>,
}

impl Scene {
    pub fn new() -> Scene {
        Scene::in_sandbox(Sandbox::new(Setting::Root))
    }

    pub fn in_sandbox(sandbox: Sandbox) -> Scene {
        let fake = FakeSqs::start();
        let url = format!("sqs://eu-west-1?endpoint={}&create=yes&exec=yes", fake.endpoint());
        Scene { fake, url, sandbox, points: RefCell::default() }
    }

    /// Starts a supervisor and waits until its slots are up.
    pub fn start(&self, args: &[&str]) -> Running<'_> {
        let args = [&["--broker", &self.url], args].concat();
        let running = self.sandbox.start_with(&args, |command| {
            command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
            command.envs(self.points.borrow().iter().map(|points| ("TASKVISOR_FAILPOINTS", points)));
        });
        wait_until("all slots are up", || is_up(&self.sandbox.status()));
        running
    }

    pub fn queue(&self, name: &str) -> Value {
        let attributes = if name.ends_with(".fifo") { json!({"FifoQueue": "true"}) } else { json!({}) };
        let asked = json!({"QueueName": name, "Attributes": attributes});
        ok(&self.fake, "CreateQueue", asked)["QueueUrl"].clone()
    }

    pub fn send(&self, queue: &str, body: &str) {
        self.send_to(queue, if queue.ends_with(".fifo") { "g" } else { "" }, body);
    }

    /// Sends to a message group of a FIFO queue, or for a tenant of a fair queue.
    fn send_to(&self, queue: &str, group: &str, body: &str) {
        let mut message = json!({"QueueUrl": self.queue(queue), "MessageBody": body});
        if !group.is_empty() {
            message["MessageGroupId"] = group.into();
        }
        if queue.ends_with(".fifo") {
            message["MessageDeduplicationId"] = body.len().to_string().into();
        }
        ok(&self.fake, "SendMessage", message);
    }

    /// Sends a message that runs a shell script.
    pub fn send_shell(&self, queue: &str, script: &str) {
        self.send(queue, &self.shell(script));
    }

    /// The body of a message that runs a shell script in the work directory.
    pub fn shell(&self, script: &str) -> String {
        let cwd = self.sandbox.path("work");
        json!({"class": "exec", "data": {"argv": ["/bin/sh", "-c", script], "cwd": cwd}}).to_string()
    }

    pub fn is_empty(&self, queue: &str) -> bool {
        self.fake.bodies(queue).is_empty()
    }

    pub fn said(&self, name: &str) -> String {
        fs::read_to_string(self.sandbox.work(name)).unwrap_or_default()
    }

    pub fn jobs(&self, args: &[&str]) -> Vec<Value> {
        self.sandbox.lines(&[&["job", "list", "--json"], args].concat())
    }
}

#[test]
fn job_is_put_run_deleted_and_kept_in_the_ledger() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "2", "-q", "mail"]);
    let put = scene.sandbox.ok(&["put", "-q", "mail", "--", "/bin/sh", "-c", "echo hello; echo ran >>out"]);
    wait_until("the job is complete", || scene.sandbox.state(put.trim()) == "complete");
    assert_eq!(scene.said("out"), "ran\n");
    wait_until("its message is deleted", || scene.is_empty("mail"));
    assert_eq!(scene.sandbox.ok(&["job", "logs", put.trim()]), "hello\n");
    assert_eq!(scene.jobs(&["--state", "complete"])[0]["id"], put.trim());
}

#[test]
fn failed_job_is_retried_and_then_dead_lettered() {
    let scene = Scene::new();
    scene.queue("dlq-mail");
    let body = scene.shell("echo try >>tries; exit 3");
    scene.send("mail", &body);
    let _running = scene.start(&["-w", "1", "-q", "mail", "--retries", "1"]);
    wait_until("it was tried once", || scene.said("tries") == "try\n");
    let id = scene.jobs(&[])[0]["id"].as_str().unwrap().to_owned();
    wait_until("it is a dead letter", || scene.fake.bodies("dlq-mail").len() == 1);
    wait_until("it is gone from its queue", || scene.is_empty("mail"));
    assert_eq!(scene.said("tries"), "try\ntry\n");
    assert_eq!(scene.fake.bodies("dlq-mail"), [body], "as it came");
    wait_until("the ledger says so", || scene.sandbox.state(&id) == "failed");
    let dead = json!({
        "QueueUrl": scene.queue("dlq-mail"), "MessageAttributeNames": ["All"], "MaxNumberOfMessages": 10
    });
    let dead = &ok(&scene.fake, "ReceiveMessage", dead)["Messages"][0]["MessageAttributes"];
    assert!(dead["taskvisor-error"]["StringValue"].as_str().unwrap().contains("exit 3"), "{dead}");
    assert_eq!(dead["taskvisor-queue"]["StringValue"], "mail");
    assert_eq!(dead["taskvisor-attempt"]["StringValue"], "2");
    assert_eq!(dead["taskvisor-class"]["StringValue"], "exec");
}

#[test]
fn poison_message_is_dead_lettered_unchanged_and_delays_no_job() {
    let scene = Scene::new();
    scene.queue("dlq-mail");
    for poison in ["hello", "{}", "{\"class\":", "1GNz/Z9Er5S="] {
        scene.send("mail", poison);
    }
    scene.send_shell("mail", "echo ran >>out");
    let _running = scene.start(&["-w", "1", "-q", "mail"]);
    wait_until("the queue is empty", || scene.is_empty("mail"));
    wait_until("the good one ran", || scene.said("out") == "ran\n");
    let mut dead = scene.fake.bodies("dlq-mail");
    dead.sort();
    assert_eq!(dead, ["1GNz/Z9Er5S=", "hello", "{\"class\":", "{}"]);
}

#[test]
fn failed_message_stays_in_its_queue_while_there_is_no_dead_letter_queue() {
    let mut scene = Scene::new();
    scene.queue("mail");
    scene.url = scene.url.replace("create=yes", "create=no");
    scene.send_shell("mail", "echo ran >>out; exit 3");
    let _running = scene.start(&["-w", "1", "-q", "mail", "--retries", "0"]);
    wait_until("it is logged", || {
        scene.sandbox.stderr().contains("the queue 'dlq-mail' did not take a message")
    });
    assert_eq!((scene.said("out"), scene.is_empty("mail")), ("ran\n".into(), false));
    let reason = format!(
        "failed jobs of the queue 'mail' cannot end: the queue 'dlq-mail' did not take a message: there is no such queue in \
         eu-west-1 at {}",
        scene.fake.endpoint()
    );
    wait_until("status is degraded", || scene.sandbox.reasons().contains(&reason));
    scene.queue("dlq-mail");
    wait_until("it is a dead letter", || scene.fake.bodies("dlq-mail").len() == 1 && scene.is_empty("mail"));
    assert_eq!(scene.said("out"), "ran\n", "it was tried once");
    wait_until("status is healthy again", || !scene.sandbox.reasons().contains("cannot end"));
}

#[test]
fn put_options_of_a_program_survive_sqs() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1", "-q", "mail"]);
    let put = ["put", "-q", "mail", "--retries", "3", "--time-limit", "60s", "--tag", "x", "--", "/bin/true"];
    let id = scene.sandbox.ok(&put).trim().to_owned();
    wait_until("the job is complete", || scene.sandbox.state(&id) == "complete");
    let job = scene.sandbox.job(&id);
    assert_eq!((&job["retries"], &job["time_limit"], &job["tags"]), (&json!(3), &json!(60.0), &json!(["x"])));
}

#[test]
fn verbs_that_sqs_does_not_support_are_refused_with_an_alternative() {
    let scene = Scene::new();
    scene.send_shell("mail", "true");
    let _running = scene.start(&["-w", "1", "-q", "mail"]);
    wait_until("the job is complete", || scene.jobs(&["--state", "complete"]).len() == 1);
    let id = scene.jobs(&[])[0]["id"].as_str().unwrap().to_owned();
    for (args, word) in [
        (&["job", "retry", &id] as &[&str], "taskvisor job retry --failed"),
        (&["queue", "pause", "mail"], "taskvisor pause"),
        (&["put", "-q", "mail", "--priority", "3", "--", "/bin/true"], "queue of its own"),
        (&["status", "--fleet"], "ask each host"),
    ] {
        let (code, said) = scene.sandbox.refused(args);
        assert_eq!(code, 8, "{args:?}: {said}");
        assert!(said.contains(word) && said.contains("the broker sqs cannot"), "{args:?}: {said}");
    }
    let (code, said) = scene.sandbox.refused(&["job", "show", "unknown"]);
    assert!(code == 7 && said.contains("it is shown once it has run here"), "{code} {said}");
}

#[test]
fn idle_host_has_one_long_poll_for_each_queue() {
    let scene = Scene::new();
    for queue in ["a", "b", "c"] {
        scene.queue(queue);
    }
    scene.fake.forget_calls();
    let _running = scene.start(&["-w", "4", "-q", "a", "-q", "b", "-q", "c"]);
    let polls = || scene.fake.calls().get("ReceiveMessage").copied().unwrap_or(0);
    wait_until("each queue is polled", || polls() >= 5);
    let woken = std::time::Instant::now();
    scene.send_shell("b", "echo ran >>out");
    wait_until("the job ran", || scene.said("out") == "ran\n");
    assert!(woken.elapsed() < Duration::from_secs(15), "a long poll answers when a message comes");
    wait_until("it is deleted", || scene.is_empty("b"));
    // At first a and b are asked without a wait, as others wait for their answer; b once more after its message.
    assert!(polls() <= 7, "{:?}", scene.fake.calls());
}

#[test]
fn unreachable_sqs_is_reported_and_no_job_is_lost() {
    let scene = Scene::new();
    scene.queue("mail");
    let _running = scene.start(&["-w", "1", "-q", "mail"]);
    scene.fake.knobs(|knobs| knobs.gone = true);
    wait_until("status reports it", || scene.sandbox.reasons().contains("cannot read the SQS queue 'mail'"));
    scene.fake.knobs(|knobs| knobs.gone = false);
    scene.send_shell("mail", "echo ran >>out");
    wait_until("the job ran", || scene.said("out") == "ran\n");
    scene.sandbox.wait_healthy();
}

#[test]
fn failed_batch_entries_and_lost_answers_lose_no_job() {
    let scene = Scene::new();
    for n in 0..40 {
        scene.send_shell("mail", &format!("echo {n} >>out"));
    }
    scene.fake.knobs(|knobs| {
        knobs.fail_entries = 30;
        knobs.drop_replies = 5;
        knobs.throttle = 5;
    });
    let _running = scene.start(&["-w", "4", "-q", "mail"]);
    // Messages in a lost answer are invisible until their visibility timeout ends.
    wait_within(Duration::from_secs(60), "all ran", || {
        scene.fake.advance(Duration::from_secs(1));
        let said = scene.said("out");
        (0..40).all(|n| said.lines().any(|line| line == n.to_string()))
    });
    scene.fake.knobs(|knobs| *knobs = Default::default());
    wait_within(Duration::from_secs(60), "all are deleted", || {
        scene.fake.advance(Duration::from_secs(5));
        scene.is_empty("mail")
    });
}

#[test]
fn finished_message_that_is_delivered_again_does_not_block_the_queue() {
    let scene = Scene::new();
    scene.send_shell("mail", "echo first >>out");
    scene.fake.knobs(|knobs| knobs.undeleted = true);
    let _running = scene.start(&["-w", "1", "-q", "mail"]);
    let deletions = || scene.fake.done().get("DeleteMessageBatch").copied().unwrap_or(0);
    wait_until("it has come again 20 times", || deletions() > 20);
    scene.fake.knobs(|knobs| knobs.undeleted = false);
    wait_until("it is deleted", || scene.is_empty("mail"));
    scene.send_shell("mail", "echo second >>out");
    wait_until("the second job ran", || scene.said("out") == "first\nsecond\n");
}

#[test]
fn jobs_of_a_message_group_run_one_at_a_time_and_in_order() {
    let scene = Scene::new();
    // The first job waits; a job of another group runs meanwhile, so workers are free for the jobs behind the first.
    scene.send_shell("mail.fifo", "echo begin 1 >>out; read go <go; echo end 1 >>out");
    for n in 2..=6 {
        let pad = "x".repeat(n);
        scene.send_shell("mail.fifo", &format!("echo begin {n} >>out; echo end {n} >>out; : {pad}"));
    }
    let gate = scene.sandbox.work("go");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let _running = scene.start(&["-w", "4", "-q", "mail.fifo"]);
    wait_until("the first one runs", || scene.said("out") == "begin 1\n");
    scene.send_to("mail.fifo", "h", &scene.shell("echo passed >other"));
    wait_until("a job of another group has run", || scene.said("other") == "passed\n");
    assert_eq!(scene.said("out"), "begin 1\n", "the others wait for the first");
    fs::write(&gate, "on\n").unwrap();
    wait_until("all are deleted", || scene.is_empty("mail.fifo"));
    let expected: String = (1..=6).map(|n| format!("begin {n}\nend {n}\n")).collect();
    assert_eq!(scene.said("out"), expected);
}

/// The messages behind a long job go back to SQS after 5 s.
#[test]
fn messages_held_back_behind_a_long_job_stop_no_poll_and_spend_no_attempt() {
    let scene = Scene::new();
    let gate = scene.sandbox.work("go");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let mut fails: Value = serde_json::from_str(&scene.shell("echo tried >>tries; exit 1")).unwrap();
    (fails["retries"], fails["retry_delay"]) = (1.into(), 0.into());
    // Both are there before the first receive, which brings both.
    scene.send_to("mail.fifo", "a", &scene.shell("echo long >out; read go <go"));
    scene.send_to("mail.fifo", "a", &fails.to_string());
    let _running = scene.start(&["-w", "4", "-q", "mail.fifo"]);
    wait_until("the long job runs", || scene.said("out") == "long\n");
    let given_back = || scene.fake.done().get("ChangeMessageVisibilityBatch").copied().unwrap_or(0);
    wait_until("the message behind it went back", || given_back() > 0);
    scene.send_to("mail.fifo", "b", &scene.shell("echo passed >other"));
    wait_until("a job of another group has run", || scene.said("other") == "passed\n");
    fs::write(&gate, "on\n").unwrap();
    wait_until("the failing job is a dead letter", || {
        scene.is_empty("mail.fifo") && scene.fake.bodies("dlq-mail.fifo").len() == 1
    });
    assert_eq!(scene.said("tries"), "tried\ntried\n");
}

/// A fair queue is a standard queue whose messages name their tenant.
#[test]
fn jobs_of_one_tenant_run_side_by_side_and_their_dead_letters_name_the_tenant() {
    let scene = Scene::new();
    let pipe = scene.sandbox.work("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Each waits until the other runs.
    scene.send_to("mail", "ann", &scene.shell("read line <pipe; exit 1"));
    scene.send_to("mail", "ann", &scene.shell("echo on >pipe; exit 1"));
    let _running = scene.start(&["-w", "2", "-q", "mail", "--retries", "0"]);
    wait_until("both are dead letters", || {
        scene.is_empty("mail") && scene.fake.bodies("dlq-mail").len() == 2
    });
    let asked = json!({
        "QueueUrl": scene.queue("dlq-mail"),
        "MaxNumberOfMessages": 10,
        "MessageSystemAttributeNames": ["MessageGroupId"],
    });
    let letters = ok(&scene.fake, "ReceiveMessage", asked)["Messages"].as_array().unwrap().clone();
    let tenants: Vec<&Value> = letters.iter().map(|letter| &letter["Attributes"]["MessageGroupId"]).collect();
    assert_eq!(tenants, ["ann", "ann"]);
}

#[test]
fn job_longer_than_its_lease_is_renewed_and_runs_once() {
    let scene = Scene::new();
    scene.send_shell("mail", "echo ran >>out; read go <go");
    let gate = scene.sandbox.work("go");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    // The second worker would take the message if it became visible.
    let _running = scene.start(&["-w", "2", "-q", "mail", "--lease", "10s", "--grace", "1s"]);
    wait_until("it runs", || scene.said("out") == "ran\n");
    let renewed = || scene.fake.done().get("ChangeMessageVisibilityBatch").copied().unwrap_or(0);
    for round in 1..=4 {
        wait_until("it is renewed", || renewed() >= round);
        // Each step is shorter than a renewal lasts; the sum is longer than the lease.
        scene.fake.advance(Duration::from_secs(4));
    }
    fs::write(&gate, "on\n").unwrap();
    wait_until("its message is deleted", || scene.is_empty("mail"));
    assert_eq!(scene.said("out"), "ran\n");
}

/// A queue whose leases are longer than the supervisor's: from its receive on, and at each renewal.
#[test]
fn messages_of_a_queue_with_a_longer_lease_stay_hidden_for_longer() {
    let mut scene = Scene::new();
    scene.url.push_str("&lease=slow:9s");
    for queue in ["fast", "slow"] {
        scene.send_shell(queue, "echo ran >>out; exec sleep 600");
    }
    let _running = scene.start(&["-w", "2", "-q", "fast", "-q", "slow", "--lease", "5s", "--grace", "1s"]);
    let usual = Duration::from_secs(5);
    wait_until("it is received for its own lease", || scene.fake.hidden_for("slow") > usual);
    wait_until("both run", || scene.said("out").lines().count() == 2);
    scene.fake.advance(Duration::from_secs(4));
    wait_until("it is renewed for its own lease", || scene.fake.hidden_for("slow") > usual);
    assert!(scene.fake.hidden_for("fast") <= usual);
}

#[test]
fn ledger_that_cannot_be_opened_loses_history_but_no_job() {
    let scene = Scene::new();
    fs::create_dir_all(scene.sandbox.path("state")).unwrap();
    fs::set_permissions(scene.sandbox.path("state"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(scene.sandbox.path("state/ledger.db"), "this is no ledger".repeat(500)).unwrap();
    scene.send_shell("mail", "echo ran >>out");
    let _running = scene.start(&["-w", "1", "-q", "mail"]);
    wait_until("its message is deleted", || scene.is_empty("mail"));
    assert_eq!(scene.said("out"), "ran\n");
    assert!(scene.sandbox.reasons().contains("the history of jobs is kept in memory only"));
}

/// The first example of docs/sqs.md.
#[test]
fn put_of_a_class_sends_the_message_shown_in_the_docs() {
    let scene = Scene::new();
    let page = fs::read_to_string("docs/sqs.md").unwrap();
    let put = page.lines().find_map(|line| line.strip_prefix("taskvisor put ")).expect("a put");
    assert_eq!(put, r#"mail welcome '{"to": "ann@example.org"}'"#);
    scene.queue("mail");
    let _running = scene.start(&["-w", "1", "-q", "other"]);
    scene.sandbox.ok(&["put", "mail", "welcome", r#"{"to": "ann@example.org"}"#]);
    assert_eq!(scene.fake.bodies("mail"), [r#"{"class":"welcome","data":{"to": "ann@example.org"}}"#]);
}

#[test]
fn a_canceled_job_ends_and_its_message_is_deleted() {
    let scene = Scene::new();
    scene.send_shell("mail", "echo $$ >>pids; sleep 600");
    let _running = scene.start(&["-w", "1", "-q", "mail"]);
    wait_until("it runs", || !scene.said("pids").is_empty());
    let id = scene.jobs(&[])[0]["id"].as_str().unwrap().to_owned();
    scene.sandbox.ok(&["job", "cancel", "--wait", &id]);
    wait_until("its message is deleted", || scene.is_empty("mail"));
    assert_eq!(scene.sandbox.state(&id), "canceled");
}

#[test]
fn release_is_drained_when_its_queues_stayed_empty() {
    let mut scene = Scene::new();
    let plain = scene.url.clone();
    scene.url = format!("{plain}&prefix=r42-");
    let status = |more: &[&str]| {
        let broker = format!("{plain}&dead={{name}}-dead");
        let asked = ["--broker", &broker, "release", "status", "r42"];
        let mut command = scene.sandbox.command(&[&asked[..], more].concat());
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(status(&["--wait"]), (Some(7), String::new()), "no queue is called so");
    scene.send("r42-mail", &scene.shell("while [ ! -e go ]; do sleep 0.02; done"));
    scene.send("r43-mail", &scene.shell("true"));
    scene.send("r42-mail-dead", "a dead letter");
    let (code, said) = status(&[]);
    assert!(code == Some(1) && said.ends_with("release r42 has 1 job left\n"), "{said}");
    let _running = scene.start(&["-w", "1", "-q", "mail"]);
    wait_until("it runs", || scene.sandbox.status()["pools"][0]["slots"][0]["jobs"][0].is_object());
    let report: Value = serde_json::from_str(&status(&["--json"]).1).unwrap();
    assert_eq!(report["queues"]["r42-mail"]["jobs"], json!({"running": 1}), "in flight: {report}");
    fs::write(scene.sandbox.work("go"), "").unwrap();
    let (code, said) = status(&["--wait", "--empty-for", "300ms"]);
    assert!(code == Some(0) && said.ends_with("release r42 is drained: empty for 300ms\n"), "{said}");
    assert!(!scene.is_empty("r43-mail"), "another release is another matter");
}

#[test]
fn why_answers_for_a_job_that_was_given_back_with_and_without_a_supervisor() {
    let scene = Scene::new();
    scene.send_shell("mail", "touch runs; exec sleep 600");
    let running = scene.start(&["-w", "1", "-q", "mail", "--stop-deadline", "1s", "--grace", "1s"]);
    wait_until("it runs", || scene.sandbox.work("runs").exists());
    let id = scene.jobs(&[])[0]["id"].as_str().unwrap().to_owned();
    scene.sandbox.ok(&["stop"]);
    drop(running);
    let why = scene.sandbox.ok(&["--broker", &scene.url, "why", "job", &id]);
    assert!(why.starts_with("It waits in queue mail") && why.contains("Another host may take it"), "{why}");
    let _other = scene.start(&["-w", "1", "-q", "other"]);
    let why = scene.sandbox.ok(&["why", "job", &id]);
    assert!(why.contains("No pool takes jobs from queue mail."), "{why}");
    let (code, said) = scene.sandbox.refused(&["why", "job", "unknown"]);
    assert!(code == 7 && said.contains("it is shown once it has run here"), "{code} {said}");
}
