//! Error messages for a wrong command line, if environment variables play a part in it.

use std::ffi::OsString;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, Error};
use clap::{Arg, Command};

use super::advice::advised;

/// clap counts environment variables as typed, and so its usage text would be wrong. So the error is made again without
/// the environment, unless a variable causes it: then the error names the variable.
pub(crate) fn explained(command: Command, typed: &[OsString], error: Error) -> Error {
    advised(typed, of_the_command_line(command, typed, error))
}

fn of_the_command_line(mut command: Command, typed: &[OsString], error: Error) -> Error {
    // If the error is there without the variables as well, the flag was typed wrongly.
    let again = without_variables(command.clone()).try_get_matches_from(typed);
    match again {
        Err(again) if again.kind() == error.kind() => again,
        Ok(_) | Err(_) => {
            // Its arguments can be shown only after this.
            command.build();
            with_variable(&command, error)
        }
    }
}

fn without_variables(command: Command) -> Command {
    command.mut_args(|arg| arg.env(Resettable::Reset)).mut_subcommands(without_variables)
}

fn with_variable(command: &Command, mut error: Error) -> Error {
    let named = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(named)) => variable(command, named),
        Some(_) | None => None,
    };
    if let Some(variable) = named {
        error.insert(ContextKind::InvalidArg, ContextValue::String(variable));
    }
    error
}

/// The variable of the argument that clap shows by this text.
fn variable(command: &Command, shown: &str) -> Option<String> {
    let own = command.get_arguments().find(|arg| arg.get_env().is_some() && arg.to_string() == shown);
    let own = own.and_then(Arg::get_env).map(|name| name.to_string_lossy().into_owned());
    own.or_else(|| command.get_subcommands().find_map(|below| variable(below, shown)))
}
