//! A supervisor of another machine: by its address, with a token.

use std::path::PathBuf;

use super::exit;
use super::failure::Failure;
use crate::api::{Client, Place};
use crate::config::{Config, Remote};

#[derive(Debug, clap::Args)]
pub struct Elsewhere {
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

/// A client of the supervisor that is meant: the one at an address, else the one of the run directory.
pub fn client(config: &Config) -> Result<Client, Failure> {
    match &config.remote {
        None => Ok(Client::new(config.socket())),
        Some(Remote { url, token }) => Place::of_url(url, token.0.clone())
            .map(Client::of)
            .map_err(|why| Failure::new(exit::USAGE, why).hint("--url http://HOST:PORT, or TASKVISOR_URL")),
    }
}

/// Refuses what can only be done beside the supervisor.
pub fn only_here(config: &Config, what: &str) -> Result<(), Failure> {
    match &config.remote {
        None => Ok(()),
        Some(_) => {
            Err(Failure::new(exit::USAGE, format!("{what} can only be done on the supervisor's machine"))
                .hint("leave --url and TASKVISOR_URL away there"))
        }
    }
}
