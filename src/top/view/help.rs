//! The page of keys.

use crate::actions::actions;
use crate::layout::Layout;
use crate::screen::grid::{Grid, Style};
use crate::state::Model;

/// Draws the page, in columns if it does not fit below itself.
pub(super) fn draw(grid: &mut Grid, model: &Model, layout: &Layout) {
    grid.put(
        0,
        1,
        grid.width,
        "Keys; an uppercase one changes something, and shows the command first",
        Style::BOLD,
    );
    let each = layout.pane.len().max(1);
    let wide = grid.width / actions().len().div_ceil(each).max(1);
    for (n, action) in actions().iter().enumerate() {
        let (line, column) = (layout.pane.start + n % each, n / each * wide + 1);
        grid.put(line, column, 5, &action.key_name(), Style::CYAN.and(Style::BOLD));
        let style = if model.read_only && action.changes { Style::DIM } else { Style::PLAIN };
        grid.put(line, column + 7, wide.saturating_sub(8), action.does, style);
    }
}
