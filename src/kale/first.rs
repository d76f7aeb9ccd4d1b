//! The first message of a task, made from the JSON of its call.

use serde_json::{Map, Value as Json};

use super::message::Message;
use super::pickle::Value;

/// The sender of a task, and the time.
#[derive(Clone, Debug, PartialEq)]
pub struct Sender {
    /// The sender, as `host[pid]`: its `_publisher`.
    pub publisher: String,
    /// Seconds since 1970, its `_enqueued_time`.
    pub enqueued_time: f64,
}

impl Message {
    /// The message that kale's own publisher would send for a call of `task`. `data` is JSON: `{"args": […], "kwargs":
    /// {…}, "app_data": …}`; each of these may be missing. `Err` says what is wrong with it.
    pub fn first(task: &str, id: String, data: &[u8], sender: Sender) -> Result<Message, String> {
        let wanted = r#"the data of a task of kale is {"args": […], "kwargs": {…}, "app_data": …}"#;
        // kale's workers import the part before the last dot.
        if task.rsplit_once('.').is_none_or(|(module, class)| module.is_empty() || class.is_empty()) {
            return Err(format!("'{task}' is no task of kale: name its class as module.Class"));
        }
        let call: Option<Map<String, Json>> =
            serde_json::from_slice(data).map_err(|error| format!("{wanted}: {error}"))?;
        let mut call = call.unwrap_or_default();
        let mut part = |name: &str| call.remove(name).unwrap_or(Json::Null);
        let args = match part("args") {
            Json::Null => Vec::new(),
            Json::Array(args) => args,
            other @ (Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_)) => {
                return Err(format!("{wanted}: its args are no list, but {other}"));
            }
        };
        let kwargs = match part("kwargs") {
            Json::Null => Map::new(),
            Json::Object(kwargs) => kwargs,
            other @ (Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) => {
                return Err(format!("{wanted}: its kwargs are no object, but {other}"));
            }
        };
        let app_data = value(part("app_data"))?;
        // A key that is left is likely misspelt, and its value would be lost without a word.
        if let Some(other) = call.keys().next() {
            return Err(format!("{wanted}: it has no '{other}'"));
        }
        Ok(Message {
            id,
            task: task.to_owned(),
            args: Value::Tuple(args.into_iter().map(value).collect::<Result<_, _>>()?),
            kwargs: value(Json::Object(kwargs))?,
            app_data,
            enqueued_time: sender.enqueued_time,
            publisher: sender.publisher,
            retry_num: 0,
            failure_num: 0,
        })
    }
}

/// The value as Python's `json` would read it.
fn value(json: Json) -> Result<Value, String> {
    Ok(match json {
        Json::Null => Value::None,
        Json::Bool(is) => Value::Bool(is),
        Json::String(text) => Value::Str(text),
        Json::Array(items) => Value::List(items.into_iter().map(value).collect::<Result<_, _>>()?),
        Json::Object(entries) => {
            let entry = |(key, item)| Ok((Value::Str(key), value(item)?));
            Value::Dict(entries.into_iter().map(entry).collect::<Result<_, String>>()?)
        }
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(whole), ..) => Value::Int(whole),
            // Its highest bit is set, but it is not negative.
            (None, Some(large), _) => Value::Big([&large.to_le_bytes()[..], &[0]].concat()),
            // A float without a fraction may stand for an integer with more digits than a float can hold.
            (None, None, Some(float)) if float.abs() < 9.0e15 || float.fract() != 0.0 => Value::Float(float),
            _ => {
                return Err(format!(
                    "the number {number} has more digits than can be sent: send it as a text"
                ));
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender() -> Sender {
        Sender { publisher: "host[7]".into(), enqueued_time: 123.5 }
    }

    fn first(data: &str) -> Result<Message, String> {
        Message::first("kb_tasks.Noop", "Noop_uuid_1".into(), data.as_bytes(), sender())
    }

    #[test]
    fn first_message_equals_that_of_kale() {
        let body = "1GNz/Z9Er5ScPmFGe4vmXpA2hCU+MXANhTSXtT6qAYd7VkAbXsjHBSB6i/53z1/v3INElyr5qlYi6D4SMrS3+qE7/WlgNLYDl/jvw9GBg1lCYB0aB5JTfBcHRDpE9QU3/qHybUQm6Uo68ti6BzvEHFFlo/xVJpVd1nNiSDmfTNd9CRKlW1Jfe4I2hAdmvPyYsyeGha7ovcLRKaaN/VhMCilSES0sAnbLhfo11PbhYBI=";
        let key = super::super::Key::new(super::super::DEFAULT_KEY, true).unwrap();
        let codec = super::super::Codec::new(key, super::super::Compression::Zlib);
        let theirs = Message::read(&codec.open(body).unwrap()).unwrap();
        let ours = first(r#"{"args": [1, "two"], "kwargs": {"k": null}}"#).unwrap();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn missing_arguments_are_empty() {
        for data in ["null", "{}", r#"{"args": [], "kwargs": {}, "app_data": null}"#] {
            let message = first(data).unwrap();
            assert_eq!((message.args, message.app_data), (Value::Tuple(vec![]), Value::None), "{data}");
            assert_eq!(message.kwargs, Value::Dict(vec![]), "{data}");
        }
    }

    #[test]
    fn numbers_keep_their_digits_or_are_refused() {
        let arg = |text: &str| first(&format!(r#"{{"args": [{text}]}}"#)).map(|message| message.args);
        assert_eq!(arg("-5"), Ok(Value::Tuple(vec![Value::Int(-5)])));
        assert_eq!(arg("1.5"), Ok(Value::Tuple(vec![Value::Float(1.5)])));
        let large = Value::Big(vec![255, 255, 255, 255, 255, 255, 255, 255, 0]);
        assert_eq!(arg("18446744073709551615"), Ok(Value::Tuple(vec![large])));
        assert!(arg("18446744073709551616").unwrap_err().contains("as a text"));
    }

    #[test]
    fn invalid_calls_are_refused_with_the_reason() {
        for (data, word) in [
            ("[1]", "args"),
            (r#"{"args": 1}"#, "no list"),
            (r#"{"kwargs": [1]}"#, "no object"),
            (r#"{"to": "ann"}"#, "'to'"),
        ] {
            let why = first(data).unwrap_err();
            assert!(why.contains(word), "{data}: {why}");
        }
        let why = Message::first("Noop", "1".into(), b"{}", sender()).unwrap_err();
        assert!(why.contains("module.Class"), "{why}");
    }
}
