//! `queue stats`: how the jobs of a queue fared on a day.

use std::fmt::Write as _;
use std::time::Duration;

use crate::cli::access::Access;
use crate::cli::args::QueueStats;
use crate::cli::term::format::counted;
use crate::cli::term::screen::{Look, age, escaped, print, print_json};
use config::Config;
use failure::{Failure, exit};
use model::verb::{QueueDay, Stats, Times};

/// Prints the page of one day.
pub(super) async fn stats(config: &Config, args: &QueueStats) -> Result<u8, Failure> {
    let asked = Stats { queue: args.queue.as_str().into(), day: args.day };
    let day = Access::open(config).await?.ask(asked).await?;
    match args.json {
        true => print_json(&day)?,
        false => print(&render(&day, &Look::of_stdout(false)))?,
    }
    Ok(exit::OK)
}

/// The page of a day.
pub(crate) fn render(day: &QueueDay, look: &Look) -> String {
    let failures = match day.failures {
        0 => "0 failed".to_owned(),
        failures => format!("{failures} failed, {} of them still", day.failed),
    };
    let complete = day.run.count;
    let mut out = format!(
        "{} on {} (UTC): {complete} complete, {failures}, {} tried again\n",
        escaped(day.queue.as_str()),
        day.day,
        counted(usize::try_from(day.retries).unwrap_or(usize::MAX), "attempt", "attempts")
    );
    times(&mut out, "waited", &day.wait, look);
    times(&mut out, "ran", &day.run, look);
    out
}

fn times(out: &mut String, name: &str, times: &Times, look: &Look) {
    if times.count == 0 {
        return;
    }
    let length = |seconds: f64| age(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let (mean, deviation) = (length(times.mean), length(times.std));
    let _ = writeln!(out, "\n{name:<7} {mean} on average, standard deviation {deviation}");
    let bars = bars(times);
    let most = bars.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    for (label, count) in bars {
        let line = format!("{label:>8} {:<WIDTH$} {count}", bar(count, most, look.ascii));
        let _ = writeln!(out, "{}", look.cut(&line));
    }
}

/// Width of the longest bar.
const WIDTH: usize = 30;

fn bar(count: u64, most: u64, ascii: bool) -> String {
    // Rounded up, so that one job can be seen beside a thousand.
    let filled = (count as f64 / most as f64 * WIDTH as f64).ceil() as usize;
    if ascii { "#" } else { "█" }.repeat(filled)
}

/// The bars of a histogram: a few buckets, from the first to the last one with any jobs.
fn bars(times: &Times) -> Vec<(&'static str, u64)> {
    const BARS: [(u32, &str); 9] = [
        (0, "< 1s"),
        (1, "1s"),
        (10, "10s"),
        (60, "1m"),
        (600, "10m"),
        (3_600, "1h"),
        (6 * 3_600, "6h"),
        (86_400, "1d"),
        (u32::MAX, ""),
    ];
    let count = |from: u32, to: u32| times.histogram.range(from..to).map(|(_, count)| count).sum();
    let bars: Vec<(&str, u64)> =
        BARS.windows(2).map(|pair| (pair[0].1, count(pair[0].0, pair[1].0))).collect();
    let first = bars.iter().position(|(_, count)| *count > 0).unwrap_or(0);
    let last = bars.iter().rposition(|(_, count)| *count > 0).unwrap_or(0);
    bars[first..=last].to_vec()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cli::record::page::tests::look;
    use model::Day;

    #[test]
    fn a_day_is_a_page() {
        let wait = Times {
            count: 14,
            mean: 93.25,
            std: 7.5,
            histogram: BTreeMap::from([(0, 3), (2, 1), (5, 1), (60, 8), (518_400, 1)]),
        };
        let day = QueueDay {
            queue: "mail".into(),
            day: Day(20_778),
            wait,
            run: Times { count: 2, mean: 0.004, std: 0.0, histogram: BTreeMap::from([(0, 2)]) },
            retries: 1,
            failures: 3,
            failed: 2,
        };
        insta::assert_snapshot!("queue_stats", render(&day, &look(60)));
        let idle = QueueDay {
            wait: Times::default(),
            run: Times::default(),
            retries: 0,
            failures: 0,
            failed: 0,
            ..day
        };
        let line = "mail on 2026-11-21 (UTC): 0 complete, 0 failed, 0 attempts tried again\n";
        assert_eq!(render(&idle, &look(60)), line);
    }
}
