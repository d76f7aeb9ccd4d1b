//! A release of a message whose own time is over makes nothing visible: the next delivery is another client's.

use std::sync::Once;
use std::time::Duration;

use ::sqs::AmazonSqs;
use broker::{Broker, Fetch, Settling};
use model::{ClassFilter, Fetched, Settlement, SlotId, Take, Verdict, WorkerId};
use serde_json::{Value, json};
use sqlite::Options;

use crate::bad_days::ok;
use crate::sqs::FakeSqs;

/// The service counts whole seconds.
const LEASE: Duration = Duration::from_secs(2);

/// The answer of the fake to another client.
fn asked(fake: &FakeSqs, action: &str, given: Value) -> Value {
    // It makes a runtime of its own.
    std::thread::scope(|scope| scope.spawn(|| ok(fake, action, given)).join().unwrap())
}

struct Scene {
    fake: FakeSqs,
    queue: Value,
    broker: Broker,
    _dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        static CREDENTIALS: Once = Once::new();
        // SAFETY: no other thread of the test reads the environment before the first client is made.
        #[allow(unsafe_code)]
        CREDENTIALS.call_once(|| unsafe {
            std::env::set_var("AWS_ACCESS_KEY_ID", "test");
            std::env::set_var("AWS_SECRET_ACCESS_KEY", "test");
        });
        let (fake, dir) = (FakeSqs::start(), tempfile::tempdir().unwrap());
        let queue = asked(&fake, "CreateQueue", json!({"QueueName": "mail"}))["QueueUrl"].clone();
        let body = r#"{"class": "klass", "data": 1}"#;
        asked(&fake, "SendMessage", json!({"QueueUrl": queue, "MessageBody": body}));
        let url = brokers::address(&format!("sqs://eu-west-1?endpoint={}", fake.endpoint())).unwrap();
        let broker = AmazonSqs::open_with(&url, dir.path(), Options::default()).unwrap();
        Scene { fake, queue, broker, _dir: dir }
    }

    /// Another client receives what is visible.
    fn received(&self) -> usize {
        let given = json!({"QueueUrl": self.queue, "VisibilityTimeout": 60});
        asked(&self.fake, "ReceiveMessage", given)["Messages"].as_array().map_or(0, Vec::len)
    }

    async fn fetch(&self) -> Fetched {
        let request = Fetch {
            instance: "me".into(),
            queues: vec!["mail".into()],
            take: Take::InOrder,
            filter: ClassFilter::default(),
            pool: "default".into(),
            workers: vec![WorkerId { slot: SlotId { pool: 0, index: 1 }, generation: 1 }],
            lease: LEASE,
        };
        loop {
            if let Some(job) = self.broker.fetch(request.clone()).await.unwrap().pop() {
                return job;
            }
            // The poll is a task of its own.
            self.broker.next_notice().await;
        }
    }

    async fn release(&self, job: &Fetched) -> Settling {
        let release = Settlement {
            job: job.lease.job.clone(),
            fence: job.lease.fence,
            verdict: Verdict::Release { after: Duration::ZERO, counts: None },
            crashed: false,
            forensics: None,
        };
        self.broker.settle(vec![release]).await.unwrap().remove(0)
    }
}

const STALLED: &str = "ChangeMessageVisibilityBatch";

#[tokio::test]
async fn release_without_an_answer_ends_with_its_delivery_and_touches_no_later_one() {
    let scene = Scene::new();
    let job = scene.fetch().await;
    scene.fake.knobs(|knobs| (knobs.old_handles, knobs.stalled) = (true, vec![STALLED.into()]));
    let released = scene.release(&job).await;
    assert!(matches!(released, Settling::Settled(_)), "it is visible by itself: {released:?}");
    assert_eq!(scene.received(), 1, "another client has it");
    scene.fake.knobs(|knobs| knobs.stalled.clear());
    // It may be asked again: the supervisor cannot know whether the answer was lost.
    scene.release(&job).await;
    assert_eq!(scene.received(), 0, "and keeps it");
}

#[tokio::test]
async fn handle_that_is_refused_by_an_unknown_code_is_not_ours_and_no_concern() {
    let scene = Scene::new();
    let job = scene.fetch().await;
    scene.fake.knobs(|knobs| knobs.handle_code = Some("NoSuchReceipt"));
    asked(&scene.fake, "PurgeQueue", json!({"QueueUrl": scene.queue}));
    let released = scene.release(&job).await;
    assert_eq!(released, Settling::NotOurs);
    assert_eq!(scene.broker.health().concern, None);
}
