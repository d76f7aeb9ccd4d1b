//! `/livez` and `/readyz`: for programs that restart a dead service, and send nothing to one that is not ready.

use std::time::Duration;

use super::Problem;
use super::body::Ready;
use model::{PoolStatus, SlotStatus, Status};

/// How long the loop may take to answer. It turns many times a second when there is work, and at once when asked.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether the loop answers in time.
pub(super) async fn live(turn: impl Future<Output = Result<(), Problem>>) -> Result<(), Problem> {
    let dead = |_| {
        let seconds = PATIENCE.as_secs();
        Err(Problem::unavailable(format!("the supervisor's loop has not turned for {seconds} s")))
    };
    tokio::time::timeout(PATIENCE, turn).await.unwrap_or_else(dead)
}

/// Whether a slot could take a job now, with the reasons of a degraded verdict; else why not.
pub(super) fn ready(status: &Status) -> Result<Ready, Problem> {
    let mut reasons = Vec::new();
    if status.stopping.is_some() {
        reasons.push("it was ordered to stop".to_owned());
    }
    reasons.extend(status.broker_trouble.as_ref().map(|trouble| format!("broker: {trouble}")));
    if !status.pools.iter().any(takes_jobs) {
        reasons.push("no slot can take a job".to_owned());
        reasons.extend(status.pools.iter().filter_map(why_not));
    }
    match reasons.is_empty() {
        true => Ok(Ready { degraded: status.reasons.clone() }),
        false => Err(Problem::unavailable(format!("not ready: {}", reasons.join("; ")))),
    }
}

fn takes_jobs(pool: &PoolStatus) -> bool {
    !pool.paused && pool.slots.iter().any(SlotStatus::is_served)
}

fn why_not(pool: &PoolStatus) -> Option<String> {
    let of_slots = || pool.template.iter().chain(&pool.slots).find_map(|slot| slot.why.clone());
    let paused = || {
        let by = pool.pause.as_ref().map(|pause| format!(" by {}", pause.by)).unwrap_or_default();
        pool.paused.then(|| format!("it is paused{by}"))
    };
    Some(format!("pool {}: {}", pool.name, paused().or_else(|| pool.probing.clone()).or_else(of_slots)?))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(change: impl FnOnce(&mut Value)) -> Option<String> {
        let process = json!({ "pid": 7, "name": "p", "state": "S", "rss": 1, "cpu": 0.0 });
        let slot = json!({ "slot": "default.1", "generation": 1, "state": "busy", "age": 0.0,
                           "jobs": [], "restarts": 0, "why": null });
        let mut status = json!({
            "schema": "taskvisor.status/2", "version": "", "health": "healthy", "reasons": [],
            "host": { "name": "", "memory_total": 1, "memory_used": 1, "load": 0.0, "cpus": 2 },
            "keeper": process, "supervisor": process, "supervisor_restarts": 0, "uptime": 0.0,
            "stopping": null, "broker": "memory:", "broker_trouble": null, "settled": {}, "queues": {},
            "pools": [{ "name": "a", "mode": "fork", "queues": [], "probing": null, "slots": [slot] }],
        });
        change(&mut status);
        ready(&serde_json::from_value(status).unwrap()).err().map(|problem| problem.message)
    }

    #[tokio::test(start_paused = true)]
    async fn livez_fails_when_the_event_loop_hangs() {
        assert_eq!(live(async { Ok(()) }).await, Ok(()));
        let dead = live(std::future::pending()).await.unwrap_err();
        assert_eq!((dead.code, dead.message.as_str()), (503, "the supervisor's loop has not turned for 5 s"));
    }

    #[test]
    fn readyz_needs_a_slot_that_takes_jobs_and_a_working_broker() {
        assert_eq!(said(|_| ()), None);
        assert_eq!(said(|status| status["reasons"] = json!(["x fails"])), None, "it takes jobs");
        assert_eq!(
            said(|status| status["stopping"] = "drain".into()).unwrap(),
            "not ready: it was ordered to stop"
        );
        let trouble = said(|status| status["broker_trouble"] = "disk full".into());
        assert_eq!(trouble.unwrap(), "not ready: broker: disk full");
        let ends = said(|status| status["pools"][0]["slots"][0]["state"] = "stopping".into());
        assert_eq!(ends, None, "it ends a canceled job, and takes the next one");
        let down = said(|status| {
            status["pools"][0]["slots"][0]["state"] = "down".into();
            status["pools"][0]["slots"][0]["why"] = "exit 1".into();
        });
        assert_eq!(down.unwrap(), "not ready: no slot can take a job; pool a: exit 1");
        let paused = said(|status| {
            status["pools"][0]["paused"] = true.into();
            status["pools"][0]["pause"] = json!({ "since_ms": 5, "by": "uid 7", "reason": null });
        });
        assert_eq!(paused.unwrap(), "not ready: no slot can take a job; pool a: it is paused by uid 7");
        let starting = said(|status| status["pools"][0]["slots"][0]["state"] = "starting".into());
        assert_eq!(starting.unwrap(), "not ready: no slot can take a job");
    }
}
