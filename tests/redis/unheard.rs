//! Lost answers to fetches: the next fetch releases the jobs of the lost one.

use std::time::Duration;

use broker::{Broker, Fetch};
use model::{ClassFilter, Fetched, NewJob, Payload, SlotId, Take, WorkerId};
use qless::Qless;

use crate::proxy::{Loss, Proxy};
use crate::support::{RedisServer, Scripted};

/// A broker behind a proxy, and another client with a direct connection.
struct Scene {
    other: Scripted,
    proxy: Proxy,
    broker: Broker,
    _server: RedisServer,
}

impl Scene {
    fn new() -> Scene {
        let server = RedisServer::start();
        let proxy = Proxy::to(server.port);
        let broker =
            Broker::from(Qless::open(&proxy.url(), "the test's", qless::Options::default()).unwrap());
        let other = Scripted::new(&server, qless::script::SCRIPT);
        Scene { other, proxy, broker, _server: server }
    }

    fn put(&mut self, jid: &str) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let now = now.as_secs_f64().to_string();
        assert_eq!(self.other.call::<String>(&["put", &now, "me", "q", jid, "klass", "{}", "0"]), jid);
    }

    /// A fetch for a slot of a pool.
    async fn fetch(&self, pool: u16) -> Result<Vec<Fetched>, broker::Error> {
        let worker = WorkerId { slot: SlotId { pool, index: 1 }, generation: 1 };
        let request = Fetch {
            instance: "me".into(),
            queues: vec!["q".into()],
            take: Take::InOrder,
            filter: ClassFilter::default(),
            pool: format!("p{pool}").into(),
            workers: vec![worker],
            lease: Duration::from_secs(60),
        };
        self.broker.fetch(request).await
    }

    /// Fetches until there is a connection again.
    async fn fetch_again(&self, pool: u16) -> Vec<Fetched> {
        let again = async || loop {
            match self.fetch(pool).await {
                Ok(fetched) => return fetched,
                // An attempt before the reconnect fails without reaching the server.
                Err(_) => tokio::task::yield_now().await,
            }
        };
        tokio::time::timeout(Duration::from_secs(30), again()).await.unwrap()
    }
}

fn jids(fetched: &[Fetched]) -> Vec<&str> {
    fetched.iter().map(|fetched| fetched.job.id.as_str()).collect()
}

#[tokio::test]
async fn job_whose_fetch_answer_was_lost_is_granted_again_unspent() {
    for loss in [Loss::Break, Loss::Silence] {
        let mut scene = Scene::new();
        // A job whose answer arrived keeps its lease.
        scene.put("heard");
        let heard = scene.fetch(1).await.unwrap();
        assert_eq!(jids(&heard), ["heard"]);
        let hold = scene.other.field("heard", "hold");
        scene.put("unheard");
        scene.proxy.lose_answer("unheard", loss);
        let error = scene.fetch(2).await.unwrap_err();
        assert!(error.to_string().contains("cannot fetch jobs from the test's"), "{error}");
        assert!(scene.proxy.has_lost());
        assert_eq!(scene.other.field("unheard", "state").as_deref(), Some("running"));
        let again = scene.fetch_again(3).await;
        assert_eq!(jids(&again), ["unheard"], "{loss:?}");
        assert_eq!((again[0].job.attempt, again[0].job.interrupted), (1, 0));
        assert_eq!(scene.other.field("heard", "hold"), hold);
        assert_eq!(scene.other.field("heard", "state").as_deref(), Some("running"));
        // A job that was granted again is not released once more.
        assert_eq!(jids(&scene.fetch(4).await.unwrap()), Vec::<&str>::new());
    }
}

/// With and without an id given by the caller; an id in use stays refused.
#[tokio::test]
async fn put_whose_answer_was_lost_is_retried_and_queues_its_job_once() {
    let mut scene = Scene::new();
    for id in [None, Some("named".into())] {
        let job = NewJob {
            id: id.clone(),
            delay: Duration::from_secs(3600),
            ..NewJob::new("q".into(), "klass".into(), Payload::Data("{}".into()))
        };
        scene.proxy.lose_answer("delayed", Loss::Break);
        let ids = scene.broker.put(vec![job.clone()]).await.unwrap();
        assert!(scene.proxy.has_lost());
        assert_eq!(scene.other.field(ids[0].as_str(), "state").as_deref(), Some("scheduled"));
        if id.is_some() {
            assert!(scene.broker.put(vec![job]).await.unwrap_err().to_string().contains("named"));
        }
    }
    assert_eq!(scene.other.raw::<i64>("ZCARD ql:q:q-scheduled"), 2);
}

/// An old connection may deliver a fetch long after it was abandoned.
#[test]
fn fetch_that_arrives_after_it_was_abandoned_gets_nothing() {
    let server = RedisServer::start();
    let mut other = Scripted::new(&server, qless::script::SCRIPT);
    let _: String = other.line("put 1 me q j klass {} 0");
    let fetch = |other: &mut Scripted, name: &str, unheard: &[&str]| -> Vec<String> {
        let count = unheard.len().to_string();
        let before = [&["taskvisor.fetch", "5", "me", name, &count], unheard].concat();
        let args = [&before[..], &["60", "order", "0", "0", "1", "q", "1", "w", "{}"]].concat();
        let (_, given, ..): (Option<String>, Vec<Vec<::redis::Value>>, ::redis::Value, i64) =
            other.call(&args);
        given.iter().map(|job| ::redis::from_redis_value(job[0].clone()).unwrap()).collect()
    };
    // Two fetches were abandoned before they arrived; the third one, which names them, gets the job.
    assert_eq!(fetch(&mut other, "c", &["a", "b"]), ["j"]);
    let _: String = other.line("put 6 me q late klass {} 0");
    assert_eq!(fetch(&mut other, "a", &[]), Vec::<String>::new());
    assert_eq!(fetch(&mut other, "b", &[]), Vec::<String>::new());
    // The third fetch keeps its job, and later fetches get other jobs.
    assert_eq!(fetch(&mut other, "d", &["b"]), ["late"]);
    assert_eq!(other.field("j", "fetch").as_deref(), Some("c"));
    // The mark of the abandoned fetches expires by itself.
    assert!(other.raw::<i64>("TTL ql:taskvisor:unheard:me") > 60);
}

/// A job that is being canceled does not run again.
#[test]
fn canceled_job_with_a_lost_fetch_answer_is_not_run() {
    let server = RedisServer::start();
    let mut other = Scripted::new(&server, qless::script::SCRIPT);
    let _: String = other.line("put 1 me q j klass {} 0");
    let _: ::redis::Value = other.line("taskvisor.fetch 5 me a 0 60 order 0 0 1 q 1 w {}");
    let _: i64 = other.raw("HSET ql:j:j canceling 1");
    let (_, given, ..): (Option<String>, Vec<::redis::Value>, ::redis::Value, i64) =
        other.line("taskvisor.fetch 6 me b 1 a 60 order 0 0 1 q 1 w {}");
    assert_eq!(given, []);
    assert_eq!(other.field("j", "state").as_deref(), Some("canceled"));
}
