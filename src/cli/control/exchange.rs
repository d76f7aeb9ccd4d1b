//! Waits until workers are exchanged: `reload --wait` and `recycle --wait`.

use std::time::Duration;

use crate::cli::access::elsewhere::supervisor;
use crate::cli::access::is_gone;
use crate::cli::term::screen::age;
use config::Config;
use failure::{Failure, exit};
use model::{PoolStatus, SlotState, Status};

/// How long to wait for a new supervisor after one has died.
const AWAY: Duration = Duration::from_secs(30);

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// Returns when these pools, and all that still have an outdated one beside them, have only new workers that are ready.
/// If new workers cannot boot, the wait ends: until they can, old ones go on.
pub(crate) async fn settled(
    config: &Config,
    pools: &[String],
    timeout: Option<Duration>,
) -> Result<u8, Failure> {
    let client = supervisor(config).await?;
    let mut last = String::new();
    let looks = async {
        let mut seen = clock::now();
        loop {
            match client.status().await {
                Ok(status) => match progress(&status, pools) {
                    Progress::Done => return Ok(exit::OK),
                    Progress::Stuck(why) => return Err(cannot_boot(&why)),
                    Progress::Open(what) => (last, seen) = (what, clock::now()),
                },
                // The keeper starts another supervisor, with the settings in force: all its workers are new.
                Err(error) if is_gone(&error) && clock::now().since(seen) < AWAY => {
                    last = "the supervisor is being replaced".into();
                }
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    // tokio takes a time beyond its clock for no limit.
    let ended = tokio::time::timeout(timeout.unwrap_or(Duration::MAX), looks).await;
    ended.unwrap_or_else(|_| {
        let timeout = age(timeout.unwrap_or_default());
        Err(Failure::new(exit::TIMED_OUT, format!("the exchange is not over after {timeout}: {last}"))
            .hint("it goes on; taskvisor status shows how far it has come"))
    })
}

fn cannot_boot(why: &str) -> Failure {
    Failure::new(exit::FAILED, format!("the new workers cannot boot: {why}"))
        .hint("they are tried again and again; taskvisor status shows what they said last")
}

/// The progress of a replacement of workers.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Done,
    /// The step that is missing, in words.
    Open(String),
    /// Why the new workers die before they are ready.
    Stuck(String),
}

fn progress(status: &Status, pools: &[String]) -> Progress {
    let is_old = |name: &str| status.pools.iter().any(|pool| pool.outdated && pool.name == name);
    let of: Vec<&PoolStatus> =
        status.pools.iter().filter(|pool| pools.contains(&pool.name) || is_old(&pool.name)).collect();
    let fresh = || of.iter().filter(|pool| !pool.outdated);
    // Before the slots are looked at: those of a pool that cannot boot are never ready.
    if let Some(why) =
        fresh().find_map(|pool| Some(format!("pool {}: {}", pool.name, pool.probing.as_ref()?)))
    {
        return Progress::Stuck(why);
    }
    let is_up = |state: SlotState| matches!(state, SlotState::Ready | SlotState::Busy);
    // The template first: without it no worker of its pool can start.
    let starting = fresh().flat_map(|pool| pool.template.iter().chain(&pool.slots));
    if let Some(slot) = starting.filter(|slot| !is_up(slot.state)).map(|slot| &slot.slot).next() {
        return Progress::Open(format!("slot {slot} is not ready yet"));
    }
    let old: Vec<&PoolStatus> = of.into_iter().filter(|pool| pool.outdated).collect();
    match old.first() {
        None => Progress::Done,
        Some(pool) => {
            let jobs = old.iter().flat_map(|pool| &pool.slots).flat_map(|slot| &slot.jobs);
            let named: Vec<&str> = jobs.map(|job| job.id.as_str()).take(3).collect();
            let runs = if named.is_empty() { String::new() } else { format!(", with {}", named.join(", ")) };
            Progress::Open(format!("old workers of pool {} still run{runs}", pool.name))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(name: &str, outdated: bool, state: SlotState) -> PoolStatus {
        let slot = json!({
            "slot": format!("{name}.1"), "generation": 1, "state": state, "age": 0,
            "jobs": [], "restarts": 0, "why": null, "process": null
        });
        let pool = json!({
            "name": name, "mode": "prefork", "queues": [], "probing": null, "outdated": outdated, "slots": [slot]
        });
        serde_json::from_value(pool).unwrap()
    }

    #[test]
    fn exchange_is_over_when_new_workers_are_ready_and_old_ones_gone() {
        let of = |pools: Vec<PoolStatus>, named: &[&str]| {
            let status = Status { pools, ..crate::cli::status::tree::tests::healthy() };
            progress(&status, &named.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let [old, new] = [pool("a", true, SlotState::Busy), pool("a", false, SlotState::Ready)];
        let open = |text: &str| Progress::Open(text.into());
        assert_eq!(of(vec![old.clone(), new.clone()], &[]), open("old workers of pool a still run"));
        let starting = pool("a", false, SlotState::Starting);
        assert_eq!(of(vec![old, starting.clone()], &["a"]), open("slot a.1 is not ready yet"));
        assert_eq!(of(vec![new, pool("b", false, SlotState::Down)], &["a"]), Progress::Done);
        let probing = PoolStatus { probing: Some("exit 1".into()), ..starting };
        assert_eq!(of(vec![probing], &["a"]), Progress::Stuck("pool a: exit 1".into()));
    }
}
