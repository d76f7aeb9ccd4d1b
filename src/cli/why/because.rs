//! The sentences of `why`: each gives one reason for a state.

use super::because_running::{canceled_by, running};
use crate::cli::record::needs::{self, Helps};
use crate::cli::record::timeline::interrupted_by;
use crate::cli::term::format::{ago, between, known};
use crate::cli::term::screen::age;
use broker::Card;
use model::verb::Ability;
use model::{
    Count, Failure, Fit, Happened, Job, JobId, JobRecord, JobState, Millis, PoolStatus, QueueCounts,
    QueueName, SlotState, Why,
};

/// Which supervisors could answer, besides the store.
pub(crate) enum Heard {
    /// The supervisor that runs here.
    Supervisor,
    /// No supervisor runs here, and no other host shares these jobs.
    Nobody,
    /// No supervisor runs here; other hosts may share the jobs, and their broker does not show them.
    Unseen,
    /// No supervisor runs here, but other hosts share the jobs: those that take the job's queue.
    Others(Vec<String>),
}

/// Why a job is in its state.
pub(crate) fn of_job(id: &JobId, why: &Why, heard: &Heard, helps: Helps, now: Millis) -> Vec<String> {
    let Some(job) = &why.job else { return here(id, why) };
    let runs = matches!(heard, Heard::Supervisor);
    let mut said = match job.state {
        JobState::Waiting => waiting(why, job, runs, now),
        JobState::Delayed => [delayed(job, now), lasting(why, job, runs, now)].concat(),
        JobState::Depends => [needs::sentences(job, helps, now), lasting(why, job, runs, now)].concat(),
        JobState::Running | JobState::Canceling => running(why, job, now),
        JobState::Complete | JobState::Failed | JobState::Held | JobState::Canceled => ended(job, now),
    };
    said.extend(needs::fate(job, now));
    said.extend(nobody_here(job, heard).filter(|_| !job.state.has_ended()));
    said
}

/// What is known here of a job that its broker does not show.
fn here(id: &JobId, why: &Why) -> Vec<String> {
    let slots = why.pools.iter().flat_map(|(pool, _)| &pool.slots);
    let runs = slots.flat_map(|slot| slot.jobs.iter().map(move |job| (slot, job)));
    let found = runs.filter(|(_, job)| job.id == *id).map(|(slot, job)| {
        let ending = job.ending.as_ref().map(|why| format!("; it is being ended: {why}")).unwrap_or_default();
        format!("It runs in slot {}, attempt {}, for {}{ending}.", slot.slot, job.attempt, age(job.ran))
    });
    let found: Vec<String> = found.collect();
    match found.is_empty() {
        true => vec!["No slot here runs it, and the broker does not say what has become of it.".into()],
        false => found,
    }
}

/// What keeps a waiting job from running until a person acts, if known. `runs`: a supervisor has answered.
pub(crate) fn hindrances(why: &Why, job: &JobRecord, runs: bool, helps: Helps, now: Millis) -> Vec<String> {
    let pools = if runs { no_pool(&why.pools, job, paused_pool) } else { Vec::new() };
    // A pool that takes the job will run it.
    let pools = Some(pools).filter(|pools| pools.len() >= why.pools.len()).unwrap_or_default();
    needs::dead(job, helps).into_iter().chain(paused(why, job, now)).chain(pools).collect()
}

/// What it means that no supervisor runs here.
fn nobody_here(job: &JobRecord, heard: &Heard) -> Option<String> {
    let queue = &job.queue;
    let what = match heard {
        Heard::Supervisor => return None,
        Heard::Nobody => {
            return Some("No supervisor runs here: nothing will happen to it until one is started.".into());
        }
        Heard::Unseen => {
            return Some(
                "No supervisor runs here. Another host may take it, and this one would not learn of it."
                    .into(),
            );
        }
        Heard::Others(_) if matches!(job.state, JobState::Running | JobState::Canceling) => {
            "It is another's who shares this broker; once its lease is over any of them may take it".into()
        }
        Heard::Others(hosts) if hosts.is_empty() => {
            format!("No supervisor runs here, and none that shares this broker takes jobs from queue {queue}")
        }
        Heard::Others(hosts) => {
            format!("No supervisor runs here; jobs from queue {queue} are taken on {}", hosts.join(", "))
        }
    };
    Some(format!("{what}: taskvisor status --fleet shows them."))
}

fn waiting(why: &Why, job: &JobRecord, runs: bool, now: Millis) -> Vec<String> {
    let since = known(job.put_at).map(|at| format!("; it was put {}", ago(at, now)));
    let mut said = vec![format!("It waits in queue {}{}.", job.queue, since.unwrap_or_default())];
    said.extend(came_back(job));
    said.extend(paused(why, job, now));
    said.extend(why.queues.get(&job.queue).and_then(|queue| full(&job.queue, queue)));
    if runs {
        said.extend(no_pool(&why.pools, job, no_room));
    }
    match why.before {
        Some(0) if said.len() == 1 && runs => said.push("It is the next of its queue.".into()),
        Some(0) | None => {}
        Some(1) => said.push("One job of its queue comes before it, by priority or by age.".into()),
        Some(before) => {
            let many = if before < 1000 { before.to_string() } else { "At least 1000".into() };
            said.push(format!("{many} jobs of its queue come before it, by priority or by age."));
        }
    }
    said
}

fn paused(why: &Why, job: &JobRecord, now: Millis) -> Option<String> {
    let pause = why.queues.get(&job.queue)?.paused.as_ref()?;
    let reason = pause.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let since = known(pause.since).map(|at| format!(" {}", ago(at, now))).unwrap_or_default();
    Some(format!("Queue {} was paused{since} by {}{reason}.", job.queue, pause.by))
}

/// Reasons that will last when the job is due: not that all workers are busy at the moment.
fn lasting(why: &Why, job: &JobRecord, runs: bool, now: Millis) -> Vec<String> {
    let pools = if runs { no_pool(&why.pools, job, paused_pool) } else { Vec::new() };
    paused(why, job, now).into_iter().chain(pools).collect()
}

/// The reason why all pools fetch no jobs.
pub(super) fn held_up(suspect: &JobId) -> String {
    let minutes = Job::ALONE_FOR.as_secs() / 60;
    format!(
        "No other job begins on this host for now: {suspect} is to run alone, as the supervisor has died under it before. It \
         waits {minutes} minutes at most for the others to end, and others begin {minutes} minutes after it at the latest."
    )
}

pub(super) fn paused_pool(pool: &PoolStatus) -> Option<String> {
    let name = &pool.name;
    let by = pool.pause.as_ref().map(|pause| format!(" by {}{}", pause.by, pause.because()));
    let by = by.unwrap_or_default();
    pool.paused.then(|| format!("Pool {name} is paused{by}. taskvisor resume {name} has it take jobs again."))
}

/// The sentence for a queue at its limit of running jobs.
fn full(name: &QueueName, queue: &QueueCounts) -> Option<String> {
    let most = queue.max_concurrency?;
    let count = |state| queue.jobs.get(&state).copied().unwrap_or(0);
    (count(JobState::Running) + count(JobState::Canceling) >= most).then(|| {
        format!("Queue {name} runs at most {most} jobs at a time, and does: taskvisor option get max_concurrency --queue {name}.")
    })
}

/// Why each pool that takes its queue does not run a waiting job.
fn no_pool(
    pools: &[(PoolStatus, Fit)],
    job: &JobRecord,
    hindrance: fn(&PoolStatus) -> Option<String>,
) -> Vec<String> {
    if pools.is_empty() {
        return vec![format!("No pool takes jobs from queue {}.", job.queue)];
    }
    let of = |(pool, fit): &(PoolStatus, Fit)| match fit {
        Fit::Filtered => Some(format!("Pool {} does not let class {} through.", pool.name, job.class)),
        Fit::Unknown => Some(format!("No worker of pool {} knows class {}.", pool.name, job.class)),
        Fit::Runs => hindrance(pool),
    };
    pools.iter().filter_map(of).collect()
}

fn no_room(pool: &PoolStatus) -> Option<String> {
    let name = &pool.name;
    if pool.paused {
        return paused_pool(pool);
    }
    if let Some(suspect) = &pool.suspect {
        return Some(held_up(suspect));
    }
    if let Some(probing) = &pool.probing {
        return Some(format!("Pool {name} tries with one slot only: {probing}."));
    }
    let in_state = |state| pool.slots.iter().filter(|slot| slot.state == state).count();
    match (in_state(SlotState::Ready), in_state(SlotState::Busy), pool.slots.len()) {
        (1.., ..) => None, // A slot with room takes it in a moment.
        (0, 1, 1) => Some(format!("The only slot of pool {name} is busy.")),
        (0, busy, all) if busy == all && all > 0 => Some(format!("All {all} slots of pool {name} are busy.")),
        (0, busy, all) => {
            let down = first_down(pool).map(|down| format!(" {down}")).unwrap_or_default();
            Some(format!(
                "No slot of pool {name} has room: {busy} of {all} are busy, the others not ready.{down}"
            ))
        }
    }
}

/// Why the first slot of a pool is down whose life ended too early.
pub(crate) fn first_down(pool: &PoolStatus) -> Option<String> {
    let mut down = pool.slots.iter().filter(|slot| slot.state == SlotState::Down);
    down.find_map(|slot| Some(format!("Slot {} is down: {}.", slot.slot, slot.why.as_deref()?)))
}

/// Why it waits again after an earlier attempt.
fn came_back(job: &JobRecord) -> Option<String> {
    let (at, last) = job.history.iter().rev().find_map(|entry| match &entry.what {
        Happened::Attempt(attempt) => Some((entry.at, Ok(attempt))),
        Happened::Advanced { from, .. } => Some((entry.at, Err(from))),
        Happened::Canceled { .. } | Happened::Retried { .. } => None,
        Happened::Edited { .. } | Happened::Noted { .. } => None,
    })?;
    let last = match last {
        Ok(attempt) => attempt,
        Err(from) => return Some(format!("It was complete in queue {from} before, and went on here.")),
    };
    let why = match (&last.failure, last.counts) {
        (Some(failure), _) => worded(failure),
        (None, Some(Count::Interrupted | Count::Stopped)) => {
            format!("interrupted by {}", interrupted_by(last))
        }
        (None, Some(Count::UnknownClass)) => format!("no worker knew its class, {}", job.class),
        (None, None) => job.cause().map_or_else(|| "no reason is known".into(), worded),
    };
    let took = last.started_at.map(|from| format!(" after {}", age(between(from, at)))).unwrap_or_default();
    Some(format!("Attempt {} ended{took}: {why}.", last.attempt))
}

fn worded(failure: &Failure) -> String {
    match failure.message.is_empty() {
        true => failure.group.clone(),
        false => format!("{}: {}", failure.group, failure.message),
    }
}

/// How a job that ended badly can run again, with what its broker does for that.
pub(crate) fn way_back(job: &JobRecord, card: Option<&Card>) -> Option<String> {
    let again = match card.and_then(|card| card.instead(Ability::Retry)) {
        None => format!("taskvisor job retry {} puts it back", job.id),
        Some(instead) => format!("to have it run again: {instead}"),
    };
    let is_bad = matches!(job.state, JobState::Failed | JobState::Held);
    is_bad.then(|| format!("taskvisor job show {} has all of it; {again}.", job.id))
}

fn delayed(job: &JobRecord, now: Millis) -> Vec<String> {
    let first = match job.due_at.map(|due| between(now, due)).filter(|left| !left.is_zero()) {
        Some(left) => format!("It is delayed for {} more.", age(left)),
        None => "Its delay is over: it is due now.".into(),
    };
    [first].into_iter().chain(came_back(job)).collect()
}

fn ended(job: &JobRecord, now: Millis) -> Vec<String> {
    let ago = job.ended_at.map(|at| format!(" {}", ago(at, now))).unwrap_or_default();
    let mut said = vec![match job.state {
        JobState::Complete => format!("It was completed{ago}."),
        JobState::Failed => format!("It failed for good{ago}."),
        JobState::Held => format!("It was held for a person{ago}."),
        JobState::Canceled => format!("It was canceled{ago}."),
        JobState::Waiting | JobState::Delayed | JobState::Depends => format!("It waits{ago}."),
        JobState::Running | JobState::Canceling => format!("It runs{ago}."),
    }];
    match job.state {
        JobState::Canceled => said.extend(canceled_by(job)),
        JobState::Complete => {}
        JobState::Failed | JobState::Held => {
            let failure = job.failure.iter().map(|failure| format!("{}.", worded(failure)));
            said.extend(came_back(job).map_or_else(|| failure.collect(), |last| vec![last]));
        }
        JobState::Waiting
        | JobState::Delayed
        | JobState::Depends
        | JobState::Running
        | JobState::Canceling => {}
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::record::page::tests::failed_job;
    use model::verb::Ability;
    use model::{Attempt, Entry, Pause, QueueCounts, Retry};

    const NOW: Millis = Millis(1_790_000_060_000);
    const ALL: Helps = Helps::ALL;

    /// A job that failed once and is now in this state.
    fn why(state: JobState) -> Why {
        let mut job = failed_job();
        let attempt = Attempt {
            attempt: 1,
            fence: job.fence,
            started_at: job.started_at,
            instance: None,
            worker: job.worker.clone(),
            renewals: 0,
            renewed_at: None,
            state: JobState::Delayed,
            due_at: None,
            crashed: false,
            counts: None,
            failure: job.failure.clone(),
            forensics: None,
        };
        let at = Millis(1_790_000_003_000);
        job.history = vec![
            Entry { at, what: Happened::Attempt(Box::new(attempt)) },
            Entry { at, what: Happened::Canceled { by: "uid 5".into(), reason: None } },
        ];
        (job.state, job.retry, job.due_at) = (state, Some(Retry::CLASS), Some(Millis(NOW.0 + 9_500)));
        job.expires_at = Some(Millis(NOW.0 + 40_000));
        Why { job: Some(job), before: Some(0), ..Why::default() }
    }

    #[test]
    fn each_state_has_its_reason() {
        let said = |state| of_job(&"j".into(), &why(state), &Heard::Supervisor, ALL, NOW);
        let failed = "Attempt 1 ended after 1.5s: exit 1: gzip: a.gz: crc error.";
        assert_eq!(said(JobState::Delayed)[..2], ["It is delayed for 9.5s more.", failed]);
        let running = said(JobState::Canceling);
        assert_eq!(running[0], "Attempt 1 has run for 58s in worker default.1#7 of q1-1.");
        assert_eq!(
            running[1..],
            ["Its lease ends in 40s unless it is extended.", "It was canceled by uid 5."]
        );
        assert_eq!(said(JobState::Canceled), ["It was canceled 57s ago.", "It was canceled by uid 5."]);
        assert_eq!(said(JobState::Complete), ["It was completed 57s ago."]);
        assert_eq!(said(JobState::Held)[..2], ["It was held for a person 57s ago.", failed]);
    }

    #[test]
    fn broker_that_refuses_a_retry_has_another_way_back() {
        let job = why(JobState::Failed).job.unwrap();
        let id = job.id.clone();
        let first = format!("taskvisor job show {id} has all of it; ");
        assert_eq!(way_back(&job, None), Some(format!("{first}taskvisor job retry {id} puts it back.")));
        static REFUSES: Card = Card {
            name: "some",
            shared: true,
            batch: 1,
            longest_delay: None,
            data_max: 1,
            cannot: &[(Ability::Retry, "put it again")],
        };
        let said = format!("{first}to have it run again: put it again.");
        assert_eq!(way_back(&job, Some(&REFUSES)), Some(said));
        assert_eq!(way_back(&why(JobState::Complete).job.unwrap(), None), None);
    }

    #[test]
    fn delayed_job_shows_later_obstacles_beside_its_delay() {
        let mut why = why(JobState::Delayed);
        let pause = Pause { since: Millis(NOW.0 - 5_000), by: "uid 0".into(), reason: None };
        why.queues.insert("default".into(), QueueCounts { paused: Some(pause), ..QueueCounts::default() });
        let said = of_job(&"j".into(), &why, &Heard::Supervisor, ALL, NOW);
        assert_eq!(
            said[2..],
            ["Queue default was paused 5.0s ago by uid 0.", "No pool takes jobs from queue default."]
        );
    }

    #[test]
    fn unspent_attempt_is_described_by_its_recorded_reason() {
        let came_back = |counts| {
            let mut why = why(JobState::Waiting);
            if let Some(Entry { what: Happened::Attempt(last), .. }) =
                why.job.as_mut().and_then(|job| job.history.first_mut())
            {
                (last.failure, last.counts) = (None, Some(counts));
            }
            of_job(&"j".into(), &why, &Heard::Supervisor, ALL, NOW)[1].clone()
        };
        let died = "interrupted by the death of its supervisor or host, or the end of its lease.";
        assert!(came_back(Count::Interrupted).ends_with(died));
        assert!(came_back(Count::UnknownClass).ends_with("no worker knew its class, exec."));
    }

    #[test]
    fn a_waiting_job_has_every_reason_at_once() {
        let mut why = why(JobState::Waiting);
        why.before = Some(1000);
        let pause = Pause { since: Millis(NOW.0 - 5_000), by: "uid 0".into(), reason: Some("lunch".into()) };
        why.queues.insert("default".into(), QueueCounts { paused: Some(pause), ..QueueCounts::default() });
        let said = of_job(&"j".into(), &why, &Heard::Supervisor, ALL, NOW);
        assert_eq!(
            said[2..],
            [
                "Queue default was paused 5.0s ago by uid 0: lunch.",
                "No pool takes jobs from queue default.",
                "At least 1000 jobs of its queue come before it, by priority or by age.",
            ]
        );
        let last = |heard: Heard| of_job(&"j".into(), &why, &heard, ALL, NOW).pop().unwrap();
        assert!(last(Heard::Nobody).ends_with("nothing will happen to it until one is started."));
        assert!(last(Heard::Others(Vec::new())).contains("none that shares this broker takes jobs"));
        assert!(last(Heard::Others(vec!["a".into(), "b".into()])).contains("default are taken on a, b:"));
        let nameless = Failure { group: "oom".into(), message: String::new(), trace: None };
        let Some(job) = &mut why.job else { return };
        (job.state, job.failure, job.history) = (JobState::Failed, Some(nameless), Vec::new());
        assert!(of_job(&"j".into(), &why, &Heard::Supervisor, ALL, NOW)[1] == "oom.");
    }
}
