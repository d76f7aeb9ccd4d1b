//! The signals that the keeper passes on.

/// A signal that means something to the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// SIGTERM: drain, then stop.
    Terminate,
    /// SIGINT: drain first, sooner at each repetition.
    Interrupt,
    /// SIGQUIT: stop without draining.
    Quit,
    /// SIGHUP: read the settings again.
    Hangup,
    /// SIGUSR1: open the log files again.
    Reopen,
    /// SIGUSR2: take no more jobs.
    Pause,
    /// SIGCONT: take jobs again.
    Resume,
    /// SIGTTIN: one worker more in each pool.
    Grow,
    /// SIGTTOU: one less.
    Shrink,
}

impl Ask {
    /// All of them, at their number.
    pub const ALL: [Ask; 9] = [
        Ask::Terminate,
        Ask::Interrupt,
        Ask::Quit,
        Ask::Hangup,
        Ask::Reopen,
        Ask::Pause,
        Ask::Resume,
        Ask::Grow,
        Ask::Shrink,
    ];

    /// Whether it is an order to end.
    pub fn ends(self) -> bool {
        matches!(self, Ask::Terminate | Ask::Interrupt | Ask::Quit)
    }
}
