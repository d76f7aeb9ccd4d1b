//! What can be selected, and the tabs that list it.

use model::JobId;

/// A thing that a line stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    /// A pool, by its name.
    Pool(String),
    /// A slot: `POOL.N`.
    Slot(String),
    /// A process below a slot, or several that are equal: the slot, and the place below it.
    Process(String, usize),
    /// A job, by its id.
    Job(JobId),
    /// A queue, by its name.
    Queue(String),
    /// The failures of a group.
    Group(String),
    /// A recurring job.
    Recurring(String),
    /// A supervisor of the fleet, by its instance.
    Member(String),
    /// An event, by its place in the order of arrival.
    Event(u64),
}

impl Thing {
    /// Its name, to copy.
    pub fn name(&self) -> String {
        match self {
            Thing::Pool(name) | Thing::Slot(name) | Thing::Process(name, _) => name.clone(),
            Thing::Queue(name) | Thing::Group(name) | Thing::Recurring(name) | Thing::Member(name) => {
                name.clone()
            }
            Thing::Job(id) => id.to_string(),
            Thing::Event(number) => number.to_string(),
        }
    }

    /// What it is, before its name.
    pub fn kind(&self) -> &'static str {
        match self {
            Thing::Pool(_) => "pool",
            Thing::Slot(_) | Thing::Process(..) => "slot",
            Thing::Job(_) => "job",
            Thing::Queue(_) => "queue",
            Thing::Group(_) => "failures",
            Thing::Recurring(_) => "recurring",
            Thing::Member(_) => "supervisor",
            Thing::Event(_) => "event",
        }
    }
}

/// The tabs of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tab {
    /// Pools, slots and their processes.
    Slots,
    /// Queues with their jobs.
    Queues,
    /// Jobs, the newest first.
    Jobs,
    /// Failures by group.
    Failures,
    /// Recurring jobs and when they are due.
    Recurring,
    /// Supervisors that share the broker.
    Fleet,
    /// What happened since the screen was opened.
    Events,
}

impl Tab {
    /// All, in their order.
    pub const ALL: [Tab; 7] =
        [Tab::Slots, Tab::Queues, Tab::Jobs, Tab::Failures, Tab::Recurring, Tab::Fleet, Tab::Events];

    /// The word on it.
    pub fn name(self) -> &'static str {
        match self {
            Tab::Slots => "slots",
            Tab::Queues => "queues",
            Tab::Jobs => "jobs",
            Tab::Failures => "failures",
            Tab::Recurring => "recurring",
            Tab::Fleet => "fleet",
            Tab::Events => "events",
        }
    }

    /// By what its lines can be sorted; the first is how they come.
    pub fn sorts(self) -> &'static [&'static str] {
        match self {
            Tab::Slots => &["name", "cpu", "memory", "age", "class"],
            Tab::Queues => &["name", "waiting", "oldest"],
            Tab::Jobs => &["newest", "state", "queue", "ran"],
            Tab::Failures => &["most", "newest", "name"],
            Tab::Recurring => &["name", "next"],
            Tab::Fleet => &["host", "running"],
            Tab::Events => &["newest"],
        }
    }
}
