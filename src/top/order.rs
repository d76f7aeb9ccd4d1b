//! What can be ordered here, with the command line that does the same.

use model::JobId;
use term::format::{counted, quoted};

/// An order of the person at the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What is to be done.
    pub act: Act,
    /// To which things, by their names; of a kill the slots.
    pub names: Vec<String>,
    /// The processes that a kill is about.
    pub pids: Vec<i32>,
    /// How many things that concerns, if other than the names.
    pub count: Option<u64>,
}

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// End jobs, and wait until their processes are dead.
    Cancel,
    /// Kill the first process of slots. The keeper kills the rest of the tree.
    Kill,
    /// Put ended jobs back to waiting.
    Retry,
    /// Forget ended jobs.
    Discard,
    /// Put the failed and held jobs of groups back.
    RetryGroup,
    /// Forget the failed and held jobs of groups.
    DiscardGroup,
    /// Fetch no more from queues.
    PauseQueue,
    /// Fetch from queues again.
    ResumeQueue,
    /// Take no more jobs in pools.
    PausePool,
    /// Take jobs in pools again.
    ResumePool,
    /// One more worker in pools.
    Grow,
    /// One worker fewer in pools.
    Shrink,
    /// New workers in pools.
    Recycle,
    /// Put the job of recurring jobs now.
    RunNow,
    /// Put no jobs of recurring jobs for now.
    PauseRecurring,
    /// Put jobs of recurring jobs again.
    ResumeRecurring,
    /// End recurring jobs.
    RemoveRecurring,
}

impl Order {
    /// An order about these.
    pub fn new(act: Act, names: Vec<String>) -> Order {
        Order { act, names, pids: Vec::new(), count: None }
    }

    /// The names as ids of jobs.
    pub fn jobs(&self) -> Vec<JobId> {
        self.names.iter().map(|name| name.as_str().into()).collect()
    }

    /// The command line that does it. `program` is how ours is called, with its options and a blank behind it.
    pub fn command(&self, program: &str) -> String {
        if self.act == Act::Kill {
            let pids: Vec<String> = self.pids.iter().map(i32::to_string).collect();
            return format!("kill -KILL {}", pids.join(" "));
        }
        let names: Vec<String> = self.names.iter().map(|name| quoted(name)).collect();
        let (before, after, takes_many) = self.act.words();
        // A name may begin as an option does.
        let joint = |name: &String| match name.starts_with('-') {
            false => " ",
            true if before.ends_with("--group") => "=",
            true => " -- ",
        };
        if takes_many {
            let joint = names.iter().map(joint).max_by_key(|joint| joint.len()).unwrap_or(" ");
            return format!("{program}{before}{joint}{}{after}", names.join(" "));
        }
        let each: Vec<String> =
            names.iter().map(|name| format!("{program}{before}{}{name}{after}", joint(name))).collect();
        each.join("; ")
    }

    /// How many things it is about.
    pub fn many(&self) -> String {
        let count = self.count.map_or(self.names.len(), |count| usize::try_from(count).unwrap_or(usize::MAX));
        let (one, more) = match self.act {
            Act::Cancel | Act::Retry | Act::Discard | Act::RetryGroup | Act::DiscardGroup => ("job", "jobs"),
            Act::Kill => ("worker", "workers"),
            Act::PauseQueue | Act::ResumeQueue => ("queue", "queues"),
            Act::PausePool | Act::ResumePool | Act::Grow | Act::Shrink | Act::Recycle => ("pool", "pools"),
            Act::RunNow | Act::PauseRecurring | Act::ResumeRecurring | Act::RemoveRecurring => {
                ("recurring job", "recurring jobs")
            }
        };
        counted(count, one, more)
    }
}

impl Act {
    /// The words before and after the names, and whether one command takes many names.
    fn words(self) -> (&'static str, &'static str, bool) {
        match self {
            Act::Cancel => ("job cancel --wait", "", true),
            Act::Kill => ("", "", true),
            Act::Retry => ("job retry", "", true),
            Act::Discard => ("job discard", "", true),
            Act::RetryGroup => ("job retry --failed --held --group", "", false),
            Act::DiscardGroup => ("job discard --failed --held --group", "", false),
            Act::PauseQueue => ("queue pause", "", false),
            Act::ResumeQueue => ("queue resume", "", false),
            Act::PausePool => ("pause", "", false),
            Act::ResumePool => ("resume", "", false),
            Act::Grow => ("scale", " +1", false),
            Act::Shrink => ("scale", " -1", false),
            Act::Recycle => ("recycle", "", false),
            Act::RunNow => ("recur run", "", false),
            Act::PauseRecurring => ("recur pause", "", true),
            Act::ResumeRecurring => ("recur resume", "", true),
            Act::RemoveRecurring => ("recur remove", "", true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_shown_as_commands() {
        let order = |act, names: &[&str]| Order::new(act, names.iter().map(|name| (*name).into()).collect());
        let jobs = order(Act::Cancel, &["01a1", "it's"]);
        assert_eq!(jobs.command("taskvisor "), r"taskvisor job cancel --wait 01a1 'it'\''s'");
        assert_eq!(jobs.many(), "2 jobs");
        let named = order(Act::Retry, &["01a1", "--failed"]);
        assert_eq!(named.command("taskvisor "), "taskvisor job retry -- 01a1 --failed");
        let group = order(Act::RetryGroup, &["-1"]);
        assert_eq!(group.command("taskvisor "), "taskvisor job retry --failed --held --group=-1");
        let pools = order(Act::Shrink, &["mail", "video"]);
        assert_eq!(pools.command("taskvisor "), "taskvisor scale mail -1; taskvisor scale video -1");
        let elsewhere = "taskvisor -b redis://host ";
        assert_eq!(
            pools.command(elsewhere),
            "taskvisor -b redis://host scale mail -1; taskvisor -b redis://host scale video -1"
        );
        let groups = Order { count: Some(120), ..order(Act::RetryGroup, &["exit 1"]) };
        assert_eq!(groups.command("taskvisor "), "taskvisor job retry --failed --held --group 'exit 1'");
        assert_eq!(groups.many(), "120 jobs");
        let kill = Order { pids: vec![7, 8], ..order(Act::Kill, &["mail.1", "mail.2"]) };
        assert_eq!((kill.command("taskvisor "), kill.many()), ("kill -KILL 7 8".into(), "2 workers".into()));
    }
}
