//! The last line: what is typed, what an order would do, what happened, or what the keys are.

use crate::actions::fitting;
use crate::screen::grid::{Grid, Style, width};
use crate::state::{Line, Model};

/// Draws the last line.
pub(super) fn draw(grid: &mut Grid, model: &Model) {
    let line = grid.height - 1;
    let typed = |grid: &mut Grid, before: &str, text: &str| {
        let column = grid.put(line, 0, grid.width, before, Style::BOLD);
        // What was typed last is always seen.
        let room = grid.width.saturating_sub(column + 1).max(1);
        let mut text = text;
        while width(text) > room {
            text = text.char_indices().nth(1).map_or("", |(next, _)| &text[next..]);
        }
        let column = column + grid.put(line, column, room, text, Style::PLAIN);
        column + grid.put(line, column, 1, " ", Style::REVERSE)
    };
    match &model.line {
        Line::Filter => {
            typed(grid, "/", &model.place().filter);
        }
        Line::Palette(text, pick) => {
            let column = typed(grid, ":", text) + 1;
            let fits = fitting(text);
            let words: Vec<String> = (fits.iter().skip(*pick))
                .map(|action| format!("{} {}", action.key_name(), action.does))
                .collect();
            grid.put(line, column, grid.width, &format!(" {}", words.join("   ")), Style::DIM);
        }
        Line::Confirm(order) => {
            let ask = format!(" {}? Y/n, y copies", order.many());
            // The question is always seen: a long command is cut, after the options that lead to the same jobs are left out.
            let room = grid.width.saturating_sub(width(&ask));
            let whole = order.command(&model.program);
            let command = if width(&whole) > room { order.command("taskvisor ") } else { whole };
            let column = grid.put(line, 0, room, &command, Style::BOLD);
            grid.put(line, column, grid.width, &ask, Style::YELLOW.and(Style::BOLD));
        }
        Line::Keys => idle(grid, model, line),
    }
}

fn idle(grid: &mut Grid, model: &Model, line: usize) {
    let mut column = 0;
    if model.frozen {
        column +=
            grid.put(line, column, grid.width, "frozen: p goes on", Style::YELLOW.and(Style::REVERSE)) + 2;
    }
    if model.doing > 0 {
        column += grid.put(line, column, grid.width, "being done", Style::CYAN.and(Style::BOLD)) + 2;
    }
    let place = model.place();
    if !place.marks.is_empty() && !model.pane.whole {
        let marks = format!("{} marked", place.marks.len());
        column += grid.put(line, column, grid.width, &marks, Style::YELLOW) + 2;
    }
    if !place.filter.is_empty() {
        let filter = format!("/{}: {} of {}", place.filter, model.table.rows.len(), model.table.all);
        column += grid.put(line, column, grid.width, &filter, Style::CYAN) + 2;
    }
    match &model.said {
        Some(said) => {
            let style = if said.is_bad { Style::RED.and(Style::BOLD) } else { Style::BOLD };
            grid.put(line, column, grid.width, &said.text, style);
        }
        None => {
            let keys =
                "? keys  Enter whole  l output  w why  / filter  : actions  o sort  t tree  p freeze  q quit";
            grid.put(line, column, grid.width, keys, Style::DIM);
        }
    }
}
