//! Starts the log by the settings.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::dispatcher::{Dispatch, set_global_default};
use tracing::{Level, error};
use tracing_subscriber::Registry;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt;

use super::journal::{Entries, JOURNAL, is_stderr};
use super::journal_socket::Journal;
use super::own::OwnLog;
use super::rotated::Rotated;
use super::target::Target;
use super::way::{Ways, field, json_line, text_line};
use model::{LogFormat, LogLevel, LogSettings};

/// A panic may end the process: its line gets this long to be written.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The name of the file in `log.dir`.
const FILE: &str = "taskvisor.log";

/// Starts the supervisor's own log: from here on `tracing` and panics go there.
pub fn start(settings: &LogSettings) -> io::Result<OwnLog> {
    let format = format(settings);
    let log = OwnLog::start(target(settings, format)?)?;
    set_global_default(subscriber(format, level(settings.level), &log)).map_err(io::Error::other)?;
    let last = log.clone();
    std::panic::set_hook(Box::new(move |panic| {
        panicked(panic);
        last.flush(LAST_WORDS);
    }));
    Ok(log)
}

/// Writes events of this level and above to the log, in this format.
fn subscriber(format: LogFormat, level: Level, log: &OwnLog) -> Dispatch {
    let wanted = wanted(level);
    let lines = tracing_subscriber::fmt().with_max_level(level);
    match format {
        LogFormat::Journald => Dispatch::new(Registry::default().with(Entries(log.clone())).with(wanted)),
        LogFormat::Json => {
            let lines = lines.with_writer(Ways(log.clone(), json_line)).json().flatten_event(true);
            Dispatch::new(lines.finish().with(wanted))
        }
        LogFormat::Auto | LogFormat::Text => {
            let lines = lines.with_writer(Ways(log.clone(), text_line)).with_ansi(false).with_target(false);
            let lines = lines.fmt_fields(debug_fn(field).delimited(" "));
            Dispatch::new(lines.finish().with(wanted))
        }
    }
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

/// Whether nobody reads the log but this user: it goes to a terminal, or to a file of this user that no other may open.
/// A pipe may lead to a collector.
pub fn is_read_here(settings: &LogSettings) -> bool {
    let is_journald = matches!(format(settings), LogFormat::Journald);
    settings.dir.is_none() && !is_journald && (io::stderr().is_terminal() || is_private(io::stderr()))
}

fn is_private(stderr: impl AsFd) -> bool {
    nix::sys::stat::fstat(stderr).is_ok_and(|found| {
        let is_file = found.st_mode & libc::S_IFMT == libc::S_IFREG;
        is_file && found.st_mode & 0o077 == 0 && found.st_uid == nix::unistd::geteuid().as_raw()
    })
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
    use std::os::unix::net::UnixDatagram;

    use super::*;
    use model::Rotate;

    /// What each format writes of one event.
    fn written(format: LogFormat, event: impl Fn()) -> String {
        let dir = tempfile::tempdir().unwrap();
        let (log, listens) = match format {
            LogFormat::Journald => {
                let path = dir.path().join("socket");
                let listens = UnixDatagram::bind(&path).unwrap();
                (OwnLog::start(Target::Journal(Journal::new(&path).unwrap())).unwrap(), Some(listens))
            }
            LogFormat::Auto | LogFormat::Text | LogFormat::Json => {
                let file = Rotated::new(dir.path().join(FILE), Rotate { size: 1 << 20, keep: 1 });
                (OwnLog::start(Target::File(file)).unwrap(), None)
            }
        };
        tracing::dispatcher::with_default(&subscriber(format, Level::DEBUG, &log), event);
        log.flush(Duration::from_secs(30));
        match listens {
            None => std::fs::read_to_string(dir.path().join(FILE)).unwrap(),
            Some(socket) => {
                let mut entry = vec![0; 1 << 20];
                let len = socket.recv(&mut entry).unwrap();
                String::from_utf8(entry[..len].to_vec()).unwrap()
            }
        }
    }

    const FORMATS: [LogFormat; 3] = [LogFormat::Text, LogFormat::Json, LogFormat::Journald];

    #[test]
    fn foreign_id_of_any_length_is_cut_in_a_log_of_each_format_and_hides_no_other_field() {
        let id = "é".repeat(64 << 10);
        for format in FORMATS {
            let line =
                written(format, || tracing::warn!(job = id, queue = "q", error = %id, "it fails: {id}"));
            assert!(line.len() < 48 << 10, "{format:?}: {} bytes", line.len());
            let more = line.matches(" bytes more]").count();
            assert!(more >= 3 && line.contains("it fails: é"), "{format:?}: {line}");
            let queue =
                line.contains("queue=q") || line.contains("queue=\"q\"") || line.contains(r#""queue":"q""#);
            assert!(queue, "{format:?}: {line}");
            if format == LogFormat::Json {
                serde_json::from_str::<serde_json::Value>(&line).unwrap();
            }
        }
    }

    #[test]
    fn log_is_private_in_a_file_of_this_user_that_no_other_may_open() {
        let file = tempfile::tempfile().unwrap();
        let is_private_with = |mode| {
            file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            is_private(&file)
        };
        assert!(is_private_with(0o600));
        assert!(!is_private_with(0o640));
        assert!(!is_private(io::pipe().unwrap().1));
    }

    #[test]
    fn long_line_of_a_worker_is_whole_in_a_log_of_each_format() {
        let printed = "x".repeat(32 << 10);
        for format in FORMATS {
            let line = written(format, || tracing::info!(worker = "default.1", "{printed}"));
            assert!(line.contains(&printed), "{format:?}: {} bytes", line.len());
        }
    }

    #[test]
    fn odd_id_is_part_of_one_line_that_controls_no_terminal_and_json_stays_valid() {
        let id = "a\n\u{1b}[2J\u{7f}\u{9b}2J\u{202e}\u{fffd}\"b";
        for format in [LogFormat::Text, LogFormat::Json] {
            let lines = written(format, || tracing::warn!(job = id, worker = %id, "it fails: {id}"));
            let line = lines.strip_suffix('\n').unwrap();
            assert!(!line.chars().any(model::controls_terminal), "{format:?}: {line}");
            if format == LogFormat::Json {
                let read: serde_json::Value = serde_json::from_str(line).unwrap();
                assert_eq!((&read["job"], &read["worker"]), (&id.into(), &id.into()));
                assert_eq!(read["message"], format!("it fails: {id}"));
            }
        }
    }

    #[test]
    fn text_of_an_event_is_its_message_and_its_fields() {
        let line = written(LogFormat::Text, || tracing::info!(job = "7", n = 3, why = %"x y", "it ends"));
        assert!(line.ends_with(" INFO it ends job=\"7\" n=3 why=x y\n"), "{line}");
    }

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
