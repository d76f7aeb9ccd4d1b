//! Statistics of the jobs of each class.

use super::reply::{array, number, parts, text};
use super::shared::Shared;
use broker::Error;
use model::Day;
use model::verb::{ClassDay, ClassStats, ClassSums};

/// Statistics of classes, by day.
pub(super) async fn stats(redis: &Shared, it: &ClassStats) -> Result<Vec<ClassDay>, Error> {
    let answer = redis.call("ask how classes fared in", "taskvisor.classes", |cmd, offset| {
        let (first, last) = it.span(Day::of(offset.millis(redis.link.now())));
        cmd.arg(first.0).arg(last.0);
    });
    let mut all = Vec::new();
    for row in array(answer.await?)? {
        let [day, class, sums] = parts(row)?;
        let (class, sums) = (text(&class).unwrap_or_default(), text(&sums).unwrap_or_default());
        all.push((Day(number(&day)), class, read(&sums)));
    }
    Ok(it.told(all))
}

/// Reads the nine numbers of the script.
fn read(sums: &str) -> ClassSums {
    let mut sums =
        sums.split_whitespace().map(|number| number.parse::<f64>().map_or(0, |number| number as i64));
    let mut next = || sums.next().unwrap_or(0);
    ClassSums {
        complete: next(),
        retries: next(),
        failed: next(),
        held: next(),
        ran: next(),
        longest: next(),
        measured: next(),
        cpu: next(),
        peak_rss: next(),
    }
}
