//! Output from the grammar of the command line: shell completion, and manual pages.

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use super::args::Args;
use super::args::reference::{Completion, For, Manual};
use super::term::screen::print;
use failure::{Failure, exit};

/// Prints the completion script of a shell.
pub(super) fn completion(args: &Completion) -> Result<u8, Failure> {
    let shell = match args.shell {
        For::Bash => Shell::Bash,
        For::Zsh => Shell::Zsh,
        For::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "taskvisor", &mut script);
    let grammar = String::from_utf8_lossy(&script);
    // The start of zsh's own code comes last in its script; the supervisor's words must come before that.
    let (grammar, begin) = match grammar.rfind("\nif [ \"$funcstack[1]\"") {
        Some(place) if args.shell == For::Zsh => grammar.split_at(place),
        _ => (&*grammar, ""),
    };
    let of_values = match args.shell {
        For::Bash => include_str!("completion.bash"),
        For::Fish => include_str!("completion.fish"),
        For::Zsh => include_str!("completion.zsh"),
    };
    print(&[grammar, of_values, begin].concat())?;
    Ok(exit::OK)
}

/// Prints the manual page of the program, or writes the pages of all its commands.
pub(super) fn manual(args: &Manual) -> Result<u8, Failure> {
    match &args.dir {
        None => {
            let mut page = Vec::new();
            Man::new(Args::command()).render(&mut page)?;
            print(&String::from_utf8_lossy(&page))?;
        }
        Some(dir) => clap_mangen::generate_to(Args::command(), dir)
            .map_err(|error| Failure::from(error).of(format!("failed to write to {}", dir.display())))?,
    }
    Ok(exit::OK)
}
