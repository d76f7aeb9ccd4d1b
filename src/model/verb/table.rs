//! The table of verbs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ability::Ability;
use super::said::{self, Said, because, named, of_job, of_queue, option, recurring};
use super::{
    answers::*, classes::*, edits::*, failed::*, fleet::*, jobs::*, options::*, queues::*, recurring::*,
};
use crate::{
    Filter, Fleet, JobId, JobRecord, LatestJob, NewJob, QueueCounts, QueueName, Recurring, RecurringRecord,
    What, quoted,
};

/// The HTTP route of a verb. Parameters named in the path are sent in it, the others in the query of a GET or in the
/// JSON body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// `GET` for verbs that only read, else `POST`.
    pub method: &'static str,
    /// The path, with parameters in braces, named like the verb's fields.
    pub path: &'static str,
    /// The effect of the verb, in a sentence.
    pub does: &'static str,
}

impl Route {
    /// Whether the verb changes nothing.
    pub fn only_looks(&self) -> bool {
        self.method == "GET"
    }
}

/// A verb with its answer.
///
/// ```
/// use taskvisor_model::verb::{VerbRequest, Retry};
/// assert_eq!(Retry::ROUTE.path, "/v1/jobs/{job}/retry");
/// assert!(!Retry::ROUTE.only_looks());
/// ```
pub trait VerbRequest: Serialize + DeserializeOwned + JsonSchema + Send + 'static {
    /// The answer to the verb.
    type Answer: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
    /// The HTTP route of the verb.
    const ROUTE: Route;
    /// The ability that a broker needs for it.
    const NEEDS: Ability;
    /// Wraps the request in the [`Verb`] enum.
    fn verb(self) -> Verb;
    /// Extracts this verb's answer; `None` if it is another verb's.
    fn answer(answer: Answer) -> Option<Self::Answer>;
}

/// Code that runs once for each verb.
pub trait Visitor {
    /// Runs for the verb `V`.
    fn visit<V: VerbRequest>(&mut self);
}

fn told<V, S: Into<Option<Said>>>(verb: &V, says: impl FnOnce(&V) -> S) -> Option<Said> {
    says(verb).into()
}

/// Declares [`Verb`], [`Answer`] and the properties of each verb. A row is `Variant(Type) => Answer, Ability "METHOD"
/// "/path", "Effect."`, and of a verb that changes something, after another `=>`, what the log says of it.
macro_rules! verbs {
    ($(
        $name:ident($type:ty) => $answer:ty, $needs:ident $method:literal $path:literal, $does:literal
        $(=> $says:expr)?;
    )*) => {
        /// Any verb, with its arguments.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Verb {
            $(#[doc = $does] $name($type),)*
        }

        /// The answer to the verb of the same name.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Answer {
            $(#[doc = $does] $name($answer),)*
        }

        impl Verb {
            /// The HTTP route of the verb.
            pub fn route(&self) -> Route {
                match self {
                    $(Verb::$name(_) => <$type>::ROUTE,)*
                }
            }

            /// The ability that a broker needs for it.
            pub fn needs(&self) -> Ability {
                match self {
                    $(Verb::$name(_) => <$type>::NEEDS,)*
                }
            }
        }

        impl Verb {
            /// What the log and subscribers are told of it; None of a verb that changes nothing.
            pub fn notice(&self) -> Option<Said> {
                match self {
                    $(Verb::$name(_asked) => {
                        let silent: Option<Said> = None;
                        // In a row without a sentence this is all that is left.
                        silent$(.or_else(|| told(_asked, $says)))?
                    })*
                }
            }
        }

        $(const _: () = {
            let says: &[&str] = &[$(stringify!($says))?];
            let only_looks = $method.as_bytes()[0] == b'G';
            assert!(only_looks == says.is_empty(), "a row says something to the log if, and only if, its method is POST");
        };)*

        $(impl VerbRequest for $type {
            type Answer = $answer;
            const ROUTE: Route = Route { method: $method, path: $path, does: $does };
            const NEEDS: Ability = Ability::$needs;

            fn verb(self) -> Verb {
                Verb::$name(self)
            }

            fn answer(answer: Answer) -> Option<$answer> {
                if let Answer::$name(answer) = answer { Some(answer) } else { None }
            }
        })*

        /// Calls the visitor for each verb, in the order of the table.
        pub fn visit(visitor: &mut impl Visitor) {
            $(visitor.visit::<$type>();)*
        }
    };
}

verbs! {
    List(Filter) => Vec<JobRecord>, List "GET" "/v1/jobs", "Lists jobs by filter, newest first, without payloads.";
    Get(Get) => JobRecord, Show "GET" "/v1/jobs/{job}", "Shows one job, whole: with its payload and its history.";
    FindJobs(FindJobs) => Vec<JobId>, List "GET" "/v1/ids/{prefix}", "Finds jobs by the beginning of their ids: 10 at most, in the order of their ids.";
    Before(Before) => Number, Position "GET" "/v1/jobs/{job}/before", "Counts the waiting jobs of its queue that come before a waiting job, up to 1000.";
    Cancel(Cancel) => Vec<Each>, Cancel "POST" "/v1/cancel", "Ends jobs: at once those that wait; one that runs is canceling until its processes are proven dead."
        => said::cancel;
    Retry(Retry) => Done, Retry "POST" "/v1/jobs/{job}/retry", "Puts a failed, held, canceled or complete job back to waiting, its counters and progress cleared."
        => |it| of_job(&it.job, "is put back to waiting");
    DependOn(DependOn) => State, Depend "POST" "/v1/jobs/{job}/depends/on", "Has a job that has not begun wait until others are complete, too."
        => |it| of_job(&it.job, &format!("is to wait for {}, too", named(&it.jobs)));
    DependOff(DependOff) => State, Depend "POST" "/v1/jobs/{job}/depends/off", "Has a job wait for others no more; its delay stays."
        => |it| of_job(&it.job, &format!("waits no more for {}", it.jobs.as_ref().map_or("any job".into(), |jobs| named(jobs))));
    Prioritize(Prioritize) => Done, Prioritize "POST" "/v1/jobs/{job}/priority", "Gives a job another priority; among equals it keeps its place."
        => |it| of_job(&it.job, &format!("gets the priority {}", it.priority));
    SetData(SetData) => Done, SetData "POST" "/v1/jobs/{job}/data", "Gives a running job other data, for its next attempt or queue; only who holds its lease may."
        => |it| of_job(&it.job, "gets other data");
    Tag(Tag) => Tags, Tag "POST" "/v1/jobs/{job}/tags", "Adds tags to a job and removes others."
        => |it| of_job(&it.job, &format!("has other tags: {}", said::tags(&it.add, &it.remove)));
    Track(Track) => Done, Track "POST" "/v1/jobs/{job}/track", "Marks a job as one that somebody follows."
        => |it| of_job(&it.job, "is tracked");
    Untrack(Untrack) => Done, Track "POST" "/v1/jobs/{job}/untrack", "Takes that mark away."
        => |it| of_job(&it.job, "is no longer tracked");
    Discard(Discard) => Done, Discard "POST" "/v1/jobs/{job}/discard", "Forgets a job that has ended, with its history."
        => |it| of_job(&it.job, "is forgotten");
    Failed(Failed) => Vec<FailureGroup>, Failures "GET" "/v1/failed", "Counts the jobs that failed or are held, by what their failure is called, the most first.";
    Bulk(Bulk) => Swept, RetryMany "POST" "/v1/failed", "Puts back to waiting, or discards, the ended jobs that match: the next of them, and where to go on."
        => said::bulk;
    Queues(Queues) => BTreeMap<QueueName, QueueCounts>, Count "GET" "/v1/queues", "Counts the jobs of all queues by state.";
    Pause(Pause) => Done, Pause "POST" "/v1/queues/{queue}/pause", "Stops fetching from a queue, for every supervisor, until it is resumed."
        => |it| of_queue(&it.queue, &format!("is paused{}", because(it.reason.as_deref())))
            .event(What::Paused, it.reason.as_deref().map(quoted));
    Resume(Resume) => Done, Pause "POST" "/v1/queues/{queue}/resume", "Ends the pause of a queue."
        => |it| of_queue(&it.queue, "is resumed").event(What::Resumed, None);
    ListRecurring(ListRecurring) => Vec<RecurringRecord>, Recur "GET" "/v1/recurring", "Lists the recurring jobs by name.";
    ShowRecurring(ShowRecurring) => RecurringRecord, Recur "GET" "/v1/recurring/{name}", "Shows one recurring job, and when it is due.";
    PutRecurring(Recurring) => RecurringRecord, Recur "POST" "/v1/recurring/{name}", "Makes a job recur, or changes one that does; with an unchanged schedule it is due when it was."
        => |it| recurring(&it.name, "is put or changed");
    RunRecurring(RunRecurring) => LatestJob, Recur "POST" "/v1/recurring/{name}/run", "Puts the job of a recurring job now, whatever its schedule and its latest job."
        => |it| recurring(&it.name, "is put now, beside its schedule");
    PauseRecurring(PauseRecurring) => Done, Recur "POST" "/v1/recurring/{name}/pause", "Has a recurring job put no jobs until it is resumed."
        => |it| recurring(&it.name, "is paused");
    ResumeRecurring(ResumeRecurring) => Done, Recur "POST" "/v1/recurring/{name}/resume", "Ends the pause of a recurring job; what was due meanwhile is made up within its catch-up time."
        => |it| recurring(&it.name, "is resumed");
    RemoveRecurring(RemoveRecurring) => Done, Recur "POST" "/v1/recurring/{name}/remove", "Ends a recurrence; the jobs that it has put stay."
        => |it| recurring(&it.name, "is removed");
    Stats(Stats) => QueueDay, Statistics "GET" "/v1/queues/{queue}/stats", "Tells how the jobs of a queue fared on a day: how long they waited and ran, how many failed.";
    ClassStats(ClassStats) => Vec<ClassDay>, Statistics "GET" "/v1/classes", "Tells how the jobs of each class fared, by day: how many completed and failed, how long they ran, what CPU time and memory they took.";
    Forget(Forget) => Swept, Forget "POST" "/v1/queues/{queue}/forget", "Removes a queue that has no jobs, with its statistics; if asked its ended jobs first: the next of them, and where to go on."
        => |it| of_queue(&it.queue, "is forgotten");
    ShowOptions(ShowOptions) => Vec<OptionShown>, Options "GET" "/v1/options", "Shows the options in force, and what is set for single queues.";
    SetOption(SetOption) => Done, Options "POST" "/v1/options/{name}", "Sets an option, for all queues or for one."
        => |it| option(&it.name, it.queue.as_ref(), &format!("is set to {}", quoted(&it.value)))
            .event(What::Option, Some(format!("{} {}", it.name, quoted(&it.value))));
    UnsetOption(UnsetOption) => Done, Options "POST" "/v1/options/{name}/unset", "Puts an option back to its default, or that of a queue to what all have."
        => |it| option(&it.name, it.queue.as_ref(), "is put back to what holds without it")
            .event(What::Option, Some(format!("{} unset", it.name)));
    LoadOptions(LoadOptions) => Done, Options "POST" "/v1/options", "Sets many options, all or none; those that are not named stay, or go with clear."
        => |it| Said::new(if it.clear { "options are loaded, and all others are put back" } else { "options are loaded" })
            .event(What::Option, Some("several loaded at once".to_owned()));
    ShowFleet(ShowFleet) => Fleet, Fleet "GET" "/v1/fleet", "Shows all supervisors that share a Redis: host, version, pools, how many jobs each runs, and its last sign of life.";
}

impl Verb {
    /// The job that the request brings, if any: a client that may not put programs may not bring one.
    pub fn brings(&self) -> Option<&NewJob> {
        if let Verb::PutRecurring(recurring) = self { Some(&recurring.job) } else { None }
    }
}
