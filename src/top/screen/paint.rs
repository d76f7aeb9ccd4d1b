//! What of a grid has changed, as bytes for a terminal.

use std::fmt::Write as _;

use super::grid::{BLANK, Cell, Grid, Style};

/// Begins and ends a frame, which a terminal that knows these shows in one piece.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";

/// The bytes that turn one frame into the next; without the frame before, the whole. Empty if nothing has changed.
pub fn paint(before: Option<&Grid>, next: &Grid, color: bool) -> String {
    let before = before.filter(|before| before.width == next.width && before.height == next.height);
    let mut brush = Brush { out: String::new(), at: None, style: Style::PLAIN, color };
    if before.is_none() {
        brush.out += "\x1b[0m\x1b[2J";
    }
    for line in 0..next.height {
        match before {
            Some(before) => brush.line(line, before.line(line), next.line(line)),
            None => brush.line(line, &vec![BLANK; next.width], next.line(line)),
        }
    }
    if brush.out.is_empty() {
        return brush.out;
    }
    brush.style(Style::PLAIN);
    format!("{BEGIN}{}{END}", brush.out)
}

struct Brush {
    out: String,
    /// The place of the cursor, while it is known.
    at: Option<(usize, usize)>,
    style: Style,
    color: bool,
}

impl Brush {
    fn line(&mut self, line: usize, before: &[Cell], next: &[Cell]) {
        let end = |cells: &[Cell]| cells.iter().rposition(|cell| *cell != BLANK).map_or(0, |last| last + 1);
        let (old, new) = (end(before), end(next));
        for column in 0..new {
            // The second column of a wide letter comes with the first.
            if before[column] != next[column] && next[column].letter != '\0' {
                self.go(line, column);
                self.cell(line, column, next[column]);
            }
        }
        if old > new {
            self.go(line, new);
            self.style(Style::PLAIN);
            // Erases the rest of the line, which is shorter than its blanks.
            self.out += "\x1b[K";
        }
    }

    fn go(&mut self, line: usize, column: usize) {
        if self.at != Some((line, column)) {
            let _ = write!(self.out, "\x1b[{};{}H", line + 1, column + 1);
            self.at = Some((line, column));
        }
    }

    fn cell(&mut self, line: usize, column: usize, cell: Cell) {
        self.style(cell.style);
        self.out.push(cell.letter);
        self.out.extend(cell.marks.iter().filter(|mark| **mark != '\0'));
        // Of other letters terminals disagree how wide they are: the next one says where it stands.
        self.at = is_surely_narrow(cell).then_some((line, column + 1));
    }

    fn style(&mut self, style: Style) {
        // Without colours weight and reverse stay.
        let style = if self.color { style } else { Style(style.0 & !7) };
        if style == self.style {
            return;
        }
        self.out += "\x1b[0";
        for (flag, code) in [(Style::BOLD, ";1"), (Style::DIM, ";2"), (Style::REVERSE, ";7")] {
            if style.has(flag) {
                self.out += code;
            }
        }
        if style.color() > 0 {
            let _ = write!(self.out, ";3{}", style.color());
        }
        self.out.push('m');
        self.style = style;
    }
}

fn is_surely_narrow(cell: Cell) -> bool {
    let known = matches!(cell.letter, ' '..='~' | '\u{c0}'..='\u{17f}' | '\u{2500}'..='\u{259f}' | '…');
    known && cell.marks == BLANK.marks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(lines: [&str; 2]) -> Grid {
        let mut grid = Grid::new(8, 2, false);
        for (line, text) in lines.iter().enumerate() {
            grid.put(line, 0, 8, text, Style::PLAIN);
        }
        grid
    }

    #[test]
    fn only_what_changed_is_written() {
        let (a, b) = (grid(["one 1", "two"]), grid(["one 2", "two"]));
        assert_eq!(paint(Some(&a), &a, true), "");
        assert_eq!(paint(Some(&a), &b, true), format!("{BEGIN}\x1b[1;5H2{END}"));
        let shorter = grid(["on", "two"]);
        assert_eq!(paint(Some(&a), &shorter, true), format!("{BEGIN}\x1b[1;3H\x1b[K{END}"));
        let whole = format!("{BEGIN}\x1b[0m\x1b[2J\x1b[1;1Hon\x1b[2;1Htwo{END}");
        assert_eq!(paint(None, &shorter, true), whole);
        assert_eq!(paint(Some(&Grid::new(7, 2, false)), &shorter, true), whole, "another size");
    }

    #[test]
    fn letter_after_one_of_doubtful_width_says_where_it_stands() {
        let (a, b) = (grid(["", ""]), grid(["漢x", "é1"]));
        assert_eq!(paint(Some(&a), &b, true), format!("{BEGIN}\x1b[1;1H漢\x1b[1;3Hx\x1b[2;1Hé1{END}"));
    }

    #[test]
    fn without_colour_there_are_weights_only() {
        let mut styled = grid(["", ""]);
        styled.put(0, 0, 8, "a", Style::RED.and(Style::BOLD));
        styled.put(0, 1, 8, "b", Style::GREEN);
        let painted = |color| paint(Some(&grid(["", ""])), &styled, color);
        assert_eq!(painted(true), format!("{BEGIN}\x1b[1;1H\x1b[0;1;31ma\x1b[0;32mb\x1b[0m{END}"));
        assert_eq!(painted(false), format!("{BEGIN}\x1b[1;1H\x1b[0;1ma\x1b[0mb{END}"));
    }
}
