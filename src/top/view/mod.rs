//! What is drawn: a grid, from what the screen knows.

mod foot;
mod head;
mod help;

use crate::ask::Kind;
use crate::layout::{Layout, layout};
use crate::screen::grid::{Grid, Style, width};
use crate::state::Model;
use crate::thing::Tab;

/// The smallest screen that is drawn on.
const SMALLEST: (usize, usize) = (40, 8);
/// Draws the whole screen.
pub fn draw(model: &Model) -> Grid {
    let (columns, lines) = model.size;
    let mut grid = Grid::new(columns, lines, model.look.ascii);
    if columns < SMALLEST.0 || lines < SMALLEST.1 {
        grid.put(0, 0, columns, "the window is too small", Style::PLAIN);
        return grid;
    }
    let layout = layout(model.size, model.pane.whole || model.help);
    if model.help {
        help::draw(&mut grid, model, &layout);
    } else {
        if !model.pane.whole {
            head::draw(&mut grid, model, &layout);
            tabs(&mut grid, model, layout.head.end);
            table(&mut grid, model, &layout);
        }
        pane(&mut grid, model, &layout);
    }
    foot::draw(&mut grid, model);
    grid
}

fn tabs(grid: &mut Grid, model: &Model, line: usize) {
    let mut column = 0;
    let is_narrow = grid.width < 76;
    for (n, tab) in Tab::ALL.into_iter().enumerate() {
        let is_open = tab == model.tab;
        let word = if is_narrow && !is_open { String::new() } else { format!(" {}", tab.name()) };
        let style = if is_open { Style::BOLD.and(Style::REVERSE) } else { Style::PLAIN };
        column += grid.put(line, column, grid.width, &format!(" {}{word} ", n + 1), style);
    }
    let place = model.place();
    let sort = format!("by {}", model.tab.sorts()[place.sort]);
    let rest = grid.width.saturating_sub(width(&sort));
    if rest > column {
        grid.put(line, rest, grid.width, &sort, Style::DIM);
    }
}

fn table(grid: &mut Grid, model: &Model, layout: &Layout) {
    let (table, place) = (&model.table, model.place());
    let widths = table.widths(grid.width.saturating_sub(1));
    let names: Vec<&str> = table.columns.iter().map(|column| column.head).collect();
    cells(grid, model, (layout.table.start - 1, &widths), &names, |_| Style::BOLD);
    if table.rows.is_empty() {
        return empty(grid, model, layout.table.start);
    }
    for (line, (n, row)) in layout.table.clone().zip(table.rows.iter().enumerate().skip(place.top)) {
        let texts: Vec<&str> = row.cells.iter().map(String::as_str).collect();
        let style = |column: usize| if table.columns[column].is_tinted { row.tint } else { Style::PLAIN };
        cells(grid, model, (line, &widths), &texts, style);
        if place.marks.contains(&row.thing) {
            grid.put(line, 0, 1, if model.look.ascii { "*" } else { "●" }, Style::YELLOW.and(Style::BOLD));
        }
        if n == place.line {
            grid.restyle(line, Style::REVERSE);
        }
    }
}

/// Writes the cells of a line, each into its column. The first column of the screen is for marks.
fn cells(
    grid: &mut Grid,
    model: &Model,
    (line, widths): (usize, &[usize]),
    texts: &[&str],
    style: impl Fn(usize) -> Style,
) {
    let mut column = 1;
    for (n, (text, wide)) in texts.iter().zip(widths).enumerate() {
        let is_right = model.table.columns[n].is_right;
        let indent = if is_right { wide.saturating_sub(width(text)) } else { 0 };
        grid.put(line, column + indent, wide - indent, text, style(n));
        column += wide + 1;
    }
}

/// Why there are no lines.
fn empty(grid: &mut Grid, model: &Model, line: usize) {
    let data = &model.data;
    let text = match (data.refused.get(&model.tab), data.at, model.tab) {
        (Some(why), ..) => why.as_str(),
        (None, None, _) => "nothing was seen yet",
        (None, Some(_), _) if model.table.all > 0 => "no line has the words of the filter",
        (None, Some(_), Tab::Slots) if data.status.is_none() => {
            "no supervisor runs: this is what the store knows"
        }
        (None, Some(_), Tab::Slots) => "no slots",
        (None, Some(_), Tab::Queues) => "no queues",
        (None, Some(_), Tab::Jobs) => "no jobs",
        (None, Some(_), Tab::Failures) => "no job has failed or is held",
        (None, Some(_), Tab::Recurring) => "no recurring jobs",
        (None, Some(_), Tab::Fleet) => "no other supervisors",
        (None, Some(_), Tab::Events) => "nothing has happened yet",
    };
    grid.put(line, 1, grid.width, text, Style::DIM);
}

fn pane(grid: &mut Grid, model: &Model, layout: &Layout) {
    if layout.pane.is_empty() {
        return;
    }
    let pane = &model.pane;
    let (rule, room) = (if model.look.ascii { "-" } else { "─" }, layout.pane.len());
    let (line, top) = (layout.pane.start - 1, pane.top(room));
    grid.put(line, 0, grid.width, &rule.repeat(grid.width), Style::DIM);
    let kind = match pane.kind {
        Kind::Page => "",
        Kind::Why => "why ",
        Kind::Output => "output of ",
    };
    let of = pane.of.clone().or_else(|| model.subject());
    let title = of.map_or_else(String::new, |of| format!(" {kind}{} {} ", of.kind(), of.name()));
    // The rest of the line is for the numbers of the lines.
    grid.put(line, 2, grid.width.saturating_sub(16), &title, Style::BOLD);
    if pane.lines.len() > room {
        let shown = format!(" {}-{} of {} ", top + 1, (top + room).min(pane.lines.len()), pane.lines.len());
        let column = grid.width.saturating_sub(width(&shown) + 2);
        grid.put(line, column, grid.width, &shown, Style::DIM);
    }
    for (line, text) in layout.pane.clone().zip(pane.lines.iter().skip(top)) {
        grid.put(line, 1, grid.width, text, Style::PLAIN);
    }
}
