//! What a pool runs, and the environment of its processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bytes, Class, Limits, Retry};

/// The classes that a worker knows, each with the settings in its code.
pub type Classes = BTreeMap<Class, ClassSettings>;

/// Settings of a class. A job's own win over them; they win over those of the pool.
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
    /// The retry policy of this class in a pool with the policy `pool`.
    pub fn retry(&self, pool: Retry) -> Retry {
        Retry {
            retries: self.retries.unwrap_or(pool.retries),
            delay: self.delay.unwrap_or(pool.delay),
            cap: self.cap.unwrap_or(pool.cap),
        }
    }
}

/// The classes that a pool takes from its queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassFilter {
    /// Only these classes; empty = any.
    pub only: Vec<Class>,
    /// Not these classes.
    pub except: Vec<Class>,
}

impl ClassFilter {
    /// Whether the filter allows jobs of this class. A name that ends in `*` stands for all that begin this way.
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

word_enum! {
    /// How a pool chooses among its queues.
    #[derive(Default)]
    pub enum Order {
        /// The first one that has a job.
        #[default]
        Ordered => "ordered",
        /// Each queue in turn.
        RoundRobin => "round_robin",
        /// Each queue in turn, in a new order for each fetch.
        Shuffled => "shuffled",
        /// One drawn for each fetch, each equally likely.
        Random => "random",
        /// One drawn for each fetch; a queue's priority is the number of its tickets.
        Lottery => "lottery",
        /// The one of highest priority that is not known to be empty; if all are, the one of highest priority.
        HighestPriorityFirst => "highest_priority_first",
        /// The same; if all are known to be empty, one drawn by lottery.
        HighestPriorityLottery => "highest_priority_lottery",
        /// A lottery, drawn again up to 10 times while it draws a queue that is known to be empty.
        LotteryLottery => "lottery_lottery",
        /// A lottery among the queues that are not known to be empty.
        ReducedLottery => "reduced_lottery",
        /// The one of highest priority that has a job, whatever is known.
        StrictPriority => "strict_priority",
        /// The one whose priority, multiplied by the age of its oldest waiting job, is highest.
        PriorityAging => "priority_aging",
    }
}

impl Order {
    /// Whether the order uses the priorities of queues.
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

    /// Whether a lot that is drawn chooses the queue.
    pub fn draws(self) -> bool {
        match self {
            Order::Random | Order::Lottery | Order::LotteryLottery | Order::ReducedLottery => true,
            Order::Ordered
            | Order::RoundRobin
            | Order::Shuffled
            | Order::HighestPriorityFirst
            | Order::HighestPriorityLottery
            | Order::StrictPriority
            | Order::PriorityAging => false,
        }
    }
}

/// The priority of a queue that has none of its own.
pub const QUEUE_PRIORITY: u8 = 5;
/// The highest priority of a queue; the lowest is 1.
pub const QUEUE_PRIORITY_MAX: u8 = 100;
/// The longest turn of a queue, in jobs; the shortest is 1.
pub const QUEUE_TURN_MAX: usize = 10_000;

/// The waiting jobs of a queue: how many, how old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Number of jobs.
    pub jobs: u64,
    /// How long the oldest of them has waited; None = there is none, or that is not known.
    pub age: Option<Duration>,
}

/// How one fetch of several jobs takes from its queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Take {
    /// All possible jobs from the first queue, then from the next.
    #[default]
    InOrder,
    /// One job from each queue in turn, until none has any.
    InTurn,
}

/// How to make the workers of a pool, and the environment of its processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpawnSpec {
    /// The command of its workers, or none if each job brings its own.
    pub work: Work,
    /// Variables of the supervisor's own environment that its processes get besides the usual ones; a name that ends in
    /// `*` stands for all that begin this way.
    pub env_pass: Vec<String>,
    /// Variables set for its processes.
    pub env_set: Vec<(String, String)>,
    /// Working directory; None = the supervisor's. A job with its own directory runs there.
    pub cwd: Option<PathBuf>,
    /// File mode creation mask; None = the supervisor's, or that of the job.
    pub umask: Option<u32>,
    /// The user of its processes; None = the supervisor's.
    pub identity: Option<Identity>,
    /// Whether each job runs in an empty directory of its slot.
    pub sandbox: bool,
    /// The action on processes that a job leaves behind in a worker that lives on.
    pub leftovers: Leftovers,
    /// Limits and priorities that each of its processes starts with.
    pub process_limits: ProcessLimits,
}

/// Limits and priorities of a new process; None = the supervisor's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Most open descriptors.
    pub open_files: Option<u64>,
    /// Niceness for the CPU scheduler.
    pub nice: Option<i32>,
    /// Score for the out-of-memory killer.
    pub oom_score_adj: Option<i32>,
}

impl SpawnSpec {
    /// A variable that no worker gets, whatever its pool passes on: it gives access to the API.
    pub const API_TOKEN: &str = "TASKVISOR_API_TOKEN";
    /// The variable that names the supervisor's socket to its jobs, and to the commands that they run.
    pub const SOCKET: &str = "TASKVISOR_SOCKET";
}

/// The kind of a pool's workers.
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
    /// The user name, for people and for `USER` and `LOGNAME`.
    pub name: String,
    /// The home directory, for `HOME`.
    pub home: PathBuf,
}

/// The action on a job whose lease ends because the broker does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CutOff {
    /// The job is killed before its lease ends, so that it never runs twice at a time.
    #[default]
    Kill,
    /// The job goes on. Once the broker answers, it says whether the lease is still ours.
    CarryOn,
}

/// The action on orphans of a job in a worker that lives on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Leftovers {
    /// Report them with the job.
    #[default]
    Report,
    /// Report and kill them.
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
    fn empty_class_filter_accepts_every_class() {
        assert!(lets_through(&[], &[], "mail.Send"));
    }

    #[test]
    fn class_filter_matches_exact_names_and_prefixes_with_a_star() {
        assert!(lets_through(&["mail.Send"], &[], "mail.Send"));
        assert!(!lets_through(&["mail.Send"], &[], "mail.SendAll"));
        assert!(lets_through(&["a", "mail.*"], &[], "mail.Send"));
        assert!(!lets_through(&["mail.*"], &[], "mail"));
        assert!(lets_through(&["*"], &[], "mail.Send"));
    }

    #[test]
    fn except_classes_overrides_classes() {
        assert!(!lets_through(&["mail.*"], &["mail.Send"], "mail.Send"));
        assert!(!lets_through(&[], &["mail.*"], "mail.Send"));
        assert!(lets_through(&[], &["mail.*"], "sms.Send"));
    }
}
