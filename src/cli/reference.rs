//! What is made of the command line's own grammar: completion for shells, and manual pages.

use std::path::PathBuf;

use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;

use super::args::Args;
use super::term::screen::print;
use crate::failure::{Failure, exit};

#[derive(Debug, clap::Args)]
pub struct Completion {
    /// For which shell
    #[arg(value_enum)]
    pub shell: For,
}

/// The shells that are tried in the tests.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum For {
    Bash,
    Zsh,
    Fish,
}

/// Below `completion --help`.
pub const COMPLETION_HELP: &str = "\
Examples:
  taskvisor completion bash >/usr/share/bash-completion/completions/taskvisor
  taskvisor completion zsh >/usr/share/zsh/site-functions/_taskvisor
  taskvisor completion fish >/usr/share/fish/vendor_completions.d/taskvisor.fish";

#[derive(Debug, clap::Args)]
pub struct Manual {
    /// Write the pages of all commands into this directory instead
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Below `man --help`.
pub const MANUAL_HELP: &str = "\
Examples:
  taskvisor man | man -l -
  taskvisor man /usr/local/share/man/man1";

/// Prints what a shell reads.
pub fn completion(args: &Completion) -> Result<u8, Failure> {
    let shell = match args.shell {
        For::Bash => Shell::Bash,
        For::Zsh => Shell::Zsh,
        For::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "taskvisor", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(exit::OK)
}

/// Prints the page of the program, or writes those of all its commands.
pub fn manual(args: &Manual) -> Result<u8, Failure> {
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
