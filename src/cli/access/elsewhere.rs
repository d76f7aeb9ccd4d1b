//! Access to a supervisor on another machine: by its address, with a token.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use api::{Client, Error, Place};
use config::{Config, Remote};
use failure::{Failure, exit};

#[derive(Debug, clap::Args)]
pub(crate) struct Elsewhere {
    /// Speak to the supervisor at this address: http://HOST:PORT
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "TASKVISOR_URL",
        hide_env_values = true,
        help_heading = "Where"
    )]
    pub url: Option<String>,
    /// The file that holds the token for it
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "TASKVISOR_TOKEN_FILE",
        hide_env_values = true,
        help_heading = "Where"
    )]
    pub token_file: Option<PathBuf>,
}

/// A client of the supervisor to talk to: the one at an address, else the one of the run directory.
pub(crate) fn client(config: &Config) -> Result<Client, Failure> {
    match &config.remote {
        None => Ok(Client::new(config.socket())),
        Some(Remote { url, token }) => Place::of_url(url, token.0.clone())
            .map(Client::of)
            .map_err(|why| Failure::new(exit::USAGE, why).hint("--url http://HOST:PORT, or TASKVISOR_URL")),
    }
}

/// The same for requests that a broker cannot answer: refuses a supervisor that has its jobs in another store.
pub(crate) async fn supervisor(config: &Config) -> Result<Client, Failure> {
    let client = client(config)?;
    match another(config, &client).await? {
        None => Ok(client),
        Some(other) => Err(other),
    }
}

/// The error if the supervisor has its jobs in another store than the one to look in.
pub(crate) async fn another(config: &Config, client: &Client) -> Result<Option<Failure>, Failure> {
    if !config.broker_is_named {
        return Ok(None);
    }
    let theirs = match client.broker().await {
        Ok(theirs) => theirs.filter(|theirs| !config.broker.is_at(theirs)),
        // The request itself will show that.
        Err(Error::NotRunning(_) | Error::Lost(..) | Error::Connect(..)) => None,
        Err(error) => return Err(error.into()),
    };
    Ok(theirs.map(|theirs| {
        let message = format!(
            "the supervisor on {} has its jobs in {theirs}, not in {}",
            client.place(),
            config.broker
        );
        Failure::new(exit::USAGE, message).hint(
            "leave -b and TASKVISOR_BROKER away, or name another supervisor by --run-dir or --url; \
             jobs of a broker are reached without one: taskvisor job, queue, put …",
        )
    }))
}

/// Refuses the supervisor that listens here, if it does not belong to the named state directory. It does belong if the
/// directory has the path under which the supervisor knows it, which may lead to another disk here, or if its lock was
/// signed by the same supervisor.
pub(crate) fn of_this_state(config: &Config, client: &Client) -> Result<(), Failure> {
    if config.broker_is_named || !config.state_dir_is_named || config.remote.is_some() {
        return Ok(());
    }
    let signed = |dir: &Path| fs::read_to_string(dir.join("lock")).unwrap_or_default();
    let (theirs, ours) = (signed(&config.run_dir), signed(&config.state_dir));
    // A lock that nobody has signed proves nothing, so nothing is refused for it.
    let Some((number, theirs)) = theirs.split_once('\n') else { return Ok(()) };
    let (place, dir) = (client.place(), config.state_dir.display().to_string());
    if theirs.trim_end() == dir || ours.lines().next() == Some(number) {
        return Ok(());
    }
    Err(Failure::new(exit::USAGE, format!("the supervisor on {place} has not {dir} as its state directory")).hint(
        "leave --state-dir and TASKVISOR_STATE_DIR away for its jobs; for those of another state directory give the run \
         directory that belongs to it, too: --run-dir or TASKVISOR_RUN_DIR",
    ))
}

/// Whether the files of the supervisor that listens here are those of this state directory, and can be read.
pub(crate) fn shares_state(config: &Config) -> bool {
    let ours = fs::read_to_string(config.state_dir.join("lock")).unwrap_or_default();
    let is_theirs = match fs::read_to_string(config.run_dir.join("lock")) {
        Ok(theirs) => theirs.split_once('\n').is_none_or(|(number, dir)| {
            dir.trim_end() == config.state_dir.display().to_string() || ours.lines().next() == Some(number)
        }),
        // A member of the socket's group: the state directory of this user is another.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    config.remote.is_none() && is_theirs && fs::read_dir(&config.state_dir).is_ok()
}
