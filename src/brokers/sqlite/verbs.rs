//! Carries out the verbs, one line each.

use super::store::Store;
use super::trouble::Trouble;
use super::{admin, bulk, cancel, depend, edit, figures, forget, in_force, occur, read, recurring};
use broker::Error;
use model::Instant;
use model::verb::{Answer, Done, Number, State, Tags, Verb};

/// Carries out a verb. Lists are made page by page, in `list.rs` and `failed.rs`; the card refuses verbs that need
/// several supervisors.
pub(super) fn apply(store: &mut Store, verb: &Verb, by: &str, now: Instant) -> Result<Answer, Trouble> {
    Ok(match verb {
        Verb::List(_) | Verb::Failed(_) | Verb::ShowFleet(_) => {
            return Err(Error::Failed("the store's thread is not asked for this".into()).into());
        }
        Verb::Get(it) => Answer::Get(read::get(store, &it.job)?),
        Verb::FindJobs(it) => Answer::FindJobs(read::find(store, &it.prefix)?),
        Verb::Before(it) => Answer::Before(Number { count: read::before(store, &it.job)? }),
        Verb::Cancel(it) => match it.fault() {
            Some(fault) => return Err(Error::Refused(fault).into()),
            None => Answer::Cancel(cancel::cancel(store, it, by, now)?),
        },
        Verb::Retry(it) => Answer::Retry(admin::retry(store, &it.job, by, now).map(done)?),
        Verb::DependOn(it) => Answer::DependOn(State { state: depend::on(store, it, by, now)? }),
        Verb::DependOff(it) => Answer::DependOff(State { state: depend::off(store, it, by, now)? }),
        Verb::Prioritize(it) => Answer::Prioritize(edit::prioritize(store, it, by, now).map(done)?),
        Verb::SetData(it) => Answer::SetData(edit::set_data(store, it).map(done)?),
        Verb::Tag(it) => Answer::Tag(Tags { tags: edit::tag(store, it, by, now)? }),
        Verb::Track(it) => Answer::Track(edit::track(store, &it.job, now).map(done)?),
        Verb::Untrack(it) => Answer::Untrack(edit::untrack(store, &it.job).map(done)?),
        Verb::Discard(it) => Answer::Discard(edit::discard(store, &it.job).map(done)?),
        Verb::Bulk(it) => Answer::Bulk(bulk::sweep(store, it, by, now)?),
        Verb::Queues(_) => Answer::Queues(read::counts(store, now)?),
        Verb::Pause(it) => {
            if let Some(fault) = it.fault() {
                return Err(Error::Refused(fault).into());
            }
            Answer::Pause(admin::pause(store, &it.queue, by, it.reason.as_deref(), now).map(done)?)
        }
        Verb::Resume(it) => Answer::Resume(admin::resume(store, &it.queue).map(done)?),
        Verb::ListRecurring(_) => Answer::ListRecurring(recurring::list(store)?),
        Verb::ShowRecurring(it) => Answer::ShowRecurring(recurring::get(store, &it.name)?),
        Verb::PutRecurring(it) => Answer::PutRecurring(recurring::put(store, it, by, now)?),
        Verb::RunRecurring(it) => Answer::RunRecurring(occur::run(store, &it.name, by, now)?),
        Verb::PauseRecurring(it) => {
            Answer::PauseRecurring(recurring::pause(store, &it.name, by, now).map(done)?)
        }
        Verb::ResumeRecurring(it) => Answer::ResumeRecurring(recurring::resume(store, &it.name).map(done)?),
        Verb::RemoveRecurring(it) => Answer::RemoveRecurring(recurring::remove(store, &it.name).map(done)?),
        Verb::Stats(it) => Answer::Stats(figures::of(store, it, now)?),
        Verb::ClassStats(it) => Answer::ClassStats(figures::of_classes(store, it, now)?),
        Verb::Forget(it) => Answer::Forget(forget::queue(store, it)?),
        Verb::ShowOptions(_) => Answer::ShowOptions(in_force::show(store)?),
        Verb::SetOption(it) => Answer::SetOption(in_force::set(store, it).map(done)?),
        Verb::UnsetOption(it) => Answer::UnsetOption(in_force::unset(store, it).map(done)?),
        Verb::LoadOptions(it) => Answer::LoadOptions(in_force::load(store, it).map(done)?),
    })
}

fn done((): ()) -> Done {
    Done {}
}
