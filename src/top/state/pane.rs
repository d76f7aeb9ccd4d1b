//! The lower pane: a page about the selected thing, or its output.

use crate::ask::Kind;
use crate::thing::Thing;

/// Limit of the lines of output that are kept, and of the letters of a line.
const LINES: usize = 5_000;
const LETTERS: usize = 4_000;

/// The pane with its lines.
#[derive(Clone, Debug)]
pub struct Pane {
    /// What it shows.
    pub kind: Kind,
    /// Of which thing.
    pub of: Option<Thing>,
    /// The lines, as they came.
    pub lines: Vec<String>,
    /// The first line on the screen; None = the last ones, also when more come.
    pub top: Option<usize>,
    /// Whether it has the whole screen.
    pub whole: bool,
}

impl Default for Pane {
    fn default() -> Pane {
        Pane { kind: Kind::Page, of: None, lines: Vec::new(), top: Some(0), whole: false }
    }
}

impl Pane {
    /// Shows another kind of page, which is to come.
    pub fn turn(&mut self, kind: Kind, of: Option<Thing>) {
        let top = if kind == Kind::Output { None } else { Some(0) };
        *self = Pane { kind, of, lines: Vec::new(), top, whole: self.whole };
    }

    /// Shows this text; the place in it stays if it is about the same thing.
    pub fn show(&mut self, of: Thing, text: &str) {
        if self.of.as_ref() != Some(&of) {
            self.top = Some(0);
        }
        self.of = Some(of);
        self.lines = text.lines().map(shown).collect();
    }

    /// Shows nothing any more.
    pub fn clear(&mut self) {
        *self = Pane { kind: self.kind, whole: self.whole, ..Pane::default() };
    }

    /// Adds to the output. A line that is not at its end goes on.
    pub fn append(&mut self, text: &str) {
        let mut parts = text.split('\n');
        let first = parts.next().unwrap_or_default();
        let begun = self.lines.pop().unwrap_or_default();
        self.lines.push(shown(&(begun + first)));
        self.lines.extend(parts.map(shown));
        if self.lines.len() > LINES {
            let more = self.lines.len() - LINES;
            self.lines.drain(..more);
            self.top = self.top.map(|top| top.saturating_sub(more));
        }
    }

    /// The first line on a screen with so much room.
    pub fn top(&self, room: usize) -> usize {
        let most = self.lines.len().saturating_sub(room);
        self.top.map_or(most, |top| top.min(most))
    }

    /// Moves by so many lines; the last one is followed from then on.
    pub fn scroll(&mut self, by: isize, room: usize) {
        let most = self.lines.len().saturating_sub(room);
        let top = self.top(room).saturating_add_signed(by).min(most);
        self.top = if top == most && self.kind == Kind::Output { None } else { Some(top) };
    }
}

/// A line with tabs as blanks. Of one that a program has drawn over again and again, the last state.
fn shown(line: &str) -> String {
    let line = line.strip_suffix('\r').unwrap_or(line);
    let last = line.rsplit('\r').next().unwrap_or(line);
    let end = last.floor_char_boundary(LETTERS);
    last[..end].replace('\t', "    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_goes_on_where_it_was_and_is_followed() {
        let mut pane = Pane::default();
        pane.turn(Kind::Output, None);
        pane.append("one\ntw");
        pane.append("o\n");
        pane.append("10%\r50%\r\n\tthree");
        assert_eq!(pane.lines, ["one", "two", "50%", "    three"]);
        assert_eq!(pane.top(2), 2);
        pane.scroll(-1, 2);
        pane.append("\nfour");
        assert_eq!((pane.top(2), pane.lines.len()), (1, 5), "it stays where one reads");
        pane.scroll(9, 2);
        pane.append("\nfive");
        assert_eq!(pane.top(2), 4, "and follows again from the end on");
        pane.append(&"\n".repeat(LINES));
        assert_eq!(pane.lines.len(), LINES);
    }
}
