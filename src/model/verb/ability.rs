//! Abilities: what a broker may or may not be able to do. Each verb needs one of these; a put may need some.

/// Declares the abilities, each with what a broker without it cannot do.
macro_rules! abilities {
    ($($(#[$of:meta])* $name:ident => $does:literal,)*) => {
        /// An ability that not every broker has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Ability {
            $($(#[$of])* $name,)*
        }

        impl Ability {
            /// All abilities, in the order of the documentation.
            pub const ALL: [Ability; [$($does),*].len()] = [$(Ability::$name),*];

            /// What a broker without the ability cannot do, as the end of "the broker … cannot …".
            pub fn does(self) -> &'static str {
                match self {
                    $(Ability::$name => $does,)*
                }
            }
        }
    };
}

abilities! {
    /// Shows a job by its id.
    Show => "show a job",
    /// Lists jobs by filter.
    List => "list jobs",
    /// Shows, lists and cancels a job that no supervisor here has taken yet.
    ShowWaiting => "show or cancel a job before this host has taken it",
    /// Counts the jobs before a waiting one.
    Position => "count the jobs that come before one",
    /// Cancels a job.
    Cancel => "cancel a job",
    /// Puts an ended job back to waiting.
    Retry => "put an ended job back to waiting",
    /// Puts back or removes many ended jobs at a time.
    RetryMany => "put many ended jobs back to waiting",
    /// Has a job wait for others.
    Depend => "have a job wait for others",
    /// Runs higher priority first, and changes it.
    Prioritize => "run one job of a queue before another",
    /// Gives a running job other data.
    SetData => "give a running job other data",
    /// Keeps the tags of jobs.
    Tag => "keep the tags of jobs",
    /// Tracks jobs for people.
    Track => "mark a job as followed",
    /// Removes ended jobs.
    Discard => "forget a job",
    /// Counts failures by group.
    Failures => "count failures",
    /// Counts the jobs of queues.
    Count => "count the jobs of its queues",
    /// Pauses a queue for every supervisor.
    Pause => "pause a queue",
    /// Puts jobs by schedules.
    Recur => "put jobs by a schedule",
    /// Keeps daily statistics.
    Statistics => "tell statistics of a day",
    /// Removes a queue.
    Forget => "remove a queue",
    /// Keeps options that hold for every supervisor.
    Options => "keep options",
    /// Shows the supervisors that share the broker.
    Fleet => "show the supervisors that share it",
    /// Refuses a new job whose id exists already.
    UniqueId => "refuse an id that exists already",
    /// Delays a new job.
    Delay => "delay a job",
    /// Drops a job that was not begun by a time.
    Expire => "drop a job that was not begun by a time",
    /// Puts several jobs, all or none.
    PutTogether => "put several jobs all or none",
    /// Publishes events about what other programs do with its jobs, too.
    AllEvents => "tell what other programs do with its jobs",
}
