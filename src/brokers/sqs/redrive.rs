//! The RedrivePolicy of a queue: AWS itself moves a message that was received as often as the policy allows to a
//! dead-letter queue, at its next receive, by any client, without a notification.

use serde_json::Value;

/// The policy of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redrive {
    /// How often a message may be received.
    most: u32,
    /// The name of the dead-letter queue in SQS.
    dead: String,
}

impl Redrive {
    /// Reads the attribute of a queue; None = it says nothing of use.
    pub(super) fn read(policy: &str) -> Option<Redrive> {
        let policy: Value = serde_json::from_str(policy).ok()?;
        let most = &policy["maxReceiveCount"];
        // AWS takes and gives it as a number or as text.
        let most = most.as_u64().or_else(|| most.as_str()?.parse().ok())?;
        let dead = policy["deadLetterTargetArn"].as_str()?.rsplit(':').next()?;
        Some(Redrive { most: u32::try_from(most).ok()?, dead: dead.to_owned() })
    }

    /// What becomes of a message that was received this often; None = it is handed out again.
    pub(super) fn fate(&self, received: u32) -> Option<String> {
        let why = self.why(received)?;
        Some(format!(
            "{why}: AWS moves it to the dead-letter queue '{}' at its next receive, and does not deliver it again",
            self.dead
        ))
    }

    /// What has become of such a message after a later receive.
    pub(super) fn moved(&self, received: u32) -> Option<String> {
        Some(format!("{}: AWS has moved it to the dead-letter queue '{}'", self.why(received)?, self.dead))
    }

    fn why(&self, received: u32) -> Option<String> {
        let most = self.most;
        (received >= most).then(|| {
            format!("SQS has delivered it {received} times, its queue allows {most} (maxReceiveCount)")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_has_a_fate_once_it_was_received_as_often_as_its_queue_allows() {
        let arn = "arn:aws:sqs:eu-west-1:123456789012:dlq-mail";
        for most in ["3", "\"3\""] {
            let policy = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":{most}}}"#);
            let policy = Redrive::read(&policy).expect("a policy");
            assert_eq!(policy, Redrive { most: 3, dead: "dlq-mail".into() });
            assert_eq!(policy.fate(2), None);
            assert!(policy.fate(3).is_some_and(|fate| fate.contains("delivered it 3 times")));
            assert_eq!(policy.moved(2), None);
            assert!(
                policy.moved(3).is_some_and(
                    |fate| fate.ends_with("AWS has moved it to the dead-letter queue 'dlq-mail'")
                )
            );
        }
        assert_eq!(Redrive::read("{}"), None);
    }
}
