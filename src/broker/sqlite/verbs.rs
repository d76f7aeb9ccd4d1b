//! The verbs, one line each.

use super::store::Store;
use super::trouble::Trouble;
use super::{admin, occur, read, recurring};
use crate::broker::Error;
use crate::model::Instant;
use crate::model::verb::{Answer, Done, Number, State, Verb};

/// Does it. A list is made page by page, in `list.rs`.
pub(super) fn apply(store: &mut Store, verb: &Verb, by: &str, now: Instant) -> Result<Answer, Trouble> {
    Ok(match verb {
        Verb::List(_) => return Err(Error::Failed("a list is made page by page".into()).into()),
        Verb::Get(it) => Answer::Get(read::get(store, &it.job)?),
        Verb::Before(it) => Answer::Before(Number { count: read::before(store, &it.job)? }),
        Verb::Cancel(it) => Answer::Cancel(State { state: admin::cancel(store, &it.job, by, now)? }),
        Verb::Retry(it) => Answer::Retry(admin::retry(store, &it.job, by, now).map(done)?),
        Verb::Queues(_) => Answer::Queues(read::counts(store)?),
        Verb::Pause(it) => {
            Answer::Pause(admin::pause(store, &it.queue, by, it.reason.as_deref(), now).map(done)?)
        }
        Verb::Resume(it) => Answer::Resume(admin::resume(store, &it.queue).map(done)?),
        Verb::RecurList(_) => Answer::RecurList(recurring::list(store)?),
        Verb::RecurGet(it) => Answer::RecurGet(recurring::get(store, &it.name)?),
        Verb::RecurPut(it) => Answer::RecurPut(recurring::put(store, it, by, now)?),
        Verb::RecurRun(it) => Answer::RecurRun(occur::run(store, &it.name, by, now)?),
        Verb::RecurRemove(it) => Answer::RecurRemove(recurring::remove(store, &it.name).map(done)?),
    })
}

fn done((): ()) -> Done {
    Done {}
}
