//! A grid of cells. Each letter has its columns here, whatever a terminal makes of it.

use term::screen::escaped;
use unicode_width::UnicodeWidthChar;

/// Colour and weight of a cell: one of 7 colours, bold, dim, reverse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style(pub u8);

impl Style {
    /// The terminal's own colours.
    pub const PLAIN: Style = Style(0);
    /// What is wrong.
    pub const RED: Style = Style(1);
    /// What is well.
    pub const GREEN: Style = Style(2);
    /// What needs a look.
    pub const YELLOW: Style = Style(3);
    /// What is only there to find one's way.
    pub const CYAN: Style = Style(6);
    /// Letters are heavier.
    pub const BOLD: Style = Style(8);
    /// Letters are weaker.
    pub const DIM: Style = Style(16);
    /// Letters and ground change places.
    pub const REVERSE: Style = Style(32);

    /// Both of them together.
    pub const fn and(self, other: Style) -> Style {
        Style(self.0 | other.0)
    }

    /// Whether it has all of the other.
    pub fn has(self, other: Style) -> bool {
        self.0 & other.0 == other.0
    }

    /// The number of its colour, as in ANSI; 0 = none.
    pub fn color(self) -> u8 {
        self.0 & 7
    }
}

/// One column of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The letter; NUL in the second column of a wide one.
    pub letter: char,
    /// Marks above or below it; NUL = none.
    pub marks: [char; 2],
    /// Its colour and weight.
    pub style: Style,
}

/// An empty cell.
pub const BLANK: Cell = Cell { letter: ' ', marks: ['\0'; 2], style: Style::PLAIN };

/// The second column of a wide letter.
// No text can hold it: `escaped` turns a NUL of the text into `\x00`.
const SECOND: char = '\0';

/// The cells of a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Number of columns.
    pub width: usize,
    /// Number of lines.
    pub height: usize,
    cells: Vec<Cell>,
    /// Stands where text was cut.
    mark: char,
}

impl Grid {
    /// An empty grid.
    pub fn new(width: usize, height: usize, ascii: bool) -> Grid {
        let mark = if ascii { '~' } else { '…' };
        Grid { width, height, cells: vec![BLANK; width * height], mark }
    }

    /// The cells of a line.
    pub fn line(&self, line: usize) -> &[Cell] {
        &self.cells[line * self.width..][..self.width]
    }

    /// Writes text into at most so many columns, cut with a mark. Gives the number of columns used.
    pub fn put(&mut self, line: usize, column: usize, room: usize, text: &str, style: Style) -> usize {
        let room = room.min(self.width.saturating_sub(column));
        if line >= self.height || room == 0 {
            return 0;
        }
        let start = line * self.width + column;
        let cells = &mut self.cells[start..start + room];
        let mut used = 0;
        for letter in escaped(text).chars() {
            match letter.width().unwrap_or(1) {
                // Combining marks are not ASCII, and their letter stays readable without them.
                0 if self.mark.is_ascii() => {}
                0 => mark(cells[..used].iter_mut().rfind(|cell| cell.letter != SECOND), letter),
                wide if used + wide > room => {
                    cut(cells, used, self.mark, style);
                    return room;
                }
                // A terminal that knows no other letters would show the bytes of this one.
                wide if self.mark.is_ascii() && !letter.is_ascii() => {
                    cells[used..used + wide].fill(Cell { letter: '?', style, ..BLANK });
                    used += wide;
                }
                wide => {
                    cells[used] = Cell { letter, style, ..BLANK };
                    cells[used + 1..used + wide].fill(Cell { letter: SECOND, style, ..BLANK });
                    used += wide;
                }
            }
        }
        used
    }

    /// Gives all cells of a line this style on top of their own, and fills it.
    pub fn restyle(&mut self, line: usize, style: Style) {
        let width = self.width;
        if let Some(cells) = self.cells.get_mut(line * width..(line + 1) * width) {
            cells.iter_mut().for_each(|cell| cell.style = cell.style.and(style));
        }
    }

    /// The text of a line, without blanks at its end.
    pub fn text(&self, line: usize) -> String {
        let mut text = String::with_capacity(self.width);
        for cell in self.line(line).iter().filter(|cell| cell.letter != SECOND) {
            text.push(cell.letter);
            text.extend(cell.marks.iter().filter(|mark| **mark != '\0'));
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// Adds a mark to the letter before it. What joins or dresses letters is left out: terminals differ in its columns.
fn mark(before: Option<&mut Cell>, letter: char) {
    let joins = matches!(letter, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}');
    let Some(cell) = before.filter(|_| !joins) else { return };
    if let Some(free) = cell.marks.iter_mut().find(|mark| **mark == '\0') {
        *free = letter;
    }
}

/// Puts the mark into the last column, of which a wide letter may have the half.
fn cut(cells: &mut [Cell], used: usize, mark: char, style: Style) {
    let last = cells.len() - 1;
    if cells[last].letter == SECOND && used > last && last > 0 {
        cells[last - 1] = Cell { style, ..BLANK };
    }
    cells[used.min(last)..].fill(Cell { style, ..BLANK });
    cells[last] = Cell { letter: mark, style, ..BLANK };
}

/// Number of columns of a text here.
pub fn width(text: &str) -> usize {
    escaped(text).chars().map(|letter| letter.width().unwrap_or(1)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, room: usize) -> (String, usize) {
        let mut grid = Grid::new(10, 1, false);
        let used = grid.put(0, 0, room, text, Style::PLAIN);
        grid.put(0, room, 1, "|", Style::PLAIN);
        (grid.text(0), used)
    }

    #[test]
    fn hostile_text_moves_no_column() {
        assert_eq!(shown("a\x1b[2J", 9), ("a\\x1b[2J |".into(), 8));
        assert_eq!(shown("a\0b", 7), ("a\\x00b |".into(), 6));
        assert_eq!(shown("\u{202e}", 9).0, "\\u{202e} |");
        assert_eq!(shown("漢字テスト", 5), ("漢字…|".into(), 5));
        assert_eq!(shown("漢字テスト", 6), ("漢字 …|".into(), 6));
        assert_eq!(shown("a漢字", 4), ("a漢…|".into(), 4));
        assert_eq!(shown("e\u{301}\u{301}\u{301}x", 3), ("e\u{301}\u{301}x |".into(), 2));
        assert_eq!(shown("a\u{200d}b", 3), ("ab |".into(), 2));
        assert_eq!(shown("\u{301}", 3), ("   |".into(), 0));
        assert_eq!(shown("", 3), ("   |".into(), 0));
    }

    #[test]
    fn nothing_is_written_outside() {
        let mut grid = Grid::new(4, 1, true);
        assert_eq!(grid.put(1, 0, 9, "x", Style::RED), 0);
        assert_eq!(grid.put(0, 4, 9, "x", Style::RED), 0);
        assert_eq!(grid.put(0, 2, 9, "abc", Style::RED), 2);
        assert_eq!(grid.text(0), "  a~");
        grid.put(0, 0, 4, "é漢e\u{301}", Style::PLAIN);
        assert_eq!(grid.text(0), "???e", "where there are no other letters than those of ASCII");
        grid.restyle(3, Style::REVERSE);
    }
}
