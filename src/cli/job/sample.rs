//! A few of many jobs, and what they are: what a dry run shows.

use crate::cli::access::Access;
use crate::cli::term::row;
use crate::cli::term::screen::escaped;
use model::{JobId, JobRecord};

/// Some of `count` jobs, one a line, and how many more there are.
pub(super) async fn sample(access: &Access, jobs: &[JobId], count: u64) -> String {
    let mut text = String::new();
    for id in jobs {
        // One that is gone by now is named all the same.
        let job = access.job(id).await.ok();
        text += &format!("  {}\n", escaped(&described(id, job.as_ref())));
    }
    let more = count.saturating_sub(jobs.len() as u64);
    if more > 0 {
        text += &format!("  and {more} more\n");
    }
    text
}

/// A job in one line: its id, its state and queue, what it is, and what its latest failure said.
fn described(id: &JobId, job: Option<&JobRecord>) -> String {
    let Some(job) = job else { return id.to_string() };
    let what = job.title.as_deref().unwrap_or(job.class.as_str());
    let why = row::why(job).map(|why| format!(": {why}")).unwrap_or_default();
    format!("{id}  {} in {}, {what}{why}", job.state, job.queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::record::page::tests::failed_job;

    #[test]
    fn sampled_job_is_described_by_state_queue_command_and_failure() {
        let job = failed_job();
        let line = described(&job.id, Some(&job));
        assert_eq!(line, format!("{}  failed in default, gzip -t it's a.gz: gzip: a.gz: crc error", job.id));
        assert_eq!(described(&"j1".into(), None), "j1");
    }
}
