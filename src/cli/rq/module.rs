//! A config module of RQ. As it is Python, Python reads it.

use std::process::{Command, Stdio};

use serde::Deserialize;

use super::args::Shared;
use failure::{Failure, exit};

/// The settings of the module, or without one RQ's variables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Module {
    /// The URL of the Redis with the jobs. It may hold a password.
    pub url: String,
    /// The names of the queues.
    #[serde(default)]
    pub queues: Vec<String>,
    /// The name of the worker.
    pub name: Option<String>,
    /// Settings of the module that are not used here.
    #[serde(default)]
    pub unused: Vec<String>,
}

/// Reads the module, if needed: a URL on the command line is enough by itself.
pub(super) fn read(shared: &Shared) -> Result<Option<Module>, Failure> {
    if shared.config.is_none() && shared.url.is_some() {
        return Ok(None);
    }
    let module = shared.config.as_deref().unwrap_or_default();
    let what = || match module {
        "" => "failed to read where RQ's Redis is from the environment".to_owned(),
        module => format!("failed to read the config module {module}"),
    };
    let mut command = Command::new(&shared.python);
    // The queues say which Redis of django-rq's settings is meant.
    let queues = shared.queues.iter().map(|queue| format!("-q={queue}"));
    command.args(["-m", "taskvisor.rq.settings", module]).args(queues).args(&shared.path);
    let output =
        // Python's own words go to the user: they say why an import failed.
        command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(|error| {
            Failure::from(error).of(format!("failed to run {}", shared.python)).of(what())
        })?;
    let hint = "-u URL says where Redis is; --python PROGRAM names the Python that has the application, RQ and taskvisor";
    if !output.status.success() {
        return Err(Failure::new(exit::USAGE, format!("{}: {}", what(), output.status)).hint(hint));
    }
    serde_json::from_slice(&output.stdout)
        .map(Some)
        .map_err(|error| Failure::new(exit::USAGE, format!("{}: {error}", what())).hint(hint))
}
