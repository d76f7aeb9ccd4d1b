//! A cron line in a time zone.
//!
//! A line with hours of its own follows the wall clock, once a day. A time in the gap of a clock that is put forward is
//! due once, at the end of the gap; a time that is shown twice when the clock is put back is due the first time. A line
//! for each hour, or every second one, follows elapsed time: an hour that does not exist is left out, one that is shown
//! twice counts twice.

use jiff::Timestamp;
use jiff::ToSpan;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::Cron;

/// The first occurrence after `moment`, in milliseconds since 1970; none once the calendar ends.
pub(super) fn after(line: &Cron, zone: &TimeZone, moment: i64) -> Option<i64> {
    let moment = Timestamp::from_millisecond(moment).ok()?;
    let found = match line.goes_by_elapsed_time() {
        true => by_elapsed_time(line, zone, moment),
        false => by_the_clock(line, zone, moment),
    };
    found.map(Timestamp::as_millisecond)
}

fn by_the_clock(line: &Cron, zone: &TimeZone, moment: Timestamp) -> Option<Timestamp> {
    let mut candidate = line.from(zone.to_datetime(moment))?;
    loop {
        // A time shown twice is due the first time; a time in a gap is due at its end.
        match first_time(zone, candidate)? {
            at if at > moment => return Some(at),
            _ => candidate = line.from(candidate.checked_add(1.minute()).ok()?)?,
        }
    }
}

/// When a clock first shows `what`, or if it never does, when it jumps over it.
fn first_time(zone: &TimeZone, what: DateTime) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(what).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(what).ok(),
        // With the offset before the jump it is the first of the two.
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(what).ok(),
        // With the offset after the jump, the time that does not exist lies before it.
        AmbiguousOffset::Gap { after, .. } => {
            let before_the_jump = after.to_timestamp(what).ok()?;
            zone.following(before_the_jump).next().map(|jump| jump.timestamp())
        }
    }
}

fn by_elapsed_time(line: &Cron, zone: &TimeZone, moment: Timestamp) -> Option<Timestamp> {
    // `from` of the line includes its own moment, and this function does not.
    let mut from = moment.checked_add(1.millisecond()).ok()?;
    loop {
        let offset = zone.to_offset(from);
        let found = offset.to_timestamp(line.from(offset.to_datetime(from))?).ok()?;
        match zone.following(from).next().map(|jump| jump.timestamp()) {
            // The clock jumps before that.
            Some(jump) if jump <= found => from = jump,
            Some(_) | None => return Some(found),
        }
    }
}
