//! Flags of settings, made of their rows.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, value_parser};

use config::{File, Flag, Kind, Pool, Row, Setting, parse_duration};

/// Heading of the flags of `start` that concern no pool.
pub(super) const SUPERVISOR: &str = "Supervisor";

/// Declares a part of the command line that is the flags of a section's rows.
macro_rules! flags {
    ($(#[$doc:meta])* $Name:ident($Section:ident, $everywhere:literal, $heading:expr)) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub(super) struct $Name(pub $Section);

        impl clap::Args for $Name {
            fn augment_args(command: Command) -> Command {
                let flags = flags($Section::ROWS).into_iter().filter(|(_, flag)| flag.everywhere == $everywhere);
                command.args(flags.map(|(row, flag)| argument(row, flag, $heading)))
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $Name {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                let mut section = None;
                for (_, flag) in flags($Section::ROWS) {
                    if flag.everywhere == $everywhere {
                        take(&mut section, flag, matches)?;
                    }
                }
                Ok($Name(section.unwrap_or_default()))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                Self::from_arg_matches(matches).map(|typed| *self = typed)
            }
        }
    };
}

flags!(
    /// Settings of the only pool.
    PoolFlags(Pool, false, None)
);
flags!(
    /// Settings of the supervisor that `start` takes.
    SupervisorFlags(File, false, Some(SUPERVISOR))
);
flags!(
    /// Settings of the supervisor that every command takes.
    WhereFlags(File, true, Some("Where"))
);

/// All flags of these rows and those below them, in their order. The flags of a pool are none of the supervisor's.
fn flags(rows: &'static [Row]) -> Vec<(&'static Row, &'static Flag)> {
    let own = |row: &'static Row| {
        let below = if row.name == "pools" { Vec::new() } else { flags(row.below) };
        row.flags.iter().map(move |flag| (row, flag)).chain(below)
    };
    rows.iter().flat_map(own).collect()
}

fn argument(row: &Row, flag: &'static Flag, heading: Option<&'static str>) -> Arg {
    let arg = Arg::new(flag.setting).help(flag.help.replace("{}", &row.default_text())).help_heading(heading);
    let arg = if flag.long.is_empty() { arg } else { arg.long(flag.long) };
    let arg = arg.short(flag.short).global(flag.everywhere);
    let arg = match flag.env {
        // A value may hold a password, and --help is shown to others.
        Some(variable) => arg.env(variable).hide_env_values(true),
        None => arg,
    };
    let arg = match flag.not_with {
        Some(setting) => arg.conflicts_with(setting),
        None => arg,
    };
    let arg = if flag.kind == Kind::Switch { arg } else { arg.value_name(flag.value) };
    match flag.kind {
        // The range of the parser below is of i64, which cannot hold this.
        Kind::Number(least, u64::MAX) => arg.value_parser(value_parser!(u64).range(least..)),
        Kind::Number(least, most) => {
            arg.value_parser(value_parser!(i64).range(least.cast_signed()..=most.cast_signed()))
        }
        Kind::Duration => arg.value_parser(parse_duration),
        Kind::Words(words) => arg.value_parser(PossibleValuesParser::new(words.iter().copied())),
        Kind::Text => arg.value_parser(value_parser!(String)),
        Kind::TextOr(alone) => {
            arg.value_parser(value_parser!(String)).num_args(0..=1).default_missing_value(alone)
        }
        Kind::Texts => arg.value_parser(value_parser!(String)).action(ArgAction::Append),
        Kind::Path => arg.value_parser(value_parser!(PathBuf)),
        Kind::Command => {
            // Only behind `--`: a dash at the beginning of a word is none of ours there.
            arg.value_parser(value_parser!(OsString)).last(true).num_args(1..).action(ArgAction::Append)
        }
        Kind::Switch => arg.action(ArgAction::SetTrue),
    }
}

/// Puts what was typed for a flag, or is in its variable, into the settings.
fn take<T: Setting>(section: &mut Option<T>, flag: &Flag, matches: &ArgMatches) -> Result<(), clap::Error> {
    let is_switch = flag.kind == Kind::Switch;
    let words: Vec<&OsStr> = match is_switch {
        true => Vec::new(),
        false => matches.get_raw(flag.setting).into_iter().flatten().collect(),
    };
    let is_typed = if is_switch { matches.get_flag(flag.setting) } else { !words.is_empty() };
    if !is_typed {
        return Ok(());
    }
    T::set_part(section, flag.setting, &words)
        .map_err(|why| clap::Error::raw(ErrorKind::ValueValidation, format!("--{}: {why}\n", flag.long)))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::args::Args;
    use config::Flags;

    /// The settings of this command line.
    fn typed(words: &[&str]) -> Flags {
        let args = Args::try_parse_from(["taskvisor", "start"].iter().chain(words)).expect("good flags");
        let mut flags = args.common.flags();
        args.start().expect("a start").add_to(&mut flags);
        flags
    }

    #[test]
    fn every_flag_of_a_row_sets_its_setting_alone() {
        let all: Vec<&Flag> =
            [File::ROWS, Pool::ROWS].into_iter().flat_map(flags).map(|(_, flag)| flag).collect();
        for flag in &all {
            let long = format!("--{}", flag.long);
            let values: Vec<&str> = match flag.kind {
                Kind::Number(..) => vec!["1"],
                Kind::Duration => vec!["7s"],
                Kind::Words(words) => words.to_vec(),
                Kind::TextOr(text) => vec![text],
                Kind::Text | Kind::Texts | Kind::Path | Kind::Command => vec!["memory:"],
                Kind::Switch => vec![""],
            };
            for value in values {
                let words = if flag.kind == Kind::Switch { vec![long.as_str()] } else { vec![&long, value] };
                let typed = typed(&words);
                let said = all.iter().map(|flag| flag.setting);
                let said: Vec<&str> =
                    said.filter(|name| typed.whole.says(name) || typed.pool.says(name)).collect();
                assert_eq!(said, [flag.setting], "{words:?}");
            }
        }
    }

    #[test]
    fn help_of_start_has_every_flag_of_a_row() {
        let mut command = Args::command();
        let help = command.find_subcommand_mut("start").expect("it is there").render_long_help().to_string();
        let start = [File::ROWS, Pool::ROWS].into_iter().flat_map(flags).filter(|(_, flag)| !flag.everywhere);
        for (row, flag) in start {
            let help_of_it = flag.help.replace("{}", &row.default_text());
            let beginning: String = help_of_it.split(' ').take(3).collect::<Vec<_>>().join(" ");
            assert!(
                help.contains(&format!("--{}", flag.long)) && help.contains(&beginning),
                "--{}",
                flag.long
            );
        }
    }
}
