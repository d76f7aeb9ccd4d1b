//! Recurring jobs in a Redis: several hosts, recurring jobs of qless, a full server, a changed clock.

use super::*;
use crate::support::server::Scripted;
use qless::script::SCRIPT;

/// The server of the scene, for direct commands.
fn server(scene: &Scene) -> &RedisServer {
    let Place::Redis(server) = &scene.place else { panic!("there is no server") };
    server
}

fn shell(scene: &Scene) -> Scripted {
    Scripted::new(server(scene), SCRIPT)
}

/// A host on a server with real time; the host's own clock is ahead by `ahead`.
fn host(server: &RedisServer, ahead: Duration) -> Broker {
    let now = qless::Options::default().now;
    let options = qless::Options { now: Arc::new(move || now() + ahead), ..Default::default() };
    Qless::open(&server.url(), "the test's", options).unwrap().into()
}

/// Fetches until there is a job.
async fn first_taken(host: &Broker) -> Vec<String> {
    let taken = async {
        loop {
            let taken = host.fetch(request(&["q"], 3)).await.unwrap();
            if !taken.is_empty() {
                return ids(&taken).into_iter().map(String::from).collect();
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(40), taken).await.expect("a job")
}

async fn count(host: &Broker) -> u64 {
    host.tell(ShowRecurring { name: "n".into() }, "").await.unwrap().count
}

#[tokio::test]
async fn recurring_job_put_by_another_host_wakes_this_one() {
    let server = RedisServer::start();
    let (one, other) = (host(&server, Duration::ZERO), host(&server, Duration::ZERO));
    assert_eq!(one.fetch(request(&["q"], 1)).await.unwrap(), []);
    other.tell(every(Duration::from_secs(1)), "uid 7").await.unwrap();
    let woken = tokio::time::timeout(Duration::from_secs(40), one.next_notice()).await;
    assert!(matches!(woken, Ok(Notice::Wake(queues)) if queues.have_any_of(&["q".into()])));
    assert_eq!(ids(&one.fetch(request(&["q"], 1)).await.unwrap()), ["n-1"]);
}

#[tokio::test]
async fn host_without_a_free_worker_fires_due_occurrences() {
    let server = RedisServer::start();
    let host = host(&server, Duration::ZERO);
    host.recover("me".into(), Vec::new()).await.unwrap();
    host.tell(allow(every(Duration::from_secs(1))), "uid 7").await.unwrap();
    let put = async {
        while count(&host).await < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(40), put).await.expect("nobody fetches, and all the same");
}

#[tokio::test]
async fn hosts_use_the_time_of_the_server_not_their_own_clocks() {
    let server = RedisServer::start();
    let (right, wrong) = (host(&server, Duration::ZERO), host(&server, 400 * DAY));
    let put = wrong.tell(every(Duration::from_secs(2)), "uid 7").await.unwrap();
    let seen = right.tell(ShowRecurring { name: "n".into() }, "").await.unwrap();
    assert_eq!(seen, put);
    let due = put.next_at.unwrap().0 - put.put_at.0;
    assert!((1999..=2001).contains(&due), "{put:?}");
    let (one, other) = tokio::join!(first_taken(&right), async {
        right.fetch(request(&["elsewhere"], 1)).await.unwrap();
        wrong.fetch(request(&["elsewhere"], 1)).await.unwrap();
    });
    assert_eq!((one, other), (vec!["n-1".into()], ()));
    let job = right.get("n-1".into()).await.unwrap().unwrap();
    assert_eq!(Some(job.put_at), put.next_at);
}

#[tokio::test]
async fn unreadable_recurring_job_does_not_block_others() {
    let scene = Scene::redis();
    for name in ["a", "b", "c"] {
        scene.recur(Recurring { name: name.into(), ..every(2 * MINUTE) }).await;
    }
    let mut shell = shell(&scene);
    let spec: String = shell.raw("HGET ql:taskvisor:recur:b spec");
    let _: i64 = shell.raw("HSET ql:taskvisor:recur:b spec {\"of\":\"tomorrow\"}");
    scene.clock.forward(2 * MINUTE);
    assert_eq!(scene.done().await, ["a-1", "c-1"]);
    let listed = scene.tell(ListRecurring {}, "").await.unwrap();
    assert_eq!(listed.iter().map(|one| one.recurring.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    let why = scene.tell(ShowRecurring { name: "b".into() }, "").await.unwrap_err().to_string();
    assert!(why.starts_with("the recurring job 'b' cannot be read: unknown field `of`"), "{why}");
    let _: i64 = shell.raw_call(&["HSET", "ql:taskvisor:recur:b", "spec", &spec]);
    scene.clock.forward(MINUTE);
    assert_eq!(scene.done().await, ["b-1"], "it is tried again before it is late");
    let _: i64 = shell.raw("DEL ql:taskvisor:recur:c");
    let _: String = shell.raw("SET ql:taskvisor:recur:c another-program's");
    scene.clock.forward(MINUTE);
    assert_eq!(scene.done().await, ["a-2", "b-2"]);
    let _: i64 = shell.raw("HDEL ql:taskvisor:recur:b spec");
    scene.tell(RemoveRecurring { name: "b".into() }, "uid 7").await.unwrap();
}

#[tokio::test]
async fn occurrence_that_cannot_be_put_does_not_block_others() {
    let scene = Scene::redis();
    let into = |name: &str, queue: &str| Recurring {
        name: name.into(),
        job: NewJob { id: None, queue: queue.into(), ..job("") },
        ..every(MINUTE)
    };
    for recurring in [into("a", "q"), into("b", "p"), into("c", "q")] {
        scene.recur(recurring).await;
    }
    let mut shell = shell(&scene);
    let _: String = shell.raw("SET ql:q:p-work another-program's");
    scene.clock.forward(MINUTE);
    assert_eq!(scene.done().await, ["a-1", "c-1"]);
    let _: i64 = shell.raw("DEL ql:q:p-work");
    scene.clock.forward(MINUTE);
    scene.done().await;
    assert_eq!(ids(&scene.fetch(request(&["p"], 5)).await.unwrap()), ["b-2"], "nothing is had twice");
}

#[tokio::test]
async fn full_server_fires_nothing_until_it_has_room() {
    let scene = Scene::redis();
    scene.recur(every(HOUR)).await;
    scene.done().await;
    let mut shell = shell(&scene);
    let _: String = shell.raw("CONFIG SET maxmemory 1");
    scene.clock.forward(HOUR);
    assert_eq!(scene.done().await, Vec::<String>::new());
    let _: String = shell.raw("CONFIG SET maxmemory 0");
    assert_eq!(scene.known("n").await.count, 0);
    scene.clock.forward(MINUTE / 2);
    assert_eq!(scene.done().await, ["n-1"], "it is not late");
    let known = scene.known("n").await;
    assert_eq!((known.missed_at, known.next_at), (None, Some(Millis(START + 2 * 3_600_000))));
}

#[tokio::test]
async fn interval_recovers_when_the_clock_of_the_server_is_corrected() {
    let mut scene = Scene::redis();
    scene.recur(every(HOUR)).await;
    scene.set_wall_clock(24 * 365);
    scene.clock.forward(2 * MINUTE);
    assert_eq!(scene.done().await, Vec::<String>::new(), "what was jumped over is missed");
    scene.set_wall_clock(-24 * 365);
    assert_eq!(scene.done().await, Vec::<String>::new());
    scene.clock.forward(HOUR);
    assert_eq!(scene.done().await, ["n-1"], "and not in a year");
    // A small step back is no error of the clock: nothing fires twice.
    scene.set_wall_clock(-2);
    scene.clock.forward(HOUR);
    assert_eq!(scene.done().await, Vec::<String>::new());
    scene.clock.forward(2 * HOUR);
    assert_eq!(scene.done().await, ["n-2"]);
}

#[tokio::test]
async fn recurring_job_of_qless_is_shown_and_fired_by_qless_only() {
    let scene = Scene::redis();
    let mut shell = shell(&scene);
    let now = (START / 1000).to_string();
    let more = ["priority", "3", "tags", "[\"t\"]", "retries", "2", "backlog", "4"];
    let line = ["recur", &now, "q", "theirs", "Report", "{\"a\":1}", "interval", "60", "30"];
    let _: String = shell.call(&[&line[..], &more].concat());
    scene.recur(every(HOUR)).await;
    let all = scene.tell(ListRecurring {}, "").await.unwrap();
    assert_eq!(all.iter().map(|one| one.recurring.name.as_str()).collect::<Vec<_>>(), ["n", "theirs"]);
    let shown = scene.known("theirs").await;
    let NewJob { queue, class, payload, priority, tags, retry, .. } = &shown.recurring.job;
    assert_eq!((queue.as_str(), class.as_str(), *priority, &tags[..]), ("q", "Report", 3, &["t".into()][..]));
    assert_eq!(
        (payload, retry.unwrap().retries, shown.recurring.backlog),
        (&Payload::Data("{\"a\":1}".into()), 2, 4)
    );
    assert_eq!((shown.next_at, shown.then_at[0]), (Some(Millis(START + 30_000)), Millis(START + 90_000)));
    scene.clock.forward(MINUTE / 2);
    assert_eq!(scene.done().await, ["theirs-1"]);
    assert_eq!(scene.known("theirs").await.latest.unwrap().state, JobState::Complete);
    let of =
        Filter { recurring: Some("theirs".into()), states: vec![JobState::Complete], ..Filter::default() };
    assert_eq!(scene.list(of).await.unwrap()[0].recurring.as_deref(), Some("theirs"));
    let name = || "theirs".to_owned();
    let refused = [
        scene.tell(PauseRecurring { name: name() }, "").await.unwrap_err(),
        scene.tell(ResumeRecurring { name: name() }, "").await.unwrap_err(),
        scene.tell(RunRecurring { name: name() }, "").await.unwrap_err(),
        scene.tell(Recurring { name: name(), ..every(HOUR) }, "").await.unwrap_err(),
    ];
    let says =
        ["cannot be paused", "cannot be resumed", "cannot be run", "a client of qless has one of that name"];
    for (error, says) in refused.iter().zip(says) {
        assert!(matches!(error, Error::Refused(why) if why.contains(says)), "{error}");
    }
    scene.tell(RemoveRecurring { name: name() }, "").await.unwrap();
    assert_eq!(shell.line::<Option<String>>(&format!("recur.get {now} theirs")), None);
    scene.clock.forward(MINUTE);
    assert_eq!(scene.done().await, Vec::<String>::new());
    assert_eq!(scene.tell(ShowRecurring { name: name() }, "").await, Err(Error::NoRecurring(name())));
}

#[tokio::test]
async fn put_wakes_the_workers_of_its_queue_alone() {
    let server = RedisServer::start();
    let (one, other) = (host(&server, Duration::ZERO), host(&server, Duration::ZERO));
    for queue in ["a", "b"] {
        assert_eq!(one.fetch(request(&[queue], 1)).await.unwrap(), []);
    }
    for queue in ["b", "a"] {
        other.put(vec![NewJob { queue: queue.into(), ..job(queue) }]).await.unwrap();
        let woken = tokio::time::timeout(Duration::from_secs(40), one.next_notice()).await;
        assert_eq!(woken, Ok(Notice::Wake(QueueName::from(queue).into())), "no worker has fetched since");
    }
}

#[tokio::test]
async fn due_job_wakes_although_workers_of_another_queue_have_fetched_since() {
    let server = RedisServer::start();
    let host = host(&server, Duration::ZERO);
    let delay = Duration::from_millis(500);
    host.put(vec![NewJob { queue: "a".into(), delay, ..job("a") }]).await.unwrap();
    for queue in ["a", "b"] {
        assert_eq!(host.fetch(request(&[queue], 1)).await.unwrap(), []);
    }
    let due = async { while host.next_notice().await != Notice::Wake(QueueName::from("a").into()) {} };
    tokio::time::timeout(Duration::from_secs(5), due).await.expect("a wake-up at its time");
}
