//! The router over a fake service on a real socket, with the client against it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::Instant;

use super::fake::Fake;
use super::{Client, Error, Limits, Problem, router, serve};
use model::verb::{Cancel, ClassStats, Each, Fate, Get, Pause, Queues, Resume, Retry, Tag};
use model::{Class, Exec, Filter, JobId, JobState, Millis, NewJob, Payload, QueueName, Scale, Stop, Subject};

pub(super) struct Served {
    pub(super) fake: Arc<Fake>,
    pub(super) socket: PathBuf,
    pub(super) client: Client,
    _dir: tempfile::TempDir,
}

pub(super) fn served(limits: Limits) -> Served {
    served_with(limits, Fake::default())
}

pub(super) fn served_with(limits: Limits, fake: Fake) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("ctl.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let fake = Arc::new(fake);
    tokio::spawn(serve(listener, router(fake.clone()), limits, |_| ()));
    Served { fake, client: Client::new(&socket), socket, _dir: dir }
}

impl Served {
    pub(super) fn asked(&self) -> Vec<String> {
        self.fake.asked.lock().expect("not poisoned").clone()
    }

    /// Sends these bytes and returns the whole answer.
    pub(super) async fn raw(&self, request: &str) -> String {
        let mut stream = UnixStream::connect(&self.socket).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        read_all(stream).await
    }
}

pub(super) async fn read_all(mut stream: impl AsyncRead + Unpin) -> String {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer).await {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
    }
    String::from_utf8(answer).unwrap()
}

fn job() -> NewJob {
    let program = Exec { argv: vec!["true".into()], ..Exec::default() };
    NewJob::new("default".into(), Class::EXEC.into(), Payload::Exec(program))
}

#[tokio::test]
async fn every_route_reaches_its_verb() {
    let served = served(Limits::default());
    let client = &served.client;
    let odd: JobId = "a/b c?é".into();
    assert_eq!(client.put(vec![job(), job()]).await.unwrap().ids.len(), 2);
    let cancel = Cancel { jobs: vec![odd.clone()], dependents: true, reason: None };
    let each = [Each { job: odd.clone(), fate: Fate::State(JobState::Canceling), told: None }];
    assert_eq!(client.ask(&cancel).await.unwrap(), each);
    assert_eq!(
        client.ask(&Tag { job: odd.clone(), add: vec!["x".into()], remove: vec![] }).await.unwrap().tags,
        ["x"]
    );
    client.ask(&Retry { job: odd.clone() }).await.unwrap();
    assert_eq!(client.ended(&odd).await.unwrap(), JobState::Complete);
    assert_eq!(client.ask(&Queues {}).await.unwrap()[&QueueName::from("mail")].jobs[&JobState::Waiting], 3);
    client.ask(&Pause { queue: "mail".into(), reason: Some("smtp down".into()) }).await.unwrap();
    client.ask(&Resume { queue: "mail".into() }).await.unwrap();
    client.why(&Subject::Job(odd.clone())).await.unwrap();
    client.why(&Subject::Slot("mail.3".into())).await.unwrap();
    client.stop(Stop::Terminate).await.unwrap();
    let uid = nix::unistd::getuid();
    let expected = [
        "put 2",
        &format!(
            "Cancel(Cancel {{ jobs: [JobId(\"a/b c?é\")], dependents: true, reason: None }}) by uid {uid}"
        ),
        &format!("Tag(Tag {{ job: JobId(\"a/b c?é\"), add: [\"x\"], remove: [] }}) by uid {uid}"),
        &format!("Retry(Retry {{ job: JobId(\"a/b c?é\") }}) by uid {uid}"),
        &format!("Queues(Queues) by uid {uid}"),
        &format!("Pause(Pause {{ queue: QueueName(\"mail\"), reason: Some(\"smtp down\") }}) by uid {uid}"),
        &format!("Resume(Resume {{ queue: QueueName(\"mail\") }}) by uid {uid}"),
        "why Job(JobId(\"a/b c?é\"))",
        "why Slot(\"mail.3\")",
        "stop Terminate",
    ];
    assert_eq!(served.asked(), expected);
}

#[test]
fn scale_has_one_number_and_days_are_those_that_are_kept() {
    let scale = |body: &str| serde_json::from_str::<Scale>(body).map_err(|error| error.to_string());
    assert_eq!(scale(r#"{"by": -2}"#), Ok(Scale::By(-2)));
    for body in [r#"{"to": 1, "by": 2}"#, "{}"] {
        assert!(scale(body).unwrap_err().starts_with("either 'to', a number of workers, or 'by'"), "{body}");
    }
    let days = |days: u32| serde_json::from_value::<ClassStats>(serde_json::json!({ "days": days }));
    assert_eq!(days(90).unwrap().days, Some(90));
    for wrong in [0, 91] {
        assert_eq!(days(wrong).unwrap_err().to_string(), "days is a number from 1 to 90");
    }
}

#[tokio::test]
async fn filter_survives_the_round_trip_through_the_query() {
    let served = served(Limits::default());
    let filter = Filter {
        states: vec![JobState::Failed, JobState::Held],
        queue: Some("a&b".into()),
        class: Some("exec".into()),
        tag: Some("x=y, z".into()),
        tracked: true,
        recurring: Some("nightly".into()),
        group: Some("exit 1".into()),
        id_prefix: Some("a b&_".into()),
        since: Some(Millis(1_700_000_000_123)),
        until: Some(Millis(0)),
        search: Some("a&b \"c=d\" é".parse().unwrap()),
        limit: 7,
        after: Some("x".into()),
        whole: false,
    };
    served.client.ask(&filter).await.unwrap();
    assert_eq!(served.asked(), [format!("{filter:?} at None")]);
}

#[tokio::test]
async fn problem_keeps_its_code_message_and_hint() {
    let served = served(Limits::default());
    let Err(Error::Problem(problem)) = served.client.ask(&Get { job: "nope".into() }).await else {
        panic!("no problem")
    };
    assert_eq!(problem, Problem::not_found("no job has the id 'nope'").hint("see taskvisor job list"));
}

#[tokio::test]
async fn invalid_requests_are_answered_in_json() {
    let served = served(Limits::default());
    for (request, code, words) in [
        ("GET /v2/jobs HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "404", "there is no /v2/jobs here"),
        ("DELETE /v1/jobs HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "405", "does not take DELETE"),
        (
            "POST /v1/stop HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 3\r\n\r\n{]}",
            "400",
            "the body is not right: key must be a string at line 1 column 2",
        ),
        (
            "POST /v1/stop HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 16\r\n\r\n{\"how\":\"please\"}",
            "400",
            "unknown variant `please`",
        ),
        (
            "GET /v1/jobs?state=lost HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
            "400",
            "no job state is called 'lost'",
        ),
        (
            "GET /v1/jobs?sort=x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
            "400",
            "unknown field `sort`, expected one of `state`, `queue`",
        ),
    ] {
        let answer = served.raw(request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{answer}");
        assert!(answer.contains("{\"error\":\"") && answer.contains(words), "{answer}");
    }
    assert!(served.asked().is_empty());
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_by_its_announced_length() {
    let served = served(Limits::default());
    for (path, length) in [("/v1/jobs", 97 << 20), ("/v1/stop", 65 << 10)] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{{"
        );
        let answer = served.raw(&request).await;
        assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("larger than"), "{answer}");
        assert!(answer.contains("put what is large into a file") && !answer.contains("batch"), "{answer}");
    }
}

#[tokio::test]
async fn silent_client_is_disconnected_and_delays_no_other() {
    let limits = Limits { connections: 2, header_timeout: Duration::from_millis(50), ..Limits::default() };
    let served = served(limits);
    let silent = UnixStream::connect(&served.socket).await.unwrap();
    served.client.ask(&Retry { job: "a".into() }).await.unwrap();
    assert_eq!(read_all(silent).await, "");
}

#[tokio::test]
async fn client_that_reads_no_answers_is_disconnected() {
    let limits = Limits { connections: 1, stall_timeout: Duration::from_millis(50), ..Limits::default() };
    let served = served(limits);
    let mut stalled = UnixStream::connect(&served.socket).await.unwrap();
    let questions = "GET /none HTTP/1.1\r\nhost: x\r\n\r\n".repeat(10_000);
    let shown_out = tokio::time::timeout(Duration::from_secs(20), stalled.write_all(questions.as_bytes()));
    assert!(shown_out.await.expect("it does not take for ever").is_err());
    while served.client.ask(&Retry { job: "a".into() }).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn idle_client_is_disconnected_after_its_answer() {
    let served = served(Limits::default());
    let mut client = UnixStream::connect(&served.socket).await.unwrap();
    client.write_all(b"GET /none HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let before = Instant::now();
    assert!(read_all(client).await.starts_with("HTTP/1.1 404"));
    assert_eq!(before.elapsed().as_secs(), Limits::default().header_timeout.as_secs());
}

/// Sends the first bytes, then one byte each second until the server closes; returns the answer and the seconds it
/// took.
async fn drip(served: &Served, first: &str) -> (String, u64) {
    let (reader, mut writer) = UnixStream::connect(&served.socket).await.unwrap().into_split();
    writer.write_all(first.as_bytes()).await.unwrap();
    let before = Instant::now();
    let dripping = async {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        while writer.write_all(b" ").await.is_ok() {
            seconds.tick().await;
        }
        std::future::pending().await
    };
    let answer = tokio::select! {
        answer = read_all(reader) => answer,
        () = dripping => String::new(),
    };
    (answer, before.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn request_sent_a_byte_at_a_time_times_out() {
    let served = served(Limits::default());
    assert_eq!(drip(&served, "GET /v1/queues HTTP/1.1\r\nx:").await, (String::new(), 10));
    for path in ["/v1/jobs", "/v1/stop", "/v1/jobs/a/retry"] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n");
        let (answer, seconds) = drip(&served, &head).await;
        assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("within 30s"), "{answer}");
        assert_eq!(seconds, 30);
    }
    assert!(served.asked().is_empty());
}

#[tokio::test]
async fn unauthenticated_tcp_clients_do_not_block_authenticated_ones() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let token = "0123456789abcdef".to_owned();
    let gate = super::Gate::new(super::Terms {
        tokens: Some(vec![(super::Role::All, token.clone())]),
        hosts: vec![],
        origins: vec![],
    });
    let door = super::Port { listener, programs: false };
    let limits = Limits { connections: 4, ..Limits::default() };
    tokio::spawn(serve(door, super::behind(gate, router(Arc::new(Fake::default()))), limits, |_| ()));
    let client = Client::of(super::Place::of_url(&format!("http://{address}"), token).unwrap());
    let mut strangers = Vec::new();
    for _ in 0..20 {
        for _ in 0..3 {
            let mut stranger = tokio::net::TcpStream::connect(address).await.unwrap();
            stranger.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n").await.unwrap();
            strangers.push(stranger);
        }
        client.ask(&Retry { job: "a".into() }).await.unwrap();
    }
    assert_eq!(strangers.len(), 60);
}

#[tokio::test(start_paused = true)]
async fn oldest_idle_client_is_disconnected_for_a_new_one() {
    let served =
        served(Limits { connections: 3, header_timeout: Duration::from_secs(100), ..Limits::default() });
    let mut asking = UnixStream::connect(&served.socket).await.unwrap();
    asking.write_all(b"GET /v1/jobs/stuck HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let first = UnixStream::connect(&served.socket).await.unwrap();
    let mut second = UnixStream::connect(&served.socket).await.unwrap();
    let before = Instant::now();
    served.client.ask(&Retry { job: "a".into() }).await.unwrap();
    assert_eq!(before.elapsed().as_secs(), 1, "before that nobody has been idle for long");
    assert_eq!(read_all(first).await, "");
    let stays = async |stream: &mut UnixStream| {
        tokio::time::timeout(Duration::from_secs(1), read_all(stream)).await.is_err()
    };
    assert!(stays(&mut second).await, "one place was needed");
    let _third = UnixStream::connect(&served.socket).await.unwrap();
    served.client.ask(&Retry { job: "a".into() }).await.unwrap();
    assert_eq!(read_all(second).await, "");
    assert!(stays(&mut asking).await, "it waits for its answer");
}

#[tokio::test(start_paused = true)]
async fn client_waits_for_a_silent_supervisor_only_in_waiting_calls() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("ctl.sock");
    let _stopped = UnixListener::bind(&socket).unwrap();
    let client = Client::new(&socket);
    let before = Instant::now();
    let said = |error: Error| {
        let Error::Silent(_, why) = &error else { panic!("{error}") };
        why.clone()
    };
    assert_eq!(said(client.put(vec![job()]).await.unwrap_err()), "nothing came within 10 s");
    assert_eq!(said(client.ask(&Get { job: "a".into() }).await.unwrap_err()), "nothing came within 10 s");
    assert_eq!(said(client.ask(&Retry { job: "a".into() }).await.unwrap_err()), "nothing came within 10 s");
    assert_eq!(before.elapsed().as_secs(), 30);
    let hour = Duration::from_secs(3600);
    assert!(tokio::time::timeout(hour, client.ended(&"a".into())).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn client_waits_for_a_supervisor_that_waits_for_its_store() {
    let served = served(Limits::default());
    let before = Instant::now();
    let slow = served.client.ask(&Get { job: "slow".into() }).await.unwrap_err();
    assert!(matches!(slow, Error::Problem(_)), "{slow}");
    assert_eq!(before.elapsed().as_secs(), 25);
    let stuck = served.client.ask(&Get { job: "stuck".into() }).await.unwrap_err().to_string();
    assert!(stuck.ends_with("nothing came within 60 s, though it runs"), "{stuck}");
}

#[tokio::test]
async fn client_over_the_connection_limit_gets_503() {
    let limits = Limits { connections: 0, ..Limits::default() };
    let served = served(limits);
    let answer = served.raw("GET /v1 HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("clients are served already"), "{answer}");
}

#[tokio::test]
async fn socket_without_a_listener_means_not_running() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("ctl.sock");
    let client = Client::new(&socket);
    assert!(matches!(client.status().await, Err(Error::NotRunning(_))));
    drop(UnixListener::bind(&socket).unwrap());
    assert!(matches!(client.status().await, Err(Error::NotRunning(_))));
}

#[tokio::test]
async fn supervisor_that_ends_before_accept_means_not_running() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("ctl.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let client = Client::new(&socket);
    // On one thread the call is in the listener's queue when the listener is dropped.
    let (status, ()) = tokio::join!(client.status(), async { drop(listener) });
    assert!(matches!(status, Err(Error::NotRunning(_))), "{status:?}");
}

#[tokio::test]
async fn answer_that_is_no_http_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("ctl.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(b"220 smtp ready\r\n").await.unwrap();
            read_all(stream).await;
        }
    });
    let error = Client::new(&socket).status().await.unwrap_err();
    assert!(matches!(error, Error::Odd(..)), "{error}");
}
