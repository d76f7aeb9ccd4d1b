//! `job stats`: how the jobs of each class fared, by day.

use std::time::Duration;

use super::list::must_be_known;
use crate::cli::access::Access;
use crate::cli::args::stats::Args;
use crate::cli::term::screen::{Look, age, escaped, print, print_json, size, table};
use config::Config;
use failure::{Failure, exit};
use model::Filter;
use model::verb::{ClassDay, ClassStats};

/// Prints the table of a day, or of many.
pub(super) async fn stats(config: &Config, args: &Args) -> Result<u8, Failure> {
    let class = args.class.as_deref().map(Into::into);
    let asked = ClassStats { class: class.clone(), day: args.day, days: Some(args.days) };
    let days = Access::open(config).await?.ask(asked).await?;
    if days.is_empty() {
        must_be_known(config, &Filter { class, ..Filter::default() }).await?;
    }
    if args.json {
        days.iter().try_for_each(print_json)?;
    } else if !days.is_empty() {
        print(&render(&days, &Look::of_stdout(false)))?;
    }
    Ok(exit::OK)
}

fn render(days: &[ClassDay], look: &Look) -> String {
    let names = [
        "DAY",
        "CLASS",
        "COMPLETE",
        "FAILED",
        "HELD",
        "RETRIED",
        "MEAN",
        "LONGEST",
        "MEAN CPU",
        "PEAK MEMORY",
    ];
    let rows: Vec<Vec<String>> = days.iter().map(row).collect();
    table(look, &names, &rows)
}

fn row(day: &ClassDay) -> Vec<String> {
    let length = |seconds: f64| age(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let mean = |sum: f64, count: u64| if count > 0 { length(sum / count as f64) } else { "-".into() };
    let attempts = day.complete + day.failed + day.held + day.retries;
    // A day counts all classes after its first hundred together.
    let class = day.class.as_ref().map_or("(others)".into(), |class| escaped(class.as_str()).into_owned());
    vec![
        day.day.to_string(),
        class,
        day.complete.to_string(),
        day.failed.to_string(),
        day.held.to_string(),
        day.retries.to_string(),
        mean(day.ran, attempts),
        length(day.longest),
        mean(day.cpu, day.measured),
        if day.peak_rss > 0 { size(day.peak_rss) } else { "-".into() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::record::page::tests::look;
    use model::Day;

    #[test]
    fn classes_are_a_table() {
        let mail = ClassDay {
            day: Day(20_778),
            class: Some("mail.Send".into()),
            complete: 1_200,
            retries: 4,
            failed: 3,
            held: 1,
            ran: 2_416.0,
            longest: 61.5,
            measured: 0,
            cpu: 0.0,
            peak_rss: 0,
        };
        let rest =
            ClassDay { class: None, complete: 2, measured: 2, cpu: 5.0, peak_rss: 9 << 20, ..mail.clone() };
        insta::assert_snapshot!("class_stats", render(&[mail, rest], &look(120)));
    }
}
