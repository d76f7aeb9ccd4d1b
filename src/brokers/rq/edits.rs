//! Edits of RQ's jobs.

use serde_json::json;

use super::job::TAGS;
use super::source::Rq;
use broker::Error;
use model::verb::{Tag, Tags};
use model::{PublishedEvent, What, tags_fault};

/// How often an edit is tried while others edit the same job.
const TRIES: u32 = 100;

impl Rq {
    /// Changes the tags of a job, and gives all tags that it has then.
    pub(super) async fn tag(&self, it: &Tag, by: &str) -> Result<Tags, Error> {
        for _ in 0..TRIES {
            let job = self.get(&it.job).await?;
            let tags = it.applied(&job.tags);
            if let Some(fault) = tags_fault(&tags) {
                return Err(Error::Refused(fault));
            }
            // Nothing changes, so the history gets no entry.
            if tags == job.tags {
                return Ok(Tags { tags });
            }
            let text = |tags: &[String]| match tags {
                [] => String::new(),
                some => json!(some).to_string(),
            };
            let what = if tags.is_empty() { "no tags".into() } else { format!("tags {}", tags.join(" ")) };
            let edited = format!(r#""edited":{}"#, json!({"by": by, "what": what}));
            let written = self.asked::<bool>("edit", |cmd| {
                // The script writes only if the tags are still these.
                cmd.arg(it.job.as_str()).arg(TAGS).arg(text(&job.tags)).arg(text(&tags)).arg(edited);
            });
            if written.await? {
                let of = (&job.id, &job.queue, &job.class);
                self.shared.tell((What::Edited, job.state), of, |event| PublishedEvent {
                    by: Some(by.to_owned()),
                    why: Some(what),
                    ..event
                });
                return Ok(Tags { tags });
            }
        }
        Err(Error::Failed(format!("the tags of job '{}' keep changing: try again", it.job)))
    }
}
