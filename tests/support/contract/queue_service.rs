//! The fake of Amazon SQS as a broker of the contract.

use std::sync::{Arc, Once};
use std::time::Duration;

use broker::{Broker, Fetch};
use model::Fetched;
use sqlite::Options;
use sqs::AmazonSqs;

use crate::sqs::FakeSqs;
use crate::support::{Clock, Elsewhere};

/// Number of times a fetch looks again for messages of a pending poll, and the wait between two looks.
const LOOKS: (u32, Duration) = (400, Duration::from_millis(5));

struct Service {
    fake: Arc<FakeSqs>,
    follows: Once,
    directory: tempfile::TempDir,
}

pub fn start() -> Box<dyn Elsewhere> {
    static CREDENTIALS: Once = Once::new();
    // SAFETY: no other thread of the test reads the environment before the first client is made.
    #[allow(unsafe_code)]
    CREDENTIALS.call_once(|| unsafe {
        std::env::set_var("AWS_ACCESS_KEY_ID", "test");
        std::env::set_var("AWS_SECRET_ACCESS_KEY", "test");
    });
    Box::new(Service {
        fake: Arc::new(FakeSqs::start()),
        follows: Once::new(),
        directory: tempfile::tempdir().expect("a directory"),
    })
}

#[async_trait::async_trait]
impl Elsewhere for Service {
    fn open(&self, clock: &Clock) -> Broker {
        let fake = self.fake.clone();
        self.follows.call_once(|| clock.follow(move |by| fake.advance(by)));
        let url = format!("sqs://eu-west-1?endpoint={}&create=yes&exec=yes", self.fake.endpoint());
        let options = Options { world: clock.world(), ..Options::default() };
        let url = brokers::address(&url).expect("a URL");
        AmazonSqs::open_with(&url, self.directory.path(), options).expect("a broker")
    }

    fn afresh(&self) -> Box<dyn Elsewhere> {
        start()
    }

    /// Waits until no message is visible or on its way: each message in flight belongs to a job that runs here.
    async fn more(&self, broker: &Broker, request: Fetch, at_once: Vec<Fetched>) -> Vec<Fetched> {
        let mut all = at_once;
        for _ in 0..LOOKS.0 {
            let counts = request.queues.iter().map(|queue| self.fake.counts(queue.as_str()));
            let (visible, in_flight) =
                counts.fold((0, 0), |sum, [visible, flies, _]| (sum.0 + visible, sum.1 + flies));
            let runs = broker.held_by(request.instance.clone()).await.expect("the ledger").len();
            if all.len() == request.workers.len() || visible == 0 && in_flight <= runs {
                break;
            }
            tokio::time::sleep(LOOKS.1).await;
            let workers = request.workers[all.len()..].to_vec();
            all.extend(broker.fetch(Fetch { workers, ..request.clone() }).await.expect("jobs"));
        }
        all
    }
}
