//! Time zones by name, from the machine's own database, which its updates keep current.

use jiff::tz::{self, TimeZone};

use broker::Error;
use model::{Schedule, Timetable, millis_up};
/// The timetable of a schedule; intervals count from `anchor`.
pub(super) fn timetable(schedule: &Schedule, anchor: i64) -> Result<Timetable, Error> {
    match schedule {
        Schedule::Every { interval, .. } => {
            Ok(Timetable::Every { anchor, interval: millis_up(*interval).max(1) })
        }
        Schedule::Cron { line, zone } => match TimeZone::get(zone) {
            Ok(found) => Ok(Timetable::Cron(line.clone(), found)),
            Err(_) => Err(Error::Refused(unknown(zone))),
        },
    }
}

fn unknown(zone: &str) -> String {
    if let Some(name) = of_offset(zone) {
        return format!(
            "no time zone is called '{zone}'; did you mean {name}? The signs of these names are reversed: {name} is the \
             offset {zone} from UTC"
        );
    }
    let names: Vec<String> = tz::db().available().map(|name| name.to_string()).collect();
    match nearest(zone, &names) {
        Some(name) => format!("no time zone is called '{zone}'; did you mean {name}?"),
        None if names.is_empty() => format!(
            "the time zone '{zone}' cannot be looked up: this machine has no /usr/share/zoneinfo; install tzdata"
        ),
        None => {
            format!("no time zone is called '{zone}'; names are like Europe/Vienna, America/New_York or UTC")
        }
    }
}

/// The name of an offset such as `GMT+2` or `UTC-03:00`. In the names of the database the sign is the other one. They go
/// from 12 hours west to 14 hours east, as the islands of Tonga and Kiribati have it.
fn of_offset(typed: &str) -> Option<String> {
    let rest =
        ["GMT", "UTC", "Etc/GMT", "Etc/UTC"].iter().rev().find_map(|start| typed.strip_prefix(start))?;
    let (sign, most, hours) = match (rest.strip_prefix('+'), rest.strip_prefix('-')) {
        (Some(hours), _) => ('-', 14, hours),
        (_, Some(hours)) => ('+', 12, hours),
        (None, None) => return None,
    };
    let hours = hours.strip_suffix(":00").unwrap_or(hours).parse::<u8>().ok();
    hours.filter(|hours| (1..=most).contains(hours)).map(|hours| format!("Etc/GMT{sign}{hours}"))
}

/// The name that was probably meant, by its last part: people often remember only the city.
fn nearest<'a>(typed: &str, names: &'a [String]) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(' ', "_");
    let typed = plain(typed);
    let city = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let of_city = |name: &str| apart(&city(&typed), &city(&plain(name)));
    let best = names.iter().min_by_key(|name| (of_city(name), apart(&typed, &plain(name))))?;
    // A third of the letters may be wrong.
    let is_near = !typed.is_empty() && of_city(best) * 3 <= city(&typed).len();
    is_near.then_some(best)
}

/// Number of letters that differ, are missing or are too many.
fn apart(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    // Levenshtein's distance, with one row of its table.
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (n, letter) in a.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], n + 1);
        for (m, other) in b.iter().enumerate() {
            let change = corner + usize::from(letter != *other);
            let least = change.min(row[m] + 1).min(row[m + 1] + 1);
            corner = std::mem::replace(&mut row[m + 1], least);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_is_named_with_the_sign_of_the_database() {
        let named = |typed| of_offset(typed);
        assert_eq!(named("GMT+2").as_deref(), Some("Etc/GMT-2"));
        assert_eq!(named("UTC-11").as_deref(), Some("Etc/GMT+11"));
        assert_eq!(named("UTC+13").as_deref(), Some("Etc/GMT-13"));
        assert_eq!(named("UTC+14:00").as_deref(), Some("Etc/GMT-14"));
        assert_eq!(named("GMT-12").as_deref(), Some("Etc/GMT+12"));
        for typed in ["GMT", "GMT+", "UTC+15", "UTC-13", "UTC+5:30", "<+13>-13", "Europe/Vienna"] {
            assert_eq!(named(typed), None, "{typed}");
        }
    }

    /// What an answer names can be used.
    #[test]
    fn each_offset_that_is_named_is_a_zone_with_that_offset() {
        for hours in -12..=14_i8 {
            let typed = format!("UTC{hours:+}");
            let Some(name) = of_offset(&typed) else {
                assert_eq!(hours, 0, "{typed}");
                continue;
            };
            let zone = TimeZone::get(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
            let offset = zone.to_offset(jiff::Timestamp::UNIX_EPOCH);
            assert_eq!(offset, tz::offset(hours), "{typed} is {name}");
        }
    }

    /// A rule of POSIX has no name, and is taken neither for UTC nor for another zone.
    #[test]
    fn rule_of_posix_is_refused() {
        for zone in ["<+13>-13", "<+14>-14", "CET-1CEST,M3.5.0,M10.5.0/3", "UTC+13", "UTC+5:30", "+13", "13"]
        {
            let schedule = Schedule::Cron { line: "0 8 * * *".parse().unwrap(), zone: zone.into() };
            let said = timetable(&schedule, 0).unwrap_err().to_string();
            assert!(said.contains(&format!("no time zone is called '{zone}'")), "{said}");
        }
    }

    #[test]
    fn similar_time_zone_name_is_suggested() {
        let names = ["America/New_York", "Asia/Tokyo", "Europe/Vienna", "UTC"].map(String::from);
        let meant = |typed| nearest(typed, &names);
        assert_eq!(meant("Europe/Viena"), Some("Europe/Vienna"));
        assert_eq!(meant("vienna"), Some("Europe/Vienna"));
        assert_eq!(meant("New York"), Some("America/New_York"));
        assert_eq!([meant("Europe/Wien"), meant("Mars/Olympus"), meant(""), nearest("UTC", &[])], [None; 4]);
    }
}
