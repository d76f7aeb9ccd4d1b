//! The fields of a cron line as bits, and the moments that match them.

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Time};

/// Bit sets, with a bit for each value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) minutes: u64,
    pub(super) hours: u64,
    pub(super) days: u64,
    pub(super) months: u64,
    /// Weekdays; Sunday is 0.
    pub(super) weekdays: u64,
    /// Whether the hour begins with a star.
    pub(super) any_hour: bool,
    /// A day field that begins with a star restricts the other one; without a star it is an alternative to it.
    pub(super) any_day: bool,
    pub(super) any_weekday: bool,
}

impl Fields {
    /// 29 February on a certain weekday comes again after 40 years at the latest.
    const YEARS: i64 = 50;

    pub(super) fn from(&self, from: DateTime) -> Option<DateTime> {
        // A minute that has begun is over for the line; below only hours and minutes are compared.
        let whole = from.time().second() == 0 && from.time().subsec_nanosecond() == 0;
        let start = if whole { from } else { from.checked_add(1.minute()).ok()? };
        let first = start.date();
        if self.has_day(first)
            && let Some(time) = self.time_from(start.time())
        {
            return Some(first.to_datetime(time));
        }
        let end = first.checked_add(Self::YEARS.years()).unwrap_or(Date::MAX);
        // Of every later day it is the same, so it is looked for once.
        let midnight = self.time_from(Time::midnight())?;
        let mut date = first.tomorrow().ok()?;
        while date <= end {
            // Month by month, because 50 years have 18,000 days.
            if !has(self.months, date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
            } else if self.has_day(date) {
                return Some(date.to_datetime(midnight));
            } else {
                date = date.tomorrow().ok()?;
            }
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let (day, weekday) =
            (has(self.days, date.day()), has(self.weekdays, date.weekday().to_sunday_zero_offset()));
        // As in cron: if both kinds of day are restricted, either is enough.
        let is_meant = if self.any_day || self.any_weekday { day && weekday } else { day || weekday };
        is_meant && has(self.months, date.month())
    }

    /// The first matching time of a day from `from` on.
    fn time_from(&self, from: Time) -> Option<Time> {
        let minute = |hour, least: i8| {
            let minute = (least..60).find(|minute| has(self.minutes, *minute))?;
            Time::new(hour, minute, 0, 0).ok()
        };
        let hours = (from.hour()..24).filter(|hour| has(self.hours, *hour));
        hours.filter_map(|hour| minute(hour, if hour == from.hour() { from.minute() } else { 0 })).next()
    }

    /// Whether there is any matching day.
    pub(super) fn comes(&self) -> bool {
        // From any year on, 50 years have each date on each day of the week.
        self.from(DateTime::constant(2000, 1, 1, 0, 0, 0, 0)).is_some()
    }
}

fn has(bits: u64, value: i8) -> bool {
    bits & (1 << value) != 0
}
