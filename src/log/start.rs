//! Starts the log by the settings.

use std::io;
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::{Level, error};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;

use super::journal::{Entries, JOURNAL, is_stderr};
use super::journal_socket::Journal;
use super::own::OwnLog;
use super::rotated::Rotated;
use super::target::Target;
use super::way::Ways;
use model::{LogFormat, LogLevel, LogSettings};

/// A panic may end the process: its line gets this long to be written.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The name of the file in `log.dir`.
const FILE: &str = "taskvisor.log";

/// Starts the supervisor's own log: from here on `tracing` and panics go there.
pub fn start(settings: &LogSettings) -> io::Result<OwnLog> {
    let format = format(settings);
    let log = OwnLog::start(target(settings, format)?)?;
    let level = level(settings.level);
    let lines = tracing_subscriber::fmt().with_writer(Ways(log.clone())).with_max_level(level);
    let wanted = wanted(level);
    let set = match format {
        LogFormat::Journald => {
            let entries = Registry::default().with(Entries(log.clone())).with(wanted);
            tracing::subscriber::set_global_default(entries)
        }
        LogFormat::Json => {
            tracing::subscriber::set_global_default(lines.json().flatten_event(true).finish().with(wanted))
        }
        LogFormat::Auto | LogFormat::Text => {
            let lines = lines.with_ansi(false).with_target(false).finish();
            tracing::subscriber::set_global_default(lines.with(wanted))
        }
    };
    set.map_err(io::Error::other)?;
    let last = log.clone();
    std::panic::set_hook(Box::new(move |panic| {
        panicked(panic);
        last.flush(LAST_WORDS);
    }));
    Ok(log)
}

/// Checks whether the log can be started. The error names the cause.
pub fn check(settings: &LogSettings) -> Result<(), (PathBuf, io::Error)> {
    match target(settings, format(settings)) {
        Ok(Target::File(mut file)) => file.reopen().map_err(|error| (file.path().to_owned(), error)),
        Ok(Target::Journal(journal)) => journal.check().map_err(|error| (JOURNAL.into(), error)),
        Ok(Target::Stderr) => Ok(()),
        Err(error) => Err((JOURNAL.into(), error)),
    }
}

/// Whether the log goes to where stderr is read.
pub fn is_on_stderr(settings: &LogSettings) -> bool {
    match (format(settings), &settings.dir) {
        (LogFormat::Journald, _) => is_journal(io::stderr()),
        (LogFormat::Auto | LogFormat::Json | LogFormat::Text, dir) => dir.is_none(),
    }
}

fn target(settings: &LogSettings, format: LogFormat) -> io::Result<Target> {
    Ok(match (format, &settings.dir) {
        (LogFormat::Journald, _) => Target::Journal(Journal::new(Path::new(JOURNAL))?),
        (_, Some(dir)) => Target::File(Rotated::new(dir.join(FILE), settings.rotate)),
        (_, None) => Target::Stderr,
    })
}

fn format(settings: &LogSettings) -> LogFormat {
    match (settings.format, &settings.dir) {
        (LogFormat::Auto, None) if is_journal(io::stderr()) => LogFormat::Journald,
        (LogFormat::Auto, _) => LogFormat::Text,
        (said, _) => said,
    }
}

fn is_journal(stderr: impl AsFd) -> bool {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    nix::sys::stat::fstat(stderr).is_ok_and(|found| is_stderr(&stream, found.st_dev, found.st_ino))
}

/// The beginning of the names of our crates.
const OURS: &str = "taskvisor";

/// Which lines are written: our own from this level on, and only errors and warnings of libraries: the client of SQS
/// logs some 20 lines a call at the level debug.
fn wanted(level: Level) -> Targets {
    Targets::new().with_default(level.min(Level::WARN)).with_target(OURS, level)
}

fn level(level: LogLevel) -> Level {
    match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    }
}

/// Writes a panic to the log. By default the panicking thread would write it to stderr, and wait for the reader.
fn panicked(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    error!(place, why = panic.payload_as_str(), "the supervisor panicked");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_log_only_errors_and_warnings() {
        let debug = wanted(Level::DEBUG);
        assert!(debug.would_enable(module_path!(), &Level::DEBUG));
        assert!(debug.would_enable(super::super::WORKER_LINES, &Level::INFO));
        assert!(debug.would_enable("aws_smithy_runtime", &Level::WARN));
        assert!(!debug.would_enable("aws_smithy_runtime", &Level::INFO));
        assert!(!wanted(Level::ERROR).would_enable("aws_smithy_runtime", &Level::WARN));
        assert!(!wanted(Level::INFO).would_enable(module_path!(), &Level::DEBUG));
    }
}
