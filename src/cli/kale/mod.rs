//! `kale import` and `kale check`: convert and check the settings of a kale application.

mod module;

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Map, Value};

use self::module::{Found, Module, found};
use super::term::screen::{escaped, print};
use broker::Wrong;
use config::{parse_duration, read_text};
use failure::{Failure, exit};
use kale::{Application, DEFAULT_KEY, Queue, read_queues};

/// The largest file of queues, in bytes.
const QUEUES_MAX: u64 = 1 << 20;

#[derive(Debug, Subcommand)]
pub(super) enum KaleCommand {
    /// Print the settings of taskvisor that do what a kale application's settings say
    #[command(after_help = IMPORT_HELP)]
    Import(Import),
    /// Say what is wrong with kale's file of queues, and what its settings mean here
    #[command(after_help = CHECK_HELP)]
    Check(CheckQueues),
}

#[derive(Debug, clap::Args)]
pub(super) struct Import {
    /// The module of its settings, as in KALE_SETTINGS_MODULE
    module: String,
    /// Look for modules here first
    #[arg(short, long, value_name = "DIR")]
    path: Vec<PathBuf>,
    /// The interpreter that can import them
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// What stands before each queue's name in SQS, without the dash
    #[arg(long, value_name = "NAME")]
    release: Option<String>,
    /// Give up if Python has not imported it after this time
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    timeout: Duration,
    /// Write UTIL_CRYPT_CIPHER to this new file, with mode 600
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct CheckQueues {
    /// The file, as in QUEUE_CONFIG
    file: PathBuf,
}

const IMPORT_HELP: &str = "\
The module is imported by Python, with what it does at import. The file of queues that it names is read. What means
something else to taskvisor is said on stderr.

Example:
  taskvisor kale import app.kale_settings -p . --key-file kale.key >taskvisor.yaml
  taskvisor check -c taskvisor.yaml";

const CHECK_HELP: &str = "\
Exits with 78 if kale's workers would die of the file, or run tasks twice.

Example:
  taskvisor kale check queue_config.yaml";

/// Runs the command.
pub(super) fn kale(command: &KaleCommand) -> Result<u8, Failure> {
    match command {
        KaleCommand::Import(how) => import(how),
        KaleCommand::Check(CheckQueues { file }) => {
            let queues = queues(file)?;
            print(&queues.iter().map(explained).collect::<String>())?;
            Ok(exit::OK)
        }
    }
}

fn import(how: &Import) -> Result<u8, Failure> {
    let Found { settings, names, tags, region, failed } =
        found(&Module { name: &how.module, path: &how.path, python: &how.python, timeout: how.timeout })?;
    // Python has made its path absolute already.
    let file = settings.get("QUEUE_CONFIG").and_then(Value::as_str).unwrap_or_default();
    let queues = queues(Path::new(file))?;
    let key_file = how.key_file.as_deref().map(whole).transpose()?;
    let paths: Vec<String> = (how.path.iter())
        .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()).to_string_lossy().into_owned())
        .collect();
    // Where Python has no boto3: the variable that boto3 reads. AWS_REGION is none of its own.
    let region = region.or_else(|| env::var("AWS_DEFAULT_REGION").ok()).unwrap_or_default();
    let cwd = env::current_dir().map(|dir| dir.to_string_lossy().into_owned()).unwrap_or_default();
    let application = Application {
        module: &how.module,
        settings: &settings,
        queues: &queues,
        release: how.release.as_deref(),
        names: names.as_ref(),
        tags: tags.as_ref(),
        failed: &failed,
        key_file: key_file.as_deref(),
        python: &how.python.to_string_lossy(),
        paths: &paths,
        region: &region,
        cwd: &cwd,
    };
    let wrong = |error: kale::ImportError| {
        Failure::new(exit::CONFIG, format!("failed to import {}: {error}", how.module))
    };
    let imported = application.import().map_err(wrong)?;
    // Before anything is written: settings that `start` refuses are not printed.
    brokers::address(&imported.broker).map_err(|Wrong { what, hint }| {
        let message = format!(
            "failed to import {}: its region, queues and address of SQS give no broker: {what}",
            how.module
        );
        Failure::new(exit::CONFIG, message).hint(hint)
    })?;
    if let Some(file) = &key_file {
        write_key(file, &settings)?;
    }
    for note in imported.notes {
        eprintln!("note: {}", escaped(&note));
    }
    print(&imported.yaml)?;
    Ok(exit::OK)
}

fn queues(file: &Path) -> Result<Vec<Queue>, Failure> {
    let text = read_text(file, QUEUES_MAX).map_err(|error| {
        let message = format!("failed to read the file of queues {}: {error}", file.display());
        Failure::new(exit::CONFIG, message)
    })?;
    read_queues(&text).map_err(|mistakes| {
        let all: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        Failure::new(exit::CONFIG, format!("{}: {}", file.display(), all.join("; ")))
    })
}

fn unwritten(file: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(exit::IO, format!("failed to write the key to {file}: {why}"))
}

/// A file's path in the form for a URL.
fn whole(file: &Path) -> Result<String, Failure> {
    let shown = file.display().to_string();
    let whole = std::path::absolute(file).map_err(|error| unwritten(&shown, &error))?;
    let text = whole.into_os_string().into_string().ok();
    // It goes into the query of the broker's URL, where these have a meaning.
    text.filter(|text| !text.contains(['&', '#', '%', '+']))
        .ok_or_else(|| unwritten(&shown, &"its path cannot be part of a URL"))
}

fn write_key(file: &str, settings: &Map<String, Value>) -> Result<(), Failure> {
    let key = settings.get("UTIL_CRYPT_CIPHER").and_then(Value::as_str).filter(|key| !key.is_empty());
    // Never over an existing file: its key may still be needed to read messages.
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let mut made = made.map_err(|error| unwritten(file, &error))?;
    made.write_all(key.unwrap_or(DEFAULT_KEY).as_bytes())
        .and_then(|()| made.sync_all())
        .map_err(|error| unwritten(file, &error))
}

fn explained(queue: &Queue) -> String {
    let head = format!(
        "{}: priority {}, messages hidden for {} s\n",
        queue.name, queue.priority, queue.visibility_timeout_sec
    );
    let lines = queue.explained().map(|(setting, meaning)| format!("  {setting}: {meaning}\n"));
    format!("{head}{}", lines.concat())
}
