//! The card: what a kind of broker can do, in figures and words. [`Broker`](super::Broker), `check` and the table of
//! brokers in the documentation read it; no code asks which broker it has.

use std::time::Duration;

use super::Error;
use model::verb::Ability;
use model::{NewJob, Payload};

/// What a kind of broker can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// The name of the broker for people, as in "the broker NAME cannot …".
    pub name: &'static str,
    /// Whether supervisors of several hosts can share it.
    pub shared: bool,
    /// The largest batch of one call.
    pub batch: usize,
    /// The longest delay of a new job, where it is shorter than that of any job.
    pub longest_delay: Option<Duration>,
    /// Limit of the data of a new job, in bytes.
    pub data_max: usize,
    /// The abilities that it lacks, each with what to do instead: the end of a sentence that begins "the broker NAME
    /// cannot …".
    pub cannot: &'static [(Ability, &'static str)],
}

impl Card {
    /// Whether the broker has this ability.
    pub fn can(&self, ability: Ability) -> bool {
        self.instead(ability).is_none()
    }

    /// What to do instead of what takes this ability; None = the broker has it.
    pub fn instead(&self, ability: Ability) -> Option<&'static str> {
        self.cannot.iter().find(|(missing, _)| *missing == ability).map(|(_, instead)| *instead)
    }

    /// An error, with what to do instead, if the broker lacks this ability.
    pub fn require(&self, ability: Ability) -> Result<(), Error> {
        match self.instead(ability) {
            None => Ok(()),
            Some(instead) => Err(Error::Unsupported { broker: self.name, ability, instead }),
        }
    }

    /// Refuses new jobs that no broker takes, and those that need an ability the broker lacks.
    pub fn takes(&self, jobs: &[NewJob]) -> Result<(), Error> {
        for job in jobs {
            let asked = [
                (Ability::Depend, !job.depends.is_empty()),
                (Ability::Prioritize, job.priority != 0),
                (Ability::Tag, !job.tags.is_empty()),
                (Ability::Delay, !job.delay.is_zero()),
                (Ability::Expire, job.expires.is_some()),
            ];
            asked
                .into_iter()
                .filter(|(_, is_asked)| *is_asked)
                .try_for_each(|(what, _)| self.require(what))?;
            // A program gets its input as a file, and not in a frame to a worker.
            let bytes = match &job.payload {
                Payload::Data(data) => data.0.len(),
                Payload::Exec(_) => 0,
            };
            if bytes > self.data_max {
                let taker = match self.data_max < NewJob::DATA_MAX {
                    true => format!("the broker {} takes", self.name),
                    false => "a worker can be given".into(),
                };
                return Err(Error::Refused(format!(
                    "{bytes} bytes of data are more than {taker}: {} bytes at most; put them elsewhere, and their place into \
                     the job",
                    self.data_max
                )));
            }
            if let Some(longest) = self.longest_delay.filter(|longest| job.delay > *longest) {
                let (asked, most) = (job.delay.as_secs(), longest.as_secs());
                return Err(Error::Refused(format!(
                    "a delay of {asked} s is longer than the broker {} can keep a job: {most} s at most",
                    self.name
                )));
            }
            if let Some(fault) = job.fault() {
                return Err(Error::Refused(fault));
            }
        }
        Ok(())
    }
}
