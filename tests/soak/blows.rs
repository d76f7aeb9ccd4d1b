//! What strikes a supervisor, its processes, its broker and its disk; each is remembered with its time.

use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::outage::Outage;
use crate::random::Random;
use crate::servers::Broker;

/// Milliseconds since 1970, as the jobs write them.
pub fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    KillSupervisor,
    KillKeeper,
    /// Both at once, so that neither can see to the other.
    KillBoth,
    /// The process that runs a job.
    KillJob,
    /// A Python process of a pool, be it a worker or a template.
    KillWorker,
    /// Longer than a lease.
    Outage(Outage),
    /// The server is slow, for less than a lease.
    Slow,
    /// The disk of the state directory is full.
    DiskFull,
    Reload,
    Recycle,
    Scale,
    Pause,
    /// It is stopped in order, and started again.
    StopStart,
    /// The run directory and the settings file are removed.
    Sweep,
    Cancel,
    /// What has failed for good is retried by hand.
    Retry,
}

const COMMON: [Blow; 17] = [
    Blow::KillSupervisor,
    Blow::KillSupervisor,
    Blow::KillKeeper,
    Blow::KillBoth,
    Blow::KillJob,
    Blow::KillJob,
    Blow::KillWorker,
    Blow::KillWorker,
    Blow::Outage(Outage::SupervisorStopped),
    Blow::Outage(Outage::HostStill),
    Blow::DiskFull,
    Blow::Reload,
    Blow::Recycle,
    Blow::Scale,
    Blow::Pause,
    Blow::StopStart,
    Blow::Sweep,
];
const OF_REDIS: [Outage; 6] = [
    Outage::ServerStill,
    Outage::ServerKilled,
    Outage::ReadOnly,
    Outage::Full,
    Outage::NetworkLost,
    Outage::AllStill,
];
const OF_SQS: [Outage; 4] = [Outage::Unanswered, Outage::Unhidden, Outage::Gone, Outage::Denied];

impl Blow {
    /// The next blow of a round: a death and an outage of the server at first, then any.
    pub fn draw(broker: Broker, number: usize, random: &Random) -> Blow {
        let outages: &[Outage] = match broker {
            Broker::embedded => &[Outage::StoreLocked],
            Broker::qless | Broker::rq | Broker::reliable => &OF_REDIS,
            Broker::sqs => &OF_SQS,
        };
        if let Some(blow) = random.pick(&named(outages)) {
            return blow;
        }
        match random.dice(10) {
            _ if number == 0 => Blow::KillSupervisor,
            _ if number == 1 => Blow::Outage(random.pick(outages).unwrap()),
            0 => Blow::Cancel,
            1 => Blow::Retry,
            2 => Blow::Slow,
            3 | 4 => Blow::Outage(random.pick(outages).unwrap()),
            _ => random.pick(&COMMON).unwrap(),
        }
    }

    /// Whether a job that runs may be counted as one whose supervisor or host died.
    pub fn is_death(self) -> bool {
        matches!(self, Blow::KillSupervisor | Blow::KillKeeper | Blow::KillBoth)
    }

    /// Whether a process of a job or a worker is killed.
    pub fn is_shot(self) -> bool {
        matches!(self, Blow::KillJob | Blow::KillWorker)
    }

    /// Whether it keeps renewals from the embedded store, which is on the disk, for longer than a lease.
    pub fn fills_the_store(self, broker: Broker) -> bool {
        self == Blow::DiskFull && broker == Broker::embedded
    }

    /// Whether a job that runs, or has ended just now, may have to run again.
    pub fn interrupts(self) -> bool {
        match self {
            Blow::Outage(outage) => outage.cuts_off(),
            Blow::KillSupervisor | Blow::KillKeeper | Blow::KillBoth => true,
            // A renewal may come too late for the short lease of a round.
            Blow::KillJob | Blow::KillWorker | Blow::StopStart | Blow::Slow => true,
            Blow::DiskFull | Blow::Reload | Blow::Recycle | Blow::Scale => false,
            Blow::Pause | Blow::Sweep | Blow::Cancel | Blow::Retry => false,
        }
    }

    /// Whether nothing can be fetched while it lasts, so that nobody may say that all is well. A full Redis refuses
    /// only new jobs; in place of a supervisor that stands still the one answers by which the keeper has replaced it.
    pub fn is_outage(self) -> bool {
        let spares = |outage| matches!(outage, Outage::Unhidden | Outage::Full | Outage::SupervisorStopped);
        matches!(self, Blow::Outage(outage) if !spares(outage))
    }
}

/// The blows whose names `TASKVISOR_BLOWS` has, to look for one cause.
fn named(outages: &[Outage]) -> Vec<Blow> {
    let names = std::env::var("TASKVISOR_BLOWS").unwrap_or_default();
    let others = [Blow::Cancel, Blow::Retry, Blow::Slow].into_iter().chain(COMMON);
    let all = outages.iter().copied().map(Blow::Outage).chain(others);
    all.filter(|blow| names.split(',').any(|name| name == format!("{blow:?}"))).collect()
}

/// A blow with its time, in milliseconds since 1970; `to` is `u64::MAX` until it is over.
#[derive(Clone, Copy, Debug)]
pub struct Strike {
    pub blow: Blow,
    pub from: u64,
    pub to: u64,
}

impl Strike {
    pub fn touches(&self, from: u64, to: u64) -> bool {
        self.from <= to && self.to >= from
    }
}

/// All blows of a round.
#[derive(Default)]
pub struct Strikes(Mutex<Vec<Strike>>);

impl Strikes {
    pub fn begin(&self, blow: Blow) {
        self.0.lock().unwrap().push(Strike { blow, from: now(), to: u64::MAX });
    }

    /// Ends the latest blow.
    pub fn end(&self) {
        if let Some(last) = self.0.lock().unwrap().last_mut() {
            last.to = now();
        }
    }

    pub fn all(&self) -> Vec<Strike> {
        self.0.lock().unwrap().clone()
    }

    /// The outage that is on now.
    pub fn outage(&self) -> Option<Strike> {
        self.0
            .lock()
            .unwrap()
            .last()
            .copied()
            .filter(|strike| strike.to == u64::MAX && strike.blow.is_outage())
    }
}
