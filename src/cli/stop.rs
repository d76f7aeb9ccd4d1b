//! `stop`: the order, and the wait for the end.

use std::fs::File;

use nix::fcntl::{Flock, FlockArg};

use super::args::Stop as Args;
use super::failure::Failure;
use super::screen::age;
use super::{exit, start};
use crate::api::{Client, Error};
use crate::config::Config;
use crate::model::Stop;

/// Orders the stop and waits until the lock of the run directory is free: the keeper holds it to its last moment.
pub async fn stop(config: &Config, args: &Args) -> Result<u8, Failure> {
    let how = match args {
        Args { kill: true, .. } => Stop::Kill,
        Args { now: true, .. } => Stop::Terminate,
        Args { .. } => Stop::Drain,
    };
    match Client::new(config.socket()).stop(how).await {
        // It may be gone before it has answered.
        Ok(()) | Err(Error::Lost(..)) => {}
        Err(error) => return Err(error.into()),
    }
    let lock = File::open(start::run_lock(config))?;
    let (done, ended) = tokio::sync::oneshot::channel();
    // Left behind when the time is up: it ends with this process.
    std::thread::spawn(move || {
        let locked = Flock::lock(lock, FlockArg::LockShared).map(drop).map_err(|(_, error)| error);
        let _ = done.send(locked);
    });
    let ended = match args.timeout {
        None => ended.await,
        Some(timeout) => tokio::time::timeout(timeout, ended).await.map_err(|_| {
            Failure::new(exit::TIMED_OUT, format!("the supervisor has not ended within {}", age(timeout)))
                .hint("it goes on ending; taskvisor stop --now or --kill goes a stage further")
        })?,
    };
    match ended {
        Ok(Ok(())) => Ok(exit::OK),
        Ok(Err(error)) => Err(Failure::from(std::io::Error::from(error)).of("failed to wait for the end")),
        Err(_) => Err(Failure::new(exit::FAILED, "failed to wait for the end")),
    }
}
