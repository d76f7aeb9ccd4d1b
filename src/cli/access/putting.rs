//! Puts jobs by either way.

use std::sync::Arc;

use super::{Access, BETWEEN, may_be_done, me, unless_gone};
use api::{self, Queued};
use config::Config;
use failure::{Failure, exit};
use model::verb::Ability;
use model::{Exists, JobId, Millis, NewJob, batch_fault};
use spool::Spool;

/// Jobs that were not put, or not all of them.
#[derive(Debug)]
pub(crate) struct NotPut {
    /// Why, for the first that was not.
    pub failure: Failure,
    /// If some were put: the id of each job that was, in the order of the jobs.
    pub put: Vec<Option<JobId>>,
    /// Which of the others may have been put: their numbers in the order of the jobs, from 0.
    pub in_doubt: Vec<usize>,
}

impl From<Failure> for NotPut {
    fn from(failure: Failure) -> NotPut {
        NotPut { failure, put: Vec::new(), in_doubt: Vec::new() }
    }
}

impl NotPut {
    /// Whether the broker has refused all of the jobs.
    pub(crate) fn is_refusal(&self) -> bool {
        let is_whole = self.in_doubt.is_empty() && self.put.iter().all(Option::is_none);
        is_whole && (!self.put.is_empty() || matches!(self.failure.code, exit::USAGE | exit::UNSUPPORTED))
    }

    /// Names the jobs that may have been put.
    fn of_some(failure: Failure, jobs: &[JobId], put: Vec<Option<JobId>>, in_doubt: Vec<usize>) -> NotPut {
        let named: Vec<JobId> = in_doubt.iter().filter_map(|number| jobs.get(*number).cloned()).collect();
        NotPut { failure: self::in_doubt(failure, &named), put, in_doubt }
    }
}

impl Access {
    /// Puts jobs, all or none; `Err` with `None` if the supervisor went away.
    async fn put_here(&self, jobs: Vec<NewJob>) -> Result<Queued, Option<NotPut>> {
        match self {
            Access::Api(api, _) => {
                let ids = ids(&jobs);
                api.put(jobs).await.map_err(|error| {
                    if let api::Error::Problem(problem) = &error
                        && !problem.put.is_empty()
                    {
                        let (put, in_doubt) = (problem.put.clone(), problem.in_doubt.clone());
                        return Some(NotPut::of_some(error.into(), &ids, put, in_doubt));
                    }
                    let failure = match may_be_done(&error) {
                        true => Some(in_doubt(error.into(), &ids)),
                        false => unless_gone(error),
                    };
                    failure.map(NotPut::from)
                })
            }
            Access::Store(store) => {
                // Where no supervisor takes the jobs, the command says itself who puts them.
                let jobs: Vec<NewJob> =
                    jobs.into_iter().map(|job| NewJob { by: Some(me()), ..job }).collect();
                let ids = ids(&jobs);
                store.put(jobs).await.map(only_ids).map_err(|error| {
                    if let broker::Error::PartlyPut { put, in_doubt, .. } = &error {
                        let (put, in_doubt) = (put.clone(), in_doubt.clone());
                        return Some(NotPut::of_some(error.into(), &ids, put, in_doubt));
                    }
                    let unanswered = matches!(error, broker::Error::Unanswered(_));
                    let failure = error.into();
                    Some(NotPut::from(if unanswered { in_doubt(failure, &ids) } else { failure }))
                })
            }
            Access::Spool(spool) => left(spool.clone(), jobs).await.map_err(|failure| Some(failure.into())),
        }
    }

    /// Puts jobs, all or none; with routes to other brokers, or one that takes them one by one, also some, and the error
    /// says which. Even if the supervisor ends and the next one starts meanwhile: if an answer is lost the jobs are put
    /// again, and recognized by an id made here, or by the token beside a given id.
    pub(crate) async fn put(&mut self, config: &Config, mut jobs: Vec<NewJob>) -> Result<Queued, NotPut> {
        if let Some(fault) = clock_fault(clock::wall()) {
            return Err(Failure::new(exit::IO, fault).into());
        }
        // Here, where a person has asked for it: with ids made by a client it tells a put that is sent again.
        let is_asked = jobs.iter().any(|job| job.id.is_some() && job.exists == Exists::Skip);
        if let Some(card) = if is_asked { self.card().await? } else { None } {
            card.require(Ability::UniqueId).map_err(Failure::from)?;
        }
        let unique = || uuid::Uuid::now_v7().simple().to_string();
        // Made once, before the loop: a repeated put must be recognized as the same.
        let token = unique();
        for job in &mut jobs {
            match &job.id {
                Some(_) if job.exists == Exists::Refuse => job.token = Some(token.clone()),
                // With skip a second put finds the job, and gives its id.
                Some(_) => {}
                // Nobody else makes this id: a job that has it already is this one, put before.
                None => (job.id, job.exists) = (Some(unique().into()), Exists::Skip),
            }
        }
        loop {
            match self.put_here(jobs.clone()).await {
                Ok(queued) => return Ok(queued),
                Err(None) => {
                    tokio::time::sleep(BETWEEN).await;
                    *self = Access::open(config).await?;
                }
                Err(Some(not_put)) => return Err(not_put),
            }
        }
    }
}

/// Why no id can be made at this time: ids begin with the milliseconds since 1970.
fn clock_fault(now: Millis) -> Option<String> {
    let said = format!("the clock of this host says {}, before 1970: set it", now.rfc3339());
    (now.0 < 0).then_some(said)
}

/// Leaves jobs for the next supervisor.
async fn left(spool: Arc<Spool>, jobs: Vec<NewJob>) -> Result<Queued, Failure> {
    let faulty = batch_fault(&jobs).or_else(|| jobs.iter().find_map(NewJob::fault));
    if let Some(why) = faulty {
        return Err(Failure::new(exit::FAILED, why));
    }
    let (ids, place) = (ids(&jobs), spool.path().display().to_string());
    let left = tokio::task::spawn_blocking(move || spool.leave(jobs)).await.map_err(std::io::Error::other)?;
    let failed = |error: std::io::Error| {
        Failure::from(error).of(format!("no supervisor runs here, and failed to leave the put in {place}"))
    };
    left.map(|()| only_ids(ids)).map_err(failed)
}

/// Ids of jobs whose queues are not known.
fn only_ids(ids: Vec<JobId>) -> Queued {
    Queued { ids, ..Queued::default() }
}

/// The put may have been carried out. All of it was, or nothing, so the first job shows it.
fn in_doubt(mut failure: Failure, ids: &[JobId]) -> Failure {
    const NAMED: usize = 20;
    let Some(id) = ids.first() else { return failure };
    let named: Vec<&str> = ids.iter().take(NAMED).map(JobId::as_str).collect();
    // A batch may have hundreds: a few are enough to find out.
    let more = ids.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named = named.join(" ");
    failure.causes.push(format!(
        "it may have been queued all the same, as {named}{more}: taskvisor job show {id} tells, once there is an answer; \
         put again with --jid {id} --exists skip it is queued once"
    ));
    failure
}

fn ids(jobs: &[NewJob]) -> Vec<JobId> {
    jobs.iter().filter_map(|job| job.id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Client;
    use config::{Flags, Surroundings, resolve};
    use model::{Class, Exec, Payload};

    #[test]
    fn jobs_that_may_have_been_put_are_named_and_those_refused_are_not() {
        let ids = ["a", "b", "c"].map(JobId::from);
        let put = vec![Some("a".into()), None, None];
        let not_put = NotPut::of_some(Failure::new(1, "no"), &ids, put, vec![2]);
        let said = not_put.failure.render();
        assert!(said.contains("may have been queued all the same, as c: "), "{said}");
    }

    #[tokio::test(start_paused = true)]
    async fn unanswered_put_says_how_to_check_the_job() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("ctl.sock");
        let _stopped = tokio::net::UnixListener::bind(&socket).unwrap();
        let program = Payload::Exec(Exec::default());
        let job =
            NewJob { id: Some("j1".into()), ..NewJob::new("default".into(), Class::EXEC.into(), program) };
        let whole = config::File { run_dir: Some(dir.path().into()), ..config::File::default() };
        let flags = Flags { whole, ..Flags::default() };
        let around = Surroundings { home: Some(dir.path().into()), ..Surroundings::default() };
        let config = Arc::new(resolve(flags, &around).unwrap());
        let put = Access::Api(Client::new(&socket), config).put_here(vec![job]).await;
        let said = put.unwrap_err().unwrap().failure.render().replace(dir.path().to_str().unwrap(), "DIR");
        insta::assert_snapshot!("silent_put", said);
    }

    #[test]
    fn clock_before_1970_is_named_in_place_of_a_panic() {
        assert!(clock_fault(Millis(-1)).is_some_and(|fault| fault.contains("says 1969-12-31T23:59:59.999Z")));
        assert_eq!(clock_fault(Millis(0)), None);
    }
}
