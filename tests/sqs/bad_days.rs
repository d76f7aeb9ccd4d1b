//! Each fault knob of the fake SQS does what its name says.

use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::sqs::FakeSqs;

/// Calls the fake: status and body; `None` if the connection ends without an answer.
fn call(fake: &FakeSqs, action: &str, body: Value) -> Option<(u16, Value)> {
    call_at(&fake.endpoint(), action, body)
}

fn call_at(endpoint: &str, action: &str, body: Value) -> Option<(u16, Value)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stream =
            TcpStream::connect(endpoint.trim_start_matches("http://")).await.expect("the service listens");
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        let connection = tokio::spawn(connection);
        let request = Request::post("/")
            .header("host", endpoint.trim_start_matches("http://"))
            // By these moto knows which service is meant.
            .header("content-type", "application/x-amz-json-1.0")
            .header("authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sqs/aws4_request")
            .header("x-amz-target", format!("AmazonSQS.{action}"))
            .body(Full::new(Bytes::from(body.to_string())))
            .expect("a request");
        let response = sender.send_request(request).await.ok()?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        connection.abort();
        Some((status, serde_json::from_slice(&body).expect("JSON")))
    })
}

pub fn ok(fake: &FakeSqs, action: &str, body: Value) -> Value {
    ask(&fake.endpoint(), action, body)
}

/// Calls a service at an address.
pub fn ask(endpoint: &str, action: &str, body: Value) -> Value {
    let (status, answer) = call_at(endpoint, action, body).expect("an answer");
    assert_eq!(status, 200, "{action}: {answer}");
    answer
}

/// A fake with a queue that has messages.
fn with(bodies: &[&str]) -> (FakeSqs, Value) {
    let fake = FakeSqs::start();
    let queue = ok(&fake, "CreateQueue", json!({"QueueName": "q"}))["QueueUrl"].clone();
    for body in bodies {
        ok(&fake, "SendMessage", json!({"QueueUrl": queue, "MessageBody": body}));
    }
    fake.forget_calls();
    (fake, queue)
}

fn received(fake: &FakeSqs, queue: &Value) -> Vec<Value> {
    let given = json!({"QueueUrl": queue, "MaxNumberOfMessages": 10});
    ok(fake, "ReceiveMessage", given)["Messages"].as_array().cloned().unwrap_or_default()
}

fn bodies(messages: &[Value]) -> Vec<&str> {
    messages.iter().filter_map(|message| message["Body"].as_str()).collect()
}

#[test]
fn calls_are_counted_by_kind() {
    let (fake, queue) = with(&["a"]);
    received(&fake, &queue);
    received(&fake, &queue);
    ok(&fake, "PurgeQueue", json!({"QueueUrl": queue}));
    let calls: Vec<_> = fake.calls().into_iter().collect();
    assert_eq!(calls, [("PurgeQueue".to_owned(), 1), ("ReceiveMessage".to_owned(), 2)]);
}

#[test]
fn throttle_knob_refuses_calls_and_changes_nothing() {
    let (fake, queue) = with(&["a"]);
    fake.knobs(|knobs| knobs.throttle = 100);
    let (status, answer) = call(&fake, "PurgeQueue", json!({"QueueUrl": queue})).expect("an answer");
    assert_eq!((status, &answer["__type"]), (400, &json!("com.amazonaws.sqs#RequestThrottled")));
    fake.knobs(|knobs| knobs.throttle = 0);
    assert_eq!(fake.bodies("q"), ["a"]);
    fake.knobs(|knobs| knobs.throttled = vec!["GetQueueAttributes".into()]);
    assert_eq!(call(&fake, "GetQueueAttributes", json!({"QueueUrl": queue})).expect("an answer").0, 400);
    assert_eq!(received(&fake, &queue).len(), 1);
}

#[test]
fn drop_replies_knob_carries_out_the_call() {
    let (fake, queue) = with(&[]);
    fake.knobs(|knobs| knobs.dropped = vec!["SendMessage".into()]);
    assert_eq!(call(&fake, "SendMessage", json!({"QueueUrl": queue, "MessageBody": "x"})), None);
    assert_eq!(fake.bodies("q"), ["x"]);
}

#[test]
fn gone_knob_ends_connections_and_changes_nothing() {
    let (fake, queue) = with(&[]);
    fake.knobs(|knobs| knobs.gone = true);
    assert_eq!(call(&fake, "SendMessage", json!({"QueueUrl": queue, "MessageBody": "x"})), None);
    assert!(fake.bodies("q").is_empty());
}

#[test]
fn fail_entries_knob_fails_some_entries_of_a_batch() {
    let (fake, queue) = with(&[]);
    fake.knobs(|knobs| knobs.fail_entries = 50);
    let entries: Vec<Value> = (0..10).map(|at| json!({"Id": format!("e{at}"), "MessageBody": "x"})).collect();
    let answer = ok(&fake, "SendMessageBatch", json!({"QueueUrl": queue, "Entries": entries}));
    let (good, failed) = (answer["Successful"].as_array(), answer["Failed"].as_array());
    let (good, failed) = (good.expect("some good"), failed.expect("some failed"));
    assert_eq!(good.len() + failed.len(), 10);
    assert_eq!((failed[0]["SenderFault"].as_bool(), fake.bodies("q").len()), (Some(false), good.len()));
}

#[test]
fn duplicate_and_reorder_knobs_repeat_and_reverse_messages() {
    let (fake, queue) = with(&["a", "b"]);
    fake.knobs(|knobs| (knobs.duplicates, knobs.reorder) = (100, true));
    assert_eq!(bodies(&received(&fake, &queue)), ["b", "a"]);
    fake.knobs(|knobs| (knobs.duplicates, knobs.reorder) = (0, false));
    assert_eq!(bodies(&received(&fake, &queue)), ["a", "b"]);
    assert!(received(&fake, &queue).is_empty());
}

#[test]
fn counts_can_be_stale() {
    let (fake, queue) = with(&["a"]);
    let count = || {
        let given = json!({"QueueUrl": queue, "AttributeNames": ["ApproximateNumberOfMessages"]});
        ok(&fake, "GetQueueAttributes", given)["Attributes"]["ApproximateNumberOfMessages"].clone()
    };
    fake.knobs(|knobs| knobs.stale_counts = true);
    assert_eq!(count(), "1");
    ok(&fake, "SendMessage", json!({"QueueUrl": queue, "MessageBody": "b"}));
    assert_eq!(count(), "1");
    fake.knobs(|knobs| knobs.stale_counts = false);
    assert_eq!(count(), "2");
}

#[test]
fn handles_expire_and_access_is_denied() {
    let (fake, queue) = with(&["a"]);
    let handle = received(&fake, &queue)[0]["ReceiptHandle"].clone();
    let delete = || {
        call(&fake, "DeleteMessage", json!({"QueueUrl": queue, "ReceiptHandle": handle})).expect("an answer")
    };
    fake.knobs(|knobs| knobs.expired_handles = true);
    assert_eq!(delete().1["__type"], "com.amazonaws.sqs#InvalidParameterValue");
    fake.knobs(|knobs| (knobs.expired_handles, knobs.access_denied) = (false, true));
    assert_eq!(
        (delete().0, delete().1["__type"].as_str()),
        (403, Some("com.amazonaws.sqs#AccessDeniedException"))
    );
    fake.knobs(|knobs| knobs.access_denied = false);
    assert_eq!(delete().0, 200);
}

#[test]
fn advance_moves_the_time_of_the_fake() {
    let (fake, queue) = with(&["a"]);
    let first = received(&fake, &queue);
    assert!(received(&fake, &queue).is_empty());
    fake.advance(Duration::from_secs(31));
    let second = received(&fake, &queue);
    assert_eq!(bodies(&second), ["a"]);
    // The old handle: the call succeeds and deletes nothing.
    ok(&fake, "DeleteMessage", json!({"QueueUrl": queue, "ReceiptHandle": first[0]["ReceiptHandle"]}));
    assert_eq!(fake.bodies("q"), ["a"]);
    fake.advance(Duration::from_secs(10));
    let late =
        json!({"QueueUrl": queue, "ReceiptHandle": second[0]["ReceiptHandle"], "VisibilityTimeout": 43_195});
    let (status, answer) = call(&fake, "ChangeMessageVisibility", late).expect("an answer");
    assert!(
        status == 400 && answer["message"].as_str().is_some_and(|text| text.contains("beyond the limit")),
        "{answer}"
    );
}

#[test]
fn a_long_poll_ends_with_the_message_it_waits_for() {
    let (fake, queue) = with(&[]);
    let fake = &fake;
    std::thread::scope(|scope| {
        let poll = scope.spawn(|| {
            ok(fake, "ReceiveMessage", json!({"QueueUrl": queue, "WaitTimeSeconds": 20}))["Messages"][0]["Body"].clone()
        });
        let start = Instant::now();
        ok(fake, "SendMessage", json!({"QueueUrl": queue, "MessageBody": "now"}));
        assert_eq!(poll.join().expect("an answer"), "now");
        assert!(start.elapsed() < Duration::from_secs(15));
    });
}

#[test]
fn stall_knob_delays_an_answer_until_the_stall_ends() {
    let (fake, queue) = with(&["a"]);
    fake.knobs(|knobs| knobs.stalled = vec!["PurgeQueue".into()]);
    let fake = &fake;
    std::thread::scope(|scope| {
        let purge = scope.spawn(|| ok(fake, "PurgeQueue", json!({"QueueUrl": queue})));
        while fake.calls().is_empty() {
            std::hint::spin_loop();
        }
        assert_eq!(fake.bodies("q"), ["a"]);
        fake.knobs(|knobs| knobs.stalled.clear());
        purge.join().expect("an answer");
    });
    assert!(fake.bodies("q").is_empty());
}
