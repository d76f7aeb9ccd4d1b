//! `10s`, `1m30s`, `250ms`: a number with a unit, or several in a row.

use std::fmt::Write as _;
use std::time::Duration;

// From the longest on: so they are written.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a duration. A number needs a unit, except `0`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no duration like 250ms, 10s, 1m30s, 2h or 1d");
    // Zero is the same in every unit, so it needs none.
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut millis = 0u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        millis = number.checked_mul(*factor).and_then(|part| millis.checked_add(part)).ok_or_else(wrong)?;
        rest = tail;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(Duration::from_millis(millis)) }
}

/// Writes a duration as [`parse_duration`] reads it, to the millisecond.
pub fn format_duration(duration: Duration) -> String {
    let mut millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut out = String::new();
    for (unit, factor) in UNITS {
        if millis >= factor {
            let _ = write!(out, "{}{unit}", millis / factor);
            millis %= factor;
        }
    }
    if out.is_empty() { "0s".into() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_round_trips_through_text() {
        for (text, millis) in [("250ms", 250), ("10s", 10_000), ("1m30s", 90_000), ("1d2h", 93_600_000)] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(text), Ok(duration));
            assert_eq!(format_duration(duration), text);
        }
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
    }

    #[test]
    fn invalid_durations_are_refused() {
        for text in
            ["", "10", "s", "-1s", "1.5s", "10 s", "1x", "99999999999999999999s", "18446744073709551615d"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
