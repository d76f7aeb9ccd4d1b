//! A day, the unit of statistics.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, date};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Millis;

/// A day of Greenwich, counted from the first of 1970; `2026-11-21` where people read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Day(pub i64);

impl Day {
    /// The day of a moment.
    pub fn of(at: Millis) -> Day {
        // A division towards zero would make one day of the last of 1969 and the first of 1970.
        Day(at.0.div_euclid(24 * 3_600_000))
    }
}

const FIRST: Date = date(1970, 1, 1);

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = jiff::Span::new().try_days(self.0);
        match span.and_then(|span| FIRST.checked_add(span)) {
            Ok(date) => write!(f, "{date}"),
            Err(_) => write!(f, "day {}", self.0),
        }
    }
}

impl FromStr for Day {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |_| format!("'{text}' is no day: give one as 2026-11-21");
        let date: Date = text.parse().map_err(wrong)?;
        Ok(Day((date - FIRST).get_days().into()))
    }
}

impl TryFrom<String> for Day {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Day> for String {
    fn from(day: Day) -> String {
        day.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_round_trips_through_text() {
        for (text, day) in [("1970-01-01", 0), ("1969-12-31", -1), ("2026-11-21", 20_778)] {
            assert_eq!((text.parse(), Day(day).to_string().as_str()), (Ok(Day(day)), text));
        }
        assert_eq!(Day::of(Millis(86_400_000 - 1)), Day(0));
        assert_eq!(Day::of(Millis(-1)), Day(-1));
        for wrong in ["", "today", "2026-02-30", "2026-11-21T99:00"] {
            assert_eq!(wrong.parse::<Day>(), Err(format!("'{wrong}' is no day: give one as 2026-11-21")));
        }
        assert_eq!(Day(i64::MAX).to_string(), format!("day {}", i64::MAX));
    }
}
