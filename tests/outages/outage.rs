//! The kinds of outage, and what each one stops.

// Each test binary uses only a part of this module.
#![allow(dead_code)]

/// A kind of outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Another process keeps the lock of the store.
    StoreLocked,
    /// The server is stopped: connections stay open, and nothing is answered.
    ServerStill,
    /// The server is killed, and begins again with what it had on disk.
    ServerKilled,
    /// The server answers reads and refuses writes, as a replica does.
    ReadOnly,
    /// The server is at its maxmemory.
    Full,
    /// The network drops all packets; the server goes on.
    NetworkLost,
    /// SQS accepts requests and does not answer.
    Unanswered,
    /// SQS answers all but changes of visibility: what it hides no more comes again at once.
    Unhidden,
    /// SQS closes each connection.
    Gone,
    /// SQS refuses all requests.
    Denied,
    /// The supervisor alone is stopped; its keeper and its jobs go on.
    SupervisorStopped,
    /// All of the service and its jobs is stopped, as on a paused host; the broker goes on.
    HostStill,
    /// The same with the server of the broker, as on a host that has both.
    AllStill,
}

impl Outage {
    /// Whether the processes of jobs stand still, too.
    pub fn stops_jobs(self) -> bool {
        matches!(self, Outage::HostStill | Outage::AllStill)
    }

    /// Whether a job that runs, and may not carry on, has to be dead before its lease ends.
    pub fn cuts_off(self) -> bool {
        !matches!(self, Outage::Full | Outage::HostStill | Outage::AllStill)
    }

    /// Whether it stops all hosts. If not, the broker rightly gives unrenewed jobs to other hosts.
    pub fn is_for_all(self) -> bool {
        !matches!(self, Outage::NetworkLost | Outage::SupervisorStopped)
    }
}
