//! Removes tasks. A running one is canceled first, and removed when its processes are proven dead.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::super::{Problem, Service};
use model::verb::{Answer, Cancel, Discard, Fate, Verb};
use model::{Filter, JobId, JobState};
use wq::TaskId;

/// Removes all existing tasks that match, and gives their number when they are gone. Tasks that come meanwhile stay.
pub(super) async fn remove(api: &Arc<dyn Service>, filter: &Filter, by: &str) -> Result<u64, Problem> {
    let (mut removed, mut at, mut running, mut kept) = (0, None, Vec::new(), Vec::new());
    loop {
        let page = api.page(filter, at).await?;
        let tasks = page.jobs.iter().filter(|job| is_task(&job.id));
        let (ended, others): (Vec<_>, Vec<_>) = tasks.partition(|job| job.state.has_ended());
        let mut ended: Vec<JobId> = ended.into_iter().map(|job| job.id.clone()).collect();
        let others: Vec<JobId> = others.into_iter().map(|job| job.id.clone()).collect();
        if !others.is_empty() {
            let canceled = cancel(api, others, by).await?;
            for (job, state) in canceled {
                match state {
                    JobState::Running | JobState::Canceling => running.push(job),
                    JobState::Complete | JobState::Failed | JobState::Held | JobState::Canceled => {
                        ended.push(job);
                    }
                    JobState::Waiting | JobState::Delayed | JobState::Depends => kept.push((job, state)),
                }
            }
        }
        removed += discard(api, ended, by).await?;
        at = page.next;
        if at.is_none() {
            break;
        }
    }
    // These are no more than there are workers.
    for job in &running {
        match api.ended(job.clone()).await {
            Ok(_) => {}
            Err(problem) if problem.code == 404 => {}
            Err(problem) => return Err(problem),
        }
    }
    removed += discard(api, running, by).await?;
    let Some((job, state)) = kept.first() else { return Ok(removed) };
    let (job, state, many) = (job.as_str(), state.as_str(), kept.len());
    Err(Problem::conflict(format!(
        "{removed} tasks are removed and {many} are not: task '{job}' is {state}, and its broker cancels only tasks that run"
    ))
    .hint("remove it once it runs or has ended"))
}

/// Whether an id is that of a task. A job that somebody put with an id that begins the same is none.
fn is_task(id: &JobId) -> bool {
    TaskId::parse(id.as_str()).is_some()
}

/// Cancels jobs and gives the state of each afterwards. A job that no longer exists is left out.
async fn cancel(
    api: &Arc<dyn Service>,
    jobs: Vec<JobId>,
    by: &str,
) -> Result<Vec<(JobId, JobState)>, Problem> {
    // What depends on a removed task could never run.
    let asked = Cancel { jobs, dependents: true, reason: Some("its task was removed".into()) };
    let Answer::Cancel(each) = api.ask(Verb::Cancel(asked), by.into()).await? else {
        return Err(Problem::new(500, "the broker answered something else"));
    };
    let state = |fate| match fate {
        Fate::State(state) | Fate::Refused(model::verb::Refusal::State { state }) => Some(state),
        Fate::Refused(_) => None,
    };
    Ok(each.into_iter().filter_map(|each| Some((each.job, state(each.fate)?))).collect())
}

/// Discards ended jobs. One that does not exist any more counts, too.
async fn discard(api: &Arc<dyn Service>, jobs: Vec<JobId>, by: &str) -> Result<u64, Problem> {
    let mut asked = JoinSet::new();
    for job in jobs {
        let (api, by) = (api.clone(), by.to_owned());
        asked.spawn(async move { api.ask(Verb::Discard(Discard { job }), by).await });
    }
    let mut count = 0;
    while let Some(answer) = asked.join_next().await {
        match answer.map_err(|error| Problem::new(500, error.to_string()))? {
            Ok(_) => count += 1,
            Err(problem) if problem.code == 404 => count += 1,
            Err(problem) => return Err(problem),
        }
    }
    Ok(count)
}
