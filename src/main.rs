//! The `taskvisor` program.

use std::process::ExitCode;

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{SigSet, Signal};
use taskvisor::cli;

/// The least limit of the stack, in bytes.
const STACK: u64 = 2 << 20;

/// The internal commands `keeper` and `supervisor` come before any parsing: the keeper stays small and has one thread.
fn main() -> ExitCode {
    // What overflows its stack dies without a word of why.
    if let Ok((soft, _)) = getrlimit(Resource::RLIMIT_STACK)
        && soft < STACK
    {
        eprintln!(
            "error: taskvisor needs a stack of {} KiB, and the limit is {} KiB\nhint: raise it: ulimit -s 8192, or \
             LimitSTACK= in the unit; jobs have the limit that start found",
            STACK >> 10,
            soft >> 10
        );
        return ExitCode::from(failure::exit::IO);
    }
    // A file that may grow no longer (`ulimit -f`) is like a full disk: the write fails, and the process lives.
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGXFSZ);
    // Past a soft limit of CPU time (`ulimit -St`) it comes each second. The limit is for what uses much: jobs.
    blocked.add(Signal::SIGXCPU);
    _ = blocked.thread_block();
    let mut args = std::env::args_os().skip(1);
    match args.next().as_deref().and_then(|word| word.to_str()) {
        Some("keeper") => keeper::command(args),
        Some("supervisor") => cli::supervisor(args),
        Some(_) | None => cli::main(),
    }
}
