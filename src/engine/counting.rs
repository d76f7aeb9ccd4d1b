//! Counts the commands and events of the supervisor for metrics.

use std::collections::HashMap;

use model::{Counters, ExitStatus, Fence, Instant, Job, JobId, PoolCounters, PoolSettings, WorkerId};
use supervisor::{Command, Event};

/// The counters, and which pool has which number at the moment: after a reload a number may mean another pool.
#[derive(Debug, Default)]
pub(super) struct Counting {
    pub(super) counters: Counters,
    pools: Vec<Numbered>,
    /// Attempts in progress: start, worker and class.
    running: HashMap<(JobId, Fence), (Instant, WorkerId, String)>,
}

/// Limit of the classes that are counted apart: anybody who puts a job may name a new one.
const CLASSES: usize = 100;
/// Name under which all other classes are counted.
const OTHER: &str = "other";

#[derive(Debug, Default)]
struct Numbered {
    name: String,
    /// When the fetch in progress began: a pool has at most one.
    asked: Option<Instant>,
}

impl Counting {
    pub(super) fn new(pools: &[PoolSettings]) -> Counting {
        let mut counting = Counting::default();
        for (number, pool) in pools.iter().enumerate() {
            counting.equip(number, &pool.name);
        }
        counting
    }

    fn equip(&mut self, number: usize, name: &str) {
        if number >= self.pools.len() {
            self.pools.resize_with(number + 1, Numbered::default);
        }
        self.pools[number].name = name.to_owned();
        self.counters.pools.entry(name.to_owned()).or_default();
    }

    /// Counts a command.
    pub(super) fn order(&mut self, command: &Command) {
        match command {
            Command::Fetch { pool, .. } => {
                if let Some(pool) = self.pools.get_mut(usize::from(*pool)) {
                    pool.asked = Some(clock::now());
                }
            }
            Command::Equip(number, settings) => self.equip(usize::from(*number), &settings.name),
            Command::Spawn(worker) | Command::Fork(worker, _) => {
                self.count(worker.slot.pool, |pool| pool.spawned += 1);
            }
            Command::Assign { worker, job, fence, .. } => self.begun(*worker, job, *fence, clock::now()),
            Command::Signal { .. }
            | Command::Cancel { .. }
            | Command::KillAt(..)
            | Command::Follow(..)
            | Command::Renew(_)
            | Command::Settle(_)
            | Command::AskIdle(..)
            | Command::GiveUp(_)
            | Command::AskWaiting(..)
            | Command::LeaseLost { .. }
            | Command::Died { .. }
            | Command::VerdictUnconfirmed { .. }
            | Command::LeftAlive { .. }
            | Command::Exit => {}
        }
    }

    /// Counts an event.
    pub(super) fn hear(&mut self, event: &Event) {
        let counters = &mut self.counters;
        match event {
            Event::Fetched(pool, jobs) => {
                counters.fetches += 1;
                self.count(*pool, |pool| pool.fetched += jobs.len() as u64);
                self.answered(*pool);
            }
            Event::FetchFailed(pool) => {
                counters.fetches_failed += 1;
                self.answered(*pool);
            }
            Event::Exited { worker, exit, followed } => {
                let died: Vec<_> = self.running.iter().filter(|(_, (_, at, _))| at == worker).collect();
                let died: Vec<_> = died.into_iter().map(|(attempt, _)| attempt.clone()).collect();
                died.into_iter().for_each(|(job, fence)| self.ended(&job, fence, clock::now()));
                self.count(worker.slot.pool, |pool| {
                    pool.spawned += u64::from(*followed);
                    match exit.status {
                        ExitStatus::Code(0) => pool.ended_well += 1,
                        ExitStatus::Code(_) => pool.ended_badly += 1,
                        ExitStatus::Signal { .. } => pool.killed += 1,
                    }
                });
            }
            Event::Finished { job, fence, .. } => self.ended(job, *fence, clock::now()),
            Event::Renewed(_) => counters.renewed += 1,
            Event::RenewFailed(..) => counters.renewals_failed += 1,
            Event::Revoked { .. } => counters.revoked += 1,
            Event::Settled { became, .. } => counters.settled += u64::from(became.is_some()),
            Event::SettleFailed(..) => counters.settles_failed += 1,
            Event::Spawned(_)
            | Event::SpawnFailed(..)
            | Event::Ready(_)
            | Event::Stuck(..)
            | Event::Faulty(..)
            | Event::Knows(..)
            | Event::Waiting(..)
            | Event::Woken(_)
            | Event::Counted(_)
            | Event::Resized(..)
            | Event::Idle(_)
            | Event::Exceeded { .. }
            | Event::Outgrown(_)
            | Event::Reload(_)
            | Event::Change(..)
            | Event::Stop(_) => {}
        }
    }

    /// An attempt begins.
    fn begun(&mut self, worker: WorkerId, job: &Job, fence: Fence, now: Instant) {
        self.running.insert((job.id.clone(), fence), (now, worker, job.class.to_string()));
    }

    /// An attempt is over.
    fn ended(&mut self, job: &JobId, fence: Fence, now: Instant) {
        let Some((began, _, class)) = self.running.remove(&(job.clone(), fence)) else { return };
        let classes = &mut self.counters.classes;
        let is_own = classes.contains_key(&class) || classes.len() < CLASSES;
        let ran = classes.entry(if is_own { class } else { OTHER.to_owned() }).or_default();
        ran.count += 1;
        ran.time += now.since(began);
    }

    fn answered(&mut self, pool: u16) {
        let pool = self.pools.get_mut(usize::from(pool));
        if let Some(asked) = pool.and_then(|pool| pool.asked.take()) {
            self.counters.fetch_time += clock::now().since(asked);
        }
    }

    fn count(&mut self, pool: u16, count: impl FnOnce(&mut PoolCounters)) {
        let pool = self.pools.get(usize::from(pool));
        if let Some(counters) = pool.and_then(|pool| self.counters.pools.get_mut(&pool.name)) {
            count(counters);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use model::{Payload, Ran, SlotId};

    fn job(class: &str) -> Job {
        Job {
            id: "j".into(),
            queue: "q".into(),
            class: class.into(),
            payload: Payload::Data("1".into()),
            priority: 0,
            tags: Vec::new(),
            attempt: 1,
            crashes: 0,
            interrupted: 0,
            unknown: 0,
            retry: None,
            time_limit: None,
        }
    }

    #[test]
    fn durations_of_attempts_are_summed_for_at_most_100_classes() {
        let (mut counting, worker) =
            (Counting::default(), WorkerId { slot: SlotId { pool: 0, index: 1 }, generation: 1 });
        let at = |millis: u64| Instant::from_millis(millis);
        for (number, class) in
            (0..).zip(["a".to_owned(), "a".to_owned()].into_iter().chain((0..150).map(|n| n.to_string())))
        {
            counting.begun(worker, &job(&class), Fence(number), at(0));
            counting.ended(&"j".into(), Fence(number), at(20));
            counting.ended(&"j".into(), Fence(number), at(90));
        }
        let classes = counting.counters.classes;
        assert_eq!(classes["a"], Ran { count: 2, time: Duration::from_millis(40) });
        assert_eq!((classes.len(), classes[OTHER].count), (101, 51));
    }

    #[test]
    fn counters_follow_the_name_of_the_pool() {
        let named = |name: &str| PoolSettings { name: name.into(), ..PoolSettings::default() };
        let mut counting = Counting::new(&[named("a"), named("b")]);
        let spawn = |pool| Command::Spawn(WorkerId { slot: SlotId { pool, index: 3 }, generation: 7 });
        counting.order(&spawn(1));
        // An heir with a new pool number, then another pool that reuses an old number.
        counting.order(&Command::Equip(2, Box::new(named("b"))));
        counting.order(&spawn(2));
        counting.order(&Command::Equip(1, Box::new(named("c"))));
        [1, 1, 9].iter().for_each(|pool| counting.order(&spawn(*pool)));
        for event in [
            Event::Fetched(0, vec![]),
            Event::FetchFailed(1),
            Event::FetchFailed(9),
            Event::Woken(model::QueueSet::All),
        ] {
            counting.hear(&event);
        }
        let Counters { fetches, fetches_failed, pools, .. } = counting.counters;
        assert_eq!((fetches, fetches_failed), (1, 2));
        assert_eq!(["a", "b", "c"].map(|name| pools[name].spawned), [0, 2, 2]);
    }
}
