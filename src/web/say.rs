//! Figures for people: counts, durations, sizes, moments.

use std::time::Duration;

use jiff::tz::TimeZone;
use maud::{Markup, html};
use model::{Millis, format_duration};

/// A count with its thousands apart.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with what is counted.
pub(crate) fn counted(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { more })
}

/// A duration in two units at most, below ten seconds with tenths.
pub(crate) fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.as_millis() < 100 => format!("{}ms", duration.as_millis()),
        0..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..3_600 => format_duration(Duration::from_secs(seconds)),
        3_600..86_400 => format_duration(Duration::from_secs(seconds / 60 * 60)),
        _ => format_duration(Duration::from_secs(seconds / 3_600 * 3_600)),
    }
}

/// A duration of this number of seconds: none for NaN and below 0, at most 1e9, which are 31 years.
pub(crate) fn seconds(seconds: f64) -> Duration {
    // The conversion panics for NaN, which `clamp` leaves, and for what is too long: a broker may give any number.
    if seconds.is_nan() { Duration::ZERO } else { Duration::from_secs_f64(seconds.clamp(0.0, 1e9)) }
}

/// From one moment to another; nothing if it is not later.
pub(crate) fn between(from: Millis, to: Millis) -> Duration {
    Duration::from_millis(u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0))
}

/// Bytes with three digits.
pub(crate) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "K", "M", "G"] {
        // At 1000 and not at 1024, where it would have four digits.
        if value < 1000.0 {
            return match unit == "B" || value >= 100.0 {
                true => format!("{value:.0}{unit}"),
                false => format!("{value:.1}{unit}"),
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1}T")
}

/// A moment by the clock of the zone.
pub(crate) fn moment(at: Millis, zone: &TimeZone) -> String {
    match jiff::Timestamp::from_millisecond(at.0) {
        Ok(at) => at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        // jiff knows the years from -9999 to 9999.
        Err(_) => format!("{} ms", at.0),
    }
}

/// How long ago it was, or how soon it comes, with the exact time behind it.
pub(crate) fn when(at: Millis, now: Millis, zone: &TimeZone) -> Markup {
    let (left, ago) = (whole(between(now, at)), whole(between(at, now)));
    let text = match (left.is_zero(), ago.is_zero()) {
        (false, _) => format!("in {}", age(left)),
        (true, false) => format!("{} ago", age(ago)),
        (true, true) => "now".into(),
    };
    html! { time datetime=(at.rfc3339()) title=(moment(at, zone)) { (text) } }
}

/// An age, with the moment behind it.
pub(crate) fn since(at: Millis, now: Millis, zone: &TimeZone) -> Markup {
    html! { time datetime=(at.rfc3339()) title=(moment(at, zone)) { (age(whole(between(at, now)))) } }
}

/// In whole seconds: tenths would only flicker.
pub(crate) fn whole(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(
            ["0", "999", "1,000", "12,345,678"],
            [0, 999, 1000, 12_345_678].map(count).each_ref().map(String::as_str)
        );
        assert_eq!((size(900), size(1 << 20), size(3 << 40)), ("900B".into(), "1.0M".into(), "3.0T".into()));
        assert_eq!(
            (age(Duration::from_millis(1250)), age(Duration::from_secs(90_000))),
            ("1.2s".into(), "1d1h".into())
        );
        let said = |at| when(Millis(at), Millis(5_000), &TimeZone::UTC).into_string();
        for (at, word) in [(4_001, ">now<"), (5_999, ">now<"), (4_000, ">1.0s ago<"), (6_000, ">in 1.0s<")] {
            assert!(said(at).contains(word), "{}", said(at));
        }
        assert_eq!([f64::NAN, -1.0, 1.5].map(seconds), [0, 0, 1500].map(Duration::from_millis));
        assert!(!age(seconds(f64::INFINITY)).is_empty());
        assert_eq!((counted(1, "job", "jobs"), counted(2, "job", "jobs")), ("1 job".into(), "2 jobs".into()));
    }
}
