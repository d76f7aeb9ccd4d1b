//! The signals that do nothing to a supervisor: only its keeper gives orders.

use std::io;

use nix::sys::signal::{SigSet, Signal};
use tracing::warn;

/// Those up to USR2 are the keeper's, also when all processes of a service get them. Nothing here uses the others, and to
/// die of them would count as a crash.
const IGNORED: [Signal; 13] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGPIPE,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGIO,
    Signal::SIGPWR,
    Signal::SIGSTKFLT,
];

/// Ignores them from here on, in all threads to come.
pub(super) fn ignore() -> io::Result<()> {
    let mut ignored = SigSet::empty();
    IGNORED.iter().for_each(|signal| ignored.add(*signal));
    ignored.thread_block()?;
    tell_of_signals(ignored)
}

/// Says of each signal that was sent to this process that it does nothing here, and who takes it.
fn tell_of_signals(mut ignored: SigSet) -> io::Result<()> {
    ignored.remove(Signal::SIGPIPE);
    let told = move || {
        while let Ok(signal) = ignored.wait() {
            let keeper = nix::unistd::getppid();
            warn!(
                "{signal} to the supervisor does nothing: send it to the keeper, pid {keeper} (or: taskvisor stop)"
            );
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(told).map(drop)
}
