//! The kind of broker for Amazon SQS.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::address::{FORM, Place};
use super::body::Bodies;
use super::client::Client;
use super::fault::Fault;
use super::source::Sqs;
use broker::without_secrets;
use broker::{Adapter, Address, Broker, Card, Counted, Error, Opening};
use ledger::{Ledger, with_ledger};
use model::verb::Ability;
use model::{Bytes, Class, JobState, Payload, QueueCounts, QueueName};
use select::terms::MOST;

/// The card of SQS with its ledger.
static CARD: Card = Card {
    name: "sqs",
    shared: true,
    batch: 1000,
    longest_delay: Some(super::queue::DELAY_MAX),
    // SQS takes 1 MiB with the names and values of all attributes, for which this leaves room.
    data_max: (1 << 20) - (16 << 10),
    cannot: &[
        (Ability::ShowWaiting, "it is shown once it has run here; the queue and its counts are seen in SQS"),
        (Ability::Position, "SQS does not say what waits before a message"),
        (
            Ability::Retry,
            "`taskvisor job retry --failed --queue QUEUE` moves the dead letters of its queue back",
        ),
        (Ability::Depend, "put the second job from the first one"),
        (Ability::Prioritize, "give each priority a queue of its own, and the pool an order of queues"),
        (Ability::Pause, "pause the pools that take from it: `taskvisor pause POOL`"),
        (Ability::Recur, "put it from cron, or from EventBridge Scheduler"),
        (Ability::Forget, "delete the queue in SQS"),
        (Ability::Options, "set them as attributes of the queue in SQS"),
        (Ability::Fleet, "ask each host for its `taskvisor status`"),
        (
            Ability::UniqueId,
            "a FIFO queue knows doubles for five minutes; the ledger runs none that this host has completed",
        ),
        (Ability::Expire, "let the job look at the time, or set the queue's MessageRetentionPeriod in SQS"),
        (Ability::PutTogether, "put them one by one; what fails is said"),
        (Ability::AllEvents, "the supervisor tells what happens on its host"),
    ],
};

/// Amazon SQS, or a service with the same protocol: `sqs://REGION`.
pub struct AmazonSqs;

#[async_trait]
impl Adapter for AmazonSqs {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn schemes(&self) -> &'static [&'static str] {
        &["sqs"]
    }

    fn forms(&self) -> &'static str {
        FORM
    }

    fn turn(&self) -> usize {
        MOST
    }

    fn fault(&self, url: &str) -> Option<&'static str> {
        Place::read(url).err()
    }

    fn shown(&self, url: &str) -> String {
        match Place::read(url) {
            Ok(Place { endpoint: Some(endpoint), region, .. }) => {
                format!("sqs://{region}?endpoint={}", without_secrets(&endpoint))
            }
            Ok(Place { region, .. }) => format!("sqs://{region}"),
            Err(_) => without_secrets(url),
        }
    }

    fn identity(&self, shown: &str) -> String {
        Place::read(shown).map_or_else(|_| shown.to_owned(), |place| place.identity())
    }

    fn lacks(&self, url: &str, command: &[Bytes]) -> Option<&'static str> {
        let is_of_kale = command.iter().any(|word| word.0 == b"taskvisor.kale");
        let has_key = Place::read(url).is_ok_and(|place| place.reads_tasks());
        (is_of_kale && !has_key).then_some(
            "has no key for tasks of kale: each would be poison. Add key_file=FILE with its UTIL_CRYPT_CIPHER, or \
             default_key=yes where the application sets none",
        )
    }

    fn leases(&self, url: &str) -> BTreeMap<QueueName, Duration> {
        let leases = Place::read(url).map(|place| place.leases).unwrap_or_default();
        leases.into_iter().map(|(queue, time)| (queue.into(), time)).collect()
    }

    async fn release(&self, at: &Address, release: &str) -> Result<Option<Counted>, Error> {
        let client = Client::new(Place::of(at)?, Arc::new(clock::now));
        let failed = |name: &str, fault: Fault| client.error("count the messages of", name, &fault);
        let start = format!("{release}-");
        let mut queues = Counted::new();
        let names = client.names(&start).await.map_err(|fault| failed(&start, fault))?;
        let dead: Vec<String> = names.iter().filter_map(|name| client.place.dead_letters_of(name)).collect();
        // Dead letters keep no release from being drained.
        for name in names.into_iter().filter(|name| !dead.contains(name)) {
            let counts = client.counts(&name).await.map_err(|fault| failed(&name, fault))?;
            let states = [JobState::Waiting, JobState::Delayed, JobState::Running];
            let jobs = states.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect();
            queues.insert(name.as_str().into(), QueueCounts { jobs, ..QueueCounts::default() });
        }
        Ok(Some(queues))
    }

    fn look(&self, at: &Address) -> Result<(), Error> {
        Bodies::of(&Place::of(at)?).map(drop)
    }

    fn open(&self, at: &Address, how: &Opening) -> Result<Broker, Error> {
        let options = sqlite::Options { serves: how.serves, ..sqlite::Options::default() };
        AmazonSqs::open_with(at, &how.state_dir, options)
    }
}

impl AmazonSqs {
    /// Opens the broker of a URL, with given options for the store of its ledger. Their clock is the broker's, too.
    pub fn open_with(url: &Address, state_dir: &Path, mut options: sqlite::Options) -> Result<Broker, Error> {
        let place = Place::of(url)?;
        let bodies = Bodies::of(&place)?;
        let titles = bodies.titles();
        options.world.title = Arc::new(move |class: &Class, payload: &Payload| titles.of(class, payload));
        let client = Client::new(place, options.world.now.clone());
        let sqs = Arc::new(Sqs::new(client, bodies, Ledger::open_in(state_dir, options)?));
        Ok(with_ledger(&CARD, sqs))
    }
}
