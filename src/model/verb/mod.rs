//! Verbs: requests of people about jobs. Each verb is a type with its own answer and a line in the table. The table
//! defines the API's routes, the client's requests and the requests to a broker.

mod ability;
mod answers;
mod classes;
mod edits;
mod failed;
mod fleet;
mod jobs;
mod options;
mod queues;
mod recurring;
mod table;

pub use ability::Ability;
pub use answers::{Done, Each, Fate, Number, Refusal, State, Tags};
pub use classes::{ClassDay, ClassStats, ClassSums};
pub use edits::{DependOff, DependOn, Discard, Prioritize, SetData, Tag, Track, Untrack};
pub use failed::{Act, Bulk, Failed, FailureGroup, Swept};
pub use fleet::ShowFleet;
pub use jobs::{Before, Cancel, FindJobs, Get, Retry};
pub use options::{LoadOptions, OptionShown, SetOption, ShowOptions, UnsetOption};
pub use queues::{Forget, Pause, QueueDay, Queues, Resume, Stats, Times, reason_fault};
pub use recurring::{
    ListRecurring, PauseRecurring, RemoveRecurring, ResumeRecurring, RunRecurring, ShowRecurring,
};
pub use table::{Answer, Route, Verb, VerbRequest, Visitor, visit};
