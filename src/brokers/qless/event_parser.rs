//! Reads the messages of two Redis channels as job events.

use serde::Deserialize;
use serde_json::Value;

use model::{JobId, JobState, Millis, PublishedEvent, QueueName, What};

/// Both are read on one connection, so that messages keep their order.
pub(super) const CHANNELS: [&str; 2] = ["ql:log", "ql:taskvisor:news"];

/// A message about a job.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    /// From our script.
    PublishedEvent(Box<PublishedEvent>),
    /// From another program, on qless's own channel.
    Line(Line),
}

impl Spoken {
    /// The job, if more must be looked up about it.
    pub(super) fn unknown(&self) -> Option<&str> {
        match self {
            Spoken::Line(line) => Some(line.job.as_str()),
            Spoken::PublishedEvent(_) => None,
        }
    }
}

/// A message of another program's script about a job.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    what: What,
    job: JobId,
    queue: Option<QueueName>,
    /// The state of the job that follows from the message; None = look it up.
    state: Option<JobState>,
}

/// Facts looked up about a message's job.
#[derive(Default)]
pub(super) struct About {
    /// Time of their look-up.
    pub(super) at: Option<Millis>,
    pub(super) queue: String,
    pub(super) state: Option<JobState>,
    pub(super) tags: Vec<String>,
}

/// Reads messages, in their order.
#[derive(Default)]
pub(super) struct Reader {
    /// Whether the next line on `ql:log` comes from our script, which also sends it as an event.
    is_ours: bool,
}

impl Reader {
    pub(super) fn read(&mut self, channel: &str, text: &[u8]) -> Option<Spoken> {
        let text = String::from_utf8_lossy(text);
        if channel != CHANNELS[0] {
            // Our script sends an empty message here before each of its lines on `ql:log`.
            self.is_ours = text.is_empty();
            return read_news(&text).map(Box::new).map(Spoken::PublishedEvent);
        }
        if std::mem::take(&mut self.is_ours) {
            return None;
        }
        read_line(&text).map(Spoken::Line)
    }
}

/// An event as our script writes it.
#[derive(Deserialize)]
struct PubsubMessage {
    at: i64,
    what: What,
    job: JobId,
    queue: Option<String>,
    class: Option<String>,
    /// JSON as stored, perhaps by another program.
    tags: Option<String>,
    state: JobState,
    why: Option<String>,
}

fn read_news(text: &str) -> Option<PublishedEvent> {
    if text.is_empty() {
        return None;
    }
    let Ok(told) = serde_json::from_str::<PubsubMessage>(text) else {
        // A newer version of our script may use words that this one does not know.
        return Some(PublishedEvent {
            count: Some(1),
            ..PublishedEvent::new(What::Lost, Millis(clock::wall_millis()))
        });
    };
    let tags = told.tags.and_then(|tags| serde_json::from_str(&tags).ok());
    Some(PublishedEvent {
        job: Some(told.job),
        queue: some_queue(told.queue.unwrap_or_default()),
        class: told.class.map(Into::into),
        tags: tags.unwrap_or_default(),
        state: Some(told.state),
        why: told.why,
        ..PublishedEvent::new(told.what, Millis(told.at))
    })
}

fn some_queue(name: String) -> Option<QueueName> {
    (!name.is_empty()).then(|| name.into())
}

fn read_line(text: &str) -> Option<Line> {
    let said: Value = serde_json::from_str(text).ok()?;
    let part = |name: &str| said.get(name).and_then(Value::as_str);
    let (what, state) = match part("event")? {
        "put" => (What::Put, None),
        "completed" => (What::Complete, Some(JobState::Complete)),
        "advanced" => (What::Advanced, None),
        "failed" => (What::Failed, Some(JobState::Failed)),
        "lock_lost" => (What::LockLost, None),
        // This message also comes about other things than jobs: then it has no queue.
        "canceled" if part("queue").is_some() => (What::Canceled, Some(JobState::Canceled)),
        _ => return None,
    };
    let queue = part(if what == What::Advanced { "to" } else { "queue" });
    Some(Line { what, job: part("jid")?.into(), queue: queue.map(Into::into), state })
}

impl Line {
    /// Makes an event. The facts may be newer than the message, or the job may be gone.
    pub(super) fn news(self, about: About) -> PublishedEvent {
        // After a lost lock there is a grace, in which the job belongs to no other worker.
        let runs = |state: &JobState| matches!(state, JobState::Running | JobState::Canceling);
        let may_be = |state: &JobState| !state.has_ended() && (self.what == What::LockLost || !runs(state));
        let asked = || about.state.filter(may_be).unwrap_or(JobState::Waiting);
        PublishedEvent {
            job: Some(self.job),
            queue: self.queue.or_else(|| some_queue(about.queue)),
            tags: about.tags,
            state: Some(self.state.unwrap_or_else(asked)),
            ..PublishedEvent::new(self.what, about.at.unwrap_or_else(|| Millis(clock::wall_millis())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(what: What, queue: Option<&str>) -> Option<Spoken> {
        Some(Spoken::Line(Line { what, job: "a".into(), queue: queue.map(Into::into), state: None }))
    }

    #[test]
    fn log_line_of_our_script_is_skipped_in_favour_of_its_event() {
        let mut reader = Reader::default();
        let put = br#"{"jid":"a","event":"put","queue":"q"}"#;
        assert_eq!(reader.read("ql:log", put), line(What::Put, Some("q")));
        assert_eq!(reader.read("ql:taskvisor:news", b""), None);
        assert_eq!(reader.read("ql:log", put), None);
        let told = br#"{"what":"put","at":7,"job":"a","queue":"q","tags":"[\"x\"]","state":"delayed"}"#;
        let news = PublishedEvent {
            job: Some("a".into()),
            queue: Some("q".into()),
            tags: vec!["x".into()],
            state: Some(JobState::Delayed),
            ..PublishedEvent::new(What::Put, Millis(7))
        };
        assert_eq!(reader.read("ql:taskvisor:news", told), Some(Spoken::PublishedEvent(Box::new(news))));
        assert_eq!(reader.read("ql:log", put), line(What::Put, Some("q")));
    }

    #[test]
    fn events_of_other_scripts_are_read_and_those_without_a_job_skipped() {
        let read = |text: &str| Reader::default().read("ql:log", text.as_bytes());
        assert_eq!(
            read(r#"{"jid":"a","to":"next","event":"advanced","queue":"q"}"#),
            line(What::Advanced, Some("next"))
        );
        assert_eq!(read(r#"{"jid":"a","event":"lock_lost","worker":"w"}"#), line(What::LockLost, None));
        let nobody = r#"{"jid":"a","queue":false,"event":"canceled","worker":false}"#;
        for text in [nobody, r#"{"option":"x","event":"config_set","value":"1"}"#, "no JSON", "[]"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn state_that_contradicts_the_event_is_not_published() {
        let of = |event: &str, state: JobState| {
            let line = read_line(&format!(r#"{{"jid":"a","event":"{event}"}}"#)).unwrap();
            let news = line.news(About { state: Some(state), queue: "q".into(), ..About::default() });
            assert_eq!(news.queue, Some("q".into()));
            news.state.unwrap()
        };
        assert_eq!(of("put", JobState::Delayed), JobState::Delayed);
        assert_eq!(of("put", JobState::Complete), JobState::Waiting);
        assert_eq!(of("completed", JobState::Waiting), JobState::Complete);
        assert_eq!(of("lock_lost", JobState::Running), JobState::Running);
    }

    #[test]
    fn unreadable_event_is_published_as_lost() {
        let told = Reader::default().read(CHANNELS[1], br#"{"what":"new kind","job":"a"}"#);
        assert!(
            matches!(told, Some(Spoken::PublishedEvent(news)) if news.what == What::Lost && news.count == Some(1))
        );
    }
}
