//! The requests to SQS in the form of the service: one queue, one batch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_sqs::Client as Aws;
use aws_sdk_sqs::error::BuildError;
use aws_sdk_sqs::operation::get_queue_attributes::GetQueueAttributesOutput;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
    MessageAttributeValue, MessageSystemAttributeName, QueueAttributeName, SendMessageBatchRequestEntry,
};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::address::Place;
use super::coalesce::Outcome;
use super::connect::connect;
use super::fault::Fault;
use super::redrive::Redrive;
use super::silence::Silence;
use broker::Error;
use common::lock;
use model::{Instant, JobId, Millis};

/// The attribute of a message that names its job.
pub(super) const JOB: &str = "taskvisor-job";

/// A message as SQS delivers it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub id: String,
    /// The id of its job: from the attribute, else the message's own id. So a job that goes on in another message keeps
    /// its id.
    pub job: String,
    pub handle: String,
    pub body: String,
    /// How often it was delivered, including this time.
    pub received: u32,
    /// The message group in a FIFO or fair queue.
    pub group: Option<String>,
    /// When it was sent.
    pub sent: Option<Millis>,
}

impl Message {
    /// Its job and the number of this delivery.
    pub(crate) fn delivery(&self) -> (JobId, u32) {
        (self.job.as_str().into(), self.received)
    }
}

/// A message to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub body: String,
    pub delay: Duration,
    pub group: Option<String>,
    /// Deduplication id in a FIFO queue: a second message with the same id is dropped.
    pub once: Option<String>,
    /// Attributes to send beside the body.
    pub notes: Vec<(&'static str, String)>,
}

/// A change of the time for which a message is hidden.
#[derive(Clone, Debug)]
pub(super) struct Hide {
    pub handle: String,
    /// How long it is hidden from now on; 0 = visible at once.
    pub time: Duration,
    /// When the delivery of this handle ends by itself. Nothing is sent after that: some services take the handle of an
    /// earlier delivery for the next one, and would make a message visible that another client works on.
    pub until: Instant,
}

/// Tells the time since boot; tests move it.
pub(super) type Now = Arc<dyn Fn() -> Instant + Send + Sync>;

/// The connection to the service.
pub(super) struct Client {
    pub place: Place,
    /// The boot-time clock.
    pub now: Now,
    aws: OnceCell<Aws>,
    urls: Mutex<HashMap<String, String>>,
    /// When queues were missing for the last time.
    missing: Mutex<HashMap<String, Instant>>,
    silence: Silence,
}

impl Client {
    pub(super) fn new(place: Place, now: Now) -> Client {
        let (urls, missing, silence) = Default::default();
        Client { place, now, aws: OnceCell::new(), urls, missing, silence }
    }

    /// What is wrong, if the service does not answer.
    pub(super) fn silence(&self) -> Option<String> {
        self.silence.told((self.now)())
    }

    /// The region in which it looks for queues, as far as it is known, and the endpoint if there is one.
    pub(super) fn whereabouts(&self) -> String {
        let known = self.aws.get().and_then(|aws| Some(aws.config().region()?.to_string()));
        let region = known.unwrap_or_else(|| self.place.region.clone());
        let of_url = self.place.endpoint.iter().map(|url| format!("at {url}"));
        let all: Vec<String> =
            (!region.is_empty()).then(|| format!("in {region}")).into_iter().chain(of_url).collect();
        if all.is_empty() { "here".into() } else { all.join(" ") }
    }

    /// The error for a request named `what` on a queue.
    pub(super) fn error(&self, what: &str, queue: &str, fault: &Fault) -> Error {
        fault.error(what, queue, &self.whereabouts(), self.place.create)
    }

    /// Makes a request that is to be answered at once.
    async fn ask<T>(&self, asked: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        self.silence.note(&*self.now, Duration::ZERO, asked).await
    }

    /// The SDK's client, made at the first request.
    async fn aws(&self) -> Result<&Aws, Fault> {
        self.aws.get_or_try_init(|| connect(&self.place)).await
    }

    /// The URL of a queue, which is made if the settings say so.
    async fn url(&self, name: &str) -> Result<String, Fault> {
        if let Some(url) = lock(&self.urls).get(name).cloned() {
            return Ok(url);
        }
        let found = self.aws().await?.get_queue_url().queue_name(name).send().await;
        let url = match found.map_err(Fault::from) {
            Ok(found) => found.queue_url.unwrap_or_default(),
            Err(Fault::NoQueue) if self.place.create => self.create(name).await?,
            Err(fault) => return Err(fault),
        };
        lock(&self.urls).insert(name.to_owned(), url.clone());
        Ok(url)
    }

    /// Whether there is such a queue. None is made.
    pub(super) async fn is_there(&self, name: &str) -> Result<bool, Fault> {
        match self.aws().await?.get_queue_url().queue_name(name).send().await.map_err(Fault::from) {
            Ok(_) => Ok(true),
            Err(Fault::NoQueue) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    async fn create(&self, name: &str) -> Result<String, Fault> {
        let mut request = self.aws().await?.create_queue().queue_name(name);
        if name.ends_with(".fifo") {
            request = request.attributes(QueueAttributeName::FifoQueue, "true");
        }
        if !self.place.tags.is_empty() {
            request = request.set_tags(Some(self.place.tags.clone().into_iter().collect()));
        }
        Ok(request.send().await?.queue_url.unwrap_or_default())
    }

    /// Forgets the URL of a queue that is gone: it may come back under another one.
    fn check(&self, name: &str, fault: Fault) -> Fault {
        if fault == Fault::NoQueue {
            lock(&self.urls).remove(name);
            lock(&self.missing).insert(name.to_owned(), (self.now)());
        }
        fault
    }

    /// Whether a queue was missing at some time since then: if it is there now, its messages are others.
    pub(super) fn was_missing_since(&self, name: &str, then: Instant) -> bool {
        lock(&self.missing).get(name).is_some_and(|at| *at >= then)
    }

    /// Waits for messages, for `wait` at most. Without a wait SQS may overlook some.
    pub(super) async fn receive(
        &self,
        name: &str,
        most: usize,
        visibility: Duration,
        wait: Duration,
    ) -> Result<Vec<Message>, Fault> {
        let asked = async {
            let url = self.url(name).await?;
            let request = self.aws().await?.receive_message().queue_url(url);
            // Only attributes that are named come along.
            let request = request
                .max_number_of_messages(i32::try_from(most).unwrap_or(1))
                .visibility_timeout(seconds(visibility))
                .wait_time_seconds(seconds(wait))
                .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
                .message_system_attribute_names(MessageSystemAttributeName::MessageGroupId)
                .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
                .message_attribute_names(JOB);
            request.send().await.map_err(|error| self.check(name, error.into()))
        };
        let received = self.silence.note(&*self.now, wait, asked).await?;
        Ok(received.messages.unwrap_or_default().into_iter().map(message).collect())
    }

    /// About how many messages a queue has: visible ones, delayed ones, and those delivered but not deleted.
    pub(super) async fn counts(&self, name: &str) -> Result<[u64; 3], Fault> {
        let all = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        ];
        let answer = self.attributes(name, all.to_vec()).await?;
        let counts = answer.attributes.unwrap_or_default();
        Ok(all.map(|name| counts.get(&name).and_then(|count| count.parse().ok()).unwrap_or(0)))
    }

    async fn attributes(
        &self,
        name: &str,
        all: Vec<QueueAttributeName>,
    ) -> Result<GetQueueAttributesOutput, Fault> {
        let asked = async {
            let url = self.url(name).await?;
            let request = self.aws().await?.get_queue_attributes().queue_url(url);
            let asked = request.set_attribute_names(Some(all)).send();
            asked.await.map_err(|error| self.check(name, error.into()))
        };
        self.ask(asked).await
    }

    /// What a queue lets AWS do with messages that are received too often; None = nothing.
    pub(super) async fn redrive(&self, name: &str) -> Result<Option<Redrive>, Fault> {
        let answer = self.attributes(name, vec![QueueAttributeName::RedrivePolicy]).await?;
        let policy = answer.attributes.and_then(|mut all| all.remove(&QueueAttributeName::RedrivePolicy));
        Ok(policy.and_then(|policy| Redrive::read(&policy)))
    }

    /// The names of all queues that begin this way.
    pub(super) async fn names(&self, start: &str) -> Result<Vec<String>, Fault> {
        let (mut names, mut next) = (Vec::new(), None);
        loop {
            let request = self.aws().await?.list_queues().queue_name_prefix(start).max_results(1000);
            let listed = request.set_next_token(next).send().await.map_err(Fault::from)?;
            // The URL of a queue ends with its name.
            let of_url = |url: &String| url.rsplit('/').next().unwrap_or_default().to_owned();
            names.extend(listed.queue_urls.unwrap_or_default().iter().map(of_url));
            next = listed.next_token;
            if next.is_none() {
                return Ok(names);
            }
        }
    }

    pub(super) async fn delete(self: Arc<Self>, name: String, handles: Vec<String>) -> Vec<Outcome> {
        let entry = |(at, handle): (usize, &String)| {
            DeleteMessageBatchRequestEntry::builder().id(at.to_string()).receipt_handle(handle).build()
        };
        let sent = async {
            let request = self.aws().await?.delete_message_batch().queue_url(self.url(&name).await?);
            let entries = handles.iter().enumerate().map(entry).collect::<Result<_, _>>()?;
            let answer = request.set_entries(Some(entries)).send().await?;
            let done = answer.successful.into_iter().map(|one| (one.id, String::new())).collect();
            Ok((done, answer.failed))
        };
        self.each(&name, handles.len(), self.ask(sent).await, Fault::of_handle)
    }

    /// Changes for how long messages are hidden. One whose delivery is over is visible, and is not sent.
    pub(super) async fn hide(self: Arc<Self>, name: String, all: Vec<Hide>) -> Vec<Outcome> {
        let now = (self.now)();
        let entry = |(at, hide): (usize, &Hide)| {
            ChangeMessageVisibilityBatchRequestEntry::builder()
                .id(at.to_string())
                .receipt_handle(&hide.handle)
                .visibility_timeout(seconds(hide.time))
                .build()
        };
        let open = || all.iter().enumerate().filter(|(_, hide)| hide.until > now);
        let Some(until) = open().map(|(_, hide)| hide.until).min() else {
            return vec![Err(Fault::Visible); all.len()];
        };
        let sent = async {
            let request =
                self.aws().await?.change_message_visibility_batch().queue_url(self.url(&name).await?);
            let entries = open().map(entry).collect::<Result<_, _>>()?;
            let answer = request.set_entries(Some(entries)).send().await?;
            let done = answer.successful.into_iter().map(|one| (one.id, String::new())).collect();
            Ok((done, answer.failed))
        };
        // The SDK sends again by itself, and would do so after the end of a delivery.
        let sent = timeout(until.since(now), self.ask(sent)).await;
        let sent = sent.unwrap_or_else(|_| Err(Fault::Unanswered("the service does not answer".into())));
        let mut answers = self.each(&name, all.len(), sent, Fault::of_handle);
        let over = answers.iter_mut().zip(&all).filter(|(_, hide)| hide.until <= now);
        over.for_each(|(answer, _)| *answer = Err(Fault::Visible));
        answers
    }

    /// Sends messages, and gives the id of each.
    pub(super) async fn send(self: Arc<Self>, name: String, all: Vec<Outgoing>) -> Vec<Outcome> {
        let sent = async {
            let request = self.aws().await?.send_message_batch().queue_url(self.url(&name).await?);
            let entries = all.iter().enumerate().map(outgoing).collect::<Result<_, _>>()?;
            let answer = request.set_entries(Some(entries)).send().await?;
            let done = answer.successful.into_iter().map(|one| (one.id, one.message_id)).collect();
            Ok((done, answer.failed))
        };
        self.each(&name, all.len(), self.ask(sent).await, Fault::of_entry)
    }

    /// The answers of a batch, entry by entry.
    fn each(
        &self,
        name: &str,
        count: usize,
        answer: Result<Answered, Fault>,
        fault: fn(&BatchResultErrorEntry) -> Fault,
    ) -> Vec<Outcome> {
        let (done, failed) = match answer {
            Ok(answer) => answer,
            Err(fault) => return vec![Err(self.check(name, fault)); count],
        };
        // An entry that the answer leaves out counts as failed.
        let mut all = vec![Err(Fault::Other("the service did not say what became of it".into())); count];
        let mut set = |id: &str, outcome| {
            if let Some(one) = id.parse::<usize>().ok().and_then(|at| all.get_mut(at)) {
                *one = outcome;
            }
        };
        done.into_iter().for_each(|(id, said)| set(&id, Ok(said)));
        failed.iter().for_each(|entry| set(&entry.id, Err(fault(entry))));
        all
    }
}

/// The entries that succeeded, with their texts, and those that failed.
type Answered = (Vec<(String, String)>, Vec<BatchResultErrorEntry>);

impl From<BuildError> for Fault {
    fn from(error: BuildError) -> Fault {
        Fault::Other(error.to_string())
    }
}

/// Whole seconds, as the service counts, rounded up.
fn seconds(time: Duration) -> i32 {
    i32::try_from(time.as_millis().div_ceil(1000)).unwrap_or(i32::MAX)
}

fn message(given: aws_sdk_sqs::types::Message) -> Message {
    let attributes = given.attributes.unwrap_or_default();
    let attribute = |name| attributes.get(&name).cloned();
    let id = given.message_id.unwrap_or_default();
    let job =
        given.message_attributes.and_then(|mut notes| notes.remove(JOB)).and_then(|job| job.string_value);
    Message {
        // Anybody who may send can set the attribute.
        job: job.filter(|job| !job.is_empty() && job.len() <= 128).unwrap_or_else(|| id.clone()),
        id,
        handle: given.receipt_handle.unwrap_or_default(),
        body: given.body.unwrap_or_default(),
        received: attribute(MessageSystemAttributeName::ApproximateReceiveCount)
            .and_then(|count| count.parse().ok())
            .unwrap_or(1),
        group: attribute(MessageSystemAttributeName::MessageGroupId),
        sent: attribute(MessageSystemAttributeName::SentTimestamp)
            .and_then(|sent| sent.parse().ok())
            .map(Millis),
    }
}

fn outgoing((at, message): (usize, &Outgoing)) -> Result<SendMessageBatchRequestEntry, BuildError> {
    let mut entry = SendMessageBatchRequestEntry::builder()
        .id(at.to_string())
        .message_body(&message.body)
        .set_message_group_id(message.group.clone())
        .set_message_deduplication_id(message.once.clone());
    // A FIFO queue refuses a delay of a single message, even one of 0 s.
    if !message.delay.is_zero() {
        entry = entry.delay_seconds(seconds(message.delay));
    }
    for (name, text) in &message.notes {
        let value = MessageAttributeValue::builder().data_type("String").string_value(text).build()?;
        entry = entry.message_attributes(*name, value);
    }
    entry.build()
}
