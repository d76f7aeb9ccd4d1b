//! The `taskvisor` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The words that only this program says to itself, `keeper` and `supervisor`, are looked at here, before any parsing.
    taskvisor::cli::main()
}
