//! Reads a workload from a table: `queue,arrival,run_time`, or the two columns of kale, `queue,run_time`.

use std::time::Duration;

use super::workload::{JOBS_MAX, Queues, SimulatedJob, Workload, WrongWorkload};
use model::parse_duration;

/// Longest arrival and run time in a table: 10 years.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

impl Workload {
    /// Reads lines of three columns, or of two: then a job comes every `interval`, and the last line comes first, as in
    /// kale's benchmark. Times are seconds, or a number with a unit. Empty lines, lines that begin with `#`, and a
    /// first line of names are skipped.
    pub fn from_csv(text: &str, interval: Duration) -> Result<Workload, WrongWorkload> {
        let (mut queues, mut jobs, mut columns) = (Queues::default(), Vec::new(), None);
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            // Only as the first line: further down it would be a job without a run time.
            if columns.is_none() && fields.last() == Some(&"run_time") {
                columns = Some(fields.len());
                continue;
            }
            let expected = *columns.get_or_insert(fields.len());
            if fields.len() != expected || !(2..=3).contains(&expected) {
                let message = format!("has {} columns: {}", fields.len(), shape(expected));
                return Err(WrongWorkload::at(number, message));
            }
            if jobs.len() == JOBS_MAX {
                return Err(WrongWorkload::at(number, format!("is beyond the {JOBS_MAX} jobs that fit")));
            }
            jobs.push(job(number, &fields, &mut queues)?);
        }
        if jobs.is_empty() {
            return Err(WrongWorkload::whole("it has no jobs: give lines of queue,arrival,run_time"));
        }
        if columns == Some(2) {
            jobs.reverse();
            for (at, job) in jobs.iter_mut().enumerate() {
                job.arrival = interval.saturating_mul(u32::try_from(at).unwrap_or(u32::MAX));
            }
        }
        Ok(Workload::new(queues.all, jobs))
    }
}

fn shape(columns: usize) -> &'static str {
    match columns {
        2 => "the lines before have two, queue,run_time",
        3 => "the lines before have three, queue,arrival,run_time",
        _ => "give queue,arrival,run_time, or queue,run_time",
    }
}

fn job(number: usize, fields: &[&str], queues: &mut Queues) -> Result<SimulatedJob, WrongWorkload> {
    let (Some(name), Some(run_time)) = (fields.first(), fields.last()) else {
        return Err(WrongWorkload::at(number, "is empty"));
    };
    if name.is_empty() {
        return Err(WrongWorkload::at(number, "names no queue in its first column"));
    }
    let arrival = match fields {
        [_, arrival, _] => time(number, "arrival", arrival)?,
        _ => Duration::ZERO,
    };
    let run_time = time(number, "run_time", run_time)?;
    Ok(SimulatedJob { arrival, queue: queues.index(name), run_time })
}

/// Reads a time: `1.5` is a number of seconds, `250ms` a duration.
fn time(number: usize, column: &str, text: &str) -> Result<Duration, WrongWorkload> {
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.or_else(|| parse_duration(text).ok()).filter(|time| *time <= LONGEST).ok_or_else(|| {
        let message = format!("{column} '{text}' is no number of seconds and no duration like 250ms");
        WrongWorkload::at(number, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, u128, u128)> {
        let workload = Workload::from_csv(text, Duration::from_millis(100)).unwrap();
        let name = |job: &SimulatedJob| workload.queues()[job.queue as usize].name.to_string();
        let all = workload.jobs().iter();
        all.map(|job| (name(job), job.arrival.as_millis(), job.run_time.as_millis())).collect()
    }

    fn refused(text: &str) -> String {
        Workload::from_csv(text, Duration::ZERO).unwrap_err().to_string()
    }

    #[test]
    fn three_columns_are_queue_arrival_and_run_time_in_any_order_of_time() {
        let text = "queue,arrival,run_time\n# a comment\nmail,1.5,0.25\n\n web , 500ms , 2s\r\nmail,1.5,1";
        let expected = [("web".into(), 500, 2000), ("mail".into(), 1500, 250), ("mail".into(), 1500, 1000)];
        assert_eq!(read(text), expected);
    }

    #[test]
    fn two_columns_are_kales_format_and_are_read_in_reverse() {
        let expected = [("lowp".into(), 0, 30), ("highp".into(), 100, 20), ("highp".into(), 200, 10)];
        assert_eq!(read("highp,0.01\nhighp,0.02\nlowp,0.03\n"), expected);
    }

    #[test]
    fn invalid_csv_line_is_reported_with_its_number() {
        let cases = [
            ("a,1,1\na,1\n", "line 2: has 2 columns: the lines before have three, queue,arrival,run_time"),
            ("a,1\nb,1,1\n", "line 2: has 3 columns: the lines before have two, queue,run_time"),
            ("a;1;1\n", "line 1: has 1 columns: give queue,arrival,run_time, or queue,run_time"),
            ("a,1,1\n\n,1,1\n", "line 3: names no queue in its first column"),
            ("a,1,-1\n", "line 1: run_time '-1' is no number of seconds and no duration like 250ms"),
            ("a,soon,1\n", "line 1: arrival 'soon' is no number of seconds and no duration like 250ms"),
            ("a,NaN,1\n", "line 1: arrival 'NaN' is no number of seconds and no duration like 250ms"),
            ("a,1e300,1\n", "line 1: arrival '1e300' is no number of seconds and no duration like 250ms"),
            ("queue,arrival,run_time\n", "it has no jobs: give lines of queue,arrival,run_time"),
            ("", "it has no jobs: give lines of queue,arrival,run_time"),
        ];
        for (text, expected) in cases {
            assert_eq!(refused(text), expected, "{text:?}");
        }
    }
}
