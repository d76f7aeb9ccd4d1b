//! Sizes of a pool by the time of day.

use std::cmp::Reverse;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::NextAt;
use super::{Cron, Millis, Timetable};

/// Oldest occurrence to look for: 10 years ago, in milliseconds.
const LONGEST_AGO: i64 = 10 * 366 * 86_400_000;

/// A rule: from each of its moments on the pool has this size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeRule {
    /// The moments at which the size changes.
    pub at: Cron,
    /// The time zone of the moments.
    pub zone: TimeZone,
    /// The size: number of workers.
    pub workers: u16,
}

impl SizeRule {
    fn timetable(&self) -> Timetable {
        Timetable::Cron(self.at.clone(), self.zone.clone())
    }

    /// The time on a wall clock at a moment of the rule, as milliseconds since 1970. When the clock is put forward,
    /// several lines fall on one moment; this tells them apart.
    fn shown(&self, moment: Millis) -> i64 {
        let Ok(at) = Timestamp::from_millisecond(moment.0) else { return moment.0 };
        let clock = moment.0 + i64::from(self.zone.to_offset(at).seconds()) * 1000;
        // The line is read in UTC, because the time on the clock is written as if it were UTC.
        let lines = Timetable::Cron(self.at.clone(), TimeZone::UTC);
        lines.latest(clock.saturating_sub(LONGEST_AGO), clock, 1).pop().unwrap_or(clock)
    }

    /// The rule in force at a moment, and since when: the one whose moment came last. Of two with the same moment, the
    /// one whose line has the later hour, else the later one in the list. None = none has begun yet.
    pub fn in_force(rules: &[SizeRule], moment: Millis) -> Option<(Millis, &SizeRule)> {
        let latest = |rule: &SizeRule| {
            rule.timetable().latest(moment.0.saturating_sub(LONGEST_AGO), moment.0, 1).pop().map(Millis)
        };
        rules
            .iter()
            .filter_map(|rule| Some((latest(rule)?, rule)))
            // `max_by_key` keeps the last of equals.
            .max_by_key(|(since, rule)| (*since, rule.shown(*since)))
    }

    /// The next rule after a moment, and when it begins.
    pub fn next(rules: &[SizeRule], moment: Millis) -> Option<(Millis, &SizeRule)> {
        let next = |rule: &SizeRule| rule.timetable().after(moment.0).map(Millis);
        rules
            .iter()
            // `min_by_key` keeps the first of equals: reversed, that is the later rule, as in `in_force`.
            .rev()
            .filter_map(|rule| Some((next(rule)?, rule)))
            .min_by_key(|(at, rule)| (*at, Reverse(rule.shown(*at))))
    }
}

/// The size of a pool by the time of day, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimedSize {
    /// The size that the rules give it now; None = none of them has come yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u16>,
    /// When the next rule gives it another one.
    #[serde(flatten, with = "NextAt::<Millis>")]
    pub next: Millis,
    /// The size that it gives.
    pub next_workers: u16,
}

impl TimedSize {
    /// The sizes at a moment; None without rules.
    pub fn of(rules: &[SizeRule], moment: Millis) -> Option<TimedSize> {
        let (next, rule) = SizeRule::next(rules, moment)?;
        let workers = SizeRule::in_force(rules, moment).map(|(_, rule)| rule.workers);
        Some(TimedSize { workers, next, next_workers: rule.workers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(lines: &[(&str, u16)]) -> Vec<SizeRule> {
        let rule = |(line, workers): &(&str, u16)| SizeRule {
            at: line.parse().unwrap(),
            zone: TimeZone::UTC,
            workers: *workers,
        };
        lines.iter().map(rule).collect()
    }

    fn at(text: &str) -> Millis {
        Millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    #[test]
    fn latest_size_rule_applies_until_the_next_one() {
        let rules = rules(&[("0 8 * * mon-fri", 16), ("0 20 * * *", 4)]);
        let size =
            |text: &str| SizeRule::in_force(&rules, at(text)).map(|(since, rule)| (since, rule.workers));
        // 2026-11-22 is a Sunday.
        assert_eq!(size("2026-11-22T12:00:00Z"), Some((at("2026-11-21T20:00:00Z"), 4)));
        assert_eq!(size("2026-11-23T07:59:59Z"), Some((at("2026-11-22T20:00:00Z"), 4)));
        assert_eq!(size("2026-11-23T08:00:00Z"), Some((at("2026-11-23T08:00:00Z"), 16)));
        let next = SizeRule::next(&rules, at("2026-11-23T08:00:00Z"));
        assert_eq!(next.map(|(at, rule)| (at, rule.workers)), Some((at("2026-11-23T20:00:00Z"), 4)));
        assert_eq!(SizeRule::in_force(&[], at("2026-11-23T08:00:00Z")), None);
    }

    #[test]
    fn later_rule_in_the_list_wins_at_the_same_moment() {
        let rules = rules(&[("0 8 * * *", 16), ("0 8 * * sat,sun", 2)]);
        let sunday = at("2026-11-22T08:00:00Z");
        assert_eq!(SizeRule::in_force(&rules, sunday).map(|(_, rule)| rule.workers), Some(2));
        let next = SizeRule::next(&rules, Millis(sunday.0 - 1));
        assert_eq!(next.map(|(_, rule)| rule.workers), Some(2));
    }

    #[test]
    fn rule_of_the_later_time_wins_in_a_skipped_hour() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let rule = |line: &str, workers| SizeRule { at: line.parse().unwrap(), zone: zone.clone(), workers };
        // On 28 March 2027 the clock goes from 2 to 3: both rules fall on the same moment.
        let rules = [rule("45 2 * * *", 4), rule("30 2 * * *", 16)];
        let night = at("2027-03-28T01:00:00Z");
        assert_eq!(SizeRule::in_force(&rules, night), Some((night, &rules[0])));
        assert_eq!(SizeRule::next(&rules, Millis(night.0 - 1)), Some((night, &rules[0])));
    }
}
