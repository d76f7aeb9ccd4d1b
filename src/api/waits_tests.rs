//! Clients that wait, and the places that they leave to others.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::connections::OpenConnections;
use super::fake::Fake;
use super::peer::{Door, Peer};
use super::tests::{Served, read_all, served};
use super::{Error, Limits, Role, router, serve};
use model::OutputQuery;
use model::verb::Retry;

/// Asks on a connection of its own, which is kept open.
async fn asks(served: &Served, request: &str) -> UnixStream {
    let mut stream = UnixStream::connect(&served.socket).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

const WAIT: &str = "GET /v1/jobs/endless/wait HTTP/1.1\r\nhost: x\r\n\r\n";
const EVENTS: &str = "GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n";

fn wait_for(jobs: &str) -> String {
    let body = format!("{{\"jobs\": {jobs}}}");
    format!(
        "POST /v1/wait HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn many_waiting_clients_lock_nobody_out() {
    let served = served(Limits { connections: 4, waits: 300, ..Limits::default() });
    let mut waiting = Vec::new();
    for n in 0..300 {
        let request = [WAIT, EVENTS, &wait_for("[\"endless\"]")][n % 3].to_owned();
        waiting.push(asks(&served, &request).await);
        served.client.ask(&Retry { job: "a".into() }).await.unwrap();
    }
    let refused = served.client.ended(&"endless".into()).await.unwrap_err();
    let Error::Problem(problem) = refused else { panic!("{refused}") };
    assert_eq!(problem.message, "300 clients wait here or follow events already");
    assert_eq!(problem.hint.as_deref(), Some("one POST /v1/wait waits for many jobs"));
    drop(waiting.pop());
    while served.raw(&wait_for("[\"a\"]")).await.starts_with("HTTP/1.1 503") {}
}

#[tokio::test]
async fn crowd_that_connects_at_once_is_let_in_one_after_the_other() {
    let served = served(Limits { connections: 4, waits: 500, ..Limits::default() });
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let mut stream = UnixStream::connect(&served.socket).await.unwrap();
        stream.write_all(EVENTS.as_bytes()).await.unwrap();
        waiting.push(stream);
    }
    for stream in &mut waiting {
        let mut head = [0; 12];
        AsyncReadExt::read_exact(stream, &mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
    }
}

#[tokio::test]
async fn ends_of_many_jobs_come_line_by_line() {
    let served = served(Limits::default());
    let answer = served.raw(&wait_for("[\"a\", \"nope\", \"a\", \"b\"]")).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("application/x-ndjson"), "{answer}");
    let mut lines: Vec<&str> = answer.lines().filter(|line| line.starts_with('{')).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            r#"{"job":"a","state":"complete"}"#,
            r#"{"job":"b","state":"complete"}"#,
            r#"{"job":"nope","error":"no job has the id 'nope'","code":404}"#,
        ]
    );
    let none = served.raw(&wait_for("[]")).await;
    assert!(none.starts_with("HTTP/1.1 200") && none.ends_with("0\r\n\r\n"), "{none}");
    let many = format!("[{}\"x\"]", (0..100_000).map(|n| format!("\"{n}\",")).collect::<String>());
    let refused = served.raw(&wait_for(&many)).await;
    assert!(refused.contains("100001 jobs to wait for: 100000 are the most"), "{refused}");
}

#[tokio::test]
async fn jobs_of_all_waits_are_limited_and_a_wait_that_is_over_makes_room() {
    let served = served(Limits { jobs: 3, ..Limits::default() });
    let mut first = asks(&served, &wait_for(r#"["endless", "a"]"#)).await;
    let mut head = [0; 12];
    AsyncReadExt::read_exact(&mut first, &mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    let refused = served.raw(&wait_for(r#"["a", "b"]"#)).await;
    let why = "this request needs room for 2 jobs to wait for; 1 of 3 are free";
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains(why), "{refused}");
    assert!(refused.contains("wait for fewer jobs at a time"), "{refused}");
    assert!(served.raw(&wait_for(r#"["a"]"#)).await.starts_with("HTTP/1.1 200"));
    drop(first);
    while served.raw(&wait_for(r#"["a", "b", "c"]"#)).await.starts_with("HTTP/1.1 503") {}
}

#[tokio::test(start_paused = true)]
async fn refused_wait_is_answered_before_its_body_is_read() {
    let head = format!(
        "POST /v1/wait HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        64 << 20
    );
    for limits in [Limits { waits: 0, ..Limits::default() }, Limits { jobs: 1, ..Limits::default() }] {
        let served = served(limits);
        let before = tokio::time::Instant::now();
        let answer = served.raw(&head).await;
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert_eq!(before.elapsed(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn announced_bodies_that_do_not_come_keep_no_wait_out() {
    let come = open_door(Limits { jobs: 1000, ..Limits::default() });
    let announce = |bytes| {
        format!("POST /v1/wait HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {bytes}\r\n\r\n")
    };
    let address = ([127, 0, 0, 1], 1).into();
    let view = Peer::Remote { address, programs: false, role: Some(Role::View) };
    let mut idle = Vec::new();
    for _ in 0..4 {
        idle.push(come(view, &announce(671_000)).await);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let answer = read_all(come(OWNER, &wait_for(r#"["a"]"#)).await).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let put = Peer::Remote { address, programs: false, role: Some(Role::Put) };
    let answer = read_all(come(put, &announce(64 << 20)).await).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "a put token's body is small: {answer}");
}

#[tokio::test]
async fn bytes_that_come_unannounced_take_places() {
    let served = served(Limits { jobs: 3, ..Limits::default() });
    let head = "POST /v1/wait HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("{:x}\r\n{}", 4 << 10, " ".repeat(4 << 10));
    let answer = served.raw(&format!("{head}{chunk}")).await;
    assert!(answer.contains("this request needs room for 6 jobs to wait for; 3 of 3 are free"), "{answer}");
}

#[tokio::test]
async fn refused_client_reads_why_although_it_sends_much() {
    let served = served(Limits { connections: 0, ..Limits::default() });
    let body = "x".repeat(4 << 20);
    let request =
        format!("POST /v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let answer = read_all(asks(&served, &request).await).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("clients are served already"), "{answer}");
    let refused = served.client.ask(&Retry { job: "a".into() }).await.unwrap_err();
    assert!(matches!(refused, Error::Problem(_)), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn some_places_are_kept_for_the_owner() {
    let mut open = OpenConnections::new(Limits { connections: 32, ..Limits::default() });
    let task = tokio::spawn(std::future::pending::<()>());
    let mut asking = Vec::new();
    let mut come = async |owner: bool| {
        let has_room = open.room(owner).await;
        if has_room {
            let doing = open.activity(false);
            asking.push(doing.ask());
            open.add(task.abort_handle(), doing);
        }
        has_room
    };
    for _ in 0..30 {
        assert!(come(false).await);
    }
    let before = tokio::time::Instant::now();
    assert!(!come(false).await, "the last places are the owner's");
    assert_eq!(before.elapsed(), Duration::from_secs(2));
    assert!(come(true).await && come(true).await);
    assert_eq!(before.elapsed(), Duration::from_secs(2), "it has not waited for them");
    assert!(!come(true).await && !come(false).await);
}

/// A door for clients of any user.
struct Clients(Mutex<UnboundedReceiver<(DuplexStream, Peer)>>);

impl Door for Clients {
    type Stream = DuplexStream;

    async fn accept(&self) -> io::Result<(DuplexStream, Result<Peer, String>)> {
        let Some((stream, peer)) = self.0.lock().await.recv().await else { std::future::pending().await };
        Ok((stream, Ok(peer)))
    }
}

/// Opens a door; each call lets a client in that sends this request.
fn open_door(limits: Limits) -> impl AsyncFn(Peer, &str) -> DuplexStream {
    let (come, clients) = unbounded_channel();
    tokio::spawn(serve(Clients(Mutex::new(clients)), router(Arc::new(Fake::default())), limits, |_| ()));
    async move |peer: Peer, request: &str| {
        let (mut here, there) = duplex(64 << 10);
        come.send((there, peer)).unwrap();
        here.write_all(request.as_bytes()).await.unwrap();
        here
    }
}

const OWNER: Peer = Peer::User(0);
const OTHER: Peer = Peer::User(4_000_000);
const STUCK: &str = "GET /v1/jobs/stuck HTTP/1.1\r\nhost: x\r\n\r\n";
const SHORT: &str = "GET /none HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn owner_does_not_wait_behind_others_that_wait_for_a_place() {
    let come = open_door(Limits { connections: 32, ..Limits::default() });
    let mut busy = Vec::new();
    for _ in 0..100 {
        busy.push(come(OTHER, STUCK).await);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = tokio::time::Instant::now();
    for _ in 0..3 {
        let answer = read_all(come(OWNER, SHORT).await).await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    }
    assert_eq!(before.elapsed(), Duration::ZERO);
    // Of 100, 30 have places, 64 wait for one, and 6 are refused at once.
    let refused = read_all(busy.split_off(99).remove(0)).await;
    assert!(refused.starts_with("HTTP/1.1 503") && before.elapsed() < Duration::from_secs(1), "{refused}");
    let late = read_all(busy.remove(50)).await;
    assert!(late.starts_with("HTTP/1.1 503") && before.elapsed() > Duration::from_secs(1), "{late}");
    busy.truncate(20);
    let answer = read_all(come(OTHER, SHORT).await).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn silent_refused_clients_are_few() {
    let come = open_door(Limits { connections: 0, ..Limits::default() });
    let mut silent = Vec::new();
    for _ in 0..65 {
        silent.push(come(OWNER, "").await);
    }
    let before = tokio::time::Instant::now();
    assert_eq!(read_all(silent.remove(64)).await, "");
    assert!(before.elapsed() < Duration::from_secs(3), "{:?}: it is not waited for", before.elapsed());
    assert_eq!(read_all(silent.remove(63)).await, "");
    assert!(before.elapsed() > Duration::from_secs(9), "{:?}: its request is waited for", before.elapsed());
    let answer = read_all(come(OWNER, SHORT).await).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
}

#[tokio::test]
async fn followed_outputs_have_places_of_their_own() {
    let served = served(Limits { connections: 4, waits: 1, follows: 2, ..Limits::default() });
    const FOLLOW: &str =
        "GET /v1/jobs/endless/logs?follow=true HTTP/1.1\r\nhost: x\r\naccept: application/x-ndjson\r\n\r\n";
    let mut following = Vec::new();
    for _ in 0..2 {
        let mut stream = asks(&served, FOLLOW).await;
        let mut byte = [0];
        stream.read_exact(&mut byte).await.unwrap();
        following.push(stream);
    }
    let query = OutputQuery { follow: true, ..OutputQuery::default() };
    let Err(Error::Problem(problem)) = served.client.logs(&"endless".into(), &query).await else { panic!() };
    assert_eq!((problem.code, problem.message.as_str()), (503, "2 outputs are followed here already"));
    // Neither what waits nor what asks has less room for that.
    let _waiting = asks(&served, WAIT).await;
    for _ in 0..8 {
        served.client.ask(&Retry { job: "a".into() }).await.unwrap();
    }
    let mut lines = served.client.logs(&"endless".into(), &OutputQuery::default()).await.unwrap();
    let end = lines.next().await.unwrap().pop_front().unwrap();
    assert_eq!(serde_json::to_string(&end).unwrap(), r#"{"state":"running","next":0}"#);
    following.pop();
    while served.client.logs(&"endless".into(), &query).await.is_err() {}
}
