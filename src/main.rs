//! The `taskvisor` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // Before anything else is set up: the keeper stays small and has one thread.
    if args.next().is_some_and(|command| command == "keeper") {
        return taskvisor::keeper::command(args);
    }
    ExitCode::SUCCESS
}
