//! How lists and `job show` name a task of kale: by its call.

use kale::{Codec, Message};
use model::{Class, JobRecord, Payload};

/// The largest pickle that a list looks into, and `job show`, in bytes.
const PICKLES: (usize, usize) = (64 << 10, 1 << 20);
/// Limits of the characters of a call in a list, and in `job show`.
const CALLS: (usize, usize) = (80, 800);

/// Reads the tasks of kale that the key opens.
#[derive(Clone, Debug)]
pub(super) struct Titles(pub Option<Codec>);

impl Titles {
    /// The title of a job in a list.
    pub(super) fn of(&self, class: &Class, payload: &Payload) -> String {
        let task = self.task(payload, PICKLES.0);
        task.map_or_else(|| payload.title(class), |task| task.call(CALLS.0))
    }

    /// What a task of kale is, on a line. None = it is none.
    pub(super) fn whole(&self, payload: &Payload) -> Option<String> {
        let task = self.task(payload, PICKLES.1)?;
        Some(format!("{}{}, {}", JobRecord::KALE_TASK, task.call(CALLS.1), task.origin()))
    }

    fn task(&self, payload: &Payload, most: usize) -> Option<Message> {
        let Payload::Data(data) = payload else { return None };
        let codec = self.0.as_ref()?;
        let body: String = serde_json::from_slice(&data.0).ok()?;
        Message::read(&codec.open_within(&body, most).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kale::{Compression, DEFAULT_KEY, Key};

    fn sealed(codec: &Codec, call: &str) -> Payload {
        let sender = kale::Sender { publisher: "host[7]".into(), enqueued_time: 1.0 };
        let message = Message::first("app.Send", "Send_uuid_1".into(), call.as_bytes(), sender).unwrap();
        let body = codec.seal(&message.pickle().unwrap());
        Payload::Data(serde_json::Value::String(body).to_string().as_str().into())
    }

    #[test]
    fn task_of_kale_is_named_by_its_call_where_the_key_opens_it() {
        let codec = Codec::new(Key::new(DEFAULT_KEY, true).unwrap(), Compression::Zlib);
        let payload = sealed(&codec, r#"{"args": ["ann"], "kwargs": {"subject": "hello"}}"#);
        let titles = Titles(Some(codec.clone()));
        let call = "app.Send('ann', subject='hello')";
        assert_eq!(titles.of(&"app.Send".into(), &payload), call);
        let whole = format!("kale task {call}, retry 0, failure 0, published by host[7]");
        assert_eq!(titles.whole(&payload), Some(whole));
        let other = Codec::new(Key::new("another 16 bytes", false).unwrap(), Compression::Zlib);
        for keyless in [Titles(None), Titles(Some(other))] {
            assert_eq!(keyless.whole(&payload), None);
            assert!(keyless.of(&"app.Send".into(), &payload).starts_with("app.Send \""));
        }
        let plain = Payload::Data("[1]".into());
        assert_eq!((titles.of(&"a".into(), &plain), titles.whole(&plain)), ("a [1]".into(), None));
        let large = sealed(&codec, &format!(r#"{{"args": ["{}"]}}"#, "x".repeat(1 << 20)));
        assert_eq!(titles.whole(&large), None, "its pickle is too large to look into");
    }
}
