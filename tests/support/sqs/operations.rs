//! The actions of SQS, without waiting: `server` waits.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::World;
use super::answer::{Answer, Refusal, invalid, missing, no_queue, refusal};
use super::checksum;
use super::queue::{Message, Queue};

/// The largest body, in bytes.
const SIZE_MAX: usize = 1 << 20;

impl World {
    /// Carries out an action, except ReceiveMessage, which may have to wait.
    pub(super) fn act(&mut self, action: &str, given: &Value, origin: &str) -> Answer {
        match action {
            "CreateQueue" => self.create(given, origin),
            "GetQueueUrl" => {
                let name = text(given, "QueueName")?;
                self.queues.get(name).map(|_| json!({"QueueUrl": url(origin, name)})).ok_or_else(no_queue)
            }
            "ListQueues" => {
                let prefix = given["QueueNamePrefix"].as_str().unwrap_or_default();
                let urls: Vec<String> = self
                    .queues
                    .keys()
                    .filter(|name| name.starts_with(prefix))
                    .map(|name| url(origin, name))
                    .collect();
                Ok(if urls.is_empty() { json!({}) } else { json!({"QueueUrls": urls}) })
            }
            "GetQueueAttributes" => self.attributes(given),
            "SetQueueAttributes" => {
                let attributes = attributes(given)?;
                self.queue(given)?.attributes.extend(attributes);
                Ok(json!({}))
            }
            "ListQueueTags" => Ok(json!({"Tags": self.queue(given)?.tags})),
            "SendMessage" => self.send(given),
            "DeleteMessage" => self.delete(given),
            "ChangeMessageVisibility" => self.change_visibility(given),
            "SendMessageBatch" | "DeleteMessageBatch" | "ChangeMessageVisibilityBatch" => {
                self.batch(action.trim_end_matches("Batch"), given)
            }
            "PurgeQueue" => {
                self.queue(given)?.messages.clear();
                Ok(json!({}))
            }
            "DeleteQueue" => {
                let name = self.queue(given)?.name.clone();
                self.queues.remove(&name);
                Ok(json!({}))
            }
            other => Err(refusal(
                "UnsupportedOperation",
                "AWS.SimpleQueueService.UnsupportedOperation",
                format!("The fake has no {other}"),
            )),
        }
    }

    fn create(&mut self, given: &Value, origin: &str) -> Answer {
        let name = text(given, "QueueName")?;
        let stem = name.strip_suffix(".fifo").unwrap_or(name);
        let letters = stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        if name.len() > 80 || stem.is_empty() || !letters {
            return Err(invalid(
                "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
            ));
        }
        let attributes = attributes(given)?;
        let fifo = attributes.get("FifoQueue").is_some_and(|value| value == "true");
        if fifo != name.ends_with(".fifo") {
            return Err(invalid("The name of a FIFO queue can only end with '.fifo', and must"));
        }
        if let Some(queue) = self.queues.get(name) {
            let same = attributes
                .iter()
                .all(|(name, value)| queue.attributes.get(name).is_none_or(|old| old == value));
            return if same {
                Ok(json!({"QueueUrl": url(origin, name)}))
            } else {
                Err(refusal(
                    "QueueNameExists",
                    "QueueAlreadyExists",
                    "A queue already exists with the same name and a different value for attribute",
                ))
            };
        }
        let tags = given.get("tags").cloned().unwrap_or_else(|| json!({}));
        let queue = Queue {
            name: name.into(),
            attributes,
            tags,
            messages: Vec::new(),
            sent: BTreeMap::new(),
            jobs: BTreeMap::new(),
            shown: None,
        };
        self.queues.insert(name.into(), queue);
        Ok(json!({"QueueUrl": url(origin, name)}))
    }

    fn attributes(&mut self, given: &Value) -> Answer {
        let (now, stale) = (self.now(), self.knobs.stale_counts);
        let queue = self.queue(given)?;
        queue.shown = stale.then(|| queue.shown.unwrap_or_else(|| queue.counts(now)));
        let names: Vec<&str> =
            given["AttributeNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let told: Map<String, Value> = queue
            .told(now)
            .into_iter()
            .filter(|(name, _)| names.contains(&name.as_str()) || names.contains(&"All"))
            .map(|(name, value)| (name, Value::String(value)))
            .collect();
        Ok(json!({"Attributes": told}))
    }

    pub(super) fn send(&mut self, given: &Value) -> Answer {
        let now = self.now();
        let serial = self.next();
        let queue = self.queue(given)?;
        let body = text(given, "MessageBody")?;
        check_body(body)?;
        let group = given["MessageGroupId"].as_str().map(str::to_owned);
        let mut deduplication = given["MessageDeduplicationId"].as_str().map(str::to_owned);
        if queue.is_fifo() {
            deduplication = Some(check_fifo(queue, given)?);
            if let Some(answer) = deduplication.as_ref().and_then(|id| queue.repeated(id, now)) {
                return Ok(answer);
            }
        }
        let delay = ranged(given, "DelaySeconds", 900)?.unwrap_or_else(|| queue.number("DelaySeconds", 0));
        let attributes = given["MessageAttributes"].as_object().cloned().unwrap_or_default();
        let md5_attributes = checksum::of_attributes(&attributes);
        let id = format!("00000000-0000-4000-8000-{serial:012x}");
        let sequence = queue.is_fifo().then(|| format!("{serial:020}"));
        let mut answer = json!({"MessageId": id, "MD5OfMessageBody": checksum::of_body(body)});
        if let Some(md5) = &md5_attributes {
            answer["MD5OfMessageAttributes"] = json!(md5);
        }
        if let Some(sequence) = &sequence {
            answer["SequenceNumber"] = json!(sequence);
        }
        if let Some(id) = deduplication.clone().filter(|_| queue.is_fifo()) {
            queue.sent.insert(id, (now, answer.clone()));
        }
        if let Some(job) = attributes.get("taskvisor-job").and_then(|job| job["StringValue"].as_str()) {
            *queue.jobs.entry(job.to_owned()).or_default() += 1;
        }
        queue.messages.push(Message {
            id,
            body: body.into(),
            attributes,
            md5_attributes,
            group,
            deduplication,
            sequence,
            sent: now,
            first_received: 0,
            last_received: 0,
            receives: 0,
            visible: now + delay * 1000,
            handle: String::new(),
            source: None,
        });
        Ok(answer)
    }

    pub(super) fn delete(&mut self, given: &Value) -> Answer {
        self.refuse_expired(given)?;
        let (now, handle) = (self.now(), text(given, "ReceiptHandle")?);
        if self.knobs.undeleted {
            self.queue(given)?.change_visibility(handle, 0, now, false)?;
        } else {
            self.queue(given)?.delete(handle, now)?;
        }
        Ok(json!({}))
    }

    pub(super) fn change_visibility(&mut self, given: &Value) -> Answer {
        self.refuse_expired(given)?;
        let now = self.now();
        let seconds =
            ranged(given, "VisibilityTimeout", 43_200)?.ok_or_else(|| missing("VisibilityTimeout"))?;
        let (old, code) = (self.knobs.old_handles, self.knobs.handle_code);
        let changed = self.queue(given)?.change_visibility(text(given, "ReceiptHandle")?, seconds, now, old);
        changed.map_err(|refusal| match code {
            Some(code) => Refusal { code, ..refusal },
            None => refusal,
        })?;
        Ok(json!({}))
    }

    fn refuse_expired(&self, given: &Value) -> Result<(), Refusal> {
        if !self.knobs.expired_handles {
            return Ok(());
        }
        let handle = given["ReceiptHandle"].as_str().unwrap_or_default();
        let message = format!(
            "Value {handle} for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."
        );
        Err(invalid(message))
    }

    /// The messages that can be received at once; `None` if there are none.
    pub(super) fn receive(&mut self, given: &Value) -> Result<Option<Value>, Refusal> {
        let now = self.now();
        let most = match ranged(given, "MaxNumberOfMessages", 10)? {
            Some(0) => {
                return Err(invalid(
                    "Value 0 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
                ));
            }
            most => usize::try_from(most.unwrap_or(1)).expect("at most 10"),
        };
        let asked = ranged(given, "VisibilityTimeout", 43_200)?;
        let reorder = self.knobs.reorder;
        self.bury(given, now)?;
        let queue = self.queue(given)?;
        let visibility = asked.unwrap_or_else(|| queue.number("VisibilityTimeout", 30));
        let (name, fifo) = (queue.name.clone(), queue.is_fifo());
        let places = queue.ready(most, now, reorder);
        let mut messages = Vec::new();
        for place in places {
            let serial = self.next();
            let again = !fifo && self.happens(self.knobs.duplicates);
            let message = &mut self.queue(given)?.messages[place];
            message.receives += 1;
            message.last_received = now;
            message.first_received = if message.receives == 1 { now } else { message.first_received };
            message.visible = if again { now } else { now + visibility * 1000 };
            message.handle = format!("{name}/{}/{serial}", message.id);
            messages.push(Queue::given(message, given, &given["MessageAttributeNames"]));
        }
        Ok((!messages.is_empty()).then(|| json!({"Messages": messages})))
    }

    /// Moves messages that were received too often to the dead-letter queue.
    fn bury(&mut self, given: &Value, now: u64) -> Result<(), Refusal> {
        let queue = self.queue(given)?;
        let Some((target, most)) = queue.redrive() else { return Ok(()) };
        let source = format!("arn:aws:sqs:us-east-1:123456789012:{}", queue.name);
        let (dead, alive) = std::mem::take(&mut queue.messages)
            .into_iter()
            .partition(|message| message.visible <= now && message.receives >= most);
        queue.messages = alive;
        let dead: Vec<Message> = dead;
        if let Some(target) = self.queues.get_mut(&target) {
            target
                .messages
                .extend(dead.into_iter().map(|message| Message { source: Some(source.clone()), ..message }));
        }
        Ok(())
    }

    pub(super) fn queue(&mut self, given: &Value) -> Result<&mut Queue, Refusal> {
        let name = text(given, "QueueUrl")?.rsplit('/').next().unwrap_or_default();
        self.queues.get_mut(name).ok_or_else(no_queue)
    }
}

pub(super) fn text<'a>(given: &'a Value, name: &str) -> Result<&'a str, Refusal> {
    given[name].as_str().ok_or_else(|| missing(name))
}

/// Refuses characters that XML does not allow.
fn check_body(body: &str) -> Result<(), Refusal> {
    if body.is_empty() || body.len() > SIZE_MAX {
        return Err(invalid(
            "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.",
        ));
    }
    if body.chars().any(|char| matches!(char, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')) {
        return Err(refusal("InvalidMessageContents", "InvalidMessageContents", "Invalid characters found. Valid unicode characters are XML's."));
    }
    Ok(())
}

/// Refuses messages that a FIFO queue does not accept; returns the deduplication id.
fn check_fifo(queue: &Queue, given: &Value) -> Result<String, Refusal> {
    text(given, "MessageGroupId")?;
    if given["DelaySeconds"].as_u64().is_some_and(|delay| delay > 0) {
        return Err(invalid(
            "Value for parameter DelaySeconds is invalid. Reason: The request include parameter that is not valid for this queue type.",
        ));
    }
    let by_content = queue.attributes.get("ContentBasedDeduplication").is_some_and(|value| value == "true");
    match given["MessageDeduplicationId"].as_str() {
        Some(id) => Ok(id.to_owned()),
        None if by_content => Ok(checksum::of_content(text(given, "MessageBody")?)),
        None => Err(invalid(
            "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly",
        )),
    }
}

/// An optional whole number up to `most`.
pub(super) fn ranged(given: &Value, name: &str, most: u64) -> Result<Option<u64>, Refusal> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_u64().filter(|value| *value <= most).map(Some).ok_or_else(|| {
            invalid(format!("Value {value} for parameter {name} is invalid. Reason: Must be between 0 and {most}, if provided."))
        }),
    }
}

fn attributes(given: &Value) -> Result<BTreeMap<String, String>, Refusal> {
    let ranges = [
        ("VisibilityTimeout", 0, 43_200),
        ("DelaySeconds", 0, 900),
        ("ReceiveMessageWaitTimeSeconds", 0, 20),
        ("MessageRetentionPeriod", 60, 1_209_600),
    ];
    let mut attributes = BTreeMap::new();
    for (name, value) in given["Attributes"].as_object().into_iter().flatten() {
        let value =
            value.as_str().ok_or_else(|| invalid(format!("Invalid value for the parameter {name}.")))?;
        if let Some((_, least, most)) = ranges.iter().find(|(range, _, _)| range == name)
            && !value.parse::<u64>().is_ok_and(|number| (*least..=*most).contains(&number))
        {
            return Err(refusal(
                "InvalidAttributeValue",
                "InvalidAttributeValue",
                format!("Invalid value for the parameter {name}."),
            ));
        }
        attributes.insert(name.clone(), value.to_owned());
    }
    Ok(attributes)
}

fn url(origin: &str, name: &str) -> String {
    format!("http://{origin}/123456789012/{name}")
}
