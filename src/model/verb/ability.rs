//! Abilities: what a broker may or may not be able to do. Each verb needs one of these; a put may need some.

/// An ability that not every broker has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ability {
    /// Shows a job by its id.
    Show,
    /// Lists jobs by filter.
    List,
    /// Shows, lists and cancels a job that no supervisor here has taken yet.
    ShowWaiting,
    /// Counts the jobs before a waiting one.
    Position,
    /// Cancels a job.
    Cancel,
    /// Puts an ended job back to waiting.
    Retry,
    /// Puts back or removes many ended jobs at a time.
    RetryMany,
    /// Has a job wait for others.
    Depend,
    /// Runs higher priority first, and changes it.
    Prioritize,
    /// Gives a running job other data.
    SetData,
    /// Keeps the tags of jobs.
    Tag,
    /// Tracks jobs for people.
    Track,
    /// Removes ended jobs.
    Discard,
    /// Counts failures by group.
    Failures,
    /// Counts the jobs of queues.
    Count,
    /// Pauses a queue for every supervisor.
    Pause,
    /// Puts jobs by schedules.
    Recur,
    /// Keeps daily statistics.
    Statistics,
    /// Removes a queue.
    Forget,
    /// Keeps options that hold for every supervisor.
    Options,
    /// Shows the supervisors that share the broker.
    Fleet,
    /// Refuses a new job whose id exists already.
    UniqueId,
    /// Delays a new job.
    Delay,
    /// Drops a job that was not begun by a time.
    Expire,
    /// Puts several jobs, all or none.
    PutTogether,
    /// Publishes events about what other programs do with its jobs, too.
    AllEvents,
}

impl Ability {
    /// All abilities, in the order of the documentation.
    pub const ALL: [Ability; 26] = [
        Ability::Show,
        Ability::List,
        Ability::ShowWaiting,
        Ability::Position,
        Ability::Cancel,
        Ability::Retry,
        Ability::RetryMany,
        Ability::Depend,
        Ability::Prioritize,
        Ability::SetData,
        Ability::Tag,
        Ability::Track,
        Ability::Discard,
        Ability::Failures,
        Ability::Count,
        Ability::Pause,
        Ability::Recur,
        Ability::Statistics,
        Ability::Forget,
        Ability::Options,
        Ability::Fleet,
        Ability::UniqueId,
        Ability::Delay,
        Ability::Expire,
        Ability::PutTogether,
        Ability::AllEvents,
    ];

    /// What a broker without the ability cannot do, as the end of "the broker … cannot …".
    pub fn does(self) -> &'static str {
        match self {
            Ability::Show => "show a job",
            Ability::List => "list jobs",
            Ability::ShowWaiting => "show or cancel a job before this host has taken it",
            Ability::Position => "count the jobs that come before one",
            Ability::Cancel => "cancel a job",
            Ability::Retry => "put an ended job back to waiting",
            Ability::RetryMany => "put many ended jobs back to waiting",
            Ability::Depend => "have a job wait for others",
            Ability::Prioritize => "run one job of a queue before another",
            Ability::SetData => "give a running job other data",
            Ability::Tag => "keep the tags of jobs",
            Ability::Track => "mark a job as followed",
            Ability::Discard => "forget a job",
            Ability::Failures => "count failures",
            Ability::Count => "count the jobs of its queues",
            Ability::Pause => "pause a queue",
            Ability::Recur => "put jobs by a schedule",
            Ability::Statistics => "tell statistics of a day",
            Ability::Forget => "remove a queue",
            Ability::Options => "keep options",
            Ability::Fleet => "show the supervisors that share it",
            Ability::UniqueId => "refuse an id that exists already",
            Ability::Delay => "delay a job",
            Ability::Expire => "drop a job that was not begun by a time",
            Ability::PutTogether => "put several jobs all or none",
            Ability::AllEvents => "tell what other programs do with its jobs",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ability_is_listed_once() {
        let mut sorted = Ability::ALL.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), Ability::ALL.len());
        assert_eq!(sorted.last(), Some(&Ability::AllEvents), "the last one declared");
        assert_eq!(sorted, Ability::ALL, "in the order in which they are declared");
    }
}
