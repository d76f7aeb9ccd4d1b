//! The table of verbs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{
    Ability, Before, Bulk, Cancel, ClassDay, ClassStats, DependOff, DependOn, Discard, Done, Each, Failed,
    FailureGroup, FindJobs, Forget, Get, ListRecurring, LoadOptions, Number, OptionShown, Pause,
    PauseRecurring, Prioritize, QueueDay, Queues, RemoveRecurring, Resume, ResumeRecurring, Retry,
    RunRecurring, SetData, SetOption, ShowFleet, ShowOptions, ShowRecurring, State, Stats, Swept, Tag, Tags,
    Track, UnsetOption, Untrack,
};
use crate::{
    Filter, Fleet, JobId, JobRecord, LatestJob, NewJob, QueueCounts, QueueName, Recurring, RecurringRecord,
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

/// Declares [`Verb`], [`Answer`] and the properties of each verb.
macro_rules! verbs {
    ($($name:ident($type:ty) => $answer:ty, $needs:ident $method:literal $path:literal, $does:literal;)*) => {
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
    Cancel(Cancel) => Vec<Each>, Cancel "POST" "/v1/cancel", "Ends jobs: at once those that wait; one that runs is canceling until its processes are proven dead.";
    Retry(Retry) => Done, Retry "POST" "/v1/jobs/{job}/retry", "Puts a failed, held, canceled or complete job back to waiting, its counters and progress cleared.";
    DependOn(DependOn) => State, Depend "POST" "/v1/jobs/{job}/depends/on", "Has a job that has not begun wait until others are complete, too.";
    DependOff(DependOff) => State, Depend "POST" "/v1/jobs/{job}/depends/off", "Has a job wait for others no more; its delay stays.";
    Prioritize(Prioritize) => Done, Prioritize "POST" "/v1/jobs/{job}/priority", "Gives a job another priority; among equals it keeps its place.";
    SetData(SetData) => Done, SetData "POST" "/v1/jobs/{job}/data", "Gives a running job other data, for its next attempt or queue; only who holds its lease may.";
    Tag(Tag) => Tags, Tag "POST" "/v1/jobs/{job}/tags", "Adds tags to a job and removes others.";
    Track(Track) => Done, Track "POST" "/v1/jobs/{job}/track", "Marks a job as one that somebody follows.";
    Untrack(Untrack) => Done, Track "POST" "/v1/jobs/{job}/untrack", "Takes that mark away.";
    Discard(Discard) => Done, Discard "POST" "/v1/jobs/{job}/discard", "Forgets a job that has ended, with its history.";
    Failed(Failed) => Vec<FailureGroup>, Failures "GET" "/v1/failed", "Counts the jobs that failed or are held, by what their failure is called, the most first.";
    Bulk(Bulk) => Swept, RetryMany "POST" "/v1/failed", "Puts back to waiting, or discards, the ended jobs that match: the next of them, and where to go on.";
    Queues(Queues) => BTreeMap<QueueName, QueueCounts>, Count "GET" "/v1/queues", "Counts the jobs of all queues by state.";
    Pause(Pause) => Done, Pause "POST" "/v1/queues/{queue}/pause", "Stops fetching from a queue, for every supervisor, until it is resumed.";
    Resume(Resume) => Done, Pause "POST" "/v1/queues/{queue}/resume", "Ends the pause of a queue.";
    ListRecurring(ListRecurring) => Vec<RecurringRecord>, Recur "GET" "/v1/recurring", "Lists the recurring jobs by name.";
    ShowRecurring(ShowRecurring) => RecurringRecord, Recur "GET" "/v1/recurring/{name}", "Shows one recurring job, and when it is due.";
    PutRecurring(Recurring) => RecurringRecord, Recur "POST" "/v1/recurring/{name}", "Makes a job recur, or changes one that does; with an unchanged schedule it is due when it was.";
    RunRecurring(RunRecurring) => LatestJob, Recur "POST" "/v1/recurring/{name}/run", "Puts the job of a recurring job now, whatever its schedule and its latest job.";
    PauseRecurring(PauseRecurring) => Done, Recur "POST" "/v1/recurring/{name}/pause", "Has a recurring job put no jobs until it is resumed.";
    ResumeRecurring(ResumeRecurring) => Done, Recur "POST" "/v1/recurring/{name}/resume", "Ends the pause of a recurring job; what was due meanwhile is made up within its catch-up time.";
    RemoveRecurring(RemoveRecurring) => Done, Recur "POST" "/v1/recurring/{name}/remove", "Ends a recurrence; the jobs that it has put stay.";
    Stats(Stats) => QueueDay, Statistics "GET" "/v1/queues/{queue}/stats", "Tells how the jobs of a queue fared on a day: how long they waited and ran, how many failed.";
    ClassStats(ClassStats) => Vec<ClassDay>, Statistics "GET" "/v1/classes", "Tells how the jobs of each class fared, by day: how many completed and failed, how long they ran, what CPU time and memory they took.";
    Forget(Forget) => Swept, Forget "POST" "/v1/queues/{queue}/forget", "Removes a queue that has no jobs, with its statistics; if asked its ended jobs first: the next of them, and where to go on.";
    ShowOptions(ShowOptions) => Vec<OptionShown>, Options "GET" "/v1/options", "Shows the options in force, and what is set for single queues.";
    SetOption(SetOption) => Done, Options "POST" "/v1/options/{name}", "Sets an option, for all queues or for one.";
    UnsetOption(UnsetOption) => Done, Options "POST" "/v1/options/{name}/unset", "Puts an option back to its default, or that of a queue to what all have.";
    LoadOptions(LoadOptions) => Done, Options "POST" "/v1/options", "Sets many options, all or none; those that are not named stay, or go with clear.";
    ShowFleet(ShowFleet) => Fleet, Fleet "GET" "/v1/fleet", "Shows all supervisors that share a Redis: host, version, pools, how many jobs each runs, and its last sign of life.";
}

impl Verb {
    /// The job that the request brings, if any: a client that may not put programs may not bring one.
    pub fn brings(&self) -> Option<&NewJob> {
        if let Verb::PutRecurring(recurring) = self { Some(&recurring.job) } else { None }
    }
}
