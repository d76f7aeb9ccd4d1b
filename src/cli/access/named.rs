//! Resolves jobs as people type them: by id, or by the beginning of an id that taskvisor has made.

use super::Access;
use crate::cli::term::row::{MADE, is_made};
use failure::{Failure, exit};
use model::JobId;
use model::verb::FindJobs;

impl Access {
    /// The job that was typed: by its id, or by the beginning of an id that taskvisor has made, if no other begins the
    /// same. An id that a person has chosen must be typed completely: a similar one is another job.
    pub(crate) async fn named(&self, typed: &str) -> Result<JobId, Failure> {
        // A whole id needs no search.
        if !is_made(typed, SHORTEST) || typed.len() == MADE {
            return Ok(typed.into());
        }
        let mut found = self.ask(FindJobs { prefix: typed.into() }).await?;
        if found.iter().any(|id| id.as_str() == typed) {
            return Ok(typed.into());
        }
        found.retain(|id| is_made(id.as_str(), MADE));
        match found.as_slice() {
            // The request for it will show that there is none.
            [] => Ok(typed.into()),
            [only] => Ok(only.clone()),
            many => {
                let ids: Vec<&str> = many.iter().map(JobId::as_str).collect();
                let what = format!("several jobs have ids that begin with '{typed}'");
                Err(Failure::new(exit::USAGE, what).hint(format!("there are: {}", ids.join(", "))))
            }
        }
    }

    /// The same for what only shows a job: while the broker does not answer, the job that the supervisor runs is taken, if
    /// no other here begins the same.
    pub(crate) async fn shown(&self, typed: &str) -> Result<JobId, Failure> {
        match self.named(typed).await {
            Err(failure) if failure.code == exit::UNAVAILABLE => self.running(typed).await.ok_or(failure),
            named => named,
        }
    }

    async fn running(&self, typed: &str) -> Option<JobId> {
        let Access::Api(api, _) = self else { return None };
        let status = api.status().await.ok()?;
        let jobs = status.pools.iter().flat_map(|pool| &pool.slots).flat_map(|slot| &slot.jobs);
        let mut found = jobs.map(|job| &job.id).filter(|id| id.as_str().starts_with(typed));
        found.next().filter(|_| found.next().is_none()).cloned()
    }
}

/// Adds to the failure for a job that is not there what may be the reason.
pub(crate) fn too_short(typed: &str, failure: Failure) -> Failure {
    match failure.code == exit::NOTHING_MATCHED && is_made(typed, 1) && typed.len() < SHORTEST {
        true => failure.hint(format!("the beginning of an id needs {SHORTEST} letters or more")),
        false => failure,
    }
}

/// A shorter word is not taken for the beginning of an id.
const SHORTEST: usize = 6;

/// The jobs that were typed, by their ids or the beginnings of ids.
pub(crate) async fn all_named(access: &Access, typed: &[String]) -> Result<Vec<JobId>, Failure> {
    let mut all = Vec::with_capacity(typed.len());
    for typed in typed {
        all.push(access.named(typed).await?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_prefixes_of_generated_ids_are_accepted() {
        assert!(is_made("01a203", SHORTEST));
        let none = |code, typed| too_short(typed, Failure::new(code, "no job")).hint;
        let hint = Some("the beginning of an id needs 6 letters or more".to_owned());
        assert_eq!(none(exit::NOTHING_MATCHED, "01a"), hint);
        assert_eq!((none(exit::NOTHING_MATCHED, "mail-1"), none(exit::FAILED, "01a")), (None, None));
        assert!(!is_made("01a20", SHORTEST) && !is_made("invoice-1", SHORTEST));
    }
}
