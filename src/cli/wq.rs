//! `wq up`: converts QuantumLeap's flags and variables to those of `start`.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

use failure::{Failure, exit};

pub(super) const HELP: &str = "\
These and all options of `start` are taken, and the variables WQ_MAX_RETRIES, WQ_SUCCESS_TTL, WQ_FAILURE_TTL (seconds), WQ_WORKERS, REDIS_HOST, REDIS_PORT and LOGLEVEL.

  -w, --workers N     how many workers
  -b, --burst-mode    end when the queues are empty
      --max-tasks N   replace a worker after N tasks
      --collect-telemetry-in DIR
                      write how long tasks took into files of this directory

Example:
  WQ_MAX_RETRIES=5 taskvisor wq up -w 4 --wq class=Insert -- python3 -m taskvisor.worker notify_insert";

/// What can be typed after `wq`.
#[derive(Debug, clap::Subcommand)]
pub(super) enum WqCommand {
    /// Run a supervisor that takes notifications in, by the options and variables of QuantumLeap
    #[command(after_help = HELP)]
    Up(Up),
}

/// What follows `wq up`.
#[derive(Debug, clap::Args)]
pub(super) struct Up {
    /// Options of wq up and of start
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    options: Vec<OsString>,
}

/// Becomes `start` if the command is `wq up`. Returns None if it is another command, and a failure if that fails.
pub(super) fn start_instead(typed: &[OsString]) -> Option<Failure> {
    let options = options(typed)?;
    let variables = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let arguments = match arguments(options, &variables) {
        Ok(arguments) => arguments,
        Err(why) => return Some(Failure::new(exit::USAGE, why).hint("taskvisor wq up --help")),
    };
    // By exec, so that the pid stays the one that a service manager knows.
    let error = Command::new("/proc/self/exe").arg0("taskvisor").args(arguments).exec();
    Some(Failure::from(error).of("failed to become taskvisor start"))
}

/// The arguments after `wq up`, unless they ask for help.
fn options(typed: &[OsString]) -> Option<&[OsString]> {
    let [_, wq, up, options @ ..] = typed else { return None };
    let own = options.split(|option| option == "--").next().unwrap_or_default();
    // Behind `--` a -h belongs to the worker's command.
    let asks_for_help = own.iter().any(|option| option == "-h" || option == "--help");
    (wq == "wq" && up == "up" && !asks_for_help).then_some(options)
}

/// The arguments of `start`. Flags win over variables.
fn arguments(
    options: &[OsString],
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<OsString>, String> {
    let typed = typed(options);
    let mut arguments: Vec<OsString> = ["start", "--wq", "enabled=true"].map(Into::into).into();
    arguments.extend(settings(variable)?);
    let says = |names: &[&str]| {
        let is_own = typed.split(|option| option == "--").next().unwrap_or_default();
        let begins =
            |option: &OsStr, name: &str| option.to_str().is_some_and(|option| option.starts_with(name));
        is_own.iter().any(|option| names.iter().any(|name| begins(option, name)))
    };
    let mut say = |words: [&str; 2]| arguments.extend(words.map(OsString::from));
    if let Some(workers) = variable("WQ_WORKERS").filter(|_| !says(&["-w", "--workers"])) {
        say(["--workers", &workers]);
    }
    // Only the long flag: -b is the burst of QuantumLeap.
    if let Some(broker) = broker(variable)?.filter(|_| !says(&["--broker"])) {
        say(["--broker", &broker]);
    }
    if let Some(level) = variable("LOGLEVEL").filter(|_| !says(&["--log-level"])) {
        say(["--log-level", log_level(&level)]);
    }
    arguments.extend(typed);
    Ok(arguments)
}

/// What was typed, in the words of `start`.
fn typed(options: &[OsString]) -> Vec<OsString> {
    let mut own = options.iter();
    let mut typed: Vec<OsString> = Vec::new();
    while let Some(option) = own.next() {
        let text = option.to_str().unwrap_or_default();
        match text {
            "--" => {
                typed.push(option.clone());
                typed.extend(own.by_ref().cloned());
            }
            "-b" | "--burst-mode" => typed.push("--burst".into()),
            "--max-tasks" => typed.push("--max-jobs".into()),
            "--collect-telemetry-in" => typed.extend(telemetry(own.next())),
            _ => match (text.strip_prefix("--max-tasks="), text.strip_prefix("--collect-telemetry-in=")) {
                (Some(many), _) => typed.push(format!("--max-jobs={many}").into()),
                (None, Some(dir)) => typed.extend(telemetry(Some(&dir.into()))),
                (None, None) => typed.push(option.clone()),
            },
        }
    }
    typed
}

/// The settings of tasks that the variables name, as arguments of `start`.
fn settings(variable: &dyn Fn(&str) -> Option<String>) -> Result<Vec<OsString>, String> {
    let mut settings = Vec::new();
    for (name, setting, unit) in [
        ("WQ_MAX_RETRIES", "max_retries", ""),
        ("WQ_SUCCESS_TTL", "success_ttl", "s"),
        ("WQ_FAILURE_TTL", "failure_ttl", "s"),
    ] {
        let Some(value) = variable(name) else { continue };
        let value = value.trim();
        // In RQ -1 keeps a job for ever, which is 0 here, and 0 removes it at once.
        let number = match (unit, value) {
            ("s", "-1") => 0,
            ("s", "0") => 1,
            _ => value
                .parse::<u32>()
                .map_err(|_| format!("{name}: '{value}' is no number up to {}", u32::MAX))?,
        };
        settings.extend(["--wq".into(), format!("{setting}={number}{unit}").into()]);
    }
    if variable("WQ_RECOVER_FROM_ENQUEUEING_FAILURE").is_some_and(|value| is_yes(&value)) {
        settings.extend(["--wq", "when_away=keep"].map(Into::into));
    }
    Ok(settings)
}

/// The broker that REDIS_HOST and REDIS_PORT name, if one of them is set.
fn broker(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<String>, String> {
    let (host, port) = (variable("REDIS_HOST"), variable("REDIS_PORT"));
    if host.is_none() && port.is_none() {
        return Ok(None);
    }
    let (host, port) = (host.unwrap_or_else(|| "localhost".into()), port.unwrap_or_else(|| "6379".into()));
    let port: u16 = port.trim().parse().map_err(|_| format!("REDIS_PORT: '{port}' is no port"))?;
    // In a URL an address of IPv6 stands in brackets.
    let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host };
    Ok(Some(format!("redis://{host}:{port}/0")))
}

/// Whether a variable means yes, as in QuantumLeap.
fn is_yes(value: &str) -> bool {
    ["true", "yes", "1", "t", "y"].contains(&value.trim().to_lowercase().as_str())
}

/// The directory for samples; if it is missing, `start` reports that.
fn telemetry(dir: Option<&OsString>) -> Vec<OsString> {
    let mut setting = OsString::from("telemetry_dir=");
    setting.push(dir.cloned().unwrap_or_default());
    vec!["--wq".into(), setting]
}

/// A level of Python's logging; an unknown one is `info`, as in QuantumLeap.
fn log_level(level: &str) -> &'static str {
    match level.to_ascii_uppercase().as_str() {
        "CRITICAL" | "FATAL" | "ERROR" => "error",
        "WARNING" | "WARN" => "warn",
        "DEBUG" => "debug",
        _ => "info",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let typed: Vec<OsString> = line.split(' ').map(Into::into).collect();
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let arguments = arguments(options(&typed).unwrap(), &variable)?;
        Ok(arguments.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn wq_options_and_variables_become_start_options() {
        assert_eq!(translated("t wq up", &[]).unwrap(), "start --wq enabled=true");
        let typed = "t wq up -w 3 -b --max-tasks 10 --max-tasks=9 -c f -- python3 -b --max-tasks 1";
        let variables =
            [("WQ_MAX_RETRIES", "5"), ("WQ_SUCCESS_TTL", "60"), ("WQ_WORKERS", "8"), ("LOGLEVEL", "WARNING")];
        assert_eq!(
            translated(typed, &variables).unwrap(),
            "start --wq enabled=true --wq max_retries=5 --wq success_ttl=60s --log-level warn -w 3 --burst --max-jobs 10 \
             --max-jobs=9 -c f -- python3 -b --max-tasks 1"
        );
        let telemetry = "start --wq enabled=true --wq telemetry_dir=d --wq telemetry_dir=e";
        assert_eq!(
            translated("t wq up --collect-telemetry-in d --collect-telemetry-in=e", &[]).unwrap(),
            telemetry
        );
        let redis = [("REDIS_HOST", "db"), ("REDIS_PORT", "7"), ("WQ_WORKERS", "2")];
        assert_eq!(
            translated("t wq up", &redis).unwrap(),
            "start --wq enabled=true --workers 2 --broker redis://db:7/0"
        );
        assert_eq!(
            translated("t wq up", &[("REDIS_PORT", "7")]).unwrap(),
            "start --wq enabled=true --broker redis://localhost:7/0"
        );
        assert_eq!(
            translated("t wq up", &[("REDIS_HOST", "::1")]).unwrap(),
            "start --wq enabled=true --broker redis://[::1]:6379/0"
        );
        let ttls = [("WQ_SUCCESS_TTL", "0"), ("WQ_FAILURE_TTL", "-1")];
        assert_eq!(
            translated("t wq up", &ttls).unwrap(),
            "start --wq enabled=true --wq success_ttl=1s --wq failure_ttl=0s"
        );
        assert_eq!(
            translated("t wq up --broker memory:", &redis[..2]).unwrap(),
            "start --wq enabled=true --broker memory:"
        );
        let recovers =
            |value| translated("t wq up", &[("WQ_RECOVER_FROM_ENQUEUEING_FAILURE", value)]).unwrap();
        assert_eq!(recovers("True"), "start --wq enabled=true --wq when_away=keep");
        assert_eq!(recovers("False"), "start --wq enabled=true");
    }

    #[test]
    fn wq_refuses_invalid_variables_and_ignores_other_commands() {
        assert_eq!(
            translated("t wq up", &[("WQ_MAX_RETRIES", "many")]).unwrap_err(),
            "WQ_MAX_RETRIES: 'many' is no number up to 4294967295"
        );
        assert_eq!(
            translated("t wq up", &[("REDIS_PORT", "abc")]).unwrap_err(),
            "REDIS_PORT: 'abc' is no port"
        );
        for line in ["t", "t wq", "t wq down", "t start", "t wq up --help", "t wq up -w 1 -h"] {
            let typed: Vec<OsString> = line.split(' ').map(Into::into).collect();
            assert!(options(&typed).is_none(), "{line}");
        }
    }
}
