//! The `taskvisor` program.

use std::process::ExitCode;

use nix::sys::signal::{SigSet, Signal};
use taskvisor::cli;

/// The internal commands `keeper` and `supervisor` come before any parsing: the keeper stays small and has one thread.
fn main() -> ExitCode {
    // A file that may grow no longer (`ulimit -f`) is like a full disk: the write fails, and the process lives.
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGXFSZ);
    _ = blocked.thread_block();
    let mut args = std::env::args_os().skip(1);
    match args.next().as_deref().and_then(|word| word.to_str()) {
        Some("keeper") => keeper::command(args),
        Some("supervisor") => cli::supervisor(args),
        Some(_) | None => cli::main(),
    }
}
