//! A kale application's settings module, imported by the application's own Python.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::{Map, Value};

use config::format_duration;
use failure::{Failure, exit};
use kale::Names;

/// A Python program that prints a module's settings, and what its functions say of a queue: a class of queues decorates
/// names, a function gives tags.
const SHOW: &str = "\
import importlib, json, os, sys
sys.path[:0] = sys.argv[2:]
module = importlib.import_module(sys.argv[1])
def plain(value):
    if callable(value):
        return '.'.join(filter(None, [getattr(value, '__module__', ''), getattr(value, '__qualname__', '')]))
    try:
        json.dumps(value, allow_nan=False)
        return value
    except (TypeError, ValueError):
        return str(value)
def tried(name, call):
    try:
        found[name] = call()
    except Exception as error:
        found['failed'][name] = '%s: %s' % (type(error).__name__, error)
def names():
    path, _, last = module.QUEUE_CLASS.rpartition('.')
    queue = getattr(importlib.import_module(path), last)(name='probe')
    return {'queue': queue.name, 'dead': queue.dlq_name}
def tags():
    one, other = [{str(key): str(value) for key, value in module.SQS_QUEUE_TAG_FUNCTION(name).items()}
                  for name in ('probe', 'other')]
    return one if one == other else None
def region():
    import boto3
    return boto3.Session().region_name
settings = {name: plain(value) for name, value in vars(module).items() if name.isupper()}
settings['QUEUE_CONFIG'] = os.path.abspath(str(settings.get('QUEUE_CONFIG') or 'queue_config.yaml'))
found = {'settings': settings, 'failed': {}}
if isinstance(settings.get('QUEUE_CLASS'), str):
    tried('names', names)
if 'SQS_QUEUE_TAG_FUNCTION' in settings:
    tried('tags', tags)
if not settings.get('AWS_REGION'):
    tried('region', region)
print('\\n' + json.dumps(found))
";

/// How to import a module.
pub(super) struct Module<'a> {
    /// Its dotted name.
    pub(super) name: &'a str,
    /// Directories to look in first.
    pub(super) path: &'a [PathBuf],
    /// The interpreter of the application.
    pub(super) python: &'a Path,
    /// How long it may take.
    pub(super) timeout: Duration,
}

/// What Python finds in the module.
#[derive(Deserialize)]
pub(super) struct Found {
    /// The settings in it.
    pub(super) settings: Map<String, Value>,
    /// What its class of queues makes of the name `probe`; None = it has none, or it cannot be made.
    #[serde(default)]
    pub(super) names: Option<Names>,
    /// The tags that its function gives every queue; None = it has no function, or the tags differ by queue.
    #[serde(default)]
    pub(super) tags: Option<BTreeMap<String, String>>,
    /// The region that boto3 takes where the settings name none; None = it finds none, or there is no boto3.
    #[serde(default)]
    pub(super) region: Option<String>,
    /// Why names, tags or region could not be asked for, by these words.
    #[serde(default)]
    pub(super) failed: BTreeMap<String, String>,
}

/// Imports the module.
pub(super) fn found(how: &Module) -> Result<Found, Failure> {
    let shown = |why: &dyn std::fmt::Display| {
        let message =
            format!("failed to import the module {} with {}: {why}", how.name, how.python.display());
        Failure::new(exit::CONFIG, message)
            .hint("-p DIR says where modules are, --python which interpreter has them")
    };
    let output = output(how).map_err(|error| shown(&error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(shown(&said.trim_end().lines().next_back().unwrap_or("it ended without a word")));
    }
    // The module may have printed something before.
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim_end().lines().next_back().unwrap_or_default())
        .map_err(|error| shown(&error))
}

/// What Python prints about the module.
fn output(how: &Module) -> Result<Output, io::Error> {
    let mut command = Command::new(how.python);
    // kale itself reads this variable, when the application imports it.
    command.args(["-c", SHOW, how.name]).args(how.path).env("KALE_SETTINGS_MODULE", how.name);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let python = Pid::from_raw(child.id().cast_signed());
    // `wait_with_output` has no time limit, so a thread waits in our place.
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(child.wait_with_output()));
    told.recv_timeout(how.timeout).unwrap_or_else(|_| {
        // It may have ended just now.
        kill(python, Signal::SIGKILL).ok();
        let limit = format_duration(how.timeout);
        Err(io::Error::new(ErrorKind::TimedOut, format!("it has not ended within {limit} (--timeout)")))
    })
}
