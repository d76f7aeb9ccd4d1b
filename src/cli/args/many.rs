//! What can be typed to name many jobs by what they are.

use clap::builder::NonEmptyStringValueParser;

use model::suggestion;
use model::{JobState, Millis, parse_duration};

pub(crate) const RETRY_USAGE: &str = "\
taskvisor job retry [OPTIONS] <JID>...
       taskvisor job retry [OPTIONS] <--failed|--held|--canceled|--complete>";

pub(crate) const RETRY_HELP: &str = "\
Examples:
  taskvisor job retry --failed --group 'exit 1' --since 2h --dry-run
  taskvisor job retry --failed --batch letters";

pub(crate) const DISCARD_USAGE: &str = "\
taskvisor job discard [OPTIONS] <JID>...
       taskvisor job discard [OPTIONS] <--failed|--held|--canceled|--complete>";

pub(crate) const DISCARD_HELP: &str = "\
Jobs that others depend on stay. Example:
  taskvisor job discard --failed --queue mail --dry-run";

/// Arguments of `job retry`.
#[derive(Debug, clap::Args)]
pub(crate) struct JobRetry {
    /// Ids of the jobs
    #[arg(value_name = "JID", required_unless_present = "states", conflicts_with = "states", value_parser = NonEmptyStringValueParser::new())]
    pub jids: Vec<String>,
    #[command(flatten)]
    pub many: Many,
    /// Those with this tag
    #[arg(long, value_name = "TAG", requires = "states")]
    pub tag: Option<String>,
    /// Those of this batch
    #[arg(long, value_name = "NAME", requires = "states", conflicts_with = "tag", value_parser = super::batch::batch)]
    pub batch: Option<String>,
}

/// Arguments of `job discard`.
#[derive(Debug, clap::Args)]
pub(crate) struct JobDiscard {
    /// Ids of the jobs
    #[arg(value_name = "JID", required_unless_present = "states", conflicts_with = "states", value_parser = NonEmptyStringValueParser::new())]
    pub jids: Vec<String>,
    #[command(flatten)]
    pub many: Many,
}

/// Many jobs, by what they are.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("states").multiple(true))]
pub(crate) struct Many {
    /// Those that have failed
    #[arg(long, group = "states")]
    failed: bool,
    /// Those that are held
    #[arg(long, group = "states")]
    held: bool,
    /// Those that were canceled
    #[arg(long, group = "states")]
    canceled: bool,
    /// Those that are complete
    #[arg(long, group = "states")]
    complete: bool,
    /// Of them those of this failure group
    #[arg(long, value_name = "GROUP", requires = "states")]
    pub group: Option<String>,
    /// Those of this class
    #[arg(long, value_name = "CLASS", requires = "states")]
    pub class: Option<String>,
    /// Those of this queue
    #[arg(short, long, value_name = "QUEUE", requires = "states")]
    pub queue: Option<String>,
    /// Those that ended within this time or since a date
    #[arg(long, value_name = "2h|DATE", requires = "states", value_parser = past)]
    pub since: Option<Millis>,
    /// Limit of the jobs: those that were put first
    #[arg(long, value_name = "N", requires = "states")]
    pub limit: Option<u64>,
    /// Change nothing; count them and show a few
    #[arg(long, requires = "states")]
    pub dry_run: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

impl Many {
    /// The states that were named.
    pub(crate) fn states(&self) -> Vec<JobState> {
        let named = [
            (self.failed, JobState::Failed),
            (self.held, JobState::Held),
            (self.canceled, JobState::Canceled),
            (self.complete, JobState::Complete),
        ];
        named.into_iter().filter(|(is_named, _)| *is_named).map(|(_, state)| state).collect()
    }
}

/// Parses a state in which a job can be canceled.
pub(crate) fn cancelable(text: &str) -> Result<JobState, String> {
    let state = state(text)?;
    match CANCELABLE.contains(&state) {
        true => Ok(state),
        false => Err(format!("a job that is {state} cannot be canceled")),
    }
}

/// Parses a state of a job.
pub(crate) fn state(text: &str) -> Result<JobState, String> {
    let text = text.trim();
    text.parse().map_err(|why: String| {
        let known = JobState::ALL.map(JobState::as_str);
        let near = suggestion(text, &known).filter(|near| near.starts_with("did you mean"));
        format!("{why}; {}there are {}", near.map(|near| near + " ").unwrap_or_default(), known.join(", "))
    })
}

/// Parses one of several ids between commas.
pub(crate) fn one_id(text: &str) -> Result<String, String> {
    Ok(text.trim().to_owned())
}

/// The states in which a job can be canceled.
pub(crate) const CANCELABLE: [JobState; 5] =
    [JobState::Waiting, JobState::Delayed, JobState::Depends, JobState::Running, JobState::Held];

/// Arguments of `failed`: a group and which of its jobs.
#[derive(Debug, clap::Args)]
pub(crate) struct Failed {
    /// The jobs of this group, newest first
    pub group: Option<String>,
    /// Limit of the jobs shown
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    pub limit: u32,
    /// Those that ended within this time or since a date
    #[arg(long, value_name = "2h|DATE", value_parser = past)]
    pub since: Option<Millis>,
    /// Those of this class
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,
    /// Those of this queue
    #[arg(short, long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Jobs older than this one
    #[arg(long, value_name = "JID", requires = "group")]
    pub after: Option<String>,
    /// One JSON document a line
    #[arg(long)]
    pub json: bool,
}

/// Parses a past moment: a time ago, or a date or a time by the reader's clock.
pub(crate) fn past(text: &str) -> Result<Millis, String> {
    if let Ok(ago) = parse_duration(text) {
        let ago = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
        // Nothing is older than 1970.
        return Ok(Millis(clock::wall().0.saturating_sub(ago).max(0)));
    }
    moment(text, jiff::tz::TimeZone::system()).ok_or_else(|| {
        "give a duration like 2h or 1d12h, or a date like 2026-11-21 or 2026-11-21T08:30".into()
    })
}

/// Parses a future moment: a date or a time by the reader's clock.
pub(crate) fn to_come(text: &str) -> Result<Millis, String> {
    let at = moment(text, jiff::tz::TimeZone::system())
        .ok_or("give a date like 2026-12-24, or a time like '2026-12-24 18:00' or 2026-12-24T18:00:00Z")?;
    if at <= clock::wall() {
        return Err("that is past".into());
    }
    Ok(at)
}

fn moment(text: &str, zone: jiff::tz::TimeZone) -> Option<Millis> {
    let at = match text.parse::<jiff::Timestamp>() {
        Ok(at) => at,
        // Without an offset it is the time on the clock of the one who typed it.
        Err(_) => text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(zone).ok()?.timestamp(),
    };
    Some(Millis(at.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use jiff::tz::{TimeZone, offset};

    use super::*;

    #[test]
    fn mistyped_state_is_refused_with_those_that_there_are() {
        assert_eq!(state(" failed"), Ok(JobState::Failed));
        let why = state("fialed").unwrap_err();
        assert!(
            why.starts_with("no job state is called 'fialed'; did you mean 'failed'? there are waiting, "),
            "{why}"
        );
        let why = state("nonsense").unwrap_err();
        assert!(why.starts_with("no job state is called 'nonsense'; there are waiting, "), "{why}");
    }

    #[test]
    fn since_accepts_a_duration_or_a_local_time() {
        let zone = TimeZone::fixed(offset(2));
        let midnight = 1_795_212_000_000;
        assert_eq!(moment("2026-11-21", zone.clone()), Some(Millis(midnight)));
        assert_eq!(moment("2026-11-21 08:30", zone.clone()), Some(Millis(midnight + 30_600_000)));
        assert_eq!(moment("2026-11-21T08:30:00Z", zone), Some(Millis(midnight + 37_800_000)));
        let hour_ago = clock::wall().0 - 3_600_000;
        assert!((past("1h").unwrap().0 - hour_ago).abs() < 60_000);
        assert_eq!(past("999999d"), Ok(Millis(0)));
        assert!(past("yesterday").unwrap_err().starts_with("give a duration"));
        assert_eq!(to_come("2500-01-01T00:00:00+01:00"), Ok(Millis(16_725_222_000_000)));
        assert_eq!(to_come("2026-11-21"), Err("that is past".into()));
        assert!(to_come("tomorrow").unwrap_err().contains("2026-12-24 18:00"));
    }
}
