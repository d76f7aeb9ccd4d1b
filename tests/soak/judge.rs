//! The judge of a round: whether each acknowledged job ended as it may.

use serde_json::Value;

use crate::blows::{Blow, Strike};
use crate::jobs::{Job, Said};
use crate::outage::Outage;
use crate::servers::Broker;

/// For how long after the last word of a job its verdict may not be on disk yet, in milliseconds.
const UNTIL_SETTLED: u64 = 3_000;

/// A job, what its runs said, what the store says, and the blows of the round.
pub struct Case<'a> {
    pub broker: Broker,
    pub job: &'a Job,
    /// How often the broker got it: a put without an answer is sent again, and a standard queue of SQS has it once more.
    pub copies: u64,
    pub said: &'a Said,
    pub record: &'a Value,
    pub strikes: &'a [Strike],
    /// When the round was over.
    pub end: u64,
}

impl Case<'_> {
    /// What is wrong.
    pub fn wrongs(&self) -> Vec<String> {
        let wrongs = [self.state(), self.runs(), self.ends(), self.charges()];
        wrongs.into_iter().flatten().map(|wrong| self.words(&wrong)).collect()
    }

    fn words(&self, wrong: &str) -> String {
        let touching: Vec<String> = self
            .strikes
            .iter()
            .filter(|strike| strike.touches(self.job.put_at, self.end))
            .map(|strike| format!("{:?} {}..{}", strike.blow, strike.from, strike.to))
            .collect();
        format!("{wrong}\n  {:?}\n  {:?}\n  {}\n  {}", self.job, self.said, self.record, touching.join(", "))
    }

    fn count(&self, is_one: impl Fn(Blow) -> bool) -> u64 {
        let from = self.job.put_at;
        self.strikes.iter().filter(|strike| is_one(strike.blow) && strike.touches(from, self.end)).count()
            as u64
    }

    fn number(&self, name: &str) -> u64 {
        self.record[name].as_u64().unwrap_or_default()
    }

    /// The end has to be one that the job, or a blow, can have brought about.
    fn state(&self) -> Option<String> {
        let state = self.record["state"].as_str().unwrap_or("nowhere");
        let (deaths, shots) = (self.count(Blow::is_death), self.count(Blow::is_shot));
        let is_canceled = self.job.canceled && (state == "canceled" || self.broker == Broker::rq);
        let may_fail = self.job.fails + shots > self.job.retries || is_canceled;
        // The third crash, or the third death of a supervisor under it.
        let may_be_held = shots >= 3 || deaths >= 3;
        match state {
            "complete" if self.said.ended.is_empty() => {
                Some("a job is complete and did not come to its end".into())
            }
            "complete" => None,
            "canceled" if is_canceled => None,
            "failed" if may_fail || may_be_held => None,
            "held" if may_be_held => None,
            state => Some(format!("a job that is to complete is {state}")),
        }
    }

    fn runs(&self) -> Option<String> {
        if self.said.twice {
            return Some("a run of a job began beside something of another run".into());
        }
        // What SQS cannot hide any more comes again after each lease.
        let unhidden = 3 * self.count(|blow| blow == Blow::Outage(Outage::Unhidden));
        let again = unhidden + u64::from(self.job.retried) + self.copies - 1;
        let interrupts = |blow: Blow| blow.interrupts() || blow.fills_the_store(self.broker);
        let most = 1 + self.job.fails + self.count(interrupts) + again;
        let runs = self.said.begun.len() as u64;
        (runs > most).then(|| format!("a job ran {runs} times, where {most} have a reason"))
    }

    /// Until when a verdict may not be on disk yet: while the store is away it waits.
    fn settled_by(&self, end: u64) -> u64 {
        let keeps = |blow: Blow| matches!(blow, Blow::Outage(_)) || blow.fills_the_store(self.broker);
        self.strikes.iter().filter(|one| keeps(one.blow)).fold(end + UNTIL_SETTLED, |by, one| {
            if one.touches(end, by) { by.max(one.to.saturating_add(UNTIL_SETTLED)) } else { by }
        })
    }

    /// What has come to its end runs again only if something died before the verdict was on disk.
    fn ends(&self) -> Option<String> {
        let copies = usize::try_from(self.copies).unwrap();
        self.said.ended.iter().rev().skip(copies).find_map(|&end| {
            let excused = self.strikes.iter().any(|one| {
                one.blow.interrupts() && one.touches(end.saturating_sub(500), self.settled_by(end))
            });
            (!excused).then(|| format!("a job ran again though it had come to its end at {end}"))
        })
    }

    /// No attempt is spent, no crash and no death counted but for what happened.
    fn charges(&self) -> Option<String> {
        let (deaths, shots) = (self.count(Blow::is_death), self.count(Blow::is_shot));
        // SQS counts what it gave to a supervisor that did not hear it, or died or stood still before it ran it.
        let is_unknown = |blow: Blow| blow.interrupts() || matches!(blow, Blow::Outage(_));
        let unknown = if self.broker == Broker::sqs { self.count(is_unknown) } else { 0 };
        let most = [
            ("crashes", shots),
            ("interruptions", deaths + self.count(|blow| blow == Blow::Outage(Outage::SupervisorStopped))),
            ("attempt", 1 + self.job.fails + shots + unknown + u64::from(self.job.retried)),
        ];
        most.into_iter().find_map(|(name, most)| {
            let count = self.number(name);
            (count > most).then(|| format!("a job has {name} {count}, where {most} have a reason"))
        })
    }
}
