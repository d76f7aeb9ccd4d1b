//! A hostile world, replayed from a seed, and checkers that watch every command.
//!
//! `TASKVISOR_SEEDS=N` runs N seeds, `TASKVISOR_SEED=S` replays one, both together N from S on. A failure prints its
//! seed and the last commands and events: 60, or `TASKVISOR_LINES`.

#![expect(clippy::unwrap_used, reason = "what is missing here is a mistake in the test")]

mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use model::{Job, JobId, Limits, PoolSettings, QueueName, Retry, Settings, Stop};
use taskvisor_supervisor::Event;

use world::{Happening, Weather, World};

const SEEDS: u64 = 300;

#[test]
fn supervisor_breaks_no_rule_in_a_hostile_world() {
    let mut seen = BTreeSet::new();
    for seed in seeds() {
        seen.append(&mut World::run(seed, Weather::Hostile).checks.seen);
    }
    let all = [
        "ask idle",
        "ask waiting",
        "assign",
        "assign alone",
        "assign suspect",
        "cancel",
        "drop",
        "exit",
        "fork",
        "kill at",
        "renew",
        "signal boot timeout",
        "signal canceled",
        "signal cpu limit",
        "signal fault",
        "signal idle",
        "signal memory limit",
        "signal self_fenced",
        "signal spent",
        "signal stop",
        "signal time limit",
        "spawn",
    ];
    let missing: Vec<&str> = all.into_iter().filter(|word| !seen.contains(*word)).collect();
    assert!(missing.is_empty() || seeds().count() < 100, "the world is too small: no {missing:?}");
}

#[test]
fn every_job_completes_in_a_kind_world() {
    for seed in seeds() {
        let world = World::run(seed, Weather::Kind);
        let left: Vec<&JobId> = world.jobs.iter().filter(|(_, job)| !job.over).map(|(id, _)| id).collect();
        assert!(left.is_empty(), "seed {seed}: never ended: {left:?}");
        let complete = world.supervisor.settled().get("complete").copied();
        assert_eq!(complete, Some(world.jobs.len() as u64), "seed {seed}");
    }
}

#[test]
fn pause_of_the_whole_machine_costs_no_job_anything() {
    for seed in seeds().take(60) {
        let pool = PoolSettings {
            workers: 3,
            jobs_per_life: (seed % 2 == 0).then_some(1),
            limits: Limits { time: Some(Duration::from_secs(100)), ..Limits::default() },
            queues: vec![QueueName::from("default"), QueueName::from("other")],
            ..PoolSettings::default()
        };
        let settings = Settings { pools: vec![pool], seed, ..Settings::default() };
        let mut world = World::new(seed, Weather::Kind, settings);
        world.longest = Some(80_000);
        world.put(12, 60_000);
        for n in 0..5 {
            let pause = Happening::StandStill(Duration::from_secs(40 + seed * 7 % 90));
            world.at(Duration::from_millis(5_000 + n * 31_000 + seed * 501), pause);
        }
        world.stop_at_the_end();
        world.live();
        assert_eq!(world.supervisor.settled().get("complete"), Some(&12), "seed {seed}");
        let fates = world.jobs.values().map(|job| (job.attempt, job.crashes, job.interrupted, job.fence));
        let odd: Vec<_> = fates.filter(|fate| (fate.0, fate.1, fate.2) != (1, 0, 0)).collect();
        assert!(odd.is_empty(), "seed {seed}: {odd:?}");
    }
}

#[test]
fn large_pool_boots_a_few_workers_first_and_then_all_slots() {
    for seed in seeds().take(2) {
        let pool = PoolSettings {
            workers: 100,
            template: seed % 2 == 1,
            retry: Retry::CLASS,
            queues: vec![QueueName::from("default"), QueueName::from("other")],
            ..PoolSettings::default()
        };
        let settings = Settings { pools: vec![pool], seed, ..Settings::default() };
        let mut world = World::new(seed, Weather::Kind, settings);
        world.put(200, 1000);
        world.stop_at_the_end();
        world.live();
        let places: BTreeSet<u16> = world.checks.ready.iter().map(|worker| worker.slot.index).collect();
        assert!((1..=100).all(|place| places.contains(&place)), "seed {seed}: {} were ready", places.len());
        assert_eq!(world.supervisor.settled().get("complete"), Some(&200), "seed {seed}");
    }
}

/// The queue is never empty, so no slot becomes empty by itself.
#[test]
fn killer_job_is_held_under_constant_load_and_its_99_neighbours_are_spared() {
    for seed in seeds().take(6) {
        let pool = PoolSettings {
            workers: 1 + (seed % 3) as u16,
            jobs_at_once: 100,
            jobs_per_life: None,
            retry: Retry::CLASS,
            queues: vec![QueueName::from("default"), QueueName::from("other")],
            ..PoolSettings::default()
        };
        let mut world =
            World::new(seed, Weather::Kind, Settings { pools: vec![pool], ..Settings::default() });
        let killer = JobId::from("j150");
        world.killer = Some(killer.clone());
        world.put(600, 1000);
        world.stop_at_the_end();
        world.live();
        for (id, job) in world.jobs.iter().filter(|(id, _)| **id != killer) {
            let fate = (job.over, job.attempt, job.crashes);
            assert_eq!(fate, (true, 1, 0), "seed {seed}: {id} lost an attempt");
        }
        let settled = |word| world.supervisor.settled().get(word).copied();
        assert_eq!((settled("complete"), settled("held")), (Some(599), Some(1)), "seed {seed}");
        assert_eq!((world.jobs[&killer].crashes, world.checks.deaths), (3, 4), "seed {seed}");
    }
}

/// Jobs last longer than a suspect may block its host.
#[test]
fn neither_suspects_nor_other_jobs_starve_when_jobs_are_long() {
    let mut seen = BTreeSet::new();
    for seed in seeds().take(30) {
        let queues = vec![QueueName::from("default"), QueueName::from("other")];
        let pool = PoolSettings { workers: 3, queues, ..PoolSettings::default() };
        let settings = Settings { pools: vec![pool], seed, ..Settings::default() };
        let mut world = World::new(seed, Weather::Kind, settings);
        world.longest = Some(1_500_000);
        world.put(12, 300_000);
        for id in ["j3", "j7"] {
            world.jobs.get_mut(&JobId::from(id)).unwrap().interrupted = Job::SUSPECTED_AFTER;
        }
        world.at(Duration::from_secs(9_000), Happening::Tell(Event::Stop(Stop::Drain)));
        world.live();
        assert_eq!(world.supervisor.settled().get("complete"), Some(&12), "seed {seed}");
        seen.append(&mut world.checks.seen);
    }
    for word in ["assign suspect in company", "assign beside suspect"] {
        assert!(seen.contains(word) || seeds().count() < 30, "the world is too small: no {word}");
    }
}

/// A number that the environment gives.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seeds() -> std::ops::Range<u64> {
    let first = number("TASKVISOR_SEED");
    let many = number("TASKVISOR_SEEDS").unwrap_or(if first.is_some() { 1 } else { SEEDS });
    let first = first.unwrap_or(0);
    first..first + many
}
