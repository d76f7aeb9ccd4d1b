//! A queue and its messages. Times are milliseconds since 1970.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::answer::{Refusal, invalid, refusal};

/// The deduplication interval.
const DEDUPLICATION: u64 = 5 * 60 * 1000;

/// The longest time a message may be invisible after a receive, in seconds.
const LONGEST: u64 = 43_200;

/// A queue.
#[derive(Clone)]
pub struct Queue {
    pub name: String,
    pub attributes: BTreeMap<String, String>,
    pub tags: Value,
    pub messages: Vec<Message>,
    /// When each deduplication id was sent, with the answer.
    pub sent: BTreeMap<String, (u64, Value)>,
    /// How many messages were sent for each job that they name.
    pub jobs: BTreeMap<String, u64>,
    /// The counts shown while counts are stale.
    pub shown: Option<[usize; 3]>,
}

/// A message.
#[derive(Clone)]
pub struct Message {
    pub id: String,
    pub body: String,
    pub attributes: Map<String, Value>,
    pub md5_attributes: Option<String>,
    pub group: Option<String>,
    pub deduplication: Option<String>,
    pub sequence: Option<String>,
    pub sent: u64,
    pub first_received: u64,
    pub last_received: u64,
    pub receives: u64,
    pub visible: u64,
    pub handle: String,
    /// The source queue of a redriven message.
    pub source: Option<String>,
}

impl Message {
    fn in_flight(&self, now: u64) -> bool {
        self.receives > 0 && self.visible > now
    }
}

impl Queue {
    pub fn is_fifo(&self) -> bool {
        self.name.ends_with(".fifo")
    }

    /// A numeric attribute of the queue.
    pub fn number(&self, name: &str, default: u64) -> u64 {
        self.attributes.get(name).and_then(|value| value.parse().ok()).unwrap_or(default)
    }

    /// The answer to the first message with this deduplication id, if it was sent within five minutes.
    pub fn repeated(&mut self, id: &str, now: u64) -> Option<Value> {
        self.sent.retain(|_, (at, _)| *at + DEDUPLICATION > now);
        self.sent.get(id).map(|(_, answer)| answer.clone())
    }

    /// The dead-letter queue and the number of receives after which a message moves there.
    pub fn redrive(&self) -> Option<(String, u64)> {
        let policy: Value = serde_json::from_str(self.attributes.get("RedrivePolicy")?).ok()?;
        let most = policy["maxReceiveCount"]
            .as_u64()
            .or_else(|| policy["maxReceiveCount"].as_str()?.parse().ok())?;
        Some((policy["deadLetterTargetArn"].as_str()?.rsplit(':').next()?.to_owned(), most))
    }

    /// Number of visible, in-flight and delayed messages.
    pub fn counts(&self, now: u64) -> [usize; 3] {
        let count =
            |is: &dyn Fn(&Message) -> bool| self.messages.iter().filter(|message| is(message)).count();
        let visible = count(&|message| message.visible <= now);
        let in_flight = count(&|message| message.in_flight(now));
        [visible, in_flight, self.messages.len() - visible - in_flight]
    }

    /// When the next invisible message becomes visible.
    pub fn next_visible(&self, now: u64) -> Option<u64> {
        self.messages.iter().map(|message| message.visible).filter(|visible| *visible > now).min()
    }

    /// The positions of messages that may be received now, at most `most`. A FIFO queue holds back the group of a
    /// message in flight.
    pub fn ready(&self, most: usize, now: u64, newest_first: bool) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.messages.len()).collect();
        if newest_first && !self.is_fifo() {
            places.reverse();
        }
        let mut busy: BTreeSet<&Option<String>> = BTreeSet::new();
        let mut ready = Vec::new();
        for place in places {
            let message = &self.messages[place];
            if message.visible > now {
                busy.insert(&message.group);
            } else if ready.len() < most && !(self.is_fifo() && busy.contains(&message.group)) {
                ready.push(place);
            }
        }
        ready
    }

    /// Deletes by a handle. A standard queue answers success also to an old handle, and deletes nothing then.
    pub fn delete(&mut self, handle: &str, now: u64) -> Result<(), Refusal> {
        let (id, current) = self.by_handle(handle)?;
        let Some(place) = self.messages.iter().position(|message| message.id == id) else { return Ok(()) };
        let message = &self.messages[place];
        if self.is_fifo() && (message.handle != current || !message.in_flight(now)) {
            let message = format!(
                "Value {handle} for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."
            );
            return Err(invalid(message));
        }
        if message.handle == current {
            self.messages.remove(place);
        }
        Ok(())
    }

    /// Sets when a message in flight becomes visible, in seconds from now; `old` = by any of its handles.
    pub fn change_visibility(
        &mut self,
        handle: &str,
        seconds: u64,
        now: u64,
        old: bool,
    ) -> Result<(), Refusal> {
        let (id, current) = self.by_handle(handle)?;
        let gone = || {
            invalid(format!(
                "Value {handle} for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for \
                 visibility timeout change."
            ))
        };
        let message = self.messages.iter_mut().find(|message| message.id == id).ok_or_else(gone)?;
        if message.handle != current && !old {
            return Err(gone());
        }
        if !message.in_flight(now) {
            return Err(refusal(
                "MessageNotInflight",
                "AWS.SimpleQueueService.MessageNotInflight",
                "The message is not in flight.",
            ));
        }
        if (now - message.last_received) / 1000 + seconds > LONGEST {
            return Err(invalid(format!(
                "Value {seconds} for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is \
                 beyond the limit [{LONGEST} seconds]"
            )));
        }
        message.visible = now + seconds * 1000;
        Ok(())
    }

    /// The message id in a handle, and the handle.
    fn by_handle<'a>(&self, handle: &'a str) -> Result<(String, &'a str), Refusal> {
        let mut parts = handle.split('/');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(queue), Some(id), Some(_), None) if queue == self.name => Ok((id.to_owned(), handle)),
            _ => Err(refusal(
                "ReceiptHandleIsInvalid",
                "ReceiptHandleIsInvalid",
                format!("The input receipt handle \"{handle}\" is not a valid receipt handle."),
            )),
        }
    }

    /// The answer of GetQueueAttributes.
    pub fn told(&self, now: u64) -> BTreeMap<String, String> {
        let [visible, in_flight, delayed] = self.shown.unwrap_or_else(|| self.counts(now));
        let mut told: BTreeMap<String, String> = [
            ("ApproximateNumberOfMessages", visible.to_string()),
            ("ApproximateNumberOfMessagesNotVisible", in_flight.to_string()),
            ("ApproximateNumberOfMessagesDelayed", delayed.to_string()),
            ("DelaySeconds", "0".into()),
            ("MaximumMessageSize", "1048576".into()),
            ("MessageRetentionPeriod", "345600".into()),
            ("QueueArn", format!("arn:aws:sqs:us-east-1:123456789012:{}", self.name)),
            ("ReceiveMessageWaitTimeSeconds", "0".into()),
            ("VisibilityTimeout", "30".into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        told.extend(self.attributes.clone());
        told
    }

    /// A message as ReceiveMessage returns it.
    pub fn given(message: &Message, wanted: &Value, attributes: &Value) -> Value {
        let names: Vec<&str> = [&wanted["MessageSystemAttributeNames"], &wanted["AttributeNames"]]
            .into_iter()
            .filter_map(Value::as_array)
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let system = [
            ("ApproximateReceiveCount", Some(message.receives.to_string())),
            ("ApproximateFirstReceiveTimestamp", Some(message.first_received.to_string())),
            ("SentTimestamp", Some(message.sent.to_string())),
            ("SenderId", Some("AIDAFAKE".into())),
            ("MessageGroupId", message.group.clone()),
            ("MessageDeduplicationId", message.deduplication.clone()),
            ("SequenceNumber", message.sequence.clone()),
            ("DeadLetterQueueSourceArn", message.source.clone()),
        ];
        let told: Map<String, Value> = system
            .into_iter()
            .filter(|(name, _)| names.contains(name) || names.contains(&"All"))
            .filter_map(|(name, value)| Some((name.to_owned(), Value::String(value?))))
            .collect();
        let mut given = json!({
            "MessageId": message.id, "ReceiptHandle": message.handle, "Body": message.body,
            "MD5OfBody": super::checksum::of_body(&message.body),
        });
        if !told.is_empty() {
            given["Attributes"] = Value::Object(told);
        }
        let all = attributes.as_array().is_some_and(|names| names.iter().any(|name| name == "All"));
        let chosen: Map<String, Value> = message
            .attributes
            .iter()
            .filter(|(name, _)| {
                all || attributes.as_array().is_some_and(|names| names.iter().any(|one| one == name.as_str()))
            })
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if let Some(md5) = super::checksum::of_attributes(&chosen) {
            given["MessageAttributes"] = Value::Object(chosen);
            given["MD5OfMessageAttributes"] = Value::String(md5);
        }
        given
    }
}
