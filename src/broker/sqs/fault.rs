//! Failures of requests to SQS, as far as they are handled differently.

use aws_sdk_sqs::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};

use crate::broker::Error;

/// Why a request to SQS failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// There is no such queue.
    #[error("there is no such queue")]
    NoQueue,
    /// The handle is not valid any more: the message was delivered to another client, or is gone.
    #[error("the message is not ours any more")]
    NotOurs,
    /// Too many requests.
    #[error("the service asks for fewer requests")]
    Throttled,
    /// The request failed, or may have; why.
    #[error("{0}")]
    Other(String),
}

/// The service's error codes for a handle that is not valid any more.
const NOT_OURS: [&str; 5] = [
    "ReceiptHandleIsInvalid",
    "InvalidParameterValue",
    "MessageNotInflight",
    "AWS.SimpleQueueService.MessageNotInflight",
    "InvalidIdFormat",
];

impl Fault {
    /// The fault for an error code and a message of the service.
    pub(super) fn of_code(code: &str, message: &str) -> Fault {
        match code {
            "QueueDoesNotExist" | "AWS.SimpleQueueService.NonExistentQueue" | "QueueDeletedRecently" => {
                Fault::NoQueue
            }
            _ if NOT_OURS.contains(&code) => Fault::NotOurs,
            _ if code.contains("Throttl") || code == "OverLimit" || code == "TooManyRequests" => {
                Fault::Throttled
            }
            "" => Fault::Other(message.to_owned()),
            _ => Fault::Other(format!("{code}: {message}")),
        }
    }

    /// Whether the same request may succeed if it is sent again.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Fault::Throttled | Fault::Other(_) => true,
            Fault::NoQueue | Fault::NotOurs => false,
        }
    }

    /// The error for a request named `what` on a queue.
    pub(super) fn error(&self, what: &str, queue: &str) -> Error {
        match self {
            Fault::NoQueue => Error::Failed(format!(
                "cannot {what} the SQS queue '{queue}': there is no such queue; create it, or let taskvisor do so with \
                 ?create=yes in the broker's URL"
            )),
            other @ (Fault::NotOurs | Fault::Throttled | Fault::Other(_)) => {
                Error::Failed(format!("cannot {what} the SQS queue '{queue}': {other}"))
            }
        }
    }
}

impl<E, R> From<SdkError<E, R>> for Fault
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    fn from(error: SdkError<E, R>) -> Fault {
        match error.as_service_error().and_then(|service| Some((service.code()?, service.message()))) {
            Some((code, message)) => Fault::of_code(code, message.unwrap_or_default()),
            None => Fault::Other(DisplayErrorContext(&error).to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_of_sqs_map_to_faults() {
        assert_eq!(Fault::of_code("ReceiptHandleIsInvalid", "x"), Fault::NotOurs);
        assert_eq!(Fault::of_code("AWS.SimpleQueueService.NonExistentQueue", "x"), Fault::NoQueue);
        assert_eq!(Fault::of_code("ThrottlingException", "x"), Fault::Throttled);
        assert!(Fault::of_code("InternalError", "x").is_passing());
        let said = Fault::of_code("AccessDenied", "no").error("read", "mail").to_string();
        assert_eq!(said, "cannot read the SQS queue 'mail': AccessDenied: no");
    }
}
