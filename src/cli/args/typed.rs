//! Finds which settings were typed or are in the environment, and under which name.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory};

use super::Args;
use crate::cli::term::format::quoted;
use config::Config;

/// The flag or variable of each setting, by the setting's name in the file. An argument has the full name of its
/// setting.
pub(crate) fn typed(command: &Command, matches: &ArgMatches) -> BTreeMap<String, String> {
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

/// The options by which this command was told where the jobs are, as they are typed again in any directory, each with a
/// blank behind it. What a variable said is left out: the reader's shell has it, too.
pub(crate) fn to_the_same_jobs(words: impl IntoIterator<Item = OsString>, config: &Config) -> String {
    let mut command = Args::command();
    let Ok(matches) = command.try_get_matches_from_mut(words) else { return String::new() };
    let typed = typed(&command, &matches);
    let deepest =
        std::iter::successors(Some(&matches), |matches| matches.subcommand().map(|(_, below)| below));
    let Some(matches) = deepest.last() else { return String::new() };
    let mut options = String::new();
    for (id, flag, is_path) in [
        ("config", "-c", true),
        ("state_dir", "--state-dir", true),
        ("run_dir", "--run-dir", true),
        ("broker", "-b", false),
        ("url", "--url", false),
        ("token_file", "--token-file", true),
    ] {
        let raw = matches.get_raw(id).and_then(|mut words| words.next_back());
        let Some(raw) = raw.filter(|_| typed.get(id).is_some_and(|how| how.starts_with("--"))) else {
            continue;
        };
        let value = match (id, is_path) {
            // Without its password, as others read the page.
            ("broker", _) => config.broker.to_string(),
            (_, true) => std::path::absolute(raw).unwrap_or_else(|_| raw.into()).display().to_string(),
            (_, false) => raw.to_string_lossy().into_owned(),
        };
        options += &format!("{flag} {} ", quoted(&value));
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn options_that_lead_to_the_same_jobs_are_typed_again_whole() {
        let again = |line: &str| {
            to_the_same_jobs(
                line.split(' ').map(OsString::from),
                &Config { broker: brokers::in_file("/s/store.db".into()), ..Config::default() },
            )
        };
        assert_eq!(again("taskvisor web --listen 127.0.0.1:0 --redact pin"), "");
        assert_eq!(
            again("taskvisor web --url http://h:1 --token-file /t"),
            "--url http://h:1 --token-file /t "
        );
        assert_eq!(
            again("taskvisor --run-dir /r top -b sqlite:/s/store.db -c /c"),
            "-c /c --run-dir /r -b sqlite:/s/store.db "
        );
        assert!(again("taskvisor web -c here.yaml").starts_with("-c /"));
    }
}
