//! What recurs, wherever it is kept: what may, when it is due, and which of its times are had.

use std::time::Duration;

use super::{Error, stored, zones};
use crate::model::{Millis, Overlap, Recurring, Schedule, millis_up};

/// There is a look at least so often; what is late by no more is on time.
pub(super) const NET: Duration = Duration::from_secs(60);
/// A clock that is set back by more was wrong before.
pub(super) const WRONG: Duration = Duration::from_secs(3 * 3600);
/// What it carries is written whole into each of its jobs, and travels in one request.
const SPEC_MAX: usize = 48 << 10;
/// What is told of the times after the next.
const THEN: usize = 4;

/// The text to keep it as, if it can be put.
pub(super) fn text(recurring: &Recurring) -> Result<String, Error> {
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
    zones::timetable(&recurring.schedule, 0).map_err(|error| refused(error.to_string()))?;
    Ok(text)
}

/// When it is due for the first time, if it is put now, by its clock.
pub(super) fn first(schedule: &Schedule, now: i64) -> Result<Option<i64>, Error> {
    Ok(match schedule {
        Schedule::Every { offset, .. } => Some(now.saturating_add(millis_up(*offset))),
        Schedule::Cron { .. } => zones::timetable(schedule, now)?.after(now),
    })
}

/// The few times after the next.
pub(super) fn then(schedule: &Schedule, next: Millis) -> Result<Vec<Millis>, Error> {
    let table = zones::timetable(schedule, next.0)?;
    let following = |at: &Millis| table.after(at.0).map(Millis);
    Ok(std::iter::successors(Some(next), following).skip(1).take(THEN).collect())
}

/// What is to be done about one that is due.
pub(super) struct Occurrences {
    /// The times that are had: none that is too late, and the latest of many. Where only one of its jobs is to be there
    /// at a time, it is one.
    pub(super) wanted: Vec<i64>,
    /// The last of those that are not.
    pub(super) missed: Option<i64>,
    /// When it is due after that.
    pub(super) next: Option<i64>,
}

/// The times of one that was due at `first`.
pub(super) fn occurrences(recurring: &Recurring, first: i64, now: i64) -> Result<Occurrences, Error> {
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

/// When it is due after all, if a clock that was far ahead has moved it on too far.
pub(super) fn mended(schedule: &Schedule, next: i64, now: i64) -> Result<Option<i64>, Error> {
    let table = zones::timetable(schedule, now)?;
    let wrong = now.saturating_add(millis_up(WRONG));
    let latest = match schedule {
        Schedule::Every { interval, offset } => Some(wrong.saturating_add(millis_up(*interval.max(offset)))),
        Schedule::Cron { .. } => table.after(wrong),
    };
    Ok(table.after(now).filter(|_| latest.is_some_and(|latest| next > latest)))
}

/// Who puts its jobs: it does, or somebody who cannot wait for it.
pub(super) fn put_by(name: &str, by: Option<&str>) -> String {
    by.map_or_else(|| format!("recurring {name}"), |by| format!("{by}, recurring {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn what_a_wrong_clock_moved_on_comes_back_and_nothing_else() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        let every = Schedule::Every { interval: hours(1), offset: hours(24) };
        let mended = |schedule: &Schedule, next| mended(schedule, next, 100 * HOUR).unwrap();
        // It may be due for the first time after its offset, and a clock may be a little wrong.
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
        assert_eq!((mended(&eight, 104 * HOUR), mended(&eight, 128 * HOUR)), (None, Some(104 * HOUR)));
    }
}
