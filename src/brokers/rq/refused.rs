//! Jobs whose ids are not UTF-8: they are taken, cannot be run, and are to be failed.

use super::settle::End;
use super::shared::{Shared, lock};
use broker::Notice;
use model::QueueSet;
use redis_link::values::Text;

impl Shared {
    /// Has a job failed whose id is not UTF-8. The other jobs of its fetch do not wait for that, as it may fail.
    pub(super) fn refuse(&self, id: Vec<u8>, execution: String) {
        let shown = id.escape_ascii();
        tracing::warn!("the id of a job is not UTF-8, so it cannot be run and fails: {shown}");
        lock(&self.refused).push((id, execution));
        self.hurry.notify_one();
    }

    /// Fails those jobs, and keeps what cannot be failed now for the next round.
    pub(super) async fn fail_refused(&self) {
        let all = lock(&self.refused).clone();
        if all.is_empty() {
            return;
        }
        let asked = self.call::<Vec<Text>>("settle jobs in", "settle", |cmd| {
            cmd.arg(all.len());
            all.iter().for_each(|(id, execution)| End::refused(id).write(cmd, id, execution));
        });
        let mut wrong = Ok(());
        let answers = asked.await.unwrap_or_else(|error| {
            wrong = Err(error);
            Vec::new()
        });
        for (job, Text(said)) in all.iter().zip(answers) {
            match said.strip_prefix("wrong: ") {
                Some(why) => wrong = Err(self.link.refused("settle jobs in", why)),
                // Not cleared: `refuse` may have added others while the server was asked.
                None => lock(&self.refused).retain(|one| one != job),
            }
        }
        self.complaints.note("jobs with ids that are not UTF-8 cannot be failed", &wrong, self.link.now());
        // The workers for them are free.
        self.notices.push(Notice::Wake(QueueSet::All));
    }
}
