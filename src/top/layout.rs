//! Where the parts of the screen are.

use std::ops::Range;

/// Where the parts of the screen are, in lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The verdict, the host and the rates.
    pub head: Range<usize>,
    /// The lines of the tab, below their names of columns.
    pub table: Range<usize>,
    /// The pane, below its title.
    pub pane: Range<usize>,
}

/// Least height of the terminal, in lines, with a pane below the table.
const WITH_PANE: usize = 16;

/// Where the parts are; `is_whole` = a page has the whole screen.
pub fn layout((_, height): (usize, usize), is_whole: bool) -> Layout {
    // The last line is that of keys and questions.
    let last = height.saturating_sub(1);
    if is_whole {
        return Layout { head: 0..0, table: 0..0, pane: 1..last.max(1) };
    }
    let head = if height >= WITH_PANE { 3 } else { 1 };
    let first = head + 2;
    if height < WITH_PANE {
        return Layout { head: 0..head, table: first..last.max(first), pane: last..last };
    }
    // One line between them is the title of the pane.
    let body = last - first - 1;
    let table = first..first + body.div_ceil(2) + 1;
    Layout { head: 0..head, pane: table.end + 1..last, table }
}
