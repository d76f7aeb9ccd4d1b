//! How far a batch is, as text.

use std::time::Duration;

use crate::cli::term::format::{ago, between, grouped};
use crate::cli::term::screen::{Look, age, escaped, how_far};
use model::{JobCounts, Millis, Progress};

/// A line: the bar, the counts, the rate, and the time that is left at this rate.
pub(crate) fn line(tally: &JobCounts, now: Millis, look: &Look) -> String {
    let (count, ended) = (tally.count(), tally.ended());
    let bar = Progress { fraction: Some(ended as f64 / count.max(1) as f64), message: None };
    let more = if tally.more { "+" } else { "" };
    let mut text = format!("{} {} of {}{more} ended", how_far(&bar, look), grouped(ended), grouped(count));
    let bad: Vec<String> = tally
        .states
        .iter()
        .filter(|(state, count)| **count > 0 && is_bad(**state))
        .map(|(state, count)| format!("{} {state}", grouped(*count)))
        .collect();
    if !bad.is_empty() {
        text += &format!(", {}", bad.join(", "));
    }
    let rate = tally.rate(now);
    if rate > 0.0 && ended < count {
        text += &format!("  {}  about {} to go", per_second(rate), age(left(tally, rate)));
    }
    text
}

/// The page of a batch.
pub(crate) fn page(name: &str, tally: &JobCounts, now: Millis, look: &Look) -> String {
    let states = tally.states.iter().filter(|(_, count)| **count > 0);
    let states: Vec<String> = states.map(|(state, count)| format!("{state} {}", grouped(*count))).collect();
    let mut text = format!("{}\n  {}\n  {}\n", escaped(name), line(tally, now, look), states.join("  "));
    if let Some(at) = tally.put_at {
        text += &format!("  put {} ({})", look.moment(at), ago(at, now));
        let end = tally.ended_at.filter(|_| tally.ended() == tally.count() && !tally.more);
        text += &end.map(|end| format!(", all ended {} later", age(between(at, end)))).unwrap_or_default();
        text.push('\n');
    }
    if !tally.failures.is_empty() {
        text += "  first failures\n";
    }
    for failure in &tally.failures {
        let said = format!("    {}  {}: {}", failure.job, failure.group, headline(&failure.message));
        text += &format!("{}\n", look.cut(&escaped(&said)));
    }
    text
}

fn headline(message: &str) -> &str {
    crate::cli::term::screen::headline(message)
}

fn is_bad(state: model::JobState) -> bool {
    use model::JobState as State;
    matches!(state, State::Failed | State::Held | State::Canceled)
}

fn left(tally: &JobCounts, rate: f64) -> Duration {
    let seconds = (tally.count() - tally.ended()) as f64 / rate;
    // More than a Duration can hold would be a panic.
    Duration::from_secs_f64(seconds.min(1e9).ceil())
}

fn per_second(rate: f64) -> String {
    if rate >= 10.0 {
        format!("{rate:.0}/s")
    } else if rate >= 1.0 {
        format!("{rate:.1}/s")
    } else {
        format!("{:.0}/min", rate * 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{FirstFailure, JobState};

    fn tally() -> JobCounts {
        let failure = FirstFailure {
            job: "0199aa".into(),
            group: "exit 1".into(),
            message: "no\x1b[2J such file\nmore".into(),
        };
        JobCounts {
            states: [(JobState::Complete, 1190), (JobState::Failed, 10), (JobState::Waiting, 800)].into(),
            put_at: Some(Millis(0)),
            ended_at: Some(Millis(100_000)),
            ended_in_minute: 1200,
            failures: [failure].into(),
            ..JobCounts::default()
        }
    }

    #[test]
    fn page_of_a_batch_has_bar_rate_time_left_and_first_failures() {
        let look = Look { ascii: true, ..Look::piped(80) };
        let expected = "import\n  ############........ 60% 1,200 of 2,000 ended, 10 failed  20/s  about 40s to go\n  \
                        waiting 800  complete 1,190  failed 10\n  put 1970-01-01 00:00:00Z (1m40s ago)\n  \
                        first failures\n    0199aa  exit 1: no\\x1b[2J such file\n";
        assert_eq!(page("import", &tally(), Millis(100_000), &look), expected);
    }

    #[test]
    fn batch_that_has_ended_says_how_long_it_took() {
        let mut tally = tally();
        tally.states.remove(&JobState::Waiting);
        let page = page("x", &tally, Millis(200_000), &Look::piped(200));
        assert!(page.contains("100% 1,200 of 1,200 ended, 10 failed\n"), "{page}");
        assert!(page.contains("all ended 1m40s later"), "{page}");
    }

    #[test]
    fn slow_rates_are_those_of_a_minute() {
        assert_eq!([0.05, 1.5, 20.0].map(per_second), ["3/min", "1.5/s", "20/s"]);
    }
}
