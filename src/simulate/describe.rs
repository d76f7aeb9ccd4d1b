//! Reads a workload from a description: rates and distributions instead of single jobs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::workload::{JOBS_MAX, Queue, SimulatedJob, Workload, WrongWorkload};
use model::{QUEUE_PRIORITY, QUEUE_PRIORITY_MAX, QUEUE_TURN_MAX, Random, parse_duration};

/// 95 % of a normal distribution lie below this many standard deviations above its mean.
const P95: f64 = 1.644_853_626_951_472_2;

/// The file that describes a workload.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    /// Time during which jobs arrive.
    #[serde(deserialize_with = "duration")]
    duration: Duration,
    queues: Named,
}

/// Queues in the order of the file, no name twice.
#[derive(Debug)]
struct Named(Vec<(String, DescribedQueue)>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedQueue {
    #[serde(default)]
    priority: Priority,
    turn: Option<Turn>,
    /// Jobs a second.
    rate: Rate,
    #[serde(default)]
    arrivals: Arrivals,
    run_time: RunTime,
    burst: Option<Burst>,
}

impl Burst {
    /// Whether the burst ends before the next one: otherwise it would be a higher rate.
    fn is_sound(&self) -> bool {
        self.lasts < self.every
    }
}

#[derive(Clone, Copy, Debug)]
struct Priority(u8);

/// Jobs in a row.
#[derive(Clone, Copy, Debug)]
struct Turn(usize);

/// Jobs a second.
#[derive(Clone, Copy, Debug)]
struct Rate(f64);

/// The distribution of the times between jobs.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Arrivals {
    /// Independent of the others.
    #[default]
    Poisson,
    /// Always after the same time.
    Regular,
}

#[derive(Clone, Copy, Debug)]
enum RunTime {
    Constant(Duration),
    /// Exponentially distributed, with this mean.
    Mean(Duration),
    /// Log-normally distributed, with these quantiles.
    Quantiles {
        median: Duration,
        p95: Duration,
    },
}

/// Regular periods with more jobs.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Burst {
    #[serde(deserialize_with = "positive")]
    every: Duration,
    #[serde(deserialize_with = "positive")]
    lasts: Duration,
    /// Factor by which the rate grows.
    #[serde(deserialize_with = "times")]
    times: f64,
}

impl Workload {
    /// Reads YAML: `duration`, and for each of `queues` its `rate`, its `run_time`, and optional fields. The same seed
    /// makes the same jobs.
    pub fn from_yaml(text: &str, seed: u64) -> Result<Workload, WrongWorkload> {
        let described: Described = serde_yaml::from_str(text).map_err(|error| {
            let message = error.to_string();
            // The line is given separately.
            let end = message.rfind(" at line ").unwrap_or(message.len());
            let message = message[..end].to_owned();
            let line = error.location().map(|place| line_of(text, place.line(), &message));
            WrongWorkload { line, message }
        })?;
        let (mut queues, mut jobs) = (Vec::new(), Vec::new());
        for (index, (name, queue)) in (0u32..).zip(&described.queues.0) {
            // So another queue does not change the jobs of this one.
            let mut random = Random(seed ^ hash(name));
            if !queue.burst.is_none_or(|burst| burst.is_sound()) {
                let message = format!("the bursts of queue '{name}' last as long as from one to the next");
                return Err(WrongWorkload::whole(message));
            }
            queue.fill(name, index, described.duration, &mut random, &mut jobs)?;
            queues.push(Queue {
                name: name.as_str().into(),
                priority: queue.priority.0,
                turn: queue.turn.map(|turn| turn.0),
            });
        }
        if jobs.is_empty() {
            return Err(WrongWorkload::whole("no job comes within its duration: give a higher rate"));
        }
        Ok(Workload::new(queues, jobs))
    }
}

/// The line of a wrong value. The parser gives only the beginning of its map, so this looks for the first line from
/// there on that contains what the message quotes.
fn line_of(text: &str, from: usize, message: &str) -> usize {
    let lines = || text.lines().enumerate().skip(from.saturating_sub(1));
    let quoted = message.split('\'').nth(1);
    // A message that quotes nothing keeps the line of the parser.
    let found = quoted.and_then(|quoted| lines().find(|(_, line)| line.contains(quoted)));
    found.map_or(from, |(at, _)| at + 1)
}

/// The FNV-1a hash of a text, 64 bits.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl DescribedQueue {
    fn fill(
        &self,
        name: &str,
        queue: u32,
        end: Duration,
        random: &mut Random,
        jobs: &mut Vec<SimulatedJob>,
    ) -> Result<(), WrongWorkload> {
        let end = end.as_secs_f64();
        let mut at = 0.0;
        loop {
            let jobs_later = match self.arrivals {
                Arrivals::Poisson => exponential(random),
                Arrivals::Regular => 1.0,
            };
            at = self.after(at, jobs_later);
            if at >= end {
                return Ok(());
            }
            // Checked for each, because the jobs of a wrong rate would not fit into memory.
            if jobs.len() == JOBS_MAX {
                let message = format!(
                    "the {JOBS_MAX} jobs that fit are full in queue '{name}': give a lower rate or a shorter duration"
                );
                return Err(WrongWorkload::whole(message));
            }
            let (arrival, run_time) = (Duration::from_secs_f64(at), self.run_time.draw(random));
            jobs.push(SimulatedJob { arrival, queue, run_time });
        }
    }

    /// The moment until which this number of jobs is expected from `at` on.
    fn after(&self, mut at: f64, mut jobs: f64) -> f64 {
        loop {
            let (rate, end) = self.rate_at(at);
            let until_end = rate * (end - at);
            if jobs <= until_end {
                return at + jobs / rate;
            }
            (at, jobs) = (end, jobs - until_end);
        }
    }

    /// Jobs a second at that moment, and until when that rate holds.
    fn rate_at(&self, at: f64) -> (f64, f64) {
        let Some(burst) = &self.burst else { return (self.rate.0, f64::INFINITY) };
        let (every, lasts) = (burst.every.as_secs_f64(), burst.lasts.as_secs_f64());
        // Number of whole bursts before; a little is added so that a moment on the border belongs to what follows.
        let begun = (at / every + 1e-9).floor() * every;
        match at < begun + lasts * (1.0 - 1e-9) {
            true => (self.rate.0 * burst.times, begun + lasts),
            false => (self.rate.0, begun + every),
        }
    }
}

impl RunTime {
    fn draw(self, random: &mut Random) -> Duration {
        const LONGEST: f64 = 1e8;
        let seconds = match self {
            RunTime::Constant(time) => return time,
            RunTime::Mean(mean) => mean.as_secs_f64() * exponential(random),
            RunTime::Quantiles { median, p95 } => {
                // The logarithm is normal: its mean is that of the median, and its deviation follows from the p95.
                let (median, p95) = (median.as_secs_f64(), p95.as_secs_f64());
                median * ((p95 / median).ln() / P95 * normal(random)).exp()
            }
        };
        // A long tail may draw more than a duration holds.
        Duration::from_secs_f64(seconds.min(LONGEST))
    }
}

/// A number from an exponential distribution with a mean of 1.
fn exponential(random: &mut Random) -> f64 {
    // The fraction may be 0, which has no logarithm, but never 1.
    -(1.0 - random.fraction()).ln()
}

/// A normally distributed number, by the method of Box and Muller.
fn normal(random: &mut Random) -> f64 {
    // The -ln(U) of the method is an exponential number.
    (2.0 * exponential(random)).sqrt() * (std::f64::consts::TAU * random.fraction()).cos()
}

impl Default for Priority {
    fn default() -> Self {
        Priority(QUEUE_PRIORITY)
    }
}

impl<'de> Deserialize<'de> for Priority {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            said if (1..=u64::from(QUEUE_PRIORITY_MAX)).contains(&said) => Ok(Priority(said as u8)),
            said => Err(D::Error::custom(format!("priority '{said}' is no number from 1 to 100"))),
        }
    }
}

impl<'de> Deserialize<'de> for Turn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match usize::deserialize(deserializer)? {
            said if (1..=QUEUE_TURN_MAX).contains(&said) => Ok(Turn(said)),
            said => Err(D::Error::custom(format!("turn '{said}' is no number from 1 to {QUEUE_TURN_MAX}"))),
        }
    }
}

impl<'de> Deserialize<'de> for Rate {
    /// `20/s`, `90/m` or `5/h`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let rate = || {
            let (number, unit) = text.split_once('/')?;
            let seconds =
                [("s", 1.0), ("m", 60.0), ("h", 3600.0)].into_iter().find(|(name, _)| *name == unit)?.1;
            Some(number.trim().parse::<f64>().ok()? / seconds)
        };
        rate().filter(|rate| rate.is_finite() && *rate > 0.0).map(Rate).ok_or_else(|| {
            D::Error::custom(format!("rate '{text}' is no number of jobs like 20/s, 90/m or 5/h"))
        })
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

fn times<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let times = f64::deserialize(deserializer)?;
    let fits = times.is_finite() && times > 0.0;
    fits.then_some(times).ok_or_else(|| D::Error::custom(format!("times '{times}' is no number above 0")))
}

fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let duration = duration(deserializer)?;
    if duration.is_zero() {
        Err(D::Error::custom("a duration of 0 means nothing here"))
    } else {
        Ok(duration)
    }
}

impl<'de> Deserialize<'de> for RunTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RunTimeVisitor)
    }
}

struct RunTimeVisitor;

impl<'de> Visitor<'de> for RunTimeVisitor {
    type Value = RunTime;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration, {mean: DURATION}, or {median: DURATION, p95: DURATION}")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RunTime, E> {
        parse_duration(text).map(RunTime::Constant).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RunTime, A::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct Said {
            mean: Option<String>,
            median: Option<String>,
            p95: Option<String>,
        }
        let Said { mean, median, p95 } = Said::deserialize(MapAccessDeserializer::new(map))?;
        let time = |text: &String| parse_duration(text).map_err(A::Error::custom);
        match (mean, median, p95) {
            (Some(mean), None, None) => Ok(RunTime::Mean(time(&mean)?)),
            (None, Some(median), Some(p95)) => {
                let (median, p95) = (time(&median)?, time(&p95)?);
                match median <= p95 && !median.is_zero() {
                    true => Ok(RunTime::Quantiles { median, p95 }),
                    false => Err(A::Error::custom("run_time needs a median above 0 and a p95 not below it")),
                }
            }
            _ => Err(A::Error::custom("run_time is a duration, {mean: …}, or {median: …, p95: …}")),
        }
    }
}

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NamedVisitor)
    }
}

struct NamedVisitor;

impl<'de> Visitor<'de> for NamedVisitor {
    type Value = Named;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("queues by their names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named, A::Error> {
        let mut found = BTreeMap::new();
        let mut queues: Vec<(String, DescribedQueue)> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            // A map of YAML may have a name twice: the later queue must not replace the earlier one in
            // silence.
            if found.insert(name.clone(), ()).is_some() {
                return Err(A::Error::custom(format!("queue `{name}` is described twice")));
            }
            queues.push((name, map.next_value()?));
        }
        Ok(Named(queues))
    }
}

#[cfg(test)]
#[path = "describe_tests.rs"]
mod tests;
