//! Recurring jobs, for any broker: which are valid, when they are due, and which occurrences fire.

use std::time::Duration;

use crate::{stored, zones};
use broker::Error;
use model::{Millis, Overlap, Recurring, RecurringRecord, Schedule, millis_up};

/// Longest time between two looks for due jobs; an occurrence that is late by no more counts as on time.
pub const NET: Duration = Duration::from_secs(60);
/// Wait after a recurring job that is due could not be put. It stays due when it was.
pub const PUT_OFF: Duration = Duration::from_secs(3);
/// What failed then, in complaints.
pub const NOT_PUT: &str = "a recurring job is due and cannot be put";
/// If a clock is set back by more than this, it was wrong before.
pub const WRONG: Duration = Duration::from_secs(3 * 3600);
/// Largest size of a recurring job, in bytes. It is copied into each of its jobs, and sent in one request.
const SPEC_MAX: usize = 48 << 10;
/// How many occurrences to show after the next one.
const THEN: usize = 4;

/// Gives the text to store, or refuses the recurring job.
pub fn text(recurring: &Recurring) -> Result<String, Error> {
    let refused = |why: String| {
        let name: String = recurring.name.chars().take(Recurring::NAME_MAX).collect();
        Error::Refused(format!("cannot put the recurring job '{name}': {why}"))
    };
    if let Some(fault) = recurring.fault() {
        return Err(refused(fault));
    }
    let text = stored::to_json(recurring).map_err(|error| refused(error.to_string()))?;
    if text.len() > SPEC_MAX {
        let why = format!("with its data it is longer than {} KiB; put the name of a file", SPEC_MAX >> 10);
        return Err(refused(why));
    }
    // Only to see whether this machine knows its time zone.
    zones::timetable(&recurring.schedule, 0).map_err(|error| refused(error.to_string()))?;
    Ok(text)
}

/// When the recurring job is first due, if it is put at `now`.
pub fn first(schedule: &Schedule, now: i64) -> Result<Option<i64>, Error> {
    Ok(match schedule {
        Schedule::Every { offset, .. } => Some(now.saturating_add(millis_up(*offset))),
        Schedule::Cron { .. } => zones::timetable(schedule, now)?.after(now),
    })
}

/// Adds the next few occurrences after the next one, or why they are not known: that must not hide the rest.
pub fn with_then(mut record: RecurringRecord) -> RecurringRecord {
    match record.next_at.map(|next| then(&record.recurring.schedule, next)) {
        Some(Ok(times)) => record.then_at = times,
        Some(Err(error)) => record.stuck = record.stuck.or_else(|| Some(error.to_string())),
        None => {}
    }
    record
}

/// The next few occurrences after the next one.
fn then(schedule: &Schedule, next: Millis) -> Result<Vec<Millis>, Error> {
    let table = zones::timetable(schedule, next.0)?;
    let following = |at: &Millis| table.after(at.0).map(Millis);
    Ok(std::iter::successors(Some(next), following).skip(1).take(THEN).collect())
}

/// What to do about a recurring job that is due.
pub struct Occurrences {
    /// The occurrences that fire: none that is too late, and of many only the latest. With `Overlap::Skip` there is
    /// only one.
    pub wanted: Vec<i64>,
    /// The latest occurrence that does not fire.
    pub missed: Option<i64>,
    /// The next occurrence after these.
    pub next: Option<i64>,
}

/// The occurrences of a recurring job that was due at `first`.
pub fn occurrences(recurring: &Recurring, first: i64, now: i64) -> Result<Occurrences, Error> {
    let table = zones::timetable(&recurring.schedule, first)?;
    let window = millis_up(recurring.catch_up.max(NET));
    let most = match recurring.overlap {
        Overlap::Skip => 1,
        Overlap::Allow => recurring.backlog as usize,
    };
    let wanted = table.latest(first.max(now.saturating_sub(window)), now, most);
    let missed_until = wanted.first().map_or(now, |first| first - 1);
    let missed = table.latest(first, missed_until, 1).pop();
    Ok(Occurrences { wanted, missed, next: table.after(now) })
}

/// The right next occurrence, if a clock that was far ahead has moved it too far, or to never (`None`).
pub fn mended(schedule: &Schedule, next: Option<i64>, now: i64) -> Result<Option<i64>, Error> {
    let table = zones::timetable(schedule, now)?;
    let wrong = now.saturating_add(millis_up(WRONG));
    let latest = match schedule {
        Schedule::Every { interval, offset } => Some(wrong.saturating_add(millis_up(*interval.max(offset)))),
        Schedule::Cron { .. } => table.after(wrong),
    };
    let is_late = |next| latest.is_some_and(|latest| next > latest);
    Ok(table.after(now).filter(|_| next.is_none_or(is_late)))
}

/// Who put a job, for its history: the recurring job itself, or a person who started it early.
pub fn put_by(name: &str, by: Option<&str>) -> String {
    by.map_or_else(|| format!("recurring {name}"), |by| format!("{by}, recurring {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn only_schedules_moved_ahead_by_a_wrong_clock_are_corrected() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        let every = Schedule::Every { interval: hours(1), offset: hours(24) };
        let never = |schedule: &Schedule| mended(schedule, None, 100 * HOUR).unwrap();
        let mended = |schedule: &Schedule, next| mended(schedule, Some(next), 100 * HOUR).unwrap();
        // The first occurrence may be as late as the offset, and the clock may be slightly wrong.
        assert_eq!(mended(&every, 127 * HOUR), None);
        assert_eq!(mended(&every, 127 * HOUR + 1), Some(101 * HOUR));
        // The hour 100 is four in the morning.
        let cron = |line: &str| Schedule::Cron { line: line.parse().unwrap(), zone: "UTC".into() };
        let (six, eight) = (cron("0 6 * * *"), cron("0 8 * * *"));
        assert_eq!(
            mended(&six, 126 * HOUR),
            None,
            "today's may have been had by a clock that was a little wrong"
        );
        assert_eq!(mended(&six, 150 * HOUR), Some(102 * HOUR));
        assert_eq!(never(&six), Some(102 * HOUR), "each line of cron has a next time");
        assert_eq!((mended(&eight, 104 * HOUR), mended(&eight, 128 * HOUR)), (None, Some(104 * HOUR)));
    }
}
