//! What happened over time, in columns: of the supervisor's series, for charts and their tables.

use std::time::Duration;

use model::{Millis, OneSeries, SeriesStep, TimeSeries};

/// How far a chart goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// The last hour, in minutes.
    Hour,
    /// The last day, in stretches of 20 minutes.
    Day,
}

impl Span {
    /// Both, with their words in a URL and on a page.
    pub(crate) const ALL: [(Span, &'static str, &'static str); 2] =
        [(Span::Hour, "hour", "The last hour"), (Span::Day, "day", "The last day")];

    /// The span that a URL asks for.
    pub(crate) fn of(url: &str) -> Span {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        if query.split('&').any(|part| part == "span=day") { Span::Day } else { Span::Hour }
    }

    /// The steps of which it is made.
    pub(crate) fn step(self) -> SeriesStep {
        match self {
            Span::Hour => SeriesStep::TenSeconds,
            Span::Day => SeriesStep::Minute,
        }
    }

    /// Length of a column.
    pub(crate) fn width(self) -> Duration {
        Duration::from_secs(if self == Span::Hour { 60 } else { 1200 })
    }

    /// Number of columns.
    pub(crate) fn columns(self) -> usize {
        if self == Span::Hour { 60 } else { 72 }
    }
}

/// What happened in one column, or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Column {
    /// Jobs that were put.
    pub put: u64,
    /// Attempts that began.
    pub begun: u64,
    /// Jobs that completed.
    pub complete: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Most jobs that waited, where that is known.
    pub waiting: Option<u32>,
    /// Most jobs that ran at once.
    pub busy: u32,
    /// The longest of the steps' waits, in seconds: of half of the jobs, and of 95 %.
    pub wait: [Option<f64>; 2],
    /// The same of the time they ran.
    pub run: [Option<f64>; 2],
}

impl Column {
    fn add(&mut self, more: &Column) {
        self.put += more.put;
        self.begun += more.begun;
        self.complete += more.complete;
        self.failed += more.failed;
        // Percentiles and queue lengths do not add up: the highest stands for all.
        self.waiting = self.waiting.max(more.waiting);
        self.busy = self.busy.max(more.busy);
        for (own, more) in self.wait.iter_mut().chain(&mut self.run).zip(more.wait.iter().chain(&more.run)) {
            *own = own.map_or(*more, |own| Some(more.map_or(own, |more| own.max(more))));
        }
    }

    fn of(one: &OneSeries, step: usize) -> Column {
        let number = |all: &[u32]| all.get(step).copied().unwrap_or(0);
        let time = |all: &[Option<f64>]| all.get(step).copied().flatten();
        Column {
            put: number(&one.put).into(),
            begun: number(&one.begun).into(),
            complete: number(&one.complete).into(),
            failed: number(&one.failed).into(),
            waiting: one.waiting.get(step).copied().flatten(),
            busy: number(&one.busy),
            wait: [time(&one.wait_p50), time(&one.wait_p95)],
            run: [time(&one.run_p50), time(&one.run_p95)],
        }
    }
}

/// The columns of a span, the newest last, and when the first begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Columns {
    /// When the first begins.
    pub from: Millis,
    /// Length of each.
    pub width: Duration,
    /// What happened in them.
    pub all: Vec<Column>,
}

impl Columns {
    /// Those of the first series of an answer. Columns before the supervisor's start are empty.
    pub(crate) fn of(answer: &TimeSeries, span: Span) -> Columns {
        let (width, step) = (span.width().as_millis() as i64, answer.step.as_millis().max(1) as i64);
        // Columns begin at multiples of their width: else all bars would change with each look.
        let last = answer.now.0.div_euclid(width);
        let from = (last + 1 - span.columns() as i64) * width;
        let mut all = vec![Column::default(); span.columns()];
        let one = answer.series.first();
        for step_number in 0..one.map_or(0, |one| one.put.len()) {
            let at = answer.from.0 + step_number as i64 * step;
            let place = usize::try_from((at - from).div_euclid(width)).ok();
            // The answer may begin before the first column.
            if let (Some(column), Some(one)) = (place.and_then(|place| all.get_mut(place)), one) {
                column.add(&Column::of(one, step_number));
            }
        }
        Columns { from: Millis(from), width: span.width(), all }
    }

    /// The same in at most this number of columns, for a table.
    pub(crate) fn fewer(&self, most: usize) -> Columns {
        let each = self.all.len().div_ceil(most.max(1)).max(1);
        let sum = |columns: &[Column]| {
            columns.iter().fold(Column::default(), |mut sum, column| {
                sum.add(column);
                sum
            })
        };
        let all = self.all.chunks(each).map(sum).collect();
        Columns { from: self.from, width: self.width * each as u32, all }
    }

    /// All of them together.
    pub(crate) fn sum(&self) -> Column {
        self.fewer(1).all.first().copied().unwrap_or_default()
    }

    /// When a column begins.
    pub(crate) fn begin(&self, column: usize) -> Millis {
        Millis(self.from.0 + column as i64 * self.width.as_millis() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_become_columns_by_their_time_and_columns_rows_of_a_table() {
        let one = OneSeries {
            put: vec![1, 2, 4],
            begun: vec![1, 1, 1],
            complete: vec![1, 0, 2],
            failed: vec![0, 1, 0],
            wait_p50: vec![Some(0.5), None, Some(2.0)],
            wait_p95: vec![Some(1.0), None, Some(3.0)],
            run_p50: vec![None; 3],
            run_p95: vec![None; 3],
            waiting: vec![None, Some(7), Some(3)],
            busy: vec![1, 4, 2],
            ..OneSeries::default()
        };
        let answer = TimeSeries {
            step: Duration::from_secs(10),
            from: Millis(7_180_000),
            now: Millis(7_205_000),
            series: vec![one],
        };
        let columns = Columns::of(&answer, Span::Hour);
        assert_eq!((columns.all.len(), columns.begin(59)), (60, Millis(7_200_000)));
        let [before, last] = [columns.all[58], columns.all[59]];
        assert_eq!((before.put, before.failed, before.waiting, before.busy), (3, 1, Some(7), 4));
        assert_eq!((before.wait, last.wait), ([Some(0.5), Some(1.0)], [Some(2.0), Some(3.0)]));
        assert_eq!((columns.sum().put, columns.sum().wait[1], columns.sum().run[0]), (7, Some(3.0), None));
        let rows = columns.fewer(12);
        assert_eq!((rows.all.len(), rows.width, rows.all[11]), (12, Duration::from_secs(300), columns.sum()));
        let none = Columns::of(&TimeSeries { series: vec![], ..answer }, Span::Day);
        assert_eq!((none.all.len(), none.sum()), (72, Column::default()));
    }

    #[test]
    fn url_says_the_span() {
        assert_eq!(
            ["/", "/?span=day", "/queue/a?x=1&span=day", "/?span=week"].map(Span::of),
            [Span::Hour, Span::Day, Span::Day, Span::Hour]
        );
    }
}
