//! The note of the broker in force: a file in the state directory, kept over a stop, and one in the run directory. A
//! command that names no broker reads it while no supervisor answers: the broker may stand in a settings file alone.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use serde_json::{Value, json};

use broker::Address;
use config::{Config, broker_of};
use log::write_private;
use nix::fcntl::OFlag;
use sqlite::Sqlite;
use start_dir::from_start_dir;

const FILE: &str = "broker";

/// What is noted about the broker of the last supervisor.
#[derive(Debug)]
pub enum Noted {
    /// Nothing, or the command names a broker itself.
    Nothing,
    /// The broker, to go there.
    Known(Address),
    /// A broker whose URL holds a secret, which no note has.
    Secret {
        /// The URL without it.
        shown: String,
        /// The settings file that names the broker; None = a flag or the environment did.
        settings: Option<String>,
    },
}

/// The broker that the last supervisor of these directories had, for a command that names none.
pub fn noted(config: &Config) -> Noted {
    if config.broker_is_said || config.remote.is_some() {
        return Noted::Nothing;
    }
    last(config)
}

/// The same, also if the command names another.
pub fn last(config: &Config) -> Noted {
    // A run directory belongs to one state directory after the other.
    let is_shared = !config.state_dir_is_named || is_of(&config.run_dir, &config.state_dir);
    let at_run = || is_shared.then(|| in_dir(&config.run_dir)).flatten();
    let at_state = || in_dir(&config.state_dir);
    let found =
        if config.state_dir_is_named { at_state().or_else(at_run) } else { at_run().or_else(at_state) };
    found.unwrap_or(Noted::Nothing)
}

/// Whether the last supervisor of this run directory had that state directory.
fn is_of(run_dir: &Path, state_dir: &Path) -> bool {
    let signed = fs::read_to_string(run_dir.join("lock")).unwrap_or_default();
    signed.split_once('\n').is_some_and(|(_, dir)| dir.trim_end() == state_dir.display().to_string())
}

fn in_dir(dir: &Path) -> Option<Noted> {
    let text: Value = serde_json::from_str(&trusted(dir).ok()?).ok()?;
    let shown = text["broker"].as_str()?.to_owned();
    if text["whole"] == true
        && let Some(broker) = broker_of(&shown)
    {
        return Some(Noted::Known(broker));
    }
    Some(Noted::Secret { shown, settings: text["settings"].as_str().map(str::to_owned) })
}

/// The note in this directory, unless somebody may have put it there who is not trusted with jobs.
fn trusted(dir: &Path) -> io::Result<String> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(dir.join(FILE))?;
    let owner = file.metadata()?.uid();
    if owner != nix::unistd::geteuid().as_raw() && !api::trusts(dir, owner) {
        return Err(ErrorKind::PermissionDenied.into());
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// Notes the broker in force. The embedded store of the state directory is noted in the run directory alone: a state
/// directory can be moved.
pub(super) fn note(config: &Config) -> io::Result<()> {
    let text = text_of(config);
    keep(&config.run_dir, &text)?;
    match is_own_store(config) {
        false => keep(&config.state_dir, &text),
        true => match fs::remove_file(config.state_dir.join(FILE)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        },
    }
}

fn text_of(config: &Config) -> String {
    let shown = config.broker.to_string();
    let file = config.file.as_ref().filter(|_| !config.broker_is_named);
    let settings = file.and_then(|file| from_start_dir(file.name.as_ref()).ok());
    let whole = broker_of(&shown).as_ref() == Some(&config.broker);
    format!(
        "{}\n",
        json!({ "broker": shown, "whole": whole, "settings": settings.map(|path| path.display().to_string()) })
    )
}

fn keep(dir: &Path, text: &str) -> io::Result<()> {
    let path = dir.join(FILE);
    if fs::read_to_string(&path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    write_private(&path, text)
}

fn is_own_store(config: &Config) -> bool {
    config.broker.file() == Some(&config.state_dir.join(STORE))
}

/// The embedded store in a state directory.
const STORE: &str = "store.db";

/// What to say of jobs in the embedded store of the state directory if the broker in force is another: nobody runs them.
/// Message and hint.
pub fn unread(config: &Config) -> Option<(String, String)> {
    let in_force = match in_dir(&config.state_dir)? {
        Noted::Known(broker) => broker.to_string(),
        Noted::Secret { shown, .. } => shown,
        Noted::Nothing => return None,
    };
    let path = config.state_dir.join(STORE);
    if broker_of(&in_force).and_then(|broker| broker.file().map(|file| file == path)) == Some(true) {
        return None;
    }
    let jobs = match Sqlite::unfinished(&path) {
        None | Some(0) => return None,
        Some(1) => "1 job that has not ended lies".to_owned(),
        Some(count) => format!("{count} jobs that have not ended lie"),
    };
    let store = path.display();
    Some((
        format!("{jobs} in {store}, which no supervisor here reads: its broker is {in_force}"),
        format!(
            "taskvisor -b sqlite:{store} job list shows them; put them again, or have them run by a supervisor with directories of \
             its own: taskvisor --run-dir DIR --state-dir DIR start -b sqlite:{store} --burst"
        ),
    ))
}
