//! Messages that AWS itself moves to a dead-letter queue, by the RedrivePolicy of their queue.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bad_days::ask;
use crate::beside_moto::Moto;
use crate::jobs::Scene;
use crate::sandbox::{wait_until, wait_within};

/// An empty receive takes 20 s, and counts once the lease of 6 s is over.
const PATIENCE: Duration = Duration::from_secs(60);

/// A queue whose messages may be received twice, with a message that fails each time; gives the URL of the queue to
/// which AWS moves it.
fn send(scene: &Scene, endpoint: &str) -> Value {
    let make = |name: &str, attributes: Value| {
        let asked = json!({"QueueName": name, "Attributes": attributes});
        ask(endpoint, "CreateQueue", asked)["QueueUrl"].clone()
    };
    let dead = make("by-aws", json!({}));
    let asked = json!({"QueueUrl": dead, "AttributeNames": ["QueueArn"]});
    let arn = ask(endpoint, "GetQueueAttributes", asked)["Attributes"]["QueueArn"].clone();
    let policy = json!({"deadLetterTargetArn": arn, "maxReceiveCount": "2"});
    let queue = make("mail", json!({"RedrivePolicy": policy.to_string()}));
    let body = scene.shell("echo try >>tries; exit 3");
    ask(endpoint, "SendMessage", json!({"QueueUrl": queue, "MessageBody": body}));
    dead
}

fn holds(scene: &Scene, endpoint: &str) {
    let dead = send(scene, endpoint);
    let settings = ["-w", "1", "-q", "mail", "--retries", "5", "--lease", "6s", "--grace", "100ms"];
    let _running = scene.start(&settings);
    wait_until("it was tried twice", || scene.said("tries").lines().count() == 2);
    let id = scene.jobs(&[])[0]["id"].as_str().unwrap().to_owned();
    wait_until("it is to be tried again", || {
        ["delayed", "waiting"].contains(&scene.sandbox.state(&id).as_str())
    });
    let fate = "SQS has delivered it 2 times, its queue allows 2 (maxReceiveCount): AWS moves it to the dead-letter queue \
                'by-aws' at its next receive, and does not deliver it again";
    assert_eq!(scene.sandbox.job(&id)["dead_letter"], fate);
    for command in [&["why", "job"] as &[&str], &["job", "show"]] {
        let said = scene.sandbox.ok(&[command, &[&id]].concat());
        assert!(said.contains(fate), "{said}");
    }
    let left = || {
        let asked = json!({"QueueUrl": dead, "AttributeNames": ["ApproximateNumberOfMessages"]});
        ask(endpoint, "GetQueueAttributes", asked)["Attributes"]["ApproximateNumberOfMessages"].clone()
    };
    wait_within(PATIENCE, "AWS moves it", || left() == "1");
    wait_within(PATIENCE, "the ledger knows it", || scene.sandbox.state(&id) == "failed");
    let job = scene.sandbox.job(&id);
    let moved = "SQS has delivered it 2 times, its queue allows 2 (maxReceiveCount): AWS has moved it to the dead-letter queue \
                 'by-aws'";
    assert_eq!(
        (&job["failure"]["group"], &job["failure"]["message"]),
        (&"dead letter".into(), &moved.into())
    );
    assert_eq!((&job["dead_letter"], scene.said("tries").lines().count()), (&Value::Null, 2));
}

#[test]
fn message_that_aws_moves_to_its_dead_letter_queue_has_failed() {
    let scene = Scene::new();
    let endpoint = scene.fake.endpoint();
    holds(&scene, &endpoint);
}

#[test]
fn message_that_moto_moves_to_its_dead_letter_queue_has_failed() {
    let Some(moto) = Moto::start() else { return };
    let mut scene = Scene::new();
    scene.url = format!("sqs://us-east-1?endpoint={}&exec=yes", moto.endpoint);
    holds(&scene, &moto.endpoint);
}
