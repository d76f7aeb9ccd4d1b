//! The signals that the keeper passes on.

/// A signal with a meaning for the supervisor.
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
    /// SIGUSR2: fetch no more jobs.
    Pause,
    /// SIGCONT: fetch jobs again.
    Resume,
    /// SIGTTIN: one more worker in each pool.
    Grow,
    /// SIGTTOU: one less.
    Shrink,
}

impl Ask {
    /// All of them, each at its number.
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

    /// Whether it is an order to stop.
    pub fn ends(self) -> bool {
        matches!(self, Ask::Terminate | Ask::Interrupt | Ask::Quit)
    }
}
