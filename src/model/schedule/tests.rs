use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::{Cron, Schedule, Timetable};

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap_or_else(|error| panic!("{name}: {error}; is tzdata installed?"))
}

fn table(line: &str, zone_name: &str) -> Timetable {
    Timetable::Cron(line.parse().unwrap(), zone(zone_name))
}

fn millis(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

/// The next occurrences after a moment of UTC, as the clock of the zone shows them.
fn shown(line: &str, zone_name: &str, from: &str, count: usize) -> Vec<String> {
    let table = table(line, zone_name);
    let mut at = millis(from);
    let mut shown = Vec::new();
    for _ in 0..count {
        at = table.after(at).unwrap();
        let at = Timestamp::from_millisecond(at).unwrap().to_zoned(zone(zone_name));
        shown.push(at.strftime("%m-%d %H:%M %:z").to_string());
    }
    shown
}

#[track_caller]
fn utc(line: &str, expected: &[&str]) {
    // A Wednesday.
    let found = shown(line, "UTC", "2026-01-14T10:17:30Z", expected.len());
    let found: Vec<&str> = found.iter().map(|at| at.trim_end_matches(" +00:00")).collect();
    assert_eq!(found, expected, "{line}");
}

#[test]
fn cron_line_means_the_same_as_in_vixie_cron() {
    utc("30 2 * * 1-5", &["01-15 02:30", "01-16 02:30", "01-19 02:30"]);
    utc("*/20 * * * *", &["01-14 10:20", "01-14 10:40", "01-14 11:00"]);
    utc("5-59/20 9,18 * * *", &["01-14 18:05", "01-14 18:25", "01-14 18:45", "01-15 09:05"]);
    utc("0 0 1 JAN,jul *", &["07-01 00:00", "01-01 00:00"]);
    utc("0 12 * * sun", &["01-18 12:00", "01-25 12:00"]);
    utc("0 12 * * 7", &["01-18 12:00", "01-25 12:00"]);
    utc("0 12 * * fri-sun", &["01-16 12:00", "01-17 12:00", "01-18 12:00", "01-23 12:00"]);
    utc("@hourly", &["01-14 11:00", "01-14 12:00"]);
    utc("@weekly", &["01-18 00:00"]);
    utc("  17\t10  *  * * ", &["01-15 10:17"]);
    // Either day field matches, unless one of them begins with a star.
    utc(
        "0 0 13 * fri",
        &["01-16 00:00", "01-23 00:00", "01-30 00:00", "02-06 00:00", "02-13 00:00", "02-20 00:00"],
    );
    utc("0 0 */10 * fri", &["05-01 00:00", "07-31 00:00", "08-21 00:00"]);
    utc("0 0 29 2 *", &["02-29 00:00"]);
    utc("0 0 31 2 1", &["02-02 00:00"]);
}

#[test]
fn a_rare_day_is_found() {
    let table = table("0 0 29 2 *", "UTC");
    let first = table.after(millis("2096-03-01T00:00:00Z"));
    assert_eq!(first, Some(millis("2104-02-29T00:00:00Z")), "2100 has none");
}

#[test]
fn zones_of_13_and_14_hours_are_a_day_ahead() {
    let at = |zone| shown("0 8 * * *", zone, "2026-01-14T17:59:00Z", 2);
    assert_eq!(at("Pacific/Kiritimati"), ["01-15 08:00 +14:00", "01-16 08:00 +14:00"]);
    assert_eq!(at("Pacific/Tongatapu"), ["01-15 08:00 +13:00", "01-16 08:00 +13:00"]);
    // Samoa left out a whole day: what was due on it is due once, when it is over.
    let days = shown("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", 3);
    assert_eq!(days, ["12-29 12:00 -10:00", "12-31 00:00 +14:00", "12-31 12:00 +14:00"]);
    let days = shown("0 12 30 12 *", "Pacific/Apia", "2011-12-29T12:00:00Z", 1);
    assert_eq!(days, ["12-31 00:00 +14:00"]);
}

#[test]
fn skipped_local_time_is_due_once_at_the_end_of_the_gap() {
    // In Vienna the clock jumps from 02:00 to 03:00.
    let eve = "2026-03-28T12:00:00Z";
    let due = shown("30 2 * * *", "Europe/Vienna", eve, 3);
    assert_eq!(due, ["03-29 03:00 +02:00", "03-30 02:30 +02:00", "03-31 02:30 +02:00"]);
    let due = shown("*/20 2,3 * * *", "Europe/Vienna", eve, 5);
    let hour = ["03-29 03:00 +02:00", "03-29 03:20 +02:00", "03-29 03:40 +02:00"];
    assert_eq!(due[..3], hour, "the whole hour that was jumped over is one occurrence");
    assert_eq!(due[3..], ["03-30 02:00 +02:00", "03-30 02:20 +02:00"]);
    // The gap is half an hour on Lord Howe Island and a whole day in Samoa.
    let due = shown("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 2);
    assert_eq!(due, ["10-04 02:30 +11:00", "10-05 02:15 +11:00"]);
    let due = shown("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", 3);
    assert_eq!(due, ["12-29 12:00 -10:00", "12-31 00:00 +14:00", "12-31 12:00 +14:00"]);
}

#[test]
fn repeated_local_time_is_due_the_first_time() {
    // In Vienna the clock goes back from 03:00 to 02:00.
    let due = shown("30 2 * * *", "Europe/Vienna", "2026-10-24T12:00:00Z", 2);
    assert_eq!(due, ["10-25 02:30 +02:00", "10-26 02:30 +01:00"]);
    // In the second pass of the hour the occurrence is over.
    let due = shown("*/30 2 * * *", "Europe/Vienna", "2026-10-25T01:15:00Z", 1);
    assert_eq!(due, ["10-26 02:00 +01:00"]);
}

#[test]
fn hourly_line_follows_elapsed_time() {
    let due = shown("30 * * * *", "Europe/Vienna", "2026-03-29T00:00:00Z", 3);
    assert_eq!(due, ["03-29 01:30 +01:00", "03-29 03:30 +02:00", "03-29 04:30 +02:00"]);
    let due = shown("30 0-23 * * *", "Europe/Vienna", "2026-10-25T00:00:00Z", 3);
    assert_eq!(due, ["10-25 02:30 +02:00", "10-25 02:30 +01:00", "10-25 03:30 +01:00"]);
    let due = shown("*/45 * * * *", "America/New_York", "2026-11-01T05:30:00Z", 4);
    assert_eq!(due, ["11-01 01:45 -04:00", "11-01 01:00 -05:00", "11-01 01:45 -05:00", "11-01 02:00 -05:00"]);
}

#[test]
fn wrong_cron_line_is_shown_with_marks_under_the_error() {
    let lines = [
        "",
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "* * * * mun",
        "*/0 * * * *",
        "*/x * * * *",
        "1-70 * * * *",
        "30-10 * * * *",
        "5/10 * * * *",
        "1,,2 * * * *",
        "0 0 L * *",
        "0 0 * * 5#3",
        "0 0 31 2 *",
        "0 0 30-31 feb *",
        "0 0 * * * *",
        "@reboot",
        "@daily 5",
        "0 -1 * * *",
        "ä * * * *",
        "99999999999999999999 * * * *",
        "+5 * * * *",
        "0 0 * * \u{1b}[2J",
    ];
    let pictures: Vec<String> = lines
        .iter()
        .map(|line| line.parse::<Cron>().map_or_else(|wrong| wrong.picture(), |_| format!("{line} is taken")))
        .collect();
    insta::assert_snapshot!("wrong_lines", pictures.join("\n\n"));
    let wrong = "0 24 * * *".parse::<Cron>().unwrap_err().to_string();
    assert!(
        wrong.starts_with("'0 24 * * *' is no cron line: at column 3: this is no hour; allowed are 0 to 23"),
        "{wrong}"
    );
    assert!(serde_json::from_str::<Cron>("\"0 24 * * *\"").unwrap_err().to_string().starts_with(&wrong));
    assert!("*".repeat(5000).parse::<Cron>().is_err());
}

#[test]
fn cron_line_is_kept_as_typed() {
    let cron: Cron = "30 2 * * mon-fri".parse().unwrap();
    assert_eq!(serde_json::to_string(&cron).unwrap(), "\"30 2 * * mon-fri\"");
    assert_eq!(serde_json::from_str::<Cron>("\"30 2 * * mon-fri\"").unwrap(), cron);
}

#[test]
fn impossible_intervals_have_a_fault() {
    let fault = |interval: &str, offset: &str| {
        let [interval, offset] =
            [interval, offset].map(|text| std::time::Duration::from_millis(text.parse().unwrap()));
        Schedule::Every { interval, offset }.fault()
    };
    assert_eq!(fault("1000", "0"), None);
    assert!(fault("0", "0").unwrap().contains("1s is the shortest"));
    assert!(fault("999", "0").is_some());
    assert!(fault("1000000000000", "0").is_some() && fault("1000", "1000000000000").is_some());
}

#[test]
fn latest_occurrences_are_found_without_computing_all() {
    let minutes = table("* * * * *", "Europe/Vienna");
    let (first, last) = (0, millis("2026-01-01T00:00:30Z"));
    let latest: Vec<i64> = [1, 0].map(|ago| millis("2026-01-01T00:00:00Z") - ago * 60_000).into();
    assert_eq!(minutes.latest(first, last, 2), latest);
    assert_eq!(minutes.latest(latest[1], last, 9), latest[1..]);
    assert!(minutes.latest(last + 1, last, 9).is_empty());
    let every = Timetable::Every { anchor: 10, interval: 1_000 };
    assert_eq!(every.latest(10, 2_010, 9), [10, 1_010, 2_010]);
    assert_eq!(every.latest(10, 5_000_000_000_000, 1), [4_999_999_999_010]);
}

const ZONES: [&str; 6] =
    ["UTC", "Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata"];

fn field(low: u8, high: u8) -> impl Strategy<Value = String> {
    let value = low..=high;
    prop_oneof![
        3 => Just("*".to_owned()),
        2 => value.clone().prop_map(|value| value.to_string()),
        1 => (value.clone(), value).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (1..=high).prop_map(|step| format!("*/{step}")),
    ]
}

fn lines() -> impl Strategy<Value = String> {
    (field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 7))
        .prop_map(|(minute, hour, day, month, weekday)| format!("{minute} {hour} {day} {month} {weekday}"))
}

proptest! {
    #[test]
    fn next_occurrence_is_later_with_none_between(
        line in lines(),
        zone_name in prop::sample::select(&ZONES[..]),
        moment in 1_262_304_000_000_i64..1_893_456_000_000,
        part in 0.0..1.0,
    ) {
        let table = table(&line, zone_name);
        let next = table.after(moment).unwrap();
        prop_assert!(next > moment && next % 60_000 == 0);
        let between = moment + ((next - 1 - moment) as f64 * part) as i64;
        prop_assert_eq!(table.after(between), Some(next), "asked at {}", between);
    }

    #[test]
    fn cron_line_with_hours_is_due_at_most_once_per_local_time(
        minute in field(0, 59),
        hour in 0_u8..24,
        zone_name in prop::sample::select(&ZONES[..]),
        moment in 1_262_304_000_000_i64..1_893_456_000_000,
    ) {
        let table = table(&format!("{minute} {hour} * * *"), zone_name);
        let zone = zone(zone_name);
        let reading = |at: i64| zone.to_datetime(Timestamp::from_millisecond(at).unwrap());
        let (mut at, mut days) = (table.after(moment).unwrap(), std::collections::BTreeSet::new());
        let end = at + 20 * 86_400_000;
        while at < end {
            days.insert(reading(at).date());
            let next = table.after(at).unwrap();
            prop_assert!(reading(next) > reading(at));
            at = next;
        }
        prop_assert!(days.len() >= 19, "no day is left out but one that does not exist: {}", days.len());
    }

    #[test]
    fn elapsed_time_line_is_due_at_each_matching_minute(
        minute in 0_u8..60,
        step in 1_i8..24,
        zone_name in prop::sample::select(&ZONES[..]),
        moment in 21_038_400_i64..31_557_600,
    ) {
        let moment = moment * 60_000;
        let table = table(&format!("{minute} */{step} * * *"), zone_name);
        let zone = zone(zone_name);
        let fits = |at: &i64| {
            let reading = zone.to_datetime(Timestamp::from_millisecond(*at).unwrap());
            reading.minute() as u8 == minute && reading.hour() % step == 0
        };
        let looked_for = (1..).map(|n| moment + n * 60_000).find(fits);
        prop_assert_eq!(table.after(moment), looked_for);
    }
}
