//! Errors with the names of SQS.

use serde_json::{Value, json};

/// A refusal: the name of the JSON protocol, the code of the older one, and a sentence.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub name: &'static str,
    pub code: &'static str,
    pub message: String,
    pub status: u16,
}

pub type Answer = Result<Value, Refusal>;

pub fn refusal(name: &'static str, code: &'static str, message: impl Into<String>) -> Refusal {
    Refusal { name, code, message: message.into(), status: 400 }
}

pub fn no_queue() -> Refusal {
    refusal(
        "QueueDoesNotExist",
        "AWS.SimpleQueueService.NonExistentQueue",
        "The specified queue does not exist.",
    )
}

pub fn invalid(message: impl Into<String>) -> Refusal {
    refusal("InvalidParameterValue", "InvalidParameterValue", message)
}

pub fn missing(name: &str) -> Refusal {
    let message = format!("The request must contain the parameter {name}.");
    refusal("MissingParameter", "MissingParameter", message)
}

pub fn throttled() -> Refusal {
    refusal("RequestThrottled", "RequestThrottled", "The request was denied due to request throttling.")
}

pub fn denied() -> Refusal {
    let message = "User: arn:aws:iam::123456789012:user/test is not authorized to perform this action";
    Refusal { status: 403, ..refusal("AccessDeniedException", "AccessDenied", message) }
}

impl Refusal {
    /// The body of the error.
    pub fn body(&self) -> Value {
        json!({"__type": format!("com.amazonaws.sqs#{}", self.name), "message": self.message})
    }

    /// The error as an entry of a batch.
    pub fn entry(&self, id: &str) -> Value {
        json!({"Id": id, "SenderFault": true, "Code": self.code, "Message": self.message})
    }
}
