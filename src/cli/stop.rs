//! `stop`: the order, and the wait for the end.

use std::fs::File;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::args::Stop as Args;
use super::elsewhere::client;
use super::failure::Failure;
use super::screen::age;
use super::{exit, start};
use crate::api::Error;
use crate::config::Config;
use crate::model::Stop;

/// Orders the stop and waits until the lock of the run directory is free: the keeper holds it to its last moment.
pub async fn stop(config: &Config, args: &Args) -> Result<u8, Failure> {
    let how = match args {
        Args { kill: true, .. } => Stop::Kill,
        Args { now: true, .. } => Stop::Terminate,
        Args { .. } => Stop::Drain,
    };
    let whole = async {
        order(config, how).await?;
        tokio::select! {
            code = end(config) => code,
            failure = remind(config, how) => failure,
        }
    };
    match args.timeout {
        None => whole.await,
        Some(timeout) => tokio::time::timeout(timeout, whole).await.map_err(|_| {
            Failure::new(exit::TIMED_OUT, format!("the supervisor has not ended within {}", age(timeout)))
                .hint("it goes on ending; taskvisor stop --now or --kill goes a stage further")
        })?,
    }
}

/// Gives the order; a supervisor that is just being started, again perhaps, gets it as soon as it listens.
async fn order(config: &Config, how: Stop) -> Result<(), Failure> {
    let (client, mut lived) = (client(config)?, false);
    loop {
        match client.stop(how).await {
            Ok(()) => return Ok(()),
            // It may be gone before it has answered, for good or to come again.
            Err(Error::Lost(..) | Error::NotRunning(_)) if is_held(config) => {
                lived = true;
                tokio::time::sleep(BETWEEN).await;
            }
            Err(Error::Lost(..)) => return Ok(()),
            Err(Error::NotRunning(_)) if lived => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A supervisor that dies while it stops takes the order with it, and the next one has to be told again.
async fn remind(config: &Config, how: Stop) -> Result<u8, Failure> {
    let client = client(config)?;
    loop {
        tokio::time::sleep(REMINDER).await;
        client.stop(how).await.ok();
    }
}

/// An order that is given twice is one.
const REMINDER: Duration = Duration::from_secs(2);

/// Between two tries to reach it.
const BETWEEN: Duration = Duration::from_millis(20);

/// Whether a keeper lives.
fn is_held(config: &Config) -> bool {
    if config.remote.is_some() {
        return false;
    }
    let Ok(lock) = File::open(start::run_lock(config)) else { return false };
    matches!(Flock::lock(lock, FlockArg::LockSharedNonblock), Err((_, Errno::EWOULDBLOCK)))
}

async fn end(config: &Config) -> Result<u8, Failure> {
    if config.remote.is_some() {
        return end_elsewhere(config).await;
    }
    let lock = File::open(start::run_lock(config))?;
    let (done, ended) = tokio::sync::oneshot::channel();
    // Left behind when the time is up: it ends with this process.
    std::thread::spawn(move || {
        let locked = Flock::lock(lock, FlockArg::LockShared).map(drop).map_err(|(_, error)| error);
        let _ = done.send(locked);
    });
    match ended.await {
        Ok(Ok(())) => Ok(exit::OK),
        Ok(Err(error)) => Err(Failure::from(std::io::Error::from(error)).of("failed to wait for the end")),
        Err(_) => Err(Failure::new(exit::FAILED, "failed to wait for the end")),
    }
}

/// Its lock is not to be seen from here: it has ended when nobody listens any more.
async fn end_elsewhere(config: &Config) -> Result<u8, Failure> {
    let client = client(config)?;
    loop {
        match client.probe().await {
            Err(Error::NotRunning(_)) => return Ok(exit::OK),
            Ok(()) => tokio::time::sleep(BETWEEN).await,
            Err(error) => return Err(error.into()),
        }
    }
}
