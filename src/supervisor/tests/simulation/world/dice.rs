//! The random generator of the world, and random settings and jobs.

use super::*;

pub fn settings(dice: &mut Dice, seed: u64, weather: Weather) -> Settings {
    let pool = |dice: &mut Dice, number: u64| {
        let (jobs_at_once, jobs_per_life) =
            [(1, Some(1)), (1, None), (1, Some(3)), (3, None), (3, Some(10))][dice.below(5) as usize];
        let workers = dice.below(4) as u16 + 1;
        // In a kind world no class is unknown.
        let knows = [None, Some(classes(&["mail", "odd"])), Some(classes(&["mail"]))];
        let which = if weather == Weather::Kind { 2 } else { 3 };
        PoolSettings {
            name: format!("p{number}"),
            workers,
            min_workers: (dice.below(3) == 0).then(|| dice.below(u64::from(workers)) as u16),
            template: dice.below(3) == 0,
            order: Order::ALL[dice.below(Order::ALL.len() as u64) as usize],
            knows: knows[dice.below(which) as usize].clone(),
            jobs_at_once,
            jobs_per_life,
            queues: vec![QueueName::from("default"), QueueName::from("other")],
            grace: Duration::from_secs([1, 5, 10][dice.below(3) as usize]),
            boot_timeout: Duration::from_secs(5),
            limits: Limits {
                time: [None, Some(Duration::from_secs(150))][dice.below(2) as usize],
                ..Limits::default()
            },
            when_cut_off: if seed % 4 == 3 { CutOff::CarryOn } else { CutOff::Kill },
            retry: [Retry::NONE, Retry::CLASS][dice.below(2) as usize],
            ..PoolSettings::default()
        }
    };
    let pools = (0..dice.below(2) + 1).map(|number| pool(dice, number)).collect();
    let burst = dice.below(8) == 0;
    Settings { pools, burst, seed, lease: Duration::from_secs(30), ..Settings::default() }
}

pub fn job(id: &JobId, work: &Work) -> Job {
    Job {
        id: id.clone(),
        queue: work.queue.clone(),
        class: work.class.clone(),
        payload: Payload::Data(Bytes::from("{}")),
        priority: 0,
        tags: Vec::new(),
        attempt: work.attempt,
        crashes: work.crashes,
        interrupted: work.interrupted,
        unknown: work.unknown,
        retry: None,
        time_limit: None,
    }
}

pub fn classes(names: &[&str]) -> Arc<Classes> {
    Arc::new(names.iter().map(|name| (Class::from(*name), ClassSettings::default())).collect())
}

pub fn complete() -> Outcome {
    Outcome::Complete { result: None, next: None }
}

/// xorshift64*, so that the seed determines the world.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, sides: u64) -> u64 {
        self.0 |= 1 << 63;
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % sides
    }
}
