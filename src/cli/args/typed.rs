//! Finds which settings were typed or are in the environment, and under which name.

use std::collections::BTreeMap;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// The flag or variable of each setting, by the setting's name in the file. An argument has the full name of its
/// setting.
pub fn typed(command: &Command, matches: &ArgMatches) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let (mut command, mut matches) = (command, matches);
    loop {
        for arg in command.get_arguments() {
            let id = arg.get_id().as_str();
            // `value_source` may panic for an argument that these matches do not know.
            let how = match matches.try_contains_id(id).ok().and_then(|_| matches.value_source(id)) {
                Some(ValueSource::CommandLine) => match arg.get_long() {
                    Some(long) => format!("--{long}"),
                    None => "command line".to_owned(),
                },
                Some(ValueSource::EnvVariable) => {
                    arg.get_env().unwrap_or_default().to_string_lossy().into_owned()
                }
                Some(_) | None => continue,
            };
            found.insert(id.to_owned(), how);
        }
        let Some((name, below)) = matches.subcommand() else { return found };
        let Some(next) = command.find_subcommand(name) else { return found };
        (command, matches) = (next, below);
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::args::Args;

    #[test]
    fn typed_settings_name_their_flag() {
        let words = "taskvisor --state-dir /s start -b memory: --min-workers 2 --log-level warn -q a --lease 1m -- sh -c x";
        let mut command = Args::command();
        let matches = command.try_get_matches_from_mut(words.split(' ')).unwrap();
        let found = typed(&command, &matches);
        let found: Vec<(&str, &str)> = found.iter().map(|(key, how)| (key.as_str(), how.as_str())).collect();
        let expected = [
            ("broker", "--broker"),
            ("command", "command line"),
            ("lease", "--lease"),
            ("log.level", "--log-level"),
            ("queues", "--queue"),
            ("state_dir", "--state-dir"),
            ("workers.min", "--min-workers"),
        ];
        assert_eq!(found, expected);
    }
}
