//! Charts of what happened over time, with a table of the same for who cannot see them.

use maud::{Markup, html};

use model::{Ends, Millis, SeriesQuery};

use crate::app::{App, Visit};
use crate::chart::{Graph, Mark};
use crate::layout::scrolled;
use crate::say;
use crate::series::{Column, Columns, Span};
use crate::text;

/// Rows of a table.
const ROWS: usize = 12;

/// The charts of all jobs, or of those of a queue. Where there are no series there are no charts.
pub(crate) async fn section(app: &App, visit: &Visit, of: SeriesQuery) -> Markup {
    // In the URL, so that the span stays when the page is fetched again or shared.
    let span = Span::of(&visit.url);
    let asked = SeriesQuery { step: span.step(), ..of };
    let Ok(answer) = app.source.series(&asked).await else { return html! {} };
    let columns = Columns::of(&answer, span);
    let (path, (_, _, title)) = (visit.url.split('?').next().unwrap_or_default(), Span::ALL[span as usize]);
    html! {
        section.wide aria-labelledby="h-course" {
            div.head {
                h2 #h-course { (title) }
                nav.states aria-label="How far back" {
                    @for (one, word, name) in Span::ALL { a href={ (path) "?span=" (word) } aria-current=[(one == span).then_some("true")] { (name) } }
                }
            }
            div.charts {
                (jobs(&columns)) (at_once(&columns)) (times(&columns))
            }
            details { summary { "The same as a table" } (table(app, &columns)) }
        }
    }
}

/// How long a column is, in words.
fn each(columns: &Columns) -> String {
    match columns.width.as_secs() {
        60 => "a minute".into(),
        _ => format!("in {}", say::age(columns.width)),
    }
}

/// Under a chart: where it begins and ends.
fn since(columns: &Columns) -> String {
    say::age(columns.width * columns.all.len() as u32) + " ago"
}

fn numbers(columns: &Columns, of: impl Fn(&Column) -> u64) -> Vec<Option<f64>> {
    columns.all.iter().map(|column| Some(of(column) as f64)).collect()
}

fn jobs(columns: &Columns) -> Markup {
    let sum = columns.sum();
    let said = format!("{} put, {} complete, {} attempts failed", sum.put, sum.complete, sum.failed);
    let mut graph = Graph::new(format!("Jobs {}", each(columns)), said, &since(columns));
    graph.bars(Mark::new("complete", "complete"), numbers(columns, |column| column.complete));
    graph.bars(Mark::new("failed", "failed"), numbers(columns, |column| column.failed));
    graph.line(Mark::new("put", "put"), numbers(columns, |column| column.put));
    graph.draw(|most| say::count(most.round() as u64))
}

fn at_once(columns: &Columns) -> Markup {
    let now = columns.all.last().copied().unwrap_or_default();
    let waiting = now.waiting.map_or_else(String::new, |waiting| format!("{waiting} waited at most, "));
    let said = format!(
        "in the last {}: {waiting}{} ran at once; {} at most before",
        say::age(columns.width),
        now.busy,
        columns.sum().busy
    );
    let mut graph = Graph::new("Waiting and running".into(), said, &since(columns));
    graph.line(
        Mark::new("waiting", "waiting"),
        columns.all.iter().map(|column| column.waiting.map(f64::from)).collect(),
    );
    graph.line(Mark::new("busy", "running"), numbers(columns, |column| column.busy.into()));
    graph.draw(|most| say::count(most.round() as u64))
}

fn times(columns: &Columns) -> Markup {
    let of = |which: fn(&Column) -> Option<f64>| columns.all.iter().map(which).collect();
    let sum = columns.sum();
    let longest = |name: &str, [half, most]: [Option<f64>; 2]| match (half, most) {
        (Some(half), Some(most)) => {
            format!("{name}: half within {}, 95 % within {}", seconds(half), seconds(most))
        }
        _ => format!("{name}: nothing yet"),
    };
    let said = format!("{}; {}, at worst", longest("waited", sum.wait), longest("ran", sum.run));
    let mut graph = Graph::new("Time, of half and of 95 %".into(), said, &since(columns));
    graph.line(Mark::new("wait", "waited 95 %"), of(|column| column.wait[1]));
    graph.line(Mark::new("wait-half", "waited half"), of(|column| column.wait[0]));
    graph.line(Mark::new("run", "ran 95 %"), of(|column| column.run[1]));
    graph.line(Mark::new("run-half", "ran half"), of(|column| column.run[0]));
    graph.draw(seconds)
}

fn seconds(seconds: f64) -> String {
    say::age(say::seconds(seconds))
}

fn table(app: &App, columns: &Columns) -> Markup {
    let rows = columns.fewer(ROWS);
    let time = |time: Option<f64>| html! { td.num { @if let Some(time) = time { (seconds(time)) } } };
    scrolled(
        "The same as a table",
        html! {
            table {
                thead { tr {
                    th { "From" } th.num { "Put" } th.num { "Begun" } th.num { "Complete" } th.num { "Failed" } th.num { "Waiting" } th.num { "Running" }
                    th.num { "Waited half" } th.num { "Waited 95 %" } th.num { "Ran half" } th.num { "Ran 95 %" }
                } }
                tbody {
                    // The newest first, as in all lists of the page.
                    @for (number, row) in rows.all.iter().enumerate().rev() {
                        tr data-key=(rows.begin(number).0) {
                            th scope="row" { (say::moment(rows.begin(number), &app.zone)) }
                            td.num { (say::count(row.put)) } td.num { (say::count(row.begun)) } td.num { (say::count(row.complete)) } td.num { (say::count(row.failed)) }
                            td.num { @if let Some(waiting) = row.waiting { (say::count(waiting.into())) } } td.num { (say::count(row.busy.into())) }
                            (time(row.wait[0])) (time(row.wait[1])) (time(row.run[0])) (time(row.run[1]))
                        }
                    }
                }
            }
        },
    )
}

/// When the jobs of a batch ended.
pub(crate) fn ends(app: &App, ends: &Ends) -> Markup {
    if ends.is_empty() {
        return html! {};
    }
    let sum = |numbers: &[u32]| numbers.iter().map(|number| u64::from(*number)).sum::<u64>();
    let all = [("complete", &ends.complete), ("failed", &ends.failed), ("canceled", &ends.canceled)];
    let said: Vec<String> =
        all.iter().map(|(name, numbers)| format!("{} {name}", say::count(sum(numbers)))).collect();
    let (step, steps) = (ends.step, ends.complete.len() as u32);
    let title = format!("Ended in {}", say::age(step));
    let length = format!("over {}", say::age(step * steps));
    let mut graph = Graph::new(title, said.join(", "), &length);
    graph.last = "the last end".into();
    for (name, numbers) in all {
        graph.bars(Mark::new(name, name), numbers.iter().map(|number| Some(f64::from(*number))).collect());
    }
    let each = (steps as usize).div_ceil(ROWS).max(1);
    let begin = |row: usize| Millis(ends.from.0 + (row * each) as i64 * step.as_millis() as i64);
    let part = |numbers: &[u32], row: usize| sum(&numbers[row * each..numbers.len().min((row + 1) * each)]);
    html! {
        section.wide aria-labelledby="h-ends" {
            h2 #h-ends { "When they ended" }
            (graph.draw(|most| say::count(most.round() as u64)))
            details { summary { "The same as a table" } (scrolled("The same as a table", html! {
                table {
                    thead { tr { th { "From" } th.num { "Complete" } th.num { "Failed" } th.num { "Canceled" } } }
                    tbody { @for row in 0..(steps as usize).div_ceil(each) {
                        tr { th scope="row" { (text::shown(&say::moment(begin(row), &app.zone))) } @for (_, numbers) in all { td.num { (say::count(part(numbers, row))) } } }
                    } }
                }
            })) }
        }
    }
}
