//! What a command does while no supervisor answers: whether it waits for one, and where the jobs are without one.

use std::time::Duration;

use super::absent::Absent;
use crate::cli::term::screen::escaped;
use api::{Client, Error};
use boot::{Noted, last_broker, living_keeper, noted};
use config::Config;
use failure::{Failure, exit};

/// Pause between two tries while no supervisor is there.
pub(crate) const BETWEEN: Duration = Duration::from_millis(200);

/// How long to wait for a supervisor that is being replaced.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks for the supervisor. If there is no way to its jobs without it, waits a while for one that is being replaced.
pub(super) async fn probe(config: &Config, client: &Client) -> Result<(), Error> {
    let probed = client.probe().await;
    if !matches!(probed, Err(Error::NotRunning(_))) || !must_wait(config) {
        return probed;
    }
    let answers = async {
        loop {
            match client.probe().await {
                Err(Error::NotRunning(_)) => tokio::time::sleep(BETWEEN).await,
                probed => return probed,
            }
        }
    };
    match tokio::time::timeout(PATIENCE, answers).await {
        Ok(probed) => probed,
        // Out of patience: the error of this try is the one to print.
        Err(_) => client.probe().await,
    }
}

/// Whether the supervisor is there or is being replaced, and the store is no way around it: always for a command of its own
/// job.
fn must_wait(config: &Config) -> bool {
    let has_way = config.broker_is_said || matches!(noted(config), Noted::Known(_));
    let is_away = !has_way || config.broker.is_of_supervisor();
    config.in_job || is_away && living_keeper(config).is_some()
}

/// Refuses to take a store for that of the supervisor if it is not.
pub(super) fn may_go_on(config: &Config, absent: Absent) -> Result<(), Failure> {
    match noted(config) {
        Noted::Secret { shown, settings } => Err(needs_secret(config, &shown, settings)),
        // One of an older program has noted nothing, and may have its jobs anywhere.
        Noted::Nothing if !config.broker_is_said && living_keeper(config).is_some() => {
            let why = format!(
                "nobody listens on {}, and nothing says where the jobs are without its supervisor",
                config.socket().display()
            );
            Err(Failure::new(exit::NOT_RUNNING, why))
        }
        Noted::Nothing | Noted::Known(_) => {
            if matches!(absent, Absent::Make) {
                note_another(config);
            }
            Ok(())
        }
    }
}

fn needs_secret(config: &Config, shown: &str, settings: Option<String>) -> Failure {
    let why = format!(
        "no supervisor listens on {}, and its jobs are in {shown}, whose whole URL is noted nowhere as it holds a secret",
        config.socket().display()
    );
    let hint = match settings {
        Some(file) => format!("start it, or name its settings: -c {file} (or TASKVISOR_CONFIG)"),
        None => "start it, or name its broker as its start did: -b URL, or TASKVISOR_BROKER".to_owned(),
    };
    Failure::new(exit::UNAVAILABLE, why).hint(hint)
}

/// Notes that what is kept goes to another broker than that of the last supervisor here: people do move.
fn note_another(config: &Config) {
    let last = match last_broker(config) {
        _ if !config.broker_is_said => return,
        Noted::Known(broker) => broker.to_string(),
        Noted::Secret { shown, .. } => shown,
        Noted::Nothing => return,
    };
    if !config.broker.is_at(&last) {
        let what =
            format!("the last supervisor here has its jobs in {last}, and reads none of {}", config.broker);
        eprintln!("note: {}", escaped(&what));
        eprintln!("hint: leave -b, -c and TASKVISOR_BROKER away for its jobs");
    }
}
