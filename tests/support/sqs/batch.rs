//! Up to ten entries in one call, each with its own answer.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::World;
use super::answer::{Answer, Refusal, refusal};

/// The most bytes of all bodies together.
const SIZE_MAX: usize = 1 << 20;

impl World {
    /// Carries out one action for each entry.
    pub(super) fn batch(&mut self, action: &str, given: &Value) -> Answer {
        self.queue(given)?;
        let entries = given["Entries"].as_array().cloned().unwrap_or_default();
        check(&entries)?;
        let (mut good, mut failed) = (Vec::new(), Vec::new());
        for mut entry in entries {
            let id = entry["Id"].as_str().unwrap_or_default().to_owned();
            entry["QueueUrl"] = given["QueueUrl"].clone();
            if self.happens(self.knobs.fail_entries) {
                failed.push(json!({"Id": id, "SenderFault": false, "Code": "InternalError", "Message": "We encountered an internal error. Please try again."}));
                continue;
            }
            let answer = match action {
                "SendMessage" => self.send(&entry),
                "DeleteMessage" => self.delete(&entry),
                _ => self.change_visibility(&entry),
            };
            match answer {
                Ok(mut answer) => {
                    answer["Id"] = json!(id);
                    good.push(answer);
                }
                Err(refusal) => failed.push(refusal.entry(&id)),
            }
        }
        let mut answer = json!({"Successful": good});
        if !failed.is_empty() {
            answer["Failed"] = json!(failed);
        }
        Ok(answer)
    }
}

fn check(entries: &[Value]) -> Result<(), Refusal> {
    let wrong = |name, code, message: &str| Err(refusal(name, code, message));
    let ids: Vec<&str> = entries.iter().map(|entry| entry["Id"].as_str().unwrap_or_default()).collect();
    if entries.is_empty() {
        return wrong(
            "EmptyBatchRequest",
            "AWS.SimpleQueueService.EmptyBatchRequest",
            "There should be at least one entry in the request.",
        );
    }
    if entries.len() > 10 {
        return wrong(
            "TooManyEntriesInBatchRequest",
            "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
            "Maximum number of entries per request are 10.",
        );
    }
    let letters =
        |id: &&str| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if !ids.iter().all(|id| (1..=80).contains(&id.len()) && letters(id)) {
        return wrong(
            "InvalidBatchEntryId",
            "AWS.SimpleQueueService.InvalidBatchEntryId",
            "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long.",
        );
    }
    if ids.iter().collect::<BTreeSet<_>>().len() < ids.len() {
        return wrong(
            "BatchEntryIdsNotDistinct",
            "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
            "Two or more batch entries in the request have the same Id.",
        );
    }
    let size: usize = entries.iter().filter_map(|entry| entry["MessageBody"].as_str()).map(str::len).sum();
    if size > SIZE_MAX {
        return wrong(
            "BatchRequestTooLong",
            "AWS.SimpleQueueService.BatchRequestTooLong",
            "Batch requests cannot be longer than 1048576 bytes.",
        );
    }
    Ok(())
}
