//! Failures of requests to SQS, as far as they are handled differently.

use std::error::Error as Cause;
use std::iter;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::BatchResultErrorEntry;

use broker::Error;

/// Why a request to SQS failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// There is no such queue.
    #[error("there is no such queue")]
    NoQueue,
    /// The handle is not valid any more: the message was delivered to another client, or is gone.
    #[error("the message is not ours any more")]
    NotOurs,
    /// The time for which the message was hidden is over, and no other client has taken it since.
    #[error("the message is not hidden any more")]
    Visible,
    /// Too many requests.
    #[error("the service asks for fewer requests")]
    Throttled,
    /// The request itself is wrong; why.
    #[error("{0}")]
    Refused(String),
    /// There is no answer that can be read: the request may have been carried out; why.
    #[error("{0}")]
    Unanswered(String),
    /// The request failed; why.
    #[error("{0}")]
    Other(String),
}

impl Fault {
    /// The fault for an error code and a message of the service.
    pub(super) fn of_code(code: &str, message: &str) -> Fault {
        match code {
            "QueueDoesNotExist" | "AWS.SimpleQueueService.NonExistentQueue" => Fault::NoQueue,
            "ReceiptHandleIsInvalid" => Fault::NotOurs,
            "MessageNotInflight" | "AWS.SimpleQueueService.MessageNotInflight" => Fault::Visible,
            // AWS and services like it have several codes for this.
            _ if code.contains("Throttl") || code == "OverLimit" || code == "TooManyRequests" => {
                Fault::Throttled
            }
            "InvalidParameterValue" | "InvalidIdFormat" | "InvalidMessageContents" => {
                Fault::Refused(format!("{code}: {message}"))
            }
            "" => Fault::Other(message.to_owned()),
            _ => Fault::Other(format!("{code}: {message}{}", advice(code, message))),
        }
    }

    /// The fault of an entry of a batch.
    pub(super) fn of_entry(entry: &BatchResultErrorEntry) -> Fault {
        Fault::of_code(&entry.code, entry.message.as_deref().unwrap_or_default())
    }

    /// The fault of an entry about a message that was received. The entry has nothing but its handle and a time within
    /// the limits: if the service blames the sender, the handle is not valid, whatever the service calls that.
    pub(super) fn of_handle(entry: &BatchResultErrorEntry) -> Fault {
        match (entry.code.as_str(), Fault::of_entry(entry)) {
            ("InvalidParameterValue" | "InvalidIdFormat", _) => Fault::NotOurs,
            (code, Fault::Other(_)) if entry.sender_fault && !code.starts_with("AccessDenied") => {
                Fault::NotOurs
            }
            (_, fault) => fault,
        }
    }

    /// Whether the same request may succeed if it is sent again.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Fault::Throttled | Fault::Unanswered(_) | Fault::Other(_) => true,
            Fault::NoQueue | Fault::NotOurs | Fault::Visible | Fault::Refused(_) => false,
        }
    }

    /// The error for a request named `what` on a queue, which was looked for `there` and is made if it is missing, or not.
    pub(super) fn error(&self, what: &str, queue: &str, there: &str, is_made: bool) -> Error {
        let cannot = format!("cannot {what} the SQS queue '{queue}': {self}");
        match self {
            Fault::NoQueue if is_made => Error::Failed(format!("{cannot}; the next request makes it")),
            Fault::NoQueue => Error::Failed(format!(
                "{cannot} {there}; if region and account are the right ones, create it, or let taskvisor do so with \
                 ?create=yes in the broker's URL"
            )),
            Fault::Refused(_) => Error::Refused(cannot),
            Fault::Unanswered(_) => Error::Unanswered(cannot),
            Fault::NotOurs | Fault::Visible | Fault::Throttled | Fault::Other(_) => Error::Failed(cannot),
        }
    }
}

/// What to do about an error code and its message.
fn advice(code: &str, message: &str) -> &'static str {
    const CREDENTIALS: [&str; 5] = [
        "ExpiredToken",
        "InvalidClientTokenId",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "Unrecognized",
    ];
    // The service compares the time of the signature with its own, and allows 5 minutes.
    let is_of_clock =
        ["Signature expired", "Signature not yet current"].iter().any(|start| message.contains(start));
    if is_of_clock || code == "RequestExpired" || code == "RequestTimeTooSkewed" {
        "; the clock of this host is wrong: set it"
    } else if code.contains("QueueDeletedRecently") {
        "; SQS makes a queue of this name again 60 s after it was deleted"
    } else if CREDENTIALS.iter().any(|start| code.starts_with(start)) {
        "; give AWS's usual chain other credentials"
    } else if code.starts_with("AccessDenied") {
        "; allow it in the policy of the credentials or of the queue"
    } else {
        ""
    }
}

impl<E, R> From<SdkError<E, R>> for Fault
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    fn from(error: SdkError<E, R>) -> Fault {
        if let Some((code, service)) = error.as_service_error().and_then(|said| Some((said.code()?, said))) {
            return Fault::of_code(code, service.message().unwrap_or_default());
        }
        let causes: Vec<String> =
            iter::successors(Some(&error as &dyn Cause), |cause: &&dyn Cause| (*cause).source())
                .map(|cause| cause.to_string())
                .collect();
        let last = causes.last().map_or("", |last| last.lines().next().unwrap_or_default());
        let is_about = |text| causes.iter().any(|cause| cause.contains(text));
        match &error {
            SdkError::DispatchFailure(_) if is_about("no credentials found in chain") => Fault::Other(
                "AWS's usual chain has no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE".into(),
            ),
            SdkError::DispatchFailure(_) if is_about("credentials") => {
                Fault::Other(format!("AWS's usual chain fails to give credentials: {last}"))
            }
            // Nothing was sent, so the request is not in doubt.
            SdkError::DispatchFailure(_) if is_about("client error (Connect)") => {
                Fault::Other(format!("there is no connection to the service: {last}"))
            }
            SdkError::DispatchFailure(_) => Fault::Unanswered(format!("the connection broke off: {last}")),
            SdkError::TimeoutError(_) => Fault::Unanswered("the service does not answer".into()),
            SdkError::ConstructionFailure(_) => Fault::Other(format!("the request cannot be made: {last}")),
            SdkError::ServiceError(_) | SdkError::ResponseError(_) | _ => Fault::Unanswered(format!("the answer is not one of SQS: {last}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_handle_is_not_ours_whatever_the_service_calls_that() {
        let of = |code: &str, sender_fault| {
            let entry =
                BatchResultErrorEntry::builder().id("0").code(code).sender_fault(sender_fault).message("x");
            Fault::of_handle(&entry.build().unwrap())
        };
        assert_eq!(of("MessageNotInflight", true), Fault::Visible);
        assert_eq!(of("InvalidParameterValue", true), Fault::NotOurs);
        assert_eq!(of("NoSuchReceipt", true), Fault::NotOurs);
        assert!(of("InternalError", false).is_passing());
        assert!(of("AccessDenied", true).is_passing() && of("RequestThrottled", true) == Fault::Throttled);
    }

    #[test]
    fn error_codes_of_sqs_map_to_faults() {
        assert_eq!(Fault::of_code("ReceiptHandleIsInvalid", "x"), Fault::NotOurs);
        let invalid = Fault::Refused("InvalidParameterValue: x".into());
        assert_eq!(Fault::of_code("InvalidParameterValue", "x"), invalid);
        assert_eq!(Fault::of_code("AWS.SimpleQueueService.NonExistentQueue", "x"), Fault::NoQueue);
        assert_eq!(Fault::of_code("ThrottlingException", "x"), Fault::Throttled);
        assert!(Fault::of_code("InternalError", "x").is_passing());
        let said = Fault::of_code(
            "InvalidSignatureException",
            "Signature expired: 20260101T000000Z is now earlier than",
        )
        .to_string();
        assert!(said.ends_with("; the clock of this host is wrong: set it"), "{said}");
        let error = |fault: Fault, is_made| fault.error("read", "mail", "in eu-west-1", is_made).to_string();
        let said = error(Fault::of_code("AccessDenied", "no"), false);
        let missing = error(Fault::NoQueue, false);
        assert!(missing.contains("no such queue in eu-west-1; if region and account are"), "{missing}");
        assert!(missing.contains("with ?create=yes"), "{missing}");
        assert!(!error(Fault::NoQueue, true).contains("create=yes"));
        let advice = "allow it in the policy of the credentials or of the queue";
        assert_eq!(said, format!("cannot read the SQS queue 'mail': AccessDenied: no; {advice}"));
    }
}
