//! The kinds of message text: a job in JSON, a task of kale, or any text.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::codec::{Codec, CodecError};
use super::message::{EnvelopeError, Message};

/// How to read the messages of a queue.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The codec for tasks of kale.
    pub codec: Option<Codec>,
    /// The class for any other text. Only for queues without tasks of kale: a broken task would count as a text.
    pub text_class: Option<String>,
}

/// A message that was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A JSON object with a `class`.
    Native {
        /// The class, which names the code that runs it.
        class: String,
        /// Its data, as JSON text byte by byte; `null` if it has none.
        data: String,
    },
    /// A task of kale.
    Kale(Box<Message>),
    /// A text for the class of its queue.
    Text {
        /// The class, which names the code that runs it.
        class: String,
        /// The text as it came.
        text: String,
    },
}

/// Why a message cannot be read. Each sentence continues "the message is poison: ".
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BodyError {
    /// Neither JSON with a class nor any form that its queue expects.
    #[error(
        "it is no JSON object with a 'class', and its queue has neither a key for tasks of kale nor a class for text"
    )]
    Unknown,
    /// JSON without a class.
    #[error("it is JSON, but its 'class' is not a text")]
    NoClass,
    /// The body is not in kale's form.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The pickle is not a message of kale.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
}

impl Reading {
    /// Reads the text of a message.
    pub fn read(&self, text: &str) -> Result<Body, BodyError> {
        // JSON first: a task of kale is base64, which is never an object.
        if let Ok(object) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text)
            // A text of the queue's own class may be JSON, too.
            && (object.contains_key("class") || self.text_class.is_none())
        {
            let class =
                object.get("class").and_then(|class| serde_json::from_str::<String>(class.get()).ok());
            let class = class.filter(|class| !class.is_empty()).ok_or(BodyError::NoClass)?;
            let data = object.get("data").map_or("null", |data| data.get()).to_owned();
            return Ok(Body::Native { class, data });
        }
        match (&self.codec, &self.text_class) {
            (Some(codec), _) => Ok(Body::Kale(Box::new(Message::read(&codec.open(text)?)?))),
            (None, Some(class)) => Ok(Body::Text { class: class.clone(), text: text.to_owned() }),
            (None, None) => Err(BodyError::Unknown),
        }
    }
}
