//! What a pool runs, and what is around it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Bytes, Class, Limits, Retry};

/// What a worker can run: each class with the settings that its code gives it.
pub type Classes = BTreeMap<Class, ClassSettings>;

/// Settings of a class: they count for jobs that bring none, and win over those of the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassSettings {
    /// The limits of one attempt.
    pub limits: Limits,
    /// Tries after the first one.
    pub retries: Option<u32>,
    /// Wait before the first retry.
    pub delay: Option<Duration>,
    /// The longest wait.
    pub cap: Option<Duration>,
}

impl ClassSettings {
    /// The policy of this class in a pool that says `pool`.
    pub fn retry(&self, pool: Retry) -> Retry {
        Retry {
            retries: self.retries.unwrap_or(pool.retries),
            delay: self.delay.unwrap_or(pool.delay),
            cap: self.cap.unwrap_or(pool.cap),
        }
    }
}

/// Which classes a pool takes from its queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassFilter {
    /// These alone; empty = any.
    pub only: Vec<Class>,
    /// But none of these.
    pub except: Vec<Class>,
}

impl ClassFilter {
    /// Whether it lets jobs of this class through. A name that ends in `*` stands for all that begin like it.
    pub fn matches(&self, class: &Class) -> bool {
        let named = |names: &[Class]| names.iter().any(|name| stands_for(name, class));
        (self.only.is_empty() || named(&self.only)) && !named(&self.except)
    }
}

fn stands_for(name: &Class, class: &Class) -> bool {
    match name.as_str().strip_suffix('*') {
        Some(start) => class.as_str().starts_with(start),
        None => name == class,
    }
}

/// From which of its queues a pool takes the next job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// From the first that has one.
    #[default]
    Ordered,
    /// From each in turn.
    RoundRobin,
    /// From each in turn, in a new order for each fetch.
    Shuffled,
    /// From one that is drawn for each fetch, each as likely.
    Random,
    /// From one that is drawn for each fetch; its priority is the number of its tickets.
    Lottery,
    /// From the one of highest priority that is not known to be empty; if all are, from the highest.
    HighestPriorityFirst,
    /// The same; if all are known to be empty, from one that a lottery draws.
    HighestPriorityLottery,
    /// A lottery that is drawn again, up to 10 times, while it draws a queue that is known to be empty.
    LotteryLottery,
    /// A lottery among those that are not known to be empty.
    ReducedLottery,
    /// From the one of highest priority that has a job, whatever is known of it.
    StrictPriority,
    /// From the one whose priority, multiplied by the age of its oldest waiting job, is highest.
    PriorityAging,
}

impl Order {
    /// Each of them.
    pub const ALL: [Order; 11] = [
        Order::Ordered,
        Order::RoundRobin,
        Order::Shuffled,
        Order::Random,
        Order::Lottery,
        Order::HighestPriorityFirst,
        Order::HighestPriorityLottery,
        Order::LotteryLottery,
        Order::ReducedLottery,
        Order::StrictPriority,
        Order::PriorityAging,
    ];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Order::Ordered => "ordered",
            Order::RoundRobin => "round_robin",
            Order::Shuffled => "shuffled",
            Order::Random => "random",
            Order::Lottery => "lottery",
            Order::HighestPriorityFirst => "highest_priority_first",
            Order::HighestPriorityLottery => "highest_priority_lottery",
            Order::LotteryLottery => "lottery_lottery",
            Order::ReducedLottery => "reduced_lottery",
            Order::StrictPriority => "strict_priority",
            Order::PriorityAging => "priority_aging",
        }
    }

    /// Whether it looks at the priorities of queues.
    pub fn uses_priorities(self) -> bool {
        match self {
            Order::Ordered | Order::RoundRobin | Order::Shuffled | Order::Random => false,
            Order::Lottery
            | Order::HighestPriorityFirst
            | Order::HighestPriorityLottery
            | Order::LotteryLottery
            | Order::ReducedLottery
            | Order::StrictPriority
            | Order::PriorityAging => true,
        }
    }
}

/// The priority of a queue that has none of its own.
pub const QUEUE_PRIORITY: u8 = 5;
/// The highest priority of a queue; the lowest is 1.
pub const QUEUE_PRIORITY_MAX: u8 = 100;

/// The waiting jobs of a queue, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many jobs.
    pub jobs: u64,
    /// How long the oldest of them has; None = there is none, or it is not known.
    pub age: Option<Duration>,
}

/// How one fetch of several jobs goes through its queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Take {
    /// All it can from the first, then from the next.
    #[default]
    InOrder,
    /// One from each in turn, until none has any.
    InTurn,
}

/// How the workers of a pool are made, and what is around them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpawnSpec {
    /// The command of its workers, or that a job brings its own.
    pub work: Work,
    /// Variables of the supervisor's own environment that its processes see besides the usual ones; a name that ends in
    /// `*` stands for all that begin like it.
    pub env_pass: Vec<String>,
    /// Variables set for its processes.
    pub env_set: Vec<(String, String)>,
    /// Working directory; None = the supervisor's. Jobs that bring one are run there.
    pub cwd: Option<PathBuf>,
    /// File mode creation mask; None = the supervisor's, or the one a job brings.
    pub umask: Option<u32>,
    /// Who its processes are, if not the supervisor's user.
    pub identity: Option<Identity>,
    /// Whether each job gets an empty directory of its slot to work in.
    pub sandbox: bool,
    /// What becomes of processes that a job leaves behind in a worker that lives on.
    pub leftovers: Leftovers,
    /// What each of its processes has to begin with.
    pub means: ProcessLimits,
}

/// What a process has to begin with; None = what the supervisor has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Descriptors at a time.
    pub open_files: Option<u64>,
    /// How willing it is to let others go first.
    pub nice: Option<i32>,
    /// How likely it is to be chosen when the machine is out of memory.
    pub oom_score_adj: Option<i32>,
}

impl SpawnSpec {
    /// The variable that no worker sees, whatever its pool passes on: it opens the API.
    pub const API_TOKEN: &str = "TASKVISOR_API_TOKEN";
}

/// What the workers of a pool are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Work {
    /// Each runs the program that its job brings.
    #[default]
    Programs,
    /// Each runs this program, with the job's data on stdin.
    Run(Vec<Bytes>),
    /// Each is this program and speaks the worker protocol.
    Command(Vec<Bytes>),
}

/// A user, by numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's number.
    pub uid: u32,
    /// The first group's number.
    pub gid: u32,
    /// The other groups.
    pub groups: Vec<u32>,
    /// For people, and for `USER` and `LOGNAME`.
    pub name: String,
    /// The home directory, for `HOME`.
    pub home: PathBuf,
}

/// What becomes of a job whose lease ends because the broker does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CutOff {
    /// It is dead before its lease ends, so that it never runs twice at a time.
    #[default]
    Kill,
    /// It goes on. Whether it is still ours is the broker's word, once there is one.
    CarryOn,
}

/// What becomes of what a job leaves behind in a worker that lives on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Leftovers {
    /// It is told with the job.
    #[default]
    Report,
    /// It is told, and killed.
    Kill,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lets_through(only: &[&str], except: &[&str], class: &str) -> bool {
        let names = |names: &[&str]| names.iter().map(|name| Class::from(*name)).collect();
        ClassFilter { only: names(only), except: names(except) }.matches(&class.into())
    }

    #[test]
    fn without_names_every_class_is_taken() {
        assert!(lets_through(&[], &[], "mail.Send"));
    }

    #[test]
    fn a_name_is_taken_alone_and_a_star_stands_for_all_that_begin_so() {
        assert!(lets_through(&["mail.Send"], &[], "mail.Send"));
        assert!(!lets_through(&["mail.Send"], &[], "mail.SendAll"));
        assert!(lets_through(&["a", "mail.*"], &[], "mail.Send"));
        assert!(!lets_through(&["mail.*"], &[], "mail"));
        assert!(lets_through(&["*"], &[], "mail.Send"));
    }

    #[test]
    fn an_exception_wins() {
        assert!(!lets_through(&["mail.*"], &["mail.Send"], "mail.Send"));
        assert!(!lets_through(&[], &["mail.*"], "mail.Send"));
        assert!(lets_through(&[], &["mail.*"], "sms.Send"));
    }
}
